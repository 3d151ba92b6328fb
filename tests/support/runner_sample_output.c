/* The tests of runner_sample that print and log. */
#include "runner_sample.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CP_TEST(order)
{
    for (int i = 0; i < 20; i++) {
        printf("step %d\n", 2 * i);
        cp_t_log(t, "step %d", 2 * i + 1);
    }
    cp_t_run(t, "sub", passing, NULL);
    puts("printed by the outer one");
    puts("no newline after this: ");
    printf("unfinished");
}

enum { LOGS = 200 };

static void *logs_much(void *t)
{
    char text[2000];
    for (int i = 0; i < LOGS; i++) {
        memset(text, 'a' + i % 26, sizeof(text));
        text[sizeof(text) - 1] = 0;
        cp_t_log(t, "<%s>", text);
    }
    return NULL;
}

CP_TEST(log_threads)
{
    pthread_t threads[8];
    for (size_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, logs_much, t);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

static void *logs_long(void *t)
{
    size_t size = 1 << 20;
    char *text = malloc(size);
    memset(text, 'z', size);
    text[size - 1] = 0;
    cp_t_log(t, "<%s>", text);
    free(text);
    return NULL;
}

CP_TEST(log_long)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, logs_long, t);
    pthread_create(&threads[1], NULL, logs_much, t);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

CP_TEST(log_often)
{
    for (int i = 0; i < 100000; i++)
        cp_t_log(t, "log %d", i);
}

CP_TEST(print_odd)
{
    static const char text[] =
        "a NUL: \0, invalid: \xff \xc3( \xed\xa0\x80 \xc0\x80 \xf5\x80\x80\x80, valid: "
        "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80, \x1b[1m \x7f <&> \xe2\x80\xa8\n";
    fwrite(text, 1, sizeof(text) - 1, stdout);
    cp_t_log(t, "%s", "log: \xff \xc3\xa4");
}

CP_TEST(print_much)
{
    char line[1000];
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    for (int i = 0; i < 10500; i++)
        fwrite(line, 1, sizeof(line), stdout);
    cp_t_log(t, "after much");
}

static void wait_for_file(const char *name)
{
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", getenv("SAMPLE_DIR"), name);
    while (access(path, F_OK) != 0)
        usleep(1000);
}

/* Continues when its output has been seen. */
CP_TEST(print_and_wait, .timeout_s = 10)
{
    puts("a line");
    wait_for_file("saw-line");
    printf("half a line");
    wait_for_file("saw-half");
}

enum { PIECE = 64 << 10, PIECES = 3200 };

/* Prints 200 MiB; with $SAMPLE_NO_LINES as one line. */
CP_TEST(print_very_much)
{
    char *piece = malloc(PIECE);
    memset(piece, 'x', PIECE);
    piece[PIECE - 1] = getenv("SAMPLE_NO_LINES") ? 'x' : '\n';
    puts("the first of much");
    for (int i = 0; i < PIECES; i++)
        fwrite(piece, 1, PIECE, stdout);
    free(piece);
    puts("\nthe last of much");
    cp_t_error(t, "the reason");
}

CP_TEST(log_very_much)
{
    char *piece = malloc(PIECE);
    memset(piece, 'x', PIECE);
    piece[PIECE - 1] = 0;
    cp_t_log(t, "the first of much");
    for (int i = 0; i < PIECES; i++)
        cp_t_log(t, "%s", piece);
    free(piece);
    cp_t_error(t, "the reason");
}

static volatile bool is_noisy = true;

static void *makes_noise(void *unused)
{
    while (is_noisy)
        puts("noise");
    return unused;
}

CP_TEST(steps_in_noise)
{
    pthread_t thread;
    pthread_create(&thread, NULL, makes_noise, NULL);
    for (int i = 0; i < 200; i++) {
        printf("step %d\n", 2 * i);
        cp_t_log(t, "step %d", 2 * i + 1);
    }
    is_noisy = false;
    pthread_join(thread, NULL);
}

CP_TEST(close_stdout)
{
    close(STDOUT_FILENO);
    cp_t_log(t, "still heard");
}

/* If there is a scheduler, it needs its descriptors. */
CP_TEST(close_descriptors)
{
    for (int fd = 3; fd < 50; fd++)
        close(fd);
    puts("still printed");
    cp_t_log(t, "still heard");
}

CP_TEST(close_all_descriptors)
{
    cp_t_log(t, "so far heard");
    close_range(3, ~0u, 0);
    cp_t_log(t, "not heard");
}
