// The counter is forbidden by prctl during the run, allowed again, and forbidden in a child: clocks answer all the time.
// Alone this program dies, for the vDSO reads the counter too. What prctl is asked besides is as without the image.
#include "check.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static volatile int stop;

static void *reader(void *argument) {
  while (!stop) check_all("another thread");
  return argument;
}

// A thread that was born when the counter was forbidden inherits that.
static void *born_forbidden(void *argument) {
  int state = 0;
  prctl(PR_GET_TSC, &state, 0, 0, 0);
  CHECK(state == PR_TSC_SIGSEGV, "the state is %d", state);
  check_for("a thread born forbidden", 20000000);
  return argument;
}

static void forbid(int state) { CHECK(prctl(PR_SET_TSC, state, 0, 0, 0) == 0, "prctl: %s", strerror(errno)); }

int main(void) {
  pthread_t other, born;
  check_for("at first", 50000000);
  pthread_create(&other, NULL, reader, NULL);
  forbid(PR_TSC_SIGSEGV);
  check_for("forbidden", 50000000);
  pthread_create(&born, NULL, born_forbidden, NULL);
  pthread_join(born, NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    check_for("a child, forbidden", 20000000);
    _exit(failures != 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0, "the forbidden child ended with status %x", status);
  forbid(PR_TSC_ENABLE);
  check_for("allowed again", 50000000);
  child = fork();
  if (child == 0) {
    alarm(10);
    forbid(PR_TSC_SIGSEGV);
    check_for("a child that forbids itself", 20000000);
    _exit(failures != 0);
  }
  waitpid(child, &status, 0);
  CHECK(status == 0, "the child that forbids itself ended with status %x", status);
  stop = 1;
  pthread_join(other, NULL);
  char name[16] = {0};
  CHECK(prctl(PR_SET_NAME, "renamed", 0, 0, 0) == 0 && prctl(PR_GET_NAME, name, 0, 0, 0) == 0, "prctl: names");
  CHECK(!strcmp(name, "renamed"), "prctl named it %s", name);
  errno = 0;
  CHECK(prctl(-1, 0, 0, 0, 0) == -1 && errno == EINVAL, "prctl of nonsense: errno %d", errno);
  errno = 0;
  CHECK(prctl(PR_SET_TSC, 77, 0, 0, 0) == -1 && errno == EINVAL, "prctl of a state that is none: errno %d", errno);
  check_for("at last", 20000000);
  return finish();
}
