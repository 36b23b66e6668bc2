# A user without sudo and without privileges, on a system where root has installed cox; after `make demo` and `make build` in the user's own clone.

#: cox doctor says what this user lacks
code=0
cox doctor >report || code=$?
cat report
[ "$code" -le 1 ] || fail "exit code $code"
[ "$code" = 0 ] || says report '->'

#: cox run says how it observes
cox run -- sh -c 'ls / >/dev/null; sleep 0.2' 2>report
has_threads report
says report '^ +(eBPF|perf|proc), '
if [ -e /usr/local/libexec/coxswain/cox-observe ]; then says report '^ +eBPF, '; fi
for backend in perf proc; do
    cox run --backend "$backend" -- sh -c 'ls / >/dev/null; sleep 0.2' 2>report
    has_threads report
done

#: root's processes are seen as ps sees them
expect 0 cox run --pid 1 --for 500ms 2>report
has_threads report
says report '^ +proc, '

#: cox pack and cox run --overlap
cox pack --ncpus 1 -- "$workloads/barriers" --threads 3 --work-us 200 --rounds 300 --wait spin 2>report
says report packed
cox run --overlap -- "$workloads/heat" --threads 2 2>report
has_threads report
cox changes status

#: pages and reports
code=0
cox run --json run.json --html run.html --output report -- "$workloads/mandelbrot" --threads 3 --steps 4 --no-verify 2>errors || code=$?
cat errors
if [ "$code" = 125 ]; then
    # Charts over time need eBPF: without it cox refuses before anything starts, and says why.
    says errors 'eBPF|bpf'
    cox run --json run.json --output report -- "$workloads/mandelbrot" --threads 3 --steps 4 --no-verify
fi
has_threads report
json run.json 'd["programs"][0]["processes"]'

#: an installation in the home
cd coxswain
make install PREFIX=~/.local
~/.local/bin/cox run -- ls 2>report
has_threads report

#: odd terminals
for columns in 20 40 200; do
    for terminal in dumb xterm unknown; do
        COLUMNS=$columns TERM=$terminal script -qec "stty cols $columns; cox run -- ls" report </dev/null >/dev/null
        tr -d '\r' <report >plain
        has_threads plain >/dev/null
        echo "$columns $terminal: $(awk '{ gsub(/\033\[[0-9;]*m/, ""); if (length > n) n = length } END { print n }' plain) columns at most"
    done
done
for command in 'cox --help' 'cox run --help' 'cox doctor' 'cox explain figures'; do
    script -qec "stty cols 40; $command" report </dev/null >/dev/null || [ "$command" = 'cox doctor' ]
    [ -s report ] || fail "$command"
done

#: a pipe that closes early
for command in 'cox explain figures' 'cox doctor' 'cox schema' 'cox run --help' 'cox completions bash' 'cox run --json - -- true'; do
    bash -c "$command | head -n 1" >first 2>errors
    [ -s first ] || fail "$command"
    ! grep -qiE 'broken pipe|panic' errors || { cat errors; fail "$command"; }
done
cox run -- ls / 2>&1 | head -n 1 || [ $? = 141 ]

#: closed descriptors
cox run -- true <&- 2>report
has_threads report
cox run -- true >&- 2>report
has_threads report
expect 0 cox run -- true 2>&-
expect 3 cox run -- sh -c 'exit 3' <&- >&- 2>&-

#: no environment, as cron has it
env -i /usr/local/bin/cox run -- /bin/ls / 2>report
has_threads report
env -i /usr/local/bin/cox pack --ncpus 1 -- /bin/sleep 0.3 2>report
says report packed
env -u HOME cox run -- ls 2>report
has_threads report
HOME=/nonexistent cox pack --ncpus 1 -- sleep 0.3 2>report
says report packed
env -i HOME=/ /usr/local/bin/cox doctor >report || [ -s report ]

#: languages
for language in C POSIX C.UTF-8 de_DE.UTF-8 nonsense; do
    LC_ALL=$language LANG=$language cox run -- ls 2>report
    has_threads report
done

#: a folder that cannot be written, or is gone
cd /
cox run -- ls 2>~/report
has_threads ~/report
expect 125 cox run --json run.json -- touch ~/started 2>~/report
says ~/report 'run.json'
[ ! -e ~/started ] || fail "the program was started"
mkdir ~/gone
cd ~/gone
rmdir ~/gone
cox run -- ls 2>~/report
has_threads ~/report
cd ~
TMPDIR=/nowhere cox run -- ls 2>report
has_threads report

#: limits that administrators set
(ulimit -n 20; cox run -- ls) 2>report
has_threads report
(ulimit -v 2000000; cox run -- ls) 2>report
has_threads report
expect 3 bash -c 'ulimit -f 1; exec cox run -- sh -c "exit 3"' 2>report
(ulimit -l 0; cox run -- ls) 2>report
has_threads report
(ulimit -c 0; nice -n 19 cox run -- ls) 2>report
has_threads report

#: under nohup, timeout, setsid, xargs, and in the background
nohup cox run -- ls / >out 2>report
has_threads report
timeout 10 cox run -- ls 2>report
has_threads report
setsid --wait cox run -- ls 2>report
has_threads report
printf '/etc\n/usr\n' | xargs cox run --output report -- ls
has_threads report
expect 124 timeout 1 cox run -- sleep 60 2>report
has_threads report
cox run -- sleep 0.2 2>report & wait $!
has_threads report

#: cox under cox, strange names
cox run -- cox run --output inner -- ls 2>report
has_threads report
has_threads inner
cp /bin/ls './a name
with	things%n'
cox run -- './a name
with	things%n' 2>report
has_threads report
cp /bin/sleep ./größe-日本
cox run -- ./größe-日本 0.1 2>report
has_threads report
