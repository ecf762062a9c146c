"""Python's clocks against the kernel's by system call, and its timed waits: none may end early."""
import ctypes
import datetime
import platform
import queue
import select
import sys
import threading
import time

BOUND_NS = int(sys.argv[1])
WAIT_S = 0.05
LIBC = ctypes.CDLL(None, use_errno=True)
CLOCK_GETTIME = {"x86_64": 228, "aarch64": 113}[platform.machine()]
failures = []


class Timespec(ctypes.Structure):
    _fields_ = [("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long)]


def kernel(clock):
    place = Timespec()
    if LIBC.syscall(CLOCK_GETTIME, clock, ctypes.byref(place)):
        raise OSError(ctypes.get_errno())
    return place.tv_sec * 10**9 + place.tv_nsec


def check(holds, words):
    if not holds:
        failures.append(words)


def of_id(clock):
    return lambda: time.clock_gettime_ns(clock)


def utc_now():
    since = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return since // datetime.timedelta(microseconds=1) * 1000


# Each with its resolution in nanoseconds; a float of today's seconds has a quarter of a microsecond.
CLOCKS = [
    ("time_ns", time.CLOCK_REALTIME, time.time_ns, 1),
    ("time", time.CLOCK_REALTIME, lambda: int(time.time() * 1e9), 1000),
    ("datetime", time.CLOCK_REALTIME, utc_now, 1000),
    ("monotonic_ns", time.CLOCK_MONOTONIC, time.monotonic_ns, 1),
    ("perf_counter_ns", time.CLOCK_MONOTONIC, time.perf_counter_ns, 1),
    ("raw", time.CLOCK_MONOTONIC_RAW, of_id(time.CLOCK_MONOTONIC_RAW), 1),
    ("boottime", time.CLOCK_BOOTTIME, of_id(time.CLOCK_BOOTTIME), 1),
    ("tai", time.CLOCK_TAI, of_id(time.CLOCK_TAI), 1),
    ("process_time_ns", time.CLOCK_PROCESS_CPUTIME_ID, time.process_time_ns, 1),
    ("thread_time_ns", time.CLOCK_THREAD_CPUTIME_ID, time.thread_time_ns, 1),
]


def read_clocks():
    for name, clock, read, resolution in CLOCKS:
        last = 0
        for _ in range(10_000):
            now = read()
            check(now >= last, f"{name} went back by {last - now} ns")
            last = now
        for _ in range(500):
            before, now, after = kernel(clock), read(), kernel(clock)
            off = max(before - now, now - after)
            check(off <= BOUND_NS + resolution, f"{name} is off by {off} ns")


def waits_of(wait, name):
    for _ in range(3):
        start = kernel(time.CLOCK_MONOTONIC)
        wait()
        short = WAIT_S * 1e9 - (kernel(time.CLOCK_MONOTONIC) - start)
        check(short <= BOUND_NS, f"{name} ended {short} ns early")


def on_condition():
    condition = threading.Condition()
    with condition:
        check(not condition.wait(WAIT_S), "a condition came true")


def on_queue():
    try:
        queue.Queue().get(timeout=WAIT_S)
        check(False, "a queue gave something")
    except queue.Empty:
        pass


def on_lock():
    lock = threading.Lock()
    with lock:
        check(not lock.acquire(timeout=WAIT_S), "a lock was had twice")


def on_thread():
    thread = threading.Thread(target=time.sleep, args=(10 * WAIT_S,), daemon=True)
    thread.start()
    thread.join(WAIT_S)


WAITS = {
    "Condition.wait": on_condition,
    "Event.wait": lambda: threading.Event().wait(WAIT_S),
    "Queue.get": on_queue,
    "Lock.acquire": on_lock,
    "Semaphore.acquire": lambda: threading.Semaphore(0).acquire(timeout=WAIT_S),
    "Thread.join": on_thread,
    "sleep": lambda: time.sleep(WAIT_S),
    "select": lambda: select.select([], [], [], WAIT_S),
}

read_clocks()
threads = [threading.Thread(target=waits_of, args=(wait, name)) for name, wait in WAITS.items()]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for words in failures[:10]:
    print(words)
print("failed" if failures else "held")
sys.exit(bool(failures))
