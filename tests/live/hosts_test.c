/* Programs that nobody here wrote, with a preload that profiles them (tests/support/preload.c): each prints
 * what it prints without the preload, and leaves a profile, or the preload says why there is none. A program
 * works until the profile has some samples, and prints what does not depend on how long that takes. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/profile_tools.h"

struct host {
    const char *program; /* the test is skipped if there is none */
    const char *file;
    const char *text;
    const char *prepare; /* a command, in the file's directory; may be NULL */
    const char *run;     /* the same; PROFILED stands before the program */
};

static void build_preload(void)
{
    free(test_command(
        NULL,
        "cd %s && top=$(dirname %s)/../.. && gcc -shared -fPIC -O2 -D_GNU_SOURCE -iquote $top/runtime/base "
        "-iquote $top/runtime/event -iquote $top/runtime -iquote $top/pprof -o preload.so %s "
        "%s/lib/libcounterpoint.a -Wl,--exclude-libs,ALL -pthread -lprotobuf-c -lz -ldw -lelf -lpfm -liberty "
        "-ldl -lrt",
        test_dir(), test_source("preload.c"), test_source("preload.c"), test_build_dir()));
}

/* Builds the preload, and the program if it takes building. Skips the test if the program is not here. */
static void prepare(const struct host *host)
{
    int status;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("the preload would have a sanitizer in it, and the program has none");
    test_need_events();
    free(test_command(&status, "command -v %s", host->program));
    if (status != 0)
        SKIP("%s is not installed", host->program);
    build_preload();
    test_write_file(host->file, host->text);
    if (host->prepare != NULL)
        free(test_command(NULL, "cd %s && %s", test_dir(), host->prepare));
}

/* Runs the program without the preload. Returns what it prints. */
static char *run_alone(const struct host *host)
{
    return test_command(NULL, "cd %s && touch enough && export PROFILED= && %s", test_dir(), host->run);
}

static char *run_profiled(const struct host *host, const char *settings)
{
    return test_command(NULL,
                        "cd %s && rm -f enough out.pb.gz refused && export PROFILED='LD_PRELOAD=./preload.so "
                        "PRELOAD_OUT=out.pb.gz PRELOAD_ENOUGH=enough PRELOAD_REFUSED=refused %s' && %s",
                        test_dir(), settings, host->run);
}

/* Checks that there is a profile with samples, or a sentence that says why not. */
static void check_profile(void)
{
    int status;
    char *text = test_command(&status, "cat %s/refused 2> /dev/null", test_dir());

    if (status == 0)
        printf("refused: %s\n", text);
    else
        free(test_command(NULL,
                          "cd %s && PPROF_TMPDIR=. HOME=. go tool pprof -comments out.pb.gz > comments && "
                          "cat comments && grep -q '^samples: [1-9]' comments",
                          test_dir()));
    free(text);
}

static void check_with(const struct host *host, const char *expected, const char *settings)
{
    char *printed = run_profiled(host, settings);

    CHECK_STR(printed, expected);
    check_profile();
    free(printed);
}

static void check_host(const struct host *host)
{
    char *printed;

    prepare(host);
    printed = run_alone(host);
    check_with(host, printed, "");
    check_with(host, printed, "CP_ENGINE=signal");
    free(printed);
}

CP_TEST(python)
{
    static const struct host python = {
        .program = "python3",
        .file = "program.py",
        .text = "import hashlib, os, subprocess, threading, zlib\n"
                "def work():\n"
                "    d = b''\n"
                "    for i in range(1000):\n"
                "        d = hashlib.sha256(d + zlib.compress(str(i).encode() * 20)).digest()\n"
                "    return d.hex()\n"
                "found = set()\n"
                "def body():\n"
                "    found.add(work())\n"
                "    while not os.path.exists('enough'):\n"
                "        found.add(work())\n"
                "        subprocess.run(['true'], check=True)\n"
                "threads = [threading.Thread(target=body) for _ in range(4)]\n"
                "[t.start() for t in threads]\n"
                "[t.join() for t in threads]\n"
                "print(found)\n",
        /* python3 may be a script that finds the program */
        .run = "env $PROFILED \"$(python3 -c 'import sys; print(sys.executable)')\" program.py",
    };

    check_host(&python);
}

CP_TEST(perl)
{
    static const struct host perl = {
        .program = "perl",
        .file = "program.pl",
        .text = "my %found;\n"
                "do {\n"
                "    my (%h, $s);\n"
                "    $h{'k' . $_ % 500} += length join ',', map { $_ * 7 } 1 .. 3 for 1 .. 5000;\n"
                "    $s = join ' ', map { $h{$_} } sort { $h{$a} <=> $h{$b} || $a cmp $b } keys %h;\n"
                "    system('true') == 0 or die;\n"
                "    $found{unpack '%32C*', $s} = 1;\n"
                "} until (-e 'enough');\n"
                "print keys %found, \"\\n\";\n",
        .run = "env $PROFILED perl program.pl",
    };

    check_host(&perl);
}

CP_TEST(node)
{
    static const struct host node = {
        .program = "node",
        .file = "program.js",
        .text = "const { Worker, isMainThread, parentPort } = require('worker_threads');\n"
                "const fs = require('fs');\n"
                "function work() { let s = 0; for (let i = 0; i < 1e6; i++) s = (s * 31 + i) % 1000003; "
                "return s; }\n"
                "if (isMainThread) {\n"
                "    const found = new Set();\n"
                "    let left = 4;\n"
                "    for (let k = 0; k < 4; k++)\n"
                "        new Worker(__filename).on('message', m => found.add(m)).on('exit', code => {\n"
                "            if (code !== 0) process.exit(1);\n"
                "            if (--left === 0) console.log([...found].join(' '));\n"
                "        });\n"
                "} else {\n"
                "    do parentPort.postMessage(work()); while (!fs.existsSync('enough'));\n"
                "}\n",
        .run = "env $PROFILED node program.js",
    };

    check_host(&node);
}

