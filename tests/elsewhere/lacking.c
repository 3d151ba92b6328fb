/*
 * Runs a command as a machine would that lacks something, or has something that this one lacks:
 *
 *     lacking WHAT... -- COMMAND [ARGUMENT]...
 *
 *     --no-pmu              hardware events do not open, as if there were no PMU
 *     --silent-pmu          cycles opens, but never counts, as with some virtual PMUs
 *     --pmu                 there is a PMU that has cycles: nanoseconds of the thread's CPU time
 *     --no-watchpoints      watchpoints do not open, as without debug registers
 *     --silent-watchpoints  watchpoints open, but never count, as if the host kept the debug registers
 *     --no-tracefs          tracefs cannot be mounted
 *     --paranoid=N          kernel.perf_event_paranoid is N for perf_event_open()
 *     --old-abi             perf_event_open() knows what it knew in Linux 5.10, and no more
 *     --user=UID            the command is run by that user and that group
 *
 * The kernel asks this program, by a seccomp filter that notifies it (Linux 5.14), about each
 * perf_event_open() and mount() of the command and of all that it starts, whatever they are linked with. The
 * program answers with an error, lets the call go on, or opens an event itself and hands it to the caller.
 * All other calls run at their usual speed.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV /* Linux 5.19 */
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* A stand-in for a PMU is a clock, and a clock with a shorter period may leave its thread no time. */
#define LEAST_PERIOD_NS 100000

/* What the command gets instead of events of one kind: the kernel's events, none, events that never count, or
 * events that count something else. */
enum kind { AS_HERE, NONE, SILENT, COUNTING };

static struct {
    enum kind pmu, watchpoints;
    bool no_tracefs, old_abi;
    int paranoid; /* -1: the kernel's value */
    int here;     /* the kernel's value of kernel.perf_event_paranoid */
    int user;     /* -1: the user who runs this program */
} machine = {.paranoid = -1, .user = -1};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "lacking: %s: %s.\n", what, strerror(errno));
    exit(125);
}

/* ---- The caller ------------------------------------------------------------------------------ */

/* Reads the caller's attr. Like the kernel, replaces what the caller did not give by zeros. */
static int read_attr(const struct seccomp_notif *call, struct perf_event_attr *attr)
{
    struct iovec local = {attr, PERF_ATTR_SIZE_VER0};
    struct iovec remote = {(void *)(uintptr_t)call->data.args[0], PERF_ATTR_SIZE_VER0};
    memset(attr, 0, sizeof(*attr));
    if (process_vm_readv((pid_t)call->pid, &local, 1, &remote, 1, 0) < PERF_ATTR_SIZE_VER0)
        return -EFAULT;
    uint32_t size = attr->size < sizeof(*attr) ? attr->size : (uint32_t)sizeof(*attr);
    local.iov_len = remote.iov_len = size < PERF_ATTR_SIZE_VER0 ? PERF_ATTR_SIZE_VER0 : size;
    if (process_vm_readv((pid_t)call->pid, &local, 1, &remote, 1, 0) < (ssize_t)local.iov_len)
        return -EFAULT;
    return 0;
}

/* Returns the number on a line of /proc/PID/status, or 0 if there is no such line. */
static uint64_t status_of(uint32_t pid, const char *line, int base)
{
    char path[64], text[256];
    uint64_t number = 0;
    snprintf(path, sizeof(path), "/proc/%u/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(text, sizeof(text), file)) {
        if (strncmp(text, line, strlen(line)) == 0)
            number = strtoull(text + strlen(line), NULL, base);
    }
    if (file)
        fclose(file);
    return number;
}

static bool is_privileged(uint32_t pid)
{
    const uint64_t cap_sys_admin = 1ull << 21, cap_perfmon = 1ull << 38;
    return status_of(pid, "CapEff:", 16) & (cap_sys_admin | cap_perfmon);
}

/* ---- What the machine says to an event ------------------------------------------------------- */

static enum kind kind_of(const struct perf_event_attr *attr)
{
    switch (attr->type) {
    case PERF_TYPE_SOFTWARE:
    case PERF_TYPE_TRACEPOINT:
        return AS_HERE;
    case PERF_TYPE_BREAKPOINT:
        return machine.watchpoints;
    case PERF_TYPE_HARDWARE:
    case PERF_TYPE_RAW:
    case PERF_TYPE_HW_CACHE:
        return machine.pmu;
    default: /* other PMUs than the processor's: power, msr and others */
        return AS_HERE;
    }
}

/* Checks an event for a PMU that has only cycles, and no precise samples. */
static int check_pmu(const struct perf_event_attr *attr)
{
    if (attr->type != PERF_TYPE_HARDWARE || attr->config != PERF_COUNT_HW_CPU_CYCLES)
        return -ENOENT;
    return attr->precise_ip || attr->exclude_idle ? -EOPNOTSUPP : 0;
}

