/* What tests of refusals share: how a start and a probe are refused, and events to ask for. */
#ifndef COUNTERPOINT_TESTS_REFUSAL_TOOLS_H
#define COUNTERPOINT_TESTS_REFUSAL_TOOLS_H

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "burn.h"
#include "refuse.h"
#include "resources.h"

REFUSE_API bool has_remedy(const char *message)
{
    static const char *const words[] = {"Use ",           "use ",        "Set ",  "Give ", "Stop ",
                                        "Free ",          "Try ",        "1 to ", "0 to ", "the smallest is",
                                        "the largest is", "has to allow"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strstr(message, words[i]) != NULL)
            return true;
    return false;
}

/* Checks that a start fails with this code and these words, and that nothing stays open. */
REFUSE_API void check_refused(const struct cp_slot_request *requests, size_t n, int code, const char *word1,
                              const char *word2)
{
    struct resources before, after;
    struct cp_error err = {0};
    int slots[CP_EV_MAX + 1];
    int result = cp_slots_start(requests, n, slots, &err);

    printf("%d: %s\n", result, err.message);
    CHECK_EQ(result, code);
    CHECK_EQ(err.code, code);
    CHECK_CONTAINS(err.message, word1);
    CHECK_CONTAINS(err.message, word2);
    CHECKF(has_remedy(err.message) && err.message[strlen(err.message) - 1] == '.', "%s", err.message);
    before = resources_now(); /* after the library has allocated what it allocates once */
    CHECK_EQ(cp_slots_start(requests, n, slots, NULL), code);
    after = resources_now();
    check_resources(&after, &before, 1);
    CHECK(sigprof_is(SIG_DFL));
}

/* Checks that a probe answers as a start does, and that nothing stays open. */
REFUSE_API void check_probe(const struct cp_event_spec *spec, int code, const char *reason, const char *word)
{
    struct resources before, after;
    struct cp_error err = {0};
    int result = cp_event_probe(spec, &err);

    printf("%d: %s: %s\n", result, err.reason, err.message);
    CHECKF(result == code, "%s: %d and not %d", spec->name, result, code);
    CHECK_EQ(err.code, code);
    CHECK_STR(err.reason, reason);
    CHECKF(strlen(err.reason) <= 33, "%s", err.reason);
    CHECK_CONTAINS(err.message, spec->name);
    CHECK_CONTAINS(err.message, word);
    CHECKF(has_remedy(err.message) && err.message[strlen(err.message) - 1] == '.', "%s", err.message);
    before = resources_now(); /* after the library has allocated what it allocates once */
    CHECK_EQ(cp_event_probe(spec, NULL), code);
    after = resources_now();
    check_resources(&after, &before, 1);
    CHECK(sigprof_is(SIG_DFL));
    CHECK(cp_m_self() == NULL);
}

REFUSE_API struct cp_event_spec parsed(const char *name)
{
    struct cp_event_spec spec = {.size = sizeof spec};

    CHECK_EQ(cp_event_parse(name, &spec, NULL), 0);
    return spec;
}

REFUSE_API struct cp_event_spec named(uint32_t type, uint64_t config)
{
    return (struct cp_event_spec){.size = sizeof(struct cp_event_spec),
                                  .event = CP_CPUPROF_NAMED,
                                  .kind = CP_EVENT_HARDWARE,
                                  .preset_period = 1000000,
                                  .encoding = {.type = type, .config = config},
                                  .name = "its-name"};
}

REFUSE_API struct cp_event_spec watchpoint(void *address, uint32_t access, uint64_t length)
{
    return (struct cp_event_spec){.size = sizeof(struct cp_event_spec),
                                  .event = CP_CPUPROF_NAMED,
                                  .kind = CP_EVENT_WATCHPOINT,
                                  .preset_period = 1,
                                  .encoding = {.type = PERF_TYPE_BREAKPOINT,
                                               .bp_type = access,
                                               .config1 = (uintptr_t)address,
                                               .config2 = length},
                                  .name = "its-name"};
}

#endif
