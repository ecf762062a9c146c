// An allocator to preload that reads clocks while it holds its lock, as profiling allocators do. A clock call that
// allocates would come back here and wait for itself; this says so instead.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (64u << 20)

static volatile int is_held;
static volatile pthread_t owner;
static uintptr_t next, end;

static void *take(size_t size, size_t alignment) {
  static const char words[] = "a clock call allocates\n";
  if (is_held && pthread_equal(owner, pthread_self())) {
    if (write(2, words, sizeof words - 1)) _exit(3);
    _exit(3);
  }
  while (__sync_lock_test_and_set(&is_held, 1)) continue;
  owner = pthread_self();
  struct timespec t;
  struct timeval v;
  clock_gettime(CLOCK_MONOTONIC, &t);
  clock_gettime(CLOCK_REALTIME, &t);
  gettimeofday(&v, NULL);
  time(NULL);
  // The size lies before the block, for realloc.
  uintptr_t block = (next + sizeof(size_t) + alignment - 1) & ~(uintptr_t)(alignment - 1);
  if (next == 0 || block + size > end) {
    size_t length = CHUNK + size + alignment;
    void *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) _exit(4);
    next = (uintptr_t)map;
    end = next + length;
    block = (next + sizeof(size_t) + alignment - 1) & ~(uintptr_t)(alignment - 1);
  }
  ((size_t *)block)[-1] = size;
  next = block + size;
  owner = 0;
  __sync_lock_release(&is_held);
  return (void *)block;
}

void *malloc(size_t size) { return take(size, 16); }
void *calloc(size_t count, size_t size) { return take(count * size, 16); } // Fresh pages: zeros.
void free(void *block) { (void)block; }
void *memalign(size_t alignment, size_t size) { return take(size, alignment < 16 ? 16 : alignment); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
  *block = memalign(alignment, size);
  return 0;
}

void *realloc(void *block, size_t size) {
  void *fresh = take(size, 16);
  if (block) {
    size_t old = ((size_t *)block)[-1];
    memcpy(fresh, block, old < size ? old : size);
  }
  return fresh;
}
