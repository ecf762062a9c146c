/* Run with the image preloaded on a processor that is emulated: the image's time lies between two of the kernel's, errno is
 * kept on success and set on failure, what is not followed is handed on; the image itself says that it is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t ns(struct timespec t) { return t.tv_sec * INT64_C(1000000000) + t.tv_nsec; }

static int64_t kernel(clockid_t clock) {
    struct timespec t;
    syscall(SYS_clock_gettime, clock, &t);
    return ns(t);
}

int main(void) {
    static const clockid_t followed[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI, CLOCK_MONOTONIC_RAW};
    enum { TAKES = 20000, OFF_NS = 100000 };
    int bad = 0;
    for (int take = 0; take < TAKES; take++)
        for (int i = 0; i < 5; i++) {
            struct timespec t;
            errno = 4242;
            int64_t before = kernel(followed[i]);
            int result = clock_gettime(followed[i], &t);
            int64_t after = kernel(followed[i]);
            if (result != 0 || errno != 4242 || ns(t) < before - OFF_NS || ns(t) > after + OFF_NS) bad++;
        }
    struct timespec t;
    struct timeval v;
    struct timezone zone = {7, 7};
    bad += clock_gettime(CLOCK_REALTIME_COARSE, &t) != 0 || ns(t) > kernel(CLOCK_REALTIME);
    bad += clock_gettime(1000000, &t) != -1 || errno != EINVAL;
    bad += gettimeofday(&v, (void *)&zone) != 0 || zone.tz_dsttime != 0;
    bad += time(NULL) - v.tv_sec > 1 || v.tv_sec - time(NULL) > 1;
    bad += timespec_get(&t, TIME_UTC) != TIME_UTC || timespec_get(&t, 77) != 0;
    uint64_t told[4] = {0};
    int (*reading)(int, uint64_t *) = (int (*)(int, uint64_t *))dlsym(RTLD_DEFAULT, "clockwise_reading");
    if (!reading || reading(CLOCK_MONOTONIC, told) != 0) return puts("the image is not active"), 1;
    printf("%d faults in %d readings; the counter %s\n", bad, 5 * TAKES, told[3] ? "answers" : "does not answer");
    /* An emulated counter that moves in steps of a microsecond is rightly distrusted. */
    return bad != 0;
}
