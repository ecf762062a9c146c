// Four hundred threads on stacks of 64 KiB, each with its first clock call: nothing may be allocated, and little of the
// stack used. With the image's path as an argument it is loaded late, closed, and loaded again.
#include "check.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>

#define STACK 65536
#define PAINT 0x5a

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_memalign(size_t, size_t);
static __thread volatile int in_clock;
static volatile int allocations;

void *malloc(size_t size) {
  if (in_clock) allocations++;
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  if (in_clock) allocations++;
  return __libc_calloc(count, size);
}
void *memalign(size_t alignment, size_t size) {
  if (in_clock) allocations++;
  return __libc_memalign(alignment, size);
}

static int (*gettime)(clockid_t, struct timespec *) = clock_gettime;

static void *first_call(void *argument) {
  struct timespec t;
  struct timeval v;
  in_clock = 1;
  for (size_t i = 0; i < COUNT(FOLLOWED); i++) gettime(FOLLOWED[i], &t);
  gettime(CLOCK_MONOTONIC_COARSE, &t);
  gettimeofday(&v, NULL);
  time(NULL);
  in_clock = 0;
  const unsigned char *lowest = argument;
  size_t untouched = 0;
  while (untouched < STACK && lowest[untouched] == PAINT) untouched++;
  return (void *)(STACK - untouched);
}

// The deepest stack that `number` threads used, their own set-up by libc included.
static size_t deepest(int number) {
  size_t deepest = 0;
  for (int i = 0; i < number; i++) {
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(stack, PAINT, STACK);
    pthread_attr_t attribute;
    pthread_attr_init(&attribute);
    pthread_attr_setstack(&attribute, stack, STACK);
    pthread_t thread;
    void *used = NULL;
    if (pthread_create(&thread, &attribute, first_call, stack)) exit(77);
    pthread_join(thread, &used);
    deepest = (size_t)used > deepest ? (size_t)used : deepest;
    munmap(stack, STACK);
  }
  return deepest;
}

static void load_late(const char *path) {
  for (int round = 0; round < 3; round++) {
    void *image = dlopen(path, RTLD_NOW);
    CHECK(image, "dlopen: %s", dlerror());
    if (!image) return;
    gettime = (int (*)(clockid_t, struct timespec *))dlsym(image, "clock_gettime");
    CHECK(gettime && gettime != clock_gettime, "the image has no clock_gettime of its own");
    if (!gettime) return;
    size_t used = deepest(30);
    CHECK(used < 16384, "%zu bytes of stack", used);
    long long end = kernel(CLOCK_MONOTONIC) + 20000000;
    while (kernel(CLOCK_MONOTONIC) < end) {
      struct timespec t;
      long long before = kernel(CLOCK_MONOTONIC);
      int result = gettime(CLOCK_MONOTONIC, &t);
      long long after = kernel(CLOCK_MONOTONIC);
      CHECK(result == 0 && ns(t) >= before - CLAIM_MAX_NS && ns(t) <= after + CLAIM_MAX_NS, "loaded late: off by %lld",
            ns(t) - before);
    }
    CHECK(dlclose(image) == 0, "dlclose: %s", dlerror());
  }
  gettime = clock_gettime;
}

int main(int count, char **arguments) {
  if (count > 1) load_late(arguments[1]);
  size_t used = deepest(400);
  CHECK(used < 16384, "%zu bytes of stack", used);
  CHECK(allocations == 0, "%d allocations within clock calls", allocations);
  check_all("main");
  return finish();
}
