/* Benchmarks, as the runner (testing/) reports them. */
#include "tests/support/runner_tools.h"

/* Go's own reader of benchmarks, which prints the name, N, ns/op and MB/s that it understands, or 0. */
static const char parser[] =
    "package main\n"
    "import (\"fmt\"; \"os\"; \"golang.org/x/tools/benchmark/parse\"; \"sort\")\n"
    "func main() {\n"
    "    set, err := parse.ParseSet(os.Stdin)\n"
    "    if err != nil { panic(err) }\n"
    "    all := []*parse.Benchmark{}\n"
    "    for _, s := range set { all = append(all, s...) }\n"
    "    sort.Slice(all, func(i, j int) bool { return all[i].Ord < all[j].Ord })\n"
    "    for _, b := range all { fmt.Println(b.Name, b.N, b.NsPerOp, b.MBPerS, b.Measured) }\n"
    "}\n";

struct figures {
    char name[100];
    long n;
    double ns_per_op, mb_per_s;
    int measured; /* 1: ns/op; 2: MB/s */
};

/* Runs benchmarks and reads their lines. Returns how many there were. */
static size_t bench(const char *flags, struct figures *figures, size_t most)
{
    test_write_file("parse.go", parser);
    char *output = test_command(
        NULL,
        "%s/tests/runner_sample -run '^$' %s > %s/lines || exit\n"
        "GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$PWD/build/go-cache go run %s/parse.go < %s/lines",
        test_build_dir(), flags, test_dir(), test_dir(), test_dir());
    size_t n = 0;
    for (char *p = output, *line; (line = strsep(&p, "\n")) && *line && n < most; n++) {
        struct figures *f = &figures[n];
        CHECKF(sscanf(line, "%99s %ld %lf %lf %d", f->name, &f->n, &f->ns_per_op, &f->mb_per_s,
                      &f->measured) == 5,
               "%s", line);
    }
    free(output);
    return n;
}

CP_TEST(gos_parser_reads_benchmarks)
{
    struct figures f[20];
    CHECK_EQ(bench("-bench 'counted|bytes|paused' -benchtime 20x -cpu 1,3", f, 20), 6);
    CHECK_STR(f[0].name, "Benchmark_counted");
    CHECK_STR(f[1].name, "Benchmark_counted-3");
    CHECK_EQ(f[0].n, 20);
    CHECK_EQ(f[0].measured, 1);
    CHECK_STR(f[3].name, "Benchmark_bytes-3");
    CHECK_EQ(f[3].measured, 3);
    CHECKF(f[3].ns_per_op >= 1e6, "%g", f[3].ns_per_op); /* the benchmark sleeps for 1 ms */
    CHECKF(f[3].mb_per_s * f[3].ns_per_op / 1e9 > 0.99 && f[3].mb_per_s * f[3].ns_per_op / 1e9 < 1.01,
           "%g and %g", f[3].ns_per_op, f[3].mb_per_s);
    CHECK_STR(f[4].name, "Benchmark_paused");
    CHECKF(f[4].ns_per_op < 10e6, "20 ms of pause in %g ns/op", f[4].ns_per_op);

    CHECK_EQ(bench("-bench subs -benchtime 5x -cpu 1", f, 20), 3);
    CHECK_STR(f[0].name, "Benchmark_subs/small");
    CHECK_STR(f[2].name, "Benchmark_subs/large/y");
    CHECK_EQ(bench("-bench empty -benchtime 10ms -v -cpu 2", f, 20), 1);
    CHECK_STR(f[0].name, "Benchmark_empty-2");
    CHECKF(f[0].n > 1000, "%ld", f[0].n);
}

/* Go's ReportMetric() replaces a measured figure in the same way. */
CP_TEST(own_figures_stand_for_what_is_measured)
{
    struct figures f[2];
    CHECK_EQ(bench("-bench figures -benchtime 10x -cpu 1 -counters taskClock", f, 2), 2);
    CHECK_EQ(f[0].measured, 3);
    CHECKF(f[0].ns_per_op == 2 && f[0].mb_per_s == 4, "%g and %g", f[0].ns_per_op, f[0].mb_per_s);
    CHECK_EQ(f[1].measured, 0);
    CHECK_EQ(count_matches("-run '^$' -bench figures/own -benchtime 10x -cpu 1 -counters taskClock",
                           "^Benchmark_figures/own +\t +10\t +2.000 ns/op\t +4.00 MB/s\t +8.000 "
                           "taskClock-ns/op\t +16.00 own/op$"),
             1);
    expect("-run '^$' -bench figures -benchtime 10x -cpu 1 -count 3", 0,
           "# Benchmark_figures/own: 3 runs: median 2 ", "!# Benchmark_figures/less");
}

