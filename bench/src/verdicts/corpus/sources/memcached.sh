# A memcached server with N worker threads, and a load of four clients: sh run.sh N SERVER.
rm -f memcached.sock
"$2" -u "$(id -un)" -s memcached.sock -a 0777 -t "$1" >server.log 2>&1 &
server=$!
# At SIGTERM the server ends with the next second of its clock, and all runs would take whole seconds.
trap 'kill -KILL $server 2>/dev/null; wait $server' EXIT
until [ -S memcached.sock ]; do sleep 0.02; done
/usr/bin/python3 load.py
