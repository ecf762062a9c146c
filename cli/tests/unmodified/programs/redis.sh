# A server under load while a judge, which has no image, watches its keys expire.
# usage: redis.sh FOLDER SERVER BENCHMARK CLI PYTHON JUDGE
set -e
cd "$1"
rm -f socket
"$2" --port 0 --unixsocket socket --save "" --appendonly no --daemonize no > log 2>&1 &
server=$!
trap 'kill -9 $server 2> /dev/null || true' EXIT
until "$4" -s socket ping > /dev/null 2>&1; do kill -0 $server; sleep 0.02; done
"$3" -s socket -n 20000 -c 10 -q -t set,get,incr > benchmark 2>&1 &
benchmark=$!
env -u LD_PRELOAD "$5" "$6" socket
wait $benchmark
[ "$(tr '\r' '\n' < benchmark | grep -c 'requests per second, p50')" = 3 ]
"$4" -s socket shutdown nosave
wait $server
