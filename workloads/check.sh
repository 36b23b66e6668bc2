#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Short self-test of every workload: check.sh DIRECTORY_WITH_THE_PROGRAMS
set -u -o pipefail

bin=${1:?usage: check.sh DIRECTORY_WITH_THE_PROGRAMS}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 skipped=0

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "FAILED: $*"; }
skip() { skipped=$((skipped + 1)); echo "skipped: $*"; }

# Returns whether the program was built; some programs do not support some sanitizers.
built() { [ -x "$bin/$1" ]; }

# run PROGRAM ARGS…: sets $code to the exit code; output goes to $scratch/out and $scratch/err.
run() {
    timeout 20 "$bin/$1" "${@:2}" >"$scratch/out" 2>"$scratch/err"
    code=$?
}

# works PROGRAM ARGS…: runs with --truth; the program must succeed and write one JSON object that names it.
works() {
    built "$1" || return 0
    rm -f "$scratch/truth"
    run "$@" --truth "$scratch/truth"
    if [ $code -eq 77 ]; then
        skip "$* ($(cat "$scratch/err"))"
    elif [ $code -ne 0 ]; then
        fail "$*: exit $code: $(cat "$scratch/err")"
    elif [ -s "$scratch/err" ] || [ ! -s "$scratch/out" ]; then
        fail "$*: wants output on stdout only"
    elif ! valid_truth "$1"; then
        fail "$*: the truth is not what it should be: $(head -c 200 "$scratch/truth")"
    else
        pass
    fi
}

valid_truth() {
    if command -v python3 >"$scratch/which"; then
        python3 -c '
import json, sys
truth = json.load(open(sys.argv[1]))
assert truth["program"] == sys.argv[2]
timed = [thread for thread in truth.get("threads", []) if "wall_ns" in thread]
assert all(thread["tid"] > 0 for thread in truth.get("threads", []))
assert all(0 <= thread["cpu_ns"] <= thread["wall_ns"] * 1.01 + 1e6 for thread in timed)
# Check the sum over all threads: the kernel subtracts hypervisor steal from CPU time, sometimes late,
# so a thread that runs for a few microseconds may have a CPU time of 0.
assert not timed or sum(thread["cpu_ns"] for thread in timed) > 0
' "$scratch/truth" "$1" 2>"$scratch/err"
    else
        grep -q "^{\"program\":\"$1\",.*}\$" "$scratch/truth"
    fi
}

# refuses CODE PROGRAM ARGS…: the program must end with CODE, print one line on stderr and nothing on stdout.
refuses() {
    local wanted=$1
    shift
    built "$1" || return 0
    run "$@"
    if [ $code -ne "$wanted" ]; then
        fail "$*: exit $code instead of $wanted"
    elif [ "$(wc -l <"$scratch/err")" -ne 1 ] || [ -s "$scratch/out" ]; then
        fail "$*: wants one line on stderr and nothing else"
    elif ! grep -q "^$1: " "$scratch/err"; then
        fail "$*: the line does not begin with the program's name: $(cat "$scratch/err")"
    else
        pass
    fi
}

# equal WHAT A B: fails unless A and B are the same text.
equal() {
    if [ "$2" = "$3" ]; then pass; else fail "$1: '$2' is not '$3'"; fi
}

known="child fault flock mutex pipe poll sleep socket spin stopped unix vfork write"
kernels="barnes anneal cg fft lu volrend stream mg options raytrace swaptions water"
apps="heat fwi phases loops blocks path"
all="barriers losses mandelbrot triad sedov imbalance regions taskcost loopcost weights firsttask blocked $apps pingpong hog storm yields inject bsp solver"
all+=" $(printf 'known-%s ' $known)$(printf 'kernel-%s ' $kernels)"

for program in $all; do
    if ! built "$program"; then
        skip "$program: not built"
        continue
    fi
    run "$program" --help
    for section in "Usage: $program" Options: Example: Checked --truth; do
        grep -q -e "$section" "$scratch/out" || fail "$program --help has no '$section'"
    done
    equal "$program --help" "$code" 0
    refuses 2 "$program" --no-such-option
    refuses 2 "$program" -x
    refuses 2 "$program" stray
    refuses 2 "$program" --truth
    refuses 2 "$program" --truth /no/such/directory/truth.json
    if [ "$program" != known-mutex ] && [ "$program" != mandelbrot ]; then
        number=--seconds
        [[ ! $program =~ ^(kernel-.*|losses|sedov|regions|taskcost|loopcost|weights|blocked|heat|fwi|phases|loops|blocks|path|bsp|solver)$ ]] || number=--threads
        [ $program != firsttask ] || number=--count
        for value in x -1 0 nan inf 0x10 "1 " "" 1e99; do
            refuses 2 "$program" $number "$value"
        done
    fi
