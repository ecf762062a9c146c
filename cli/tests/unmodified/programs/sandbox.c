// A program that shuts itself in with a filter that allows `write`, `exit` and the return from signals only, and then
// reads clocks. First argument: what the filter does (kill, all, refuse); second: whether the first reading comes before
// it (late) or after (early). With `clocks exec` the filter kills for clocks only, and the program starts again behind
// it, image and all. Judged by libc's own function, which asks the vDSO and makes no system call.
#include "check.h"
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>

#define BOUND_NS (PROMISED_NS + SPARE_NS)

static int (*libc_gettime)(clockid_t, struct timespec *);

static long long libc_ns(clockid_t id) {
  struct timespec t = {0, 0};
  libc_gettime(id, &t);
  return ns(t);
}

// The bound as check.h has it, except that nothing here may ask the kernel.
static void look(const char *where, long long duration_ns) {
  static const clockid_t ids[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME};
  long long last[COUNT(ids)] = {0}, end = libc_ns(CLOCK_MONOTONIC) + duration_ns;
  while (libc_ns(CLOCK_MONOTONIC) < end)
    for (size_t i = 0; i < COUNT(ids); i++) {
      long long told = told_ns(ids[i], 1);
      long long before = libc_ns(ids[i]), reading = ours(ids[i]), after = libc_ns(ids[i]);
      told = larger(larger(told, told_ns(ids[i], 1)), PROMISED_NS) + SPARE_NS;
      CHECK(reading >= before - told && reading <= after + told, "%s: clock %d is off by %lld ns", where, (int)ids[i],
            reading - before);
      CHECK(reading >= last[i], "%s: clock %d went back by %lld ns", where, (int)ids[i], last[i] - reading);
      last[i] = reading;
      struct timeval v;
      ours(CLOCK_MONOTONIC_COARSE);
      CHECK(gettimeofday(&v, NULL) == 0 && time(NULL) > 0, "%s: gettimeofday or time failed", where);
    }
}

static void install(struct sock_filter *steps, unsigned short count, unsigned flags) {
  struct sock_fprog program = {count, steps};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program)) exit(77);
}

static void shut_clocks(void) {
  static const int calls[] = {SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_ptrace};
  struct sock_filter steps[2 * COUNT(calls) + 2] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
  };
  unsigned short count = 1;
  for (size_t i = 0; i < COUNT(calls); i++) {
    steps[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
    steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  }
  steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  install(steps, count, 0);
}

static void shut(unsigned action, unsigned flags) {
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  install(steps, COUNT(steps), flags);
}

static void tell(const char *words) {
  if (write(1, words, strlen(words)) < 0) failures++;
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  if (!strcmp(arguments[2], "exec")) {
    shut_clocks();
    char *again[] = {arguments[0], arguments[1], "again", NULL};
    execv(arguments[0], again);
    return 77;
  }
  // Unbuffered, for a buffer is allocated; and libc is looked up while it can be.
  setvbuf(stdout, NULL, _IONBF, 0);
  libc_gettime = (int (*)(clockid_t, struct timespec *))dlsym(dlopen("libc.so.6", RTLD_NOW), "clock_gettime");
  if (!libc_gettime) return 77;
  if (!strcmp(arguments[2], "late")) look("before the filter", 30000000);
  if (!strcmp(arguments[1], "kill")) shut(SECCOMP_RET_KILL_THREAD, 0);
  else if (!strcmp(arguments[1], "all")) shut(SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
  else if (!strcmp(arguments[1], "refuse")) shut(SECCOMP_RET_ERRNO | EPERM, SECCOMP_FILTER_FLAG_TSYNC);
  look("behind the filter", 400000000);
  tell(failures ? "failed\n" : "held\n");
  syscall(SYS_exit_group, failures != 0);
}
