# A redis server with N threads for its sockets, and its own benchmark: sh run.sh N SERVER.
"$2" --port 0 --unixsocket redis.sock --save '' --appendonly no --io-threads "$1" --daemonize no >server.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null' EXIT
until redis-cli -s redis.sock ping >/dev/null 2>&1; do sleep 0.02; done
redis-benchmark -s redis.sock -n 40000 -c 20 -t set,get -q
redis-cli -s redis.sock shutdown nosave
wait $server
trap - EXIT