done

# barriers
for wait in futex spin yield spin-futex; do
    works barriers --threads 3 --rounds 100 --work-us 50 --wait $wait
    works barriers --threads 2 --seconds 0.05 --work-us 20 --wait $wait --no-pause --spin-us 5 \
        --working-set 64K --imbalance 0.5
done
works barriers --threads 1 --rounds 10
works barriers --threads 16 --rounds 20 --work-us 0
fixed="barriers --threads 3 --rounds 50 --iterations-per-us 100"
run $fixed && first=$(grep -o 'checksum.*' "$scratch/out")
run $fixed --wait yield && second=$(grep -o 'checksum.*' "$scratch/out")
equal "checksum of barriers with fixed iterations" "$first" "$second"
refuses 2 barriers --threads 0
refuses 2 barriers --wait sometimes
refuses 2 barriers --rounds 5 --seconds 1
refuses 2 barriers --working-set 1T
refuses 2 barriers --imbalance -1

# mandelbrot: the checksum is the same for every schedule and team size.
checksum_line() { grep -o 'checksum 0x[0-9a-f]*, verified' "$scratch/out"; }
if built mandelbrot; then
    picture="mandelbrot --size 64 --steps 4"
    works $picture --threads 2
    run $picture --threads 1
    reference=$(checksum_line)
    for schedule in static static,7 dynamic guided,3 auto monotonic:dynamic,5; do
        for threads in 2 3; do
            export OMP_SCHEDULE=$schedule
            run $picture --threads $threads
            equal "mandelbrot with $schedule" "$(checksum_line)" "$reference"
        done
    done
    unset OMP_SCHEDULE
    run $picture --no-verify
    equal "unverified mandelbrot" "$(grep -c verified "$scratch/out")" 0
    # Each pixel has one iteration of 8 operations: 3 loops of 4 steps over 64 x 64 pixels.
    works $picture --iteration-limit 1
    equal "operations of mandelbrot" "$(grep -o '"operations":393216,"bytes":0,' "$scratch/truth" | wc -l)" 1
fi
refuses 2 mandelbrot --size 0
refuses 2 mandelbrot --verify --no-verify

