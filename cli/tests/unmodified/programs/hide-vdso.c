/* Starts a program whose vDSO is hidden from it, as on a machine whose kernel maps none: libc and the image then make
 * real system calls.
 *
 * libc looks in the auxiliary vector on the stack: the program is stopped at its exec, and the entry is made one that
 * is ignored. The image looks in /proc/self/auxv: there lies an empty file, in a mount namespace of the program's own.
 * Without the privilege for one (CAP_SYS_ADMIN) only libc's is hidden, and the program can see that.
 * The vDSO stays mapped; its descendants find it.
 *
 * Also built and run by bench/image/measure. usage: hide-vdso CMD ARGS... */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed(const char *what) {
  fprintf(stderr, "hide-vdso: %s: %s\n", what, strerror(errno));
  return 1;
}

/* Where the stack of a program begins that has just been started: argc, argv, 0, environment, 0, auxiliary vector. */
static unsigned long stack_of(pid_t child) {
#if defined __x86_64__
  struct user_regs_struct registers;
#define STACK registers.rsp
#elif defined __aarch64__
  struct user_pt_regs registers;
#define STACK registers.sp
#else
#error "which register is the stack pointer is not known"
#endif
  struct iovec room = {&registers, sizeof registers};
  return ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &room) == 0 ? STACK : 0;
}

static int hide(pid_t child) {
  unsigned long at = stack_of(child);
  if (!at) return failed("the stack pointer");
  at += sizeof(long);
  for (int zeros = 0; zeros < 2; at += sizeof(long)) {
    errno = 0;
    if (ptrace(PTRACE_PEEKDATA, child, at, 0) == 0) zeros++;
    if (errno) return failed("the stack");
  }
  for (;; at += 2 * sizeof(long)) {
    errno = 0;
    long type = ptrace(PTRACE_PEEKDATA, child, at, 0);
    if (errno) return failed("the auxiliary vector");
    if (type == AT_NULL) return 0;
    if (type == AT_SYSINFO_EHDR && ptrace(PTRACE_POKEDATA, child, at, AT_IGNORE) != 0)
      return failed("the auxiliary vector");
  }
}

int main(int count, char **arguments) {
  if (count < 2) { fprintf(stderr, "usage: hide-vdso CMD ARGS...\n"); return 2; }
  pid_t child = fork();
  if (child < 0) return failed("fork");
  if (child == 0) {
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
      mount("/dev/null", "/proc/self/auxv", NULL, MS_BIND, NULL);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    execvp(arguments[1], arguments + 1);
    failed(arguments[1]);
    _exit(127);
  }
  int status;
  if (waitpid(child, &status, 0) != child) return failed("wait");
  if (WIFSTOPPED(status)) {
    int fault = hide(child);
    if (fault) kill(child, SIGKILL);
    ptrace(PTRACE_DETACH, child, NULL, NULL);
    if (waitpid(child, &status, 0) != child || fault) return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
