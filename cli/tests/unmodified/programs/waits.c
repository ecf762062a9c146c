// Sixteen ways to wait until a deadline that was computed from the clock under test: no wait may end early, by the
// kernel's own clock, by more than the bound of the reading, and then the clock under test must have reached it.
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/timerfd.h>

#define WAIT_NS 20000000LL
#define ROUNDS 5

struct place {
  pthread_mutex_t mutex, held;
  pthread_cond_t condition, of_clock;
  sem_t semaphore;
  int word;
  clockid_t id;
};

static int by_timerfd(struct place *place, const struct timespec *deadline) {
  struct itimerspec timer = {.it_value = *deadline};
  uint64_t expirations = 0;
  int descriptor = timerfd_create(place->id, 0);
  int result = timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &timer, NULL);
  ssize_t length = read(descriptor, &expirations, sizeof expirations);
  close(descriptor);
  return result || length != sizeof expirations || expirations != 1;
}

static int locked(struct place *place, const struct timespec *deadline, int by_attribute) {
  pthread_mutex_lock(&place->mutex);
  int result = by_attribute ? pthread_cond_timedwait(&place->of_clock, &place->mutex, deadline)
                            : pthread_cond_clockwait(&place->condition, &place->mutex, place->id, deadline);
  pthread_mutex_unlock(&place->mutex);
  return result;
}

// 0 or ETIMEDOUT by whichever way the call tells it.
static int told(int result) { return result == -1 ? errno : result; }

static const char *const WAYS[] = {"pthread_cond_timedwait", "pthread_cond_clockwait", "sem_timedwait or sem_clockwait",
                                   "sem_clockwait", "pthread_mutex_clocklock", "futex", "clock_nanosleep", "timerfd"};

static int wait_until(struct place *place, int way, const struct timespec *deadline) {
  int is_wall = place->id == CLOCK_REALTIME;
  switch (way) {
  case 0: return locked(place, deadline, 1) == ETIMEDOUT;
  case 1: return locked(place, deadline, 0) == ETIMEDOUT;
  case 2:
    return (is_wall ? told(sem_timedwait(&place->semaphore, deadline))
                    : told(sem_clockwait(&place->semaphore, place->id, deadline))) == ETIMEDOUT;
  case 3: return told(sem_clockwait(&place->semaphore, place->id, deadline)) == ETIMEDOUT;
  case 4: return pthread_mutex_clocklock(&place->held, place->id, deadline) == ETIMEDOUT;
  case 5: {
    int operation = FUTEX_WAIT_BITSET | (is_wall ? FUTEX_CLOCK_REALTIME : 0);
    return told(syscall(SYS_futex, &place->word, operation, 0, deadline, NULL, FUTEX_BITSET_MATCH_ANY)) == ETIMEDOUT;
  }
  case 6: return clock_nanosleep(place->id, TIMER_ABSTIME, deadline, NULL) == 0;
  default: return by_timerfd(place, deadline) == 0;
  }
}

// A place for each way and clock, so that all can wait at once.
static struct place places[2][COUNT(WAYS)];

static void *waiter(void *argument) {
  struct place *place = argument;
  int way = (int)((place - &places[0][0]) % (long)COUNT(WAYS));
  for (int round = 0; round < ROUNDS; round++) {
    long long bound = told_ns(place->id, 1), start = kernel(place->id), now = ours(place->id);
    bound = larger(bound, told_ns(place->id, 1)) + SPARE_NS;
    struct timespec deadline = timespec_of(now + WAIT_NS);
    int ended_by_time = wait_until(place, way, &deadline);
    long long waited = kernel(place->id) - start;
    CHECK(ended_by_time, "%s on clock %d did not end by the time", WAYS[way], (int)place->id);
    CHECK(waited >= WAIT_NS - bound, "%s on clock %d ended %lld ns early", WAYS[way], (int)place->id, WAIT_NS - waited);
    long long missing = now + WAIT_NS - ours(place->id);
    long long may_miss = larger(bound, told_ns(place->id, 1) + SPARE_NS);
    CHECK(missing <= may_miss, "after %s clock %d was %lld ns before its deadline", WAYS[way], (int)place->id, missing);
    check_all("waiter");
  }
  return NULL;
}

int main(void) {
  static const clockid_t ids[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
  pthread_t threads[2][COUNT(WAYS)];
  check_for("before", 5000000);
  for (int clock = 0; clock < 2; clock++)
    for (size_t way = 0; way < COUNT(WAYS); way++) {
      struct place *place = &places[clock][way];
      pthread_condattr_t attribute;
      pthread_condattr_init(&attribute);
      pthread_condattr_setclock(&attribute, ids[clock]);
      pthread_cond_init(&place->of_clock, &attribute);
      pthread_cond_init(&place->condition, NULL);
      pthread_mutex_init(&place->mutex, NULL);
      pthread_mutex_init(&place->held, NULL);
      pthread_mutex_lock(&place->held);
      sem_init(&place->semaphore, 0, 0);
      place->id = ids[clock];
      pthread_create(&threads[clock][way], NULL, waiter, place);
    }
  for (int clock = 0; clock < 2; clock++)
    for (size_t way = 0; way < COUNT(WAYS); way++) pthread_join(threads[clock][way], NULL);
  return finish();
}
