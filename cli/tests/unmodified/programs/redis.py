"""Keys of a Redis server go when their time has come by the kernel's clock: not before, and not still there after it."""
import socket
import sys
import time

# The server counts in milliseconds, and rounds each of two of its readings down.
UNIT_NS = 2_000_000
LIVES_MS = [40, 90, 150, 220, 300]
failures = []
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
stream = server.makefile("rwb")


def ask(*words):
    stream.write(b"*%d\r\n" % len(words))
    for word in words:
        data = str(word).encode()
        stream.write(b"$%d\r\n%s\r\n" % (len(data), data))
    stream.flush()
    return answer()


def answer():
    line = stream.readline().rstrip()
    kind, rest = line[:1], line[1:]
    if kind == b"*":
        return [answer() for _ in range(int(rest))]
    if kind == b"$":
        return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
    if kind == b"-":
        raise SystemExit(rest.decode())
    return int(rest) if kind == b":" else rest


def now():
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


for _ in range(200):
    before, (seconds, micros), after = now(), ask("TIME"), now()
    told = int(seconds) * 10**9 + int(micros) * 1000
    if not before - 101_000 <= told <= after + 100_000:
        failures.append(f"TIME is off by {told - before} ns")

keys = {}
for life in LIVES_MS:
    before = now()
    ask("SET", f"key{life}", "value", "PX", life)
    keys[f"key{life}"] = (before + life * 10**6, now() + life * 10**6)
while keys:
    for key, (earliest, latest) in list(keys.items()):
        before, is_there, after = now(), ask("EXISTS", key), now()
        if is_there and before > latest + UNIT_NS:
            failures.append(f"{key} is still there after {before - latest} ns")
        if not is_there and after < earliest - UNIT_NS:
            failures.append(f"{key} is gone {earliest - after} ns before its time")
        if not is_there or before > latest + UNIT_NS:
            del keys[key]
    time.sleep(0.001)
for words in failures[:10]:
    print(words)
print("failed" if failures else "held")
sys.exit(bool(failures))
