# Programs that read clocks are killed at any moment, and one ends by itself: nothing of theirs may be left. For root,
# in a mount namespace of its own. usage: killed.sh PROGRAM
set -e
mount -t tmpfs none /dev/shm
mount -t tmpfs none /tmp
for round in 1 2 3 4 5 6 7 8 9 10; do
  "$1" forever > /dev/null &
  sleep 0.0$round
  kill -9 $!
  wait $! || true
done
"$1" child
ls -A /tmp /dev/shm