/*
 * Refuses what Linux 5.10 does not know: the fields sig_data and config3, the flags from build_id on,
 * PERF_FORMAT_LOST, sample types from PERF_SAMPLE_DATA_PAGE_SIZE on, and the number of a PMU in the config of
 * a hardware event.
 */
static int check_old_abi(const struct perf_event_attr *attr)
{
    static const char zeros[sizeof(struct perf_event_attr)];
    const size_t known = PERF_ATTR_SIZE_VER6;
    if (memcmp((const char *)attr + known, zeros, sizeof(*attr) - known) != 0)
        return -E2BIG;
    uint64_t flags;
    memcpy(&flags, (const char *)attr + offsetof(struct perf_event_attr, read_format) + 8, sizeof(flags));
    if (flags >> 34 || attr->read_format >> 4 || attr->sample_type >> 22)
        return -EINVAL;
    return attr->type <= PERF_TYPE_HW_CACHE && attr->type != PERF_TYPE_SOFTWARE &&
                   attr->type != PERF_TYPE_TRACEPOINT && attr->config >> 32
               ? -EINVAL
               : 0;
}

/* Refuses what a paranoid level forbids; Debian's and Ubuntu's kernels have the levels 3 and 4, too. */
static int check_paranoid(const struct seccomp_notif *call, const struct perf_event_attr *attr)
{
    if (machine.paranoid < 0 || is_privileged(call->pid))
        return 0;
    if (machine.paranoid > 2 || (machine.paranoid > 1 && !attr->exclude_kernel))
        return -EACCES;
    if (machine.paranoid > 0 && (int)call->data.args[1] == -1)
        return -EACCES;
    if (machine.paranoid > -1 && attr->type == PERF_TYPE_TRACEPOINT && attr->sample_type & PERF_SAMPLE_RAW)
        return -EPERM;
    return 0;
}

static int check(const struct seccomp_notif *call, const struct perf_event_attr *attr)
{
    int error = machine.old_abi ? check_old_abi(attr) : 0;
    if (error == 0)
        error = check_paranoid(call, attr);
    enum kind kind = kind_of(attr);
    if (error == 0 && kind == NONE)
        error = attr->type == PERF_TYPE_BREAKPOINT ? -ENOSPC : -ENOENT;
    if (error == 0 && (kind == COUNTING || (kind == SILENT && attr->type != PERF_TYPE_BREAKPOINT)))
        error = check_pmu(attr);
    return error;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Opens another event for the caller's thread in place of the one that it asked for. */
static int open_instead(const struct seccomp_notif *call, struct perf_event_attr *attr)
{
    enum kind kind = kind_of(attr);
    if (kind == SILENT || kind == COUNTING) {
        attr->type = PERF_TYPE_SOFTWARE;
        attr->config = kind == SILENT ? PERF_COUNT_SW_DUMMY : PERF_COUNT_SW_TASK_CLOCK;
        if (attr->sample_period != 0 && attr->sample_period < LEAST_PERIOD_NS)
            attr->sample_period = LEAST_PERIOD_NS;
        attr->bp_type = 0;
        attr->config1 = attr->config2 = 0;
    }
    attr->size = sizeof(*attr);
    long pid = call->data.args[1] ? (int)call->data.args[1] : (long)call->pid;
    unsigned long flags = call->data.args[4] & (PERF_FLAG_FD_NO_GROUP | PERF_FLAG_FD_OUTPUT);
    int fd = (int)syscall(SYS_perf_event_open, attr, pid, (int)call->data.args[2], -1,
                          flags | PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void answer(int listener, const struct seccomp_notif *call, int error, unsigned flags)
{
    struct seccomp_notif_resp response = {.id = call->id, .error = error, .flags = flags};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) < 0 && errno != ENOENT)
        fail("a call cannot be answered");
}

/* Gives the descriptor to the caller, as the result of the caller's system call, in one step. A caller that
 * has ended gets neither. */
static void hand_over(int listener, const struct seccomp_notif *call, int fd)
{
    struct seccomp_notif_addfd added = {
        .id = call->id,
        .flags = SECCOMP_ADDFD_FLAG_SEND,
        .srcfd = (uint32_t)fd,
        .newfd_flags = call->data.args[4] & PERF_FLAG_FD_CLOEXEC ? O_CLOEXEC : 0,
    };
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &added) < 0 && errno != ENOENT)
        answer(listener, call, -errno, 0);
    close(fd);
}