CP_TEST(metrics_that_no_reader_understands_are_refused)
{
    expect("-run '^$' -bench metrics -benchtime 2x -cpu 1 -v", 1,
           "--- FAIL: Benchmark_metrics/blank\n    A metric's unit must be one word, such as hits/op, and "
           "\"a b\" "
           "is not.\n",
           "--- FAIL: Benchmark_metrics/empty\n", "--- FAIL: Benchmark_metrics/line\n",
           "--- FAIL: Benchmark_metrics/end\n",
           "--- FAIL: Benchmark_metrics/infinite\n    The metric x/op must be a finite number, and inf is "
           "not.\n",
           "--- FAIL: Benchmark_metrics/nan\n", "!after the metric", "!/op\n");
}

CP_TEST(benchmark_lines_are_gos)
{
    char *model =
        test_command(NULL, "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1 | tr -d '\\n'");
    char cpu[300];
    snprintf(cpu, sizeof(cpu), "%s%s", *model ? "\ncpu: " : "", model);
    free(model);
    expect("-run '^$' -bench counted -benchtime 100x -cpu 1", 0,
           "goos: linux\ngoarch: ", "\npkg: runner_sample\n", cpu, "\nBenchmark_counted       \t     100\t",
           " ns/op\t       100.0 bodies\t         0.2500 hits/op\nPASS\nok  \t", "!set up", "!===");
    CHECK_EQ(count_matches("-run '^$' -bench counted -benchtime 10ms -v", "^set up$"), 1);
    CHECK_EQ(count_matches("-run '^$' -bench counted -benchtime 5x -v -count 3", "^set up$"), 3);
}

CP_TEST(the_spread_of_runs_is_told)
{
    CHECK_EQ(count_matches(
                 "-run '^$' -bench 'empty|subs/s' -benchtime 1000x -cpu 1 -count 5",
                 "^# Benchmark_(empty|subs/small): 5 runs: median [0-9.e-]+ ns/op, [0-9.e-]+ to [0-9.e-]+ "
                 "\\(-?[0-9.]+ % to \\+[0-9.]+ %\\)$"),
             2);
    CHECK_EQ(count_matches("-run '^$' -bench empty -benchtime 1000x", "^#"), 0);
}

CP_TEST(odd_benchmarks_are_told)
{
    expect("-run '^$' -bench 'no_loop' -cpu 1", 1, "--- FAIL: Benchmark_no_loop\n", "nothing to measure\n",
           "    The benchmark has no loop. Write for (; cp_bench_next(b);) around what is to be measured.\n");
    expect("-run '^$' -bench 'two_loops' -cpu 1 -benchtime 2x", 1, "--- FAIL: Benchmark_two_loops\n",
           "    A benchmark has only one loop with cp_bench_next(), and this is the second.\n", "!ns/op");
    expect("-run '^$' -bench 'breaks' -cpu 1 -benchtime 10x", 1,
           "--- FAIL: Benchmark_breaks\n    The benchmark has left its loop, perhaps by break or return, "
           "before ",
           "--- FAIL: Benchmark_breaks_at_the_end\n    The benchmark has left its loop", "!ns/op");
    expect("-run '^$' -bench 'returns' -cpu 1", 1,
           "--- FAIL: Benchmark_returns/sub\n    The benchmark has left its loop",
           "--- FAIL: Benchmark_returns\n", "!ns/op");
    expect("-run '^$' -bench 'fatal' -cpu 2", 1, "--- FAIL: Benchmark_fatal-2\n", ": in the loop\n",
           "!ns/op");
    expect("-run '^$' -bench 'skipped' -cpu 1", 0, "--- SKIP: Benchmark_skipped\n", ": in the loop\n",
           "!ns/op");
    expect("-run '^$' -bench 'logs' -cpu 1 -benchtime 2x", 0,
           " ns/op\n--- BENCH: Benchmark_logs\n    runner_sample_bench.c:", ": a remark\n");
    expect("-run '^$' -bench 'cleanup' -cpu 1 -benchtime 6x -v", 0, "6 in the cleanup\n");
    if (!TEST_ASAN && !TEST_TSAN)
        expect("-run '^$' -bench 'crash|empty' -failfast=false -benchtime 2x -cpu 1", 1, "panic: " SEGV,
               "Benchmark_crash\n", "Benchmark_empty ", "\nFAIL\n");
    expect("-run fail_error -bench empty", 1, "FAIL", "!Benchmark_empty");
}
