/* Watches in C++: a scope is a round, and an exception ends it. */
#include <stdlib.h>

#include "tests/support/profile_tools.h"

static const char program[] =
    "#include <cstdio>\n"
    "#include <stdexcept>\n"
    "#include \"watch.h\"\n"
    "static int rows(void *count, const struct cp_watch_row *row)\n"
    "{\n"
    "    *static_cast<unsigned long *>(count) = row->count;\n"
    "    return 0;\n"
    "}\n"
    "static void leave(cp_watch *watch, int how)\n"
    "{\n"
    "    cp_watch_scope scope(watch);\n"
    "    if (how == 1)\n"
    "        return;\n"
    "    CP_WATCH(watch)\n"
    "    {\n"
    "        CP_WATCH_SCOPE(watch);\n"
    "        if (how == 2)\n"
    "            throw std::runtime_error(\"left\");\n"
    "    }\n"
    "}\n"
    "int main()\n"
    "{\n"
    "    cp_watch_options options = {};\n"
    "    cp_watch_snapshot *snapshot;\n"
    "    unsigned long count = 0;\n"
    "    cp_watch *watch;\n"
    "    cp_m *m;\n"
    "    options.size = sizeof options;\n"
    "    options.name = \"c++\";\n"
    "    if (cp_m_attach(&m, nullptr) < 0 || cp_watch_open(&watch, &options, nullptr) < 0)\n"
    "        return 1;\n"
    "    for (int how = 0; how < 3; how++) {\n"
    "        try {\n"
    "            leave(watch, how);\n"
    "        } catch (const std::runtime_error &) {\n"
    "        }\n"
    "    }\n"
    "    cp_watch_take(&snapshot, watch, nullptr);\n"
    "    cp_watch_each(snapshot, rows, &count);\n"
    "    std::printf(\"%lu rounds\\n\", count);\n"
    "    cp_watch_snapshot_free(snapshot);\n"
    "    cp_watch_close(watch);\n"
    "    cp_m_detach(m);\n"
    "}\n";

CP_TEST(an_exception_ends_the_rounds_that_it_leaves)
{
    char *said;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("the library has a sanitizer, and the program has none");
    test_write_file("rounds.cc", program);
    free(test_command(NULL,
                      "cd %s && top=$(dirname %s)/../.. && g++ -std=c++11 -Wall -Wextra -Werror -O1 -iquote "
                      "$top/runtime -iquote $top/runtime/base -iquote $top/runtime/event -iquote "
                      "$top/runtime/watch rounds.cc %s/lib/libcounterpoint.a -lprotobuf-c -lz -ldw -lelf "
                      "-lpfm -liberty -ldl -lrt -pthread -o rounds",
                      test_dir(), test_source("tools_target.c"), test_build_dir()));
    said = test_command(NULL, "%s/rounds", test_dir());
    CHECK_STR(said, "7 rounds\n");
    free(said);
}