static void answer_perf_event_open(int listener, const struct seccomp_notif *call)
{
    struct perf_event_attr attr;
    int error = read_attr(call, &attr);
    if (error == 0)
        error = check(call, &attr);
    if (error < 0) {
        answer(listener, call, error, 0);
        return;
    }
    enum kind kind = kind_of(&attr);
    if (kind == AS_HERE && (machine.paranoid < 0 || machine.here <= machine.paranoid)) {
        answer(listener, call, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
        return;
    }
    int fd = open_instead(call, &attr);
    if (fd < 0)
        answer(listener, call, fd, 0);
    else
        hand_over(listener, call, fd);
}

static void answer_mount(int listener, const struct seccomp_notif *call)
{
    char type[8] = "";
    struct iovec local = {type, sizeof(type)};
    struct iovec remote = {(void *)(uintptr_t)call->data.args[2], sizeof(type)};
    bool is_tracefs = call->data.args[2] &&
                      process_vm_readv((pid_t)call->pid, &local, 1, &remote, 1, 0) > 0 &&
                      memcmp(type, "tracefs", sizeof(type)) == 0;
    if (machine.no_tracefs && is_tracefs)
        answer(listener, call, -ENODEV, 0);
    else
        answer(listener, call, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

static void serve(int listener)
{
    struct seccomp_notif call = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
        return; /* the caller has ended */
    if (call.data.nr == SYS_perf_event_open)
        answer_perf_event_open(listener, &call);
    else
        answer_mount(listener, &call);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int install_filter(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mount, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
    const unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
    if (listener < 0 && errno == EINVAL)
        listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    return listener;
}

/* Sends a descriptor over a socket, or receives one if *fd is negative. */
static void pass_descriptor(int socket, int *fd)
{
    char byte = 0;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {
        .head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    memcpy(CMSG_DATA(&control.head), fd, sizeof(*fd));
    bool sends = *fd >= 0;
    if ((sends ? sendmsg(socket, &message, 0) : recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) != 1)
        fail("the filter's descriptor cannot be passed on");
    if (!sends)
        memcpy(fd, CMSG_DATA(&control.head), sizeof(*fd));
}

static _Noreturn void run(int socket, char **command)
{
    int listener = install_filter();
    if (listener < 0)
        fail("no seccomp filter that notifies can be installed");
    pass_descriptor(socket, &listener);
    close(listener);
    close(socket);
    gid_t group = (gid_t)machine.user;
    if (machine.user >= 0 && (setgroups(0, NULL) < 0 || setresgid(group, group, group) < 0 ||
                              setresuid((uid_t)machine.user, (uid_t)machine.user, (uid_t)machine.user) < 0))
        fail("the user cannot be changed");
    execvp(command[0], command);
    fail(command[0]);
}

/* Serves until the command has ended. Processes that the command leaves behind may go on, but cannot open
 * events. */
static int serve_all(int listener, pid_t child, int signals)
{
    for (;;) {
        struct pollfd polled[] = {{listener, POLLIN, 0}, {signals, POLLIN, 0}};
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            fail("poll");
        if (polled[0].revents & POLLIN)
            serve(listener);
        struct signalfd_siginfo info;
        if (!(polled[1].revents & POLLIN) || read(signals, &info, sizeof(info)) < 0)
            continue;
        if (info.ssi_signo == SIGTERM)
            kill(child, SIGTERM);
        int status;
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

/* ---- The command line ------------------------------------------------------------------------ */

static int number_of(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (!*text || *end || number < -1 || number > 65535) {
        fprintf(stderr, "lacking: \"%s\" is no number from -1 to 65535.\n", text);
        exit(125);
    }
    return (int)number;
}

static void take(int option)
{
    switch (option) {
    case 'p':
        machine.paranoid = number_of(optarg);
        break;
    case 'u':
        machine.user = number_of(optarg);
        break;
    case 't':
        machine.no_tracefs = true;
        break;
    case 'a':
        machine.old_abi = true;
        break;
    default: /* what to give instead of hardware events, or, from 10 on, of watchpoints */
        *(option < 10 ? &machine.pmu : &machine.watchpoints) = (enum kind)(option % 10);
    }
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"no-pmu", no_argument, NULL, NONE},
        {"silent-pmu", no_argument, NULL, SILENT},
        {"pmu", no_argument, NULL, COUNTING},
        {"no-watchpoints", no_argument, NULL, 10 + NONE},
        {"silent-watchpoints", no_argument, NULL, 10 + SILENT},
        {"no-tracefs", no_argument, NULL, 't'},
        {"paranoid", required_argument, NULL, 'p'},
        {"old-abi", no_argument, NULL, 'a'},
        {"user", required_argument, NULL, 'u'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
        if (option == '?')
            exit(125);
        take(option);
    }
    if (optind == argc) {
        fprintf(stderr, "usage: lacking WHAT... -- COMMAND [ARGUMENT]...\n");
        exit(125);
    }
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    if (!file || fscanf(file, "%d", &machine.here) != 1)
        fail("/proc/sys/kernel/perf_event_paranoid");
    fclose(file);
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        fail("socketpair");
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT); /* the terminal sends it to the command, too */
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        run(sockets[0], argv + optind);
    }
    close(sockets[0]);
    int listener = -1;
    pass_descriptor(sockets[1], &listener);
    return serve_all(listener, child, signalfd(-1, &signals, SFD_CLOEXEC));
}