# sedov: the checksum is the same for every schedule and team size.
sedov_checksum() { grep -o '^checksum 0x[0-9a-f]\{16\}$' "$scratch/out"; }
if built sedov; then
    # Threads that sleep while they wait: the machine may be busy.
    export OMP_WAIT_POLICY=passive
    blast="sedov --size 10 --steps 8"
    works $blast --threads 2
    reference="0 checksum $(grep -o '"checksum":"0x[0-9a-f]*' "$scratch/truth" | cut -d'"' -f4)"
    counted=$(grep -o '"operations":[0-9]*,"bytes":[0-9]*' "$scratch/truth")
    # A loop has 9 instances, or more if its step had to make the lists of neighbours twice.
    equal "loops in the truth of sedov" "$(grep -o '"instances":\(9\|1[0-9]\),' "$scratch/truth" | wc -l)" 16
    equal "its loops with schedule(runtime)" "$(grep -o '"schedule":"runtime"' "$scratch/truth" | wc -l)" 3
    equal "its thread times" "$(grep -o '"thread_ns":\[[0-9]*,[0-9]*\]' "$scratch/truth" | wc -l)" 16
    for schedule_threads in static:1 dynamic,1:2 dynamic,1:8 guided,7:3 monotonic:dynamic,5:2 static,9:8; do
        export OMP_SCHEDULE=${schedule_threads%:*}
        run $blast --threads ${schedule_threads##*:}
        equal "sedov with schedule:threads $schedule_threads" "$code $(sedov_checksum)" "$reference"
    done
    unset OMP_SCHEDULE
    works $blast --threads 3
    equal "what sedov counts with another team" "$(grep -o '"operations":[0-9]*,"bytes":[0-9]*' "$scratch/truth")" "$counted"
    equal "what sedov says about the radius of a short run" "$(grep -c 'shock radius .* not compared' "$scratch/out")" 1
    # Long enough to compare the radius, which must not be left out. The factors are those of Kamm and Timmes (2007).
    works sedov --size 16 --steps 52
    equal "radius of sedov" "$(grep -o '"xi0":1.15167,\|"radius_steps":[1-9]' "$scratch/truth" | wc -l)" 2
    works sedov --size 8 --steps 2 --gamma 1.4
    equal "factor of sedov for 1.4" "$(grep -o '"xi0":1.03278,' "$scratch/truth" | wc -l)" 1
    # The blast fills the cube, and kernels have their largest size.
    works sedov --size 8 --steps 60 --threads 3
    # An even number of cells along an edge, and kernels that reach the opposite cell.
    works sedov --size 10 --steps 24 --threads 2
    unset OMP_WAIT_POLICY
fi
refuses 2 sedov --size 7
refuses 2 sedov --size 401
refuses 2 sedov --steps 0
refuses 2 sedov --gamma 2

# losses: each alone, and all together
works losses --steps 3 --work-us 100
works losses --steps 3 --work-us 100 --serial-us 200 --wait spin
works losses --threads 3 --steps 3 --work-us 100 --unequal-us 200 --wait yield
works losses --steps 3 --work-us 100 --serial-us 50 --unequal-us 50 --locked-us 100 --locks 5 --writes 2 --block 64K --dir "$scratch"
refuses 2 losses --threads 1
refuses 2 losses --block 5000
refuses 2 losses --dir /no/such/directory --writes 1

# triad, imbalance, hog
works triad --bytes 1M --repeats 3
if built triad; then
    # 131,072 elements: 2 operations and 24 bytes for each, three times.
    equal "operations of triad" "$(grep -o '"operations":786432,"bytes":9437184,' "$scratch/truth" | wc -l)" 1
fi
works triad --bytes 1000K --seconds 0.05 --threads 3
refuses 2 triad --bytes 12Q
works imbalance --threads 2 --factor 3 --seconds 0.1
works imbalance --threads 3 --rounds 20 --slow-thread 0 --work-us 100
refuses 2 imbalance --threads 2 --slow-thread 2

# taskcost: every row works.
for row in by-one by-all depend-1 depend-2 depend-3 if-0 taskwait taskgroup tree loop grain barrier region for single; do
    works taskcost --row $row --threads 2 --count 200 --repeats 2 --grain-us 1
done
refuses 2 taskcost --row nothing

# loopcost: every loop works, also by clang.
for loop in dynamic guided runtime static; do
    works loopcost --loop $loop --threads 2 --iterations 50 --instances 20 --repeats 2
    if built loopcost-libomp; then
        run loopcost-libomp --loop $loop --threads 2 --iterations 50 --instances 20 --repeats 2
        equal "loopcost-libomp --loop $loop" "$code" 0
    fi
done
refuses 2 loopcost --loop nothing

# weights: iterations are counted and checked, also if threads differ.
works weights --threads 2 --iterations 100 --work-us 5 --slow 2 --seconds 0.05
refuses 2 weights --slow 0.5

# blocked: every kind, with several team sizes, and with more buffers than items.
for threads in 1 2 5; do
    for kind in pipeline sleepers fifos; do
        works blocked --kind $kind --threads $threads --items 50 --lanes 4 --sleep-us 100 --work-us 20 --pace-us 50
    done
    works blocked --kind compress --threads $threads --items 9 --lanes 4 --folder "$scratch"
done
works blocked --items 1 --sleep-us 0 --work-us 0
works blocked --kind fifos --items 3 --lanes 7 --buffers 3 --pace-us 10
refuses 2 blocked --kind nothing
refuses 2 blocked --kind compress --folder /no/such/directory

# firsttask: on one CPU, with another CPU for the eventfd.
allowed=$(taskset -cp $$ | sed 's/.*: //')
if [[ $allowed == 0[,-]* ]]; then
    refuses 2 firsttask --count 20
    taskset -cp 0 $$ >"$scratch/which"
    works firsttask --count 20 --other 1
    refuses 2 firsttask --count 20 --other 0
    taskset -cp "$allowed" $$ >"$scratch/which"
else
    skip "firsttask: CPUs 0 and 1 are not both allowed"
fi

# regions: also with a signal, before which the program prints only its process ID.
works regions --threads 2 --regions 50 --region-us 100
works regions --threads 1 --regions 3
refuses 2 regions --regions 0
waits_for_signal() {
    timeout 20 "$bin/regions" --threads 2 --regions 20 --on-signal >"$scratch/out" 2>"$scratch/err" &
    local runner=$! asked
    for _ in {1..200}; do
        asked=$(grep -o 'process [0-9]*' "$scratch/out" | cut -d' ' -f2) && break
        sleep 0.05
    done
    sleep 0.1
    [ "$(wc -l <"$scratch/out")" -eq 1 ] || return 1
    kill -USR1 "$asked"
    wait $runner && grep -q '20 regions in' "$scratch/out"
}
if built regions; then
    if waits_for_signal; then pass; else fail "regions --on-signal: $(cat "$scratch/out" "$scratch/err")"; fi
fi

works yields --as processes --count 4
works yields --as threads --count 3 --calls 2
works yields --as threads --count 3 --by futex
works yields --count 2 --by futex
works yields --as threads --count 4 --sleep-us 1000
refuses 2 yields --by futex --sleep-us 1000
refuses 2 yields --as ulps
refuses 2 yields --as ulps --board "$scratch/board"
refuses 2 yields --board "$scratch/board"
works hog --threads 2 --seconds 0.05
first_cpu=$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')
works hog --threads 3 --seconds 0.05 --cpu "$first_cpu"
works hog --seconds 0.05 --keep-tick cpu-timer
refuses 2 hog --keep-tick forever
for list in 4000 x 0- 0,0 3-1 ,; do refuses 2 hog --cpu $list; done

# pingpong: at the end, the live counter equals the number of round trips.
works pingpong --rounds 2000
works pingpong --seconds 0.05 --threads
works pingpong --rounds 200 --no-pin
run pingpong --rounds 1234 --counter "$scratch/counter"
equal "live counter of pingpong" "$(od -An -t u8 -N 8 "$scratch/counter" | tr -d ' ')" 1234
refuses 2 pingpong --cpu 0 --no-pin
refuses 2 pingpong --counter /no/such/directory/counter
refuses 2 pingpong --counter /dev/null

# storm: the output is the same in every run.
works storm --threads 500
works storm --processes 200
works storm --sleepers 100 --seconds 0.1
everything="storm --threads 300 --processes 50 --sleepers 20 --daemonise --seconds 0.2 --exec-thread"
run $everything
equal "exit code after exec" $code 7
cp "$scratch/out" "$scratch/first"
run $everything --at-once 8
equal "output of storm" "$(cat "$scratch/out")" "$(cat "$scratch/first")"
equal "lines of storm" "$(wc -l <"$scratch/out")" 5
refuses 2 storm

# A daemon outlives the program, and does not keep the program's output open.
run storm --daemonise --seconds 1 --truth "$scratch/truth"
daemon=$(grep -o '"daemon_pid":[0-9]*' "$scratch/truth" | cut -d: -f2)
equal "name of the daemon left behind" "$(cat "/proc/$daemon/comm")" storm-daemon

# known answers
for name in child flock pipe poll sleep socket spin stopped unix vfork; do
    works known-$name --seconds 0.1
done
works known-mutex --rounds 20
works known-write --seconds 0.1 --dir "$bin"
works known-write --seconds 0.1 --blocks 3 --block-bytes 8K --dir "$bin"
works known-fault --seconds 0.1 --pages 100 --dir "$bin"
works known-socket --protocol tcp --seconds 0.05 --each-ms 1
for call in recv read recvmsg; do works known-unix --call $call --seconds 0.05; done
for call in poll select epoll; do works known-poll --call $call --seconds 0.05; done
refuses 2 known-write --dir /no/such/directory
refuses 2 known-write --block-bytes 5000
if [ "$(stat -f -c %T /dev/shm)" = tmpfs ]; then
    refuses 77 known-write --dir /dev/shm
    refuses 77 known-fault --dir /dev/shm
else
    skip "known-write and known-fault in memory: /dev/shm is no tmpfs"
fi

# kernels: the checksum is the same for any number of threads and equals the truth's, which lists all threads.
kernel_checksum() { grep -o '^checksum 0x[0-9a-f]\{16\}$' "$scratch/out"; }
check_kernel() {
    local kernel=kernel-$1 reference
    built "$kernel" || return 0
    works "$kernel" --threads 3 "${@:2}"
    reference="0 checksum $(grep -o '"checksum":"0x[0-9a-f]*' "$scratch/truth" | cut -d'"' -f4)"
    equal "threads in the truth of $kernel" "$(grep -o '"tid"' "$scratch/truth" | wc -l)" 3
    for threads in 1 2 3 5; do
        run "$kernel" --threads $threads "${@:2}"
        equal "$kernel with $threads threads" "$code $(kernel_checksum)" "$reference"
    done
    refuses 2 "$kernel" --threads 65
    refuses 2 "$kernel" --steps 0
    refuses 2 "$kernel" --size 0
}
check_kernel barnes --size 1000 --steps 2
check_kernel anneal --size 16 --steps 5 --moves 1000
check_kernel cg --size 1000 --steps 2
check_kernel fft --size 64 --steps 2
check_kernel lu --size 6 --steps 2
check_kernel volrend --size 30 --steps 3 --volume 16
check_kernel stream --size 500 --steps 2 --candidates 50
check_kernel mg --size 16 --steps 2 --cycles 2
check_kernel options --size 1000 --steps 3
check_kernel raytrace --size 40 --steps 2 --spheres 10
check_kernel swaptions --size 5 --steps 301
check_kernel water --size 5 --steps 3
# More threads than items, and the maximum number of threads.
works kernel-lu --size 2 --steps 2 --threads 3
works kernel-fft --size 2 --threads 3
works kernel-water --size 4 --steps 2 --threads 64
works kernel-options --size 3 --threads 64
works kernel-stream --size 64 --steps 2 --candidates 20 --spins 0
works kernel-mg --size 4 --steps 5 --threads 4
refuses 2 kernel-fft --size 48
refuses 2 kernel-mg --size 48

# applications: the checksum is the same for any layout of tasks and any number of threads, buffers and ranks.
unused_port() {
    local port
    while port=$((20000 + RANDOM % 10000)) && (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; do :; done
    echo $port
}
# two_ranks PROGRAM ARGS…: like run, for rank 0; rank 1 must have the same checksum.
two_ranks() {
    local together="--ranks 2 --patience 10 --peer 127.0.0.1:$(unused_port)" other
    timeout 20 "$bin/$1" "${@:2}" $together --rank 1 >"$scratch/rank-1" 2>&1 &
    other=$!
    run "$@" $together --rank 0
    wait $other || fail "rank 1 of $*: $(cat "$scratch/rank-1")"
    equal "both ranks of $*" "$(grep '^checksum' "$scratch/rank-1")" "$(grep '^checksum' "$scratch/out")"
}
# The same over MPI, if it was built. Both ranks print the same, in any order.
mpiexec=${MPIEXEC:-mpiexec}
# Open MPI needs permission to run as root and with more ranks than cores. Other MPIs ignore these variables.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
over_mpi() {
    local app=$1-mpi expected=$2
    if ! [ -x "$bin/$app" ] || ! command -v "$mpiexec" >/dev/null; then
        skip "$app: needs MPI"
        return 0
    fi
    for threads in 1 2 3; do
        timeout 60 "$mpiexec" -n 2 "$bin/$app" "${@:3}" --verify --threads $threads --folder "$scratch" --ordered \
            >"$scratch/out" 2>&1
        equal "two ranks of $app with $threads threads" "$? $(grep '^checksum' "$scratch/out" | sort -u)" "$expected"
    done
}
check_app() {
    local app=$1 reference
    built "$app" || return 0
    works "$@" --verify
    reference="0 $(checksum_line)"
    works "$@" --verify --direct --buffers 2 --folder "$bin"
    for threads in 1 2 3 8; do
        for layout in "--ahead 0" "--ahead 1" "--in-task" "--in-task --yield"; do
            run "$@" --verify --threads $threads --buffers 5 --folder "$scratch" $layout
            equal "$* with $threads threads $layout" "$code $(checksum_line)" "$reference"
        done
        for layout in "--ahead 1" "--in-task"; do
            two_ranks "$@" --verify --threads $threads --folder "$scratch" --ordered $layout
            equal "two ranks of $* with $threads threads $layout" "$code $(checksum_line)" "$reference"
        done
    done
    over_mpi "$app" "$reference" "${@:2}"
    refuses 2 "$app" --ranks 2
    refuses 2 "$app" --ranks 2 --peer nowhere
    refuses 2 "$app" --ranks 2 --rank 2 --peer 127.0.0.1:1
    refuses 1 "$app" --ranks 2 --peer 127.0.0.1:"$(unused_port)" --patience 0.1
    refuses 1 "$app" --ranks 2 --rank 1 --peer 127.0.0.1:"$(unused_port)" --patience 0.1
    refuses 2 "$app" --yield
    refuses 2 "$@" --folder /no/such/directory
    refuses 2 "$app" --steps 0
}
check_app heat --size 96 --block 16 --steps 10 --every 3 --work 2
check_app fwi --nx 12 --ny 7 --nz 9 --steps 9 --iof 2 --work 2
works heat --size 20 --block 20 --steps 3
works fwi --nx 1 --ny 1 --nz 1 --iof 1 --steps 3
works fwi --nx 5 --ny 5 --nz 5 --iof 0 --steps 3
refuses 2 heat --size 100 --block 64
refuses 2 heat --size 64 --block 64 --ranks 2 --peer 127.0.0.1:1
refuses 2 fwi --ny 1 --ranks 2 --peer 127.0.0.1:1

# programs with one process: the checksum is the same for any number of threads and buffers and any output.
check_program() {
    local program=$1 reference
    built "$program" || return 0
    works "$@" --verify
    reference="0 $(checksum_line)"
    works "$@" --verify --direct --every 1 --buffers 7 --folder "$bin"
    for threads in 1 2 3 8; do
        for written in 0 1 3; do
            run "$@" --verify --threads $threads --every $written --buffers 9 --folder "$scratch"
            equal "$* with $threads threads, written every $written" "$code $(checksum_line)" "$reference"
        done
    done
    refuses 2 "$program" --steps 0
    refuses 2 "$@" --every 1 --folder /no/such/directory
}
check_program phases --blocks 7 --values 50 --steps 10 --work 2
check_program loops --size 140 --loops 5 --blocks 7 --steps 10 --work 2 --loop-work 1
check_program blocks --values 256 --steps 20 --tables 3 --work 2
check_program path --values 50 --steps 10 --states 3 --parts 3 --work 2
works phases --blocks 1 --values 1 --steps 1 --every 1 --folder "$scratch"
works loops --size 1 --loops 1 --blocks 1 --steps 1
works path --values 1 --steps 3 --states 2 --parts 2 --every 1 --folder "$scratch"
refuses 2 phases --blocks 8 --buffers 7 --every 1
refuses 2 loops --size 100 --blocks 16
refuses 2 blocks --values 100
refuses 2 path --states 1

# inject: each kind; events and missed instants add up to the window's, in the truth and in the log.
check_inject() {
    built inject || return 0
    works inject "$1" --seconds 0.1 "${@:2}"
    [ $code -eq 0 ] || return 0
    run inject "$1" --seconds 0.1 "${@:2}" --log "$scratch/log" --truth "$scratch/truth"
    local events
    events=$(grep -o '"count":[0-9]*' "$scratch/truth" | head -1 | cut -d: -f2)
    equal "lines in the log of inject $1" "$(($(wc -l <"$scratch/log") - 1))" "$events"
}
if built inject; then
    if run inject rt --seconds 0.01; [ $code -eq 2 ] && grep -q '^inject: SCHED_FIFO' "$scratch/err"; then
        skip "inject rt: $(cut -d: -f 2- "$scratch/err")"
    else
        check_inject rt --period-us 1000 --length-us 50
        check_inject rt --period-us 2000 --length-us 20 --offset-us 500 --stagger --victim "$first_cpu"
        check_inject timers --rate 1000 --priority 10
    fi
fi
for kind in munmap membarrier timers faults; do check_inject $kind --rate 500; done
check_inject sync --rate 20 --bytes 8K --dir "$bin"
check_inject timers --rate 2000 --victims "$first_cpu" --offset-us 100
works inject none --seconds 0.1
works inject none --seconds 0.1 --victim "$first_cpu"
refuses 2 inject nothing
refuses 2 inject none --rate 100
refuses 2 inject faults --priority 10
refuses 2 inject none --log "$scratch/log"
refuses 2 inject timers --length-us 100
refuses 2 inject timers --log /no/such/directory/log
refuses 2 inject timers --rate 0
refuses 2 inject timers --rate 1000 --offset-us 1000
refuses 2 inject timers --rate 100000 --seconds 1000
refuses 2 inject timers --victim "$first_cpu" --victims "$first_cpu"
refuses 2 inject rt --length-us 100 --period-us 100
refuses 2 inject sync --dir /no/such/directory
refuses 2 inject munmap --cpu "$first_cpu" --victim "$first_cpu"

# bsp and solver: the series has a line for each step and rank. Threads and MPI have the same result.
check_series() {
    equal "lines in the series of $1" "$(wc -l <"$scratch/series")" $((1 + $2))
    equal "header of the series of $1" "$(head -1 "$scratch/series")" rank,step,compute_ns,sync_ns
}
for threads in 1 2 5; do
    built bsp && works bsp --threads $threads --work-us 20 --steps 50 --warm-up 5 --series "$scratch/series" &&
        check_series bsp $((threads * 50))
done
for sync in allreduce barrier; do
    works bsp --threads 2 --work-us 10 --steps 50 --warm-up 5 --sync $sync --wait futex --cpus "$first_cpu"
    works bsp --threads 3 --work-us 10 --steps 20 --warm-up 5 --sync $sync --wait yield --iterations-per-us 300
done
refuses 2 bsp --steps 0
refuses 2 bsp --sync sometimes
refuses 2 bsp --cpus 4000
refuses 2 bsp --series /no/such/directory/series
for threads in 1 2 4 6 7; do
    built solver && works solver --threads $threads --columns 20 --rows 9 --steps 150 --warm-up 5 \
        --phases "$scratch/series" && check_series solver $((threads * 150))
done
works solver --threads 1 --columns 1 --rows 1 --steps 3 --warm-up 1
works solver --threads 6 --columns 1 --rows 2 --steps 20 --warm-up 1
for wait in spin futex yield; do works solver --threads 2 --columns 30 --rows 30 --steps 20 --warm-up 5 --wait $wait; done
refuses 2 solver --steps 0
refuses 2 solver --columns 0
refuses 2 solver --phases /no/such/directory/phases
solver_checksum() { grep -o '^checksum 0x[0-9a-f]*' "$scratch/out"; }
bulk_over_mpi() {
    if ! [ -x "$bin/solver-mpi" ] || ! command -v "$mpiexec" >/dev/null; then
        skip "bsp-mpi and solver-mpi: need MPI"
        return 0
    fi
    local problem="--columns 20 --rows 30 --steps 150 --warm-up 5"
    run solver --threads 2 $problem
    local reference
    reference="0 $(solver_checksum)"
    timeout 60 "$mpiexec" -n 2 "$bin/solver-mpi" $problem --phases "$scratch/series" >"$scratch/out" 2>&1
    equal "two ranks of solver-mpi" "$? $(solver_checksum)" "$reference"
    check_series solver-mpi 300
    timeout 60 "$mpiexec" -n 2 "$bin/bsp-mpi" --work-us 20 --steps 50 --warm-up 5 --series "$scratch/series" \
        >"$scratch/out" 2>&1
    equal "two ranks of bsp-mpi" "$? $(grep -c '^bsp-mpi: 2 ranks' "$scratch/out")" "0 1"
    check_series bsp-mpi 100
    refuses 2 solver-mpi --threads 2
    refuses 2 bsp-mpi --wait spin
}
bulk_over_mpi

# Output errors are reported.
run hog --seconds 0.01 --truth /dev/full
equal "exit code with a full disk for the truth" $code 1
equal "what is said about it" "$(cut -d: -f 1-2 "$scratch/err")" \
    "hog: cannot write the truth to '/dev/full'"
timeout 20 "$bin/hog" --seconds 0.01 2>"$scratch/err" >/dev/full
equal "exit code with a full standard output" $? 1

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
