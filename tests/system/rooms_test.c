/* Rooms need each other in one direction, as the linker sees them: tests/rooms.awk. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"

CP_TEST(the_objects_keep_to_the_order_of_the_rooms)
{
    free(test_command(NULL, "tests/check --rooms %s", test_build_dir()));
}

/* Checks what the tool says of objects that have these symbols; NULL: nothing. */
static void check_said(const char *symbols, const char *expected)
{
    int status;
    char *said;

    test_write_file("symbols", symbols);
    said = test_command(&status, "awk -v public= -f tests/rooms.awk %s/symbols", test_dir());
    if (expected != NULL)
        CHECK_CONTAINS(said, expected);
    CHECKF((status == 0) == (expected == NULL), "exit status %d: %s", status, said);
    free(said);
}

/* An object that has a symbol, and needs the next one's. */
#define OBJECT(name, next) "runtime/" #name ".o: cp__" #name " T 0 10\nruntime/" #name ".o: cp__" #next " U\n"

CP_TEST(four_objects_may_need_each_other_and_five_may_not)
{
    check_said(OBJECT(a, b) OBJECT(b, c) OBJECT(c, d) OBJECT(d, a), NULL);
    check_said(OBJECT(a, b) OBJECT(b, c) OBJECT(c, d) OBJECT(d, e) OBJECT(e, f), NULL);
    check_said(OBJECT(a, b) OBJECT(b, c) OBJECT(c, d) OBJECT(d, e) OBJECT(e, a),
               "runtime/: 5 objects need each other in a circle, 4 are allowed:");
    check_said(OBJECT(a, b) OBJECT(b, c) OBJECT(c, d) OBJECT(d, e) OBJECT(e, a), "e.o needs cp__a of a.o");
    /* two circles that share an object, and two that only touch */
    check_said(OBJECT(a, b) OBJECT(b, c) OBJECT(c, a) "runtime/a.o: cp__d U\n" OBJECT(d, e) OBJECT(e, a),
               "runtime/: 5 objects need each other");
    check_said(OBJECT(a, b) OBJECT(b, c) OBJECT(c, a) "runtime/a.o: cp__d U\n" OBJECT(d, e) OBJECT(e, d),
               NULL);
}

CP_TEST(a_room_needs_no_room_above_itself)
{
    static const char above[] = "runtime/slot.o: cp__slot T 0 10\n";
    static const char beside[] = "testing/t.o: cp_t_run T 0 10\n";
    static const char said[] = "runtime/base/lock.o: runtime/base/ must not need cp__slot of runtime/slot.o, "
                               "which is not below it";
    char both[200];

    for (const char *type = "Uwv"; *type != '\0'; type++) {
        snprintf(both, sizeof both, "%sruntime/base/lock.o: cp__slot %c\n", above, *type);
        check_said(both, said);
    }
    /* the lower object has a function of its own by that name, or the higher one has it for itself */
    snprintf(both, sizeof both, "%sruntime/base/lock.o: cp__slot t 0 10\n", above);
    check_said(both, NULL);
    check_said("runtime/slot.o: cp__slot t 0 10\nruntime/base/lock.o: cp__slot U\n", NULL);
    snprintf(both, sizeof both, "%shttp/server.o: cp_t_run U\n", beside);
    check_said(both, "http/ must not need cp_t_run of testing/t.o, which is not below it");
    check_said("runtime/base/lock.o: cp__lock T 0 10\nruntime/slot.o: cp__lock U\n", NULL);
    check_said("nowhere/x.o: cp__x T 0 10\n", "does not have nowhere/");
}

CP_TEST(some_rooms_may_need_only_what_is_public_of_another)
{
    check_said("runtime/m.o: cp_m_self T 0 10\nruntime/sched/run.o: cp_m_self U\n", NULL);
    check_said("runtime/m.o: cp__m_current B 0 8\nruntime/sched/run.o: cp__m_current U\n",
               "runtime/sched/ must not need cp__m_current of runtime/m.o\n");
    check_said("runtime/perf/open_linux.o: cp_open T 0 10\nruntime/event/rows.o: cp_open U\n",
               "runtime/event/ must not need cp_open of runtime/perf/open_linux.o, which is not below it");
}
