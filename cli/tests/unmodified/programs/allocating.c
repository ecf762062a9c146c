// Four threads that allocate and read clocks in turn.
#include "check.h"
#include <pthread.h>

static void *work(void *argument) {
  for (int round = 0; round < 3000; round++) {
    char *volatile block = malloc((size_t)round % 900 + 1);
    block[0] = 1;
    for (size_t i = 0; i < COUNT(FOLLOWED); i++) ours(FOLLOWED[i]);
    free(block);
  }
  check_all("thread");
  return argument;
}

int main(void) {
  pthread_t threads[4];
  for (size_t i = 0; i < COUNT(threads); i++) pthread_create(&threads[i], NULL, work, NULL);
  for (size_t i = 0; i < COUNT(threads); i++) pthread_join(threads[i], NULL);
  return finish();
}
