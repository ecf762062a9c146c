# A server's clock: never back over many rows, pg_sleep not early by the kernel's clock, the plan's own timing.
# usage: postgres.sh FOLDER BINARIES NOW BOUND_NS     The cluster is FOLDER/data.
set -e
cd "$1"
"$2/postgres" -D data -k "$1" -c listen_addresses= -c fsync=off > log 2>&1 &
server=$!
trap 'kill -9 $server 2> /dev/null || true' EXIT
ask() { "$2/psql" -X -A -t -q -v ON_ERROR_STOP=1 -h "$1" -d postgres -c "$3"; }
until ask "$1" "$2" "SELECT 1" > /dev/null 2>&1; do kill -0 $server; sleep 0.05; done
ask "$1" "$2" "SELECT 'backwards', count(*) FROM (SELECT t, lag(t) OVER (ORDER BY i) AS last FROM
  (SELECT i, clock_timestamp() AS t FROM generate_series(1, 200000) AS i) AS readings) AS pairs WHERE t < last"
for round in 1 2 3; do
  start=$("$3") # Two numbers: the wall clock and the monotonic one.
  ask "$1" "$2" "SELECT pg_sleep(0.05)" > /dev/null
  end=$("$3")
  took=$((${end#* } - ${start#* }))
  [ "$took" -ge $((50000000 - $4)) ] || { echo "pg_sleep took $took ns"; exit 1; }
done
ask "$1" "$2" "EXPLAIN (ANALYZE, TIMING ON) SELECT count(*) FROM generate_series(1, 100000)" | grep -c 'actual time'
ask "$1" "$2" "SELECT 'realtime ' || (extract(epoch FROM clock_timestamp()) * 1000000)::bigint || '000 1000'"
kill -INT $server
wait $server
