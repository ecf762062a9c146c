// Judges itself whether signals, stops and interrupted calls are what they should be, while it reads clocks without end.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(holds) do { if (!(holds)) { printf("%d: %s\n", __LINE__, #holds); fflush(stdout); _exit(1); } } while (0)

static volatile sig_atomic_t alarms, chlds, values[8], valued, conts;
static void on_alarm(int s) { (void)s; alarms++; }
static void on_chld(int s) { (void)s; chlds++; }
static void on_cont(int s) { (void)s; conts++; }
static void on_value(int s, siginfo_t *i, void *c) {
  (void)s, (void)c;
  if (i->si_code == SI_QUEUE && i->si_pid == getpid() && valued < 8) values[valued++] = i->si_value.sival_int;
}
static void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
  CHECK(sigaction(signal, &a, 0) == 0);
}
static void read_clock(void) {
  struct timespec t;
  for (int i = 0; i < 20; i++) CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
}
static volatile int stop;
static void *reader(void *p) {
  while (!stop) read_clock();
  return p;
}

int main(void) {
  sigset_t all;
  pthread_t other;
  handle(SIGALRM, on_alarm, 0);
  handle(SIGCHLD, on_chld, SA_RESTART);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, 0);
  pthread_create(&other, 0, reader, 0);
  pthread_sigmask(SIG_UNBLOCK, &all, 0);

  // An alarm comes, also in the midst of reading.
  struct itimerval every = {{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &every, 0);
  while (alarms < 20) read_clock();
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, 0);

  // It interrupts a read of a pipe without SA_RESTART, and not with it.
  int ends[2];
  char c;
  CHECK(pipe(ends) == 0);
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 20000}}, 0);
  CHECK(read(ends[0], &c, 1) == -1 && errno == EINTR);
  handle(SIGALRM, on_alarm, SA_RESTART);
  alarms = 0;
  pid_t writer = fork();
  if (writer == 0) {
    usleep(100000);
    _exit(write(ends[1], "x", 1) != 1);
  }
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 20000}}, 0);
  CHECK(read(ends[0], &c, 1) == 1 && c == 'x' && alarms == 1);
  int status;
  CHECK(waitpid(writer, &status, 0) == writer && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(chlds >= 1);

  // A sleep that is interrupted tells what is left.
  struct timespec left = {0, 0};
  handle(SIGALRM, on_alarm, 0);
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 20000}}, 0);
  CHECK(nanosleep(&(struct timespec){100, 0}, &left) == -1 && errno == EINTR && left.tv_sec >= 50);

  // Queued signals come in their order, each with its value; they have no names.
  struct sigaction a = {.sa_sigaction = on_value, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGRTMIN + 1, &a, 0) == 0);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGRTMIN + 1);
  pthread_sigmask(SIG_BLOCK, &one, 0);
  for (int i = 0; i < 8; i++) CHECK(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 70 + i}) == 0);
  pthread_sigmask(SIG_UNBLOCK, &one, 0);
  while (valued < 8) read_clock();
  for (int i = 0; i < 8; i++) CHECK(values[i] == 70 + i);

  // A child stops, is seen to, goes on, is seen to, and ends by a signal.
  handle(SIGCONT, on_cont, 0);
  int go[2];
  CHECK(pipe(go) == 0);
  pid_t child = fork();
  if (child == 0) {
    char word;
    read_clock();
    raise(SIGSTOP);
    CHECK(conts == 1);
    read_clock();
    // Not before it was seen to go on.
    CHECK(read(go[0], &word, 1) == 1);
    signal(SIGUSR1, SIG_DFL);
    raise(SIGUSR1);
    _exit(1);
  }
  CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  // Stopped for good: what it is sent waits.
  CHECK(kill(child, SIGALRM) == 0);
  usleep(20000);
  CHECK(waitpid(child, &status, WUNTRACED | WCONTINUED | WNOHANG) == 0);
  CHECK(kill(child, SIGCONT) == 0);
  CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
  CHECK(write(go[1], "g", 1) == 1);
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);

  // The program itself is stopped, and another lets it go on.
  pid_t parent = getpid();
  child = fork();
  if (child == 0) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", parent);
    // Under a tracer it reads t.
    while (state != 'T' && state != 't') {
      FILE *f = fopen(path, "r");
      CHECK(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
      fclose(f);
      usleep(1000);
    }
    usleep(20000);
    _exit(kill(parent, SIGCONT));
  }
  conts = 0;
  raise(SIGSTOP);
  read_clock();
  CHECK(conts == 1);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

  stop = 1;
  pthread_join(other, 0);
  puts("held");
  return 0;
}
