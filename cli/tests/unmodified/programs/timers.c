/* Which clocks the kernel's timers take: a line `ID yes` or `ID no` for each number that is given. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
    for (int at = 1; at < count; at++) {
        int id = atoi(words[at]);
        struct timespec long_ago = {0, 0};
        int sleeps = clock_nanosleep(id, TIMER_ABSTIME, &long_ago, NULL) == 0;
        int timer = timerfd_create(id, 0);
        /* One that wakes the machine is for the privileged. */
        int taken = sleeps || timer >= 0 || errno == EPERM;
        printf("%d %s\n", id, taken ? "yes" : "no");
        if (timer >= 0)
            close(timer);
    }
    return 0;
}
