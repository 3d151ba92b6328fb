#include "testing.h"
void cp_testing_start(int *argc, char **argv)
{
    (void)argc, (void)argv;
}
int cp_testing_stop(void)
{
    return 0;
}
void cp_testing_child_start(void)
{
}
void cp_testing_child_stop(void)
{
}