CP_TEST(java)
{
    static const struct host java = {
        .program = "javac",
        .file = "Program.java",
        .text = "import java.io.File;\n"
                "import java.security.MessageDigest;\n"
                "import java.util.*;\n"
                "import java.util.concurrent.ConcurrentSkipListSet;\n"
                "import java.util.stream.IntStream;\n"
                "public class Program {\n"
                "    static String work() throws Exception {\n"
                "        MessageDigest d = MessageDigest.getInstance(\"SHA-256\");\n"
                "        for (int i = 0; i < 2000; i++) d.update(Integer.toString(i).getBytes());\n"
                "        return new java.math.BigInteger(1, d.digest()).toString(16)\n"
                "            + IntStream.range(0, 10000).parallel().mapToLong(i -> i * 31L).sum();\n"
                "    }\n"
                "    public static void main(String[] a) throws Exception {\n"
                "        Set<String> found = new ConcurrentSkipListSet<>();\n"
                "        File enough = new File(\"enough\");\n"
                "        Thread[] threads = new Thread[8];\n"
                "        for (int i = 0; i < 8; i++)\n"
                "            (threads[i] = new Thread(() -> {\n"
                "                try { do found.add(work()); while (!enough.exists()); }\n"
                "                catch (Exception e) { throw new RuntimeException(e); }\n"
                "            })).start();\n"
                "        for (Thread t : threads) t.join();\n"
                "        System.gc();\n"
                "        System.out.println(found);\n"
                "    }\n"
                "}\n",
        .prepare = "javac Program.java",
        .run = "env $PROFILED java -cp . Program",
    };

    check_host(&java);
}

CP_TEST(redis)
{
    static const struct host redis = {
        .program = "redis-server",
        .file = "program.sh",
        .text =
            "env $PROFILED redis-server --save '' --port 0 --unixsocket socket --io-threads 2 > log &\n"
            "until redis-cli -s socket ping > answer 2>&1; do sleep 0.01; done\n"
            "redis-benchmark -s socket -n 2000 -q -t set,get,lpush > answer\n"
            "until [ -e enough ]; do redis-benchmark -s socket -n 2000 -q -t set,get,lpush > answer; done\n"
            "redis-cli -s socket set key value\n"
            "redis-cli -s socket get key\n"
            "redis-cli -s socket shutdown nosave\n"
            "wait $!\n"
            "echo $?\n",
        .run = "sh program.sh",
    };

    check_host(&redis);
}

/* A Go program, which takes SIGTRAP and SIGPROF, and whose threads are started by the C library. */
CP_TEST(go)
{
    static const struct host go = {
        .program = "go",
        .file = "program.go",
        .text =
            "package main\n"
            "/*\n"
            "#include <stdlib.h>\n"
            "static unsigned long spin(unsigned long n)\n"
            "{\n"
            "    unsigned long s = 0;\n"
            "    for (unsigned long i = 0; i < n; i++) s = s * 31 + i;\n"
            "    return s;\n"
            "}\n"
            "*/\n"
            "import \"C\"\n"
            "import (\"crypto/sha256\"; \"fmt\"; \"os\"; \"os/signal\"; \"sync\"; \"syscall\"; \"time\")\n"
            "func goes_on() bool {\n"
            "    _, err := os.Stat(\"enough\")\n"
            "    return err != nil\n"
            "}\n"
            "func main() {\n"
            "    traps := make(chan os.Signal, 1)\n"
            "    signal.Notify(traps, syscall.SIGTRAP)\n"
            "    var all sync.WaitGroup\n"
            "    var found sync.Map\n"
            "    for g := 0; g < 8; g++ {\n"
            "        all.Add(1)\n"
            "        go func() {\n"
            "            defer all.Done()\n"
            "            for ok := true; ok; ok = goes_on() {\n"
            "                var b [32]byte\n"
            "                for k := 0; k < 500; k++ { b = sha256.Sum256(b[:]) }\n"
            "                found.Store(fmt.Sprint(C.spin(200000), b[0]), true)\n"
            "            }\n"
            "        }()\n"
            "    }\n"
            "    for i := 0; i < 30; i++ {\n"
            "        syscall.Kill(os.Getpid(), syscall.SIGTRAP)\n"
            "        <-traps\n"
            "        time.Sleep(5 * time.Millisecond)\n"
            "    }\n"
            "    all.Wait()\n"
            "    found.Range(func(k, v any) bool { fmt.Println(k); return true })\n"
            "    C.exit(0) // os.Exit() would leave no profile\n"
            "}\n",
        .prepare = "GO111MODULE=off GOCACHE=$PWD/cache HOME=. go build -o program program.go",
        .run = "env $PROFILED ./program",
    };

    check_host(&go);
}

/* sort takes SIGPROF for what ends it, and takes it over as the first thing that it does. */
CP_TEST(sort)
{
    static const struct host sort = {
        .program = "sort",
        .file = "numbers.sh",
        .text = "seq 1 200000 | rev > numbers\n",
        .prepare = "sh numbers.sh",
        .run = "env $PROFILED LC_ALL=C sort --parallel=4 -k1.2 numbers | cksum",
    };
    char *printed;

    prepare(&sort);
    printed = run_alone(&sort);
    check_with(&sort, printed, "PRELOAD_AT_ONCE=1");
    free(printed);
}
