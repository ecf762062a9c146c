# A server that is counted, and one client that asks it so often; the server ends by itself.
# usage: requests.sh FOLDER CLOCKWISE SERVER CLI PYTHON CLIENT REQUESTS
set -e
cd "$1"
rm -f socket told.json
"$2" profile --format json --save told.json -- \
  "$3" --port 0 --unixsocket socket --save "" --appendonly no --daemonize no > log 2>&1 &
server=$!
trap 'kill -9 $server 2> /dev/null || true' EXIT
until "$4" -s socket ping > /dev/null 2>&1; do kill -0 $server; sleep 0.02; done
"$5" "$6" socket "$7"
"$4" -s socket shutdown nosave
wait $server
