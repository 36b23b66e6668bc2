//! Compares the account with independent sources: the kernel's own clocks, and a program's own counts.

use std::path::{Path, PathBuf};
use std::process::Command;

use ledger::account::Thread;
use serde_json::Value;
use testkit::measured::{Bench, ONE_CPU, Seen, assert_undisturbed, bench, number, on_cpus, threads_of};

/// A program whose threads live through everything that is measured and print, as their last act, what the
/// kernel says of their whole life: `tid name cpu_ns run_delay_ns yield_delay_ns`.
///
/// Two yielders read their run delay around each sched_yield; two workers compute; a
/// sleeper sleeps and computes; two relays wake one another by futex. No stint on a CPU is short: where a
/// wake-up preempts, the kernel's CPU clocks change over at the wake-up, cox's at the switch, which is after
/// interrupts and their aftermath: 6 to 14 us later in a virtual machine.
const CLOCKS: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static sem_t turn[2];
/* The same for all: who is behind finds it past, and waits for no relay that has gone. */
static long long end_ns;

static long long clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long long run_delay_ns(int file)
{
    char text[100] = "";
    if (pread(file, text, sizeof text - 1, 0) < 0)
        abort();
    char *second;
    strtoull(text, &second, 10);
    return strtoll(second, NULL, 10);
}

static void compute(long iterations)
{
    for (volatile long i = 0; i < iterations; i++)
        ;
}

static void *life(void *name_of_kind)
{
    const char *kind = name_of_kind;
    int file = open("/proc/thread-self/schedstat", O_RDONLY);
    long long yield_delay_ns = 0;
    for (long round = 0; clock_ns(CLOCK_MONOTONIC) < end_ns; round++) {
        if (*kind == 'y') {
            compute(300000);
            long long before_ns = run_delay_ns(file);
            sched_yield();
            yield_delay_ns += run_delay_ns(file) - before_ns;
        } else if (*kind == 'w') {
            compute(1000000);
        } else if (*kind == 's') {
            compute(10000000);
            usleep(10000);
        } else {
            int me = kind[1] - '0';
            sem_wait(&turn[me]);
            compute(500000);
            sem_post(&turn[!me]);
        }
    }
    if (*kind == 'r')
        sem_post(&turn['1' - kind[1]]);
    flockfile(stdout);
    printf("%d %s %lld %lld %lld\n", gettid(), kind, clock_ns(CLOCK_THREAD_CPUTIME_ID), run_delay_ns(file),
           yield_delay_ns);
    funlockfile(stdout);
    return NULL;
}

int main(void)
{
    static char *kinds[] = {"y0", "y1", "w0", "w1", "s0", "r0", "r1"};
    pthread_t threads[7];
    end_ns = clock_ns(CLOCK_MONOTONIC) + 1500000000LL;
    sem_init(&turn[0], 0, 1);
    sem_init(&turn[1], 0, 0);
    for (int i = 0; i < 7; i++)
        pthread_create(&threads[i], NULL, life, kinds[i]);
    for (int i = 0; i < 7; i++)
        pthread_join(threads[i], NULL);
}
"#;

fn build(bench: &Bench, name: &str, source: &str) -> PathBuf {
    let (file, program) = (bench.folder().join(name).with_extension("c"), bench.folder().join(name));
    std::fs::write(&file, source).expect("write a C file");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-D_GNU_SOURCE", "-pthread", "-o"]).arg(&program).arg(&file);
    assert!(compiler.status().expect("start cc").success(), "{compiler:?}");
    program
}

/// A share of `part` in `whole`.
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn waited(thread: &Thread) -> u64 {
    thread.wake_delay_ns + thread.preempt_wait_ns
}

/// The kernel begins a run delay when the woken thread is put on a run queue, cox when the waker calls:
/// that much per wake-up beside 2 %.
const PER_WAKEUP_NS: u64 = 5_000;

fn run_delay_faults(seen: &Seen) -> Vec<String> {
    let mut faults = seen.faults();
    let (mut ours, mut kernel, mut wakeups) = (0, 0, 0);
    for thread in seen.threads() {
        ours += waited(thread);
        wakeups += thread.wakeups;
        match thread.kernel_run_delay_ns {
            Some(run_delay) => kernel += run_delay,
            None => faults.push(format!("no run_delay: {thread:?}")),
        }
    }
    let each_us = (ours as f64 - kernel as f64) / 1e3 / wakeups as f64;
    let line = format!("waited {ours} ns, run_delay {kernel} ns, {wakeups} wake-ups, {each_us:+.2} us for each");
    println!("{line}");
    if ours.abs_diff(kernel) > kernel / 50 + PER_WAKEUP_NS * wakeups {
        faults.push(line);
    }
    faults
}

#[test]
fn waiting_for_a_cpu_is_the_kernels_run_delay() {
    let Some(bench) = bench("waiting_for_a_cpu_is_the_kernels_run_delay") else { return };
    let barriers = |wait| ["barriers", "--threads", "3", "--seconds", "1", "--wait", wait].to_vec();
    for arguments in [barriers("futex"), barriers("yield"), barriers("spin-futex"), vec!["known-mutex"]] {
        assert_undisturbed(|| {
            let (seen, _) = bench.watch_workload(&on_cpus(ONE_CPU), arguments[0], &arguments[1..]);
            run_delay_faults(&seen)
        });
    }
}

#[test]
fn preemption_is_the_kernels_run_delay_without_allowance() {
    let Some(bench) = bench("preemption_is_the_kernels_run_delay_without_allowance") else { return };
    let arguments = ["--threads", "3", "--seconds", "1", "--wait", "spin"];
    let (seen, truth) = bench.watch_workload(&on_cpus(2), "barriers", &arguments);
    let ours: u64 = seen.threads().map(waited).sum();
    let kernel: u64 = seen.threads().filter_map(|thread| thread.kernel_run_delay_ns).sum();
    let preempted: u64 = seen.threads().map(|thread| thread.preempt_wait_ns).sum();
    // The program's own readings are over its measured phase, without start and end.
    let phase: u64 = threads_of(&truth).iter().map(|thread| number(thread, "run_delay_ns")).sum();
    println!("waited {ours} ns, of it preempted {preempted} ns; run_delay {kernel} ns, in the phase {phase} ns");
    assert!(share(preempted, ours) > 0.9, "preemption does not dominate: {preempted} of {ours} ns");
    assert!((share(ours, kernel) - 1.0).abs() <= 0.02, "{ours} and {kernel} ns");
    assert!(phase <= ours + ours / 50, "{ours} ns, and in the phase alone {phase} ns");
}

#[test]
fn a_thread_reads_the_same_from_its_own_clocks() {
    let Some(bench) = bench("a_thread_reads_the_same_from_its_own_clocks") else { return };
    let program = build(&bench, "clocks", CLOCKS);
    assert_undisturbed(|| clock_faults(&bench.watch(&on_cpus(ONE_CPU), &[&program])));
}

fn clock_faults(seen: &Seen) -> Vec<String> {
    let mut faults = seen.faults();
    let mut lives = 0;
    for line in seen.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [tid, kind, numbers @ ..] = words.as_slice() else { panic!("{line}") };
        let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().expect("a number")).collect();
        let &[cpu_ns, run_delay_ns, yield_delay_ns] = numbers.as_slice() else { panic!("{line}") };
        let thread = seen.thread(tid.parse().expect("a tid"));
        let on_cpu = thread.run_ns - thread.steal_ns - thread.irq_ns;
        lives += 1;
        let figures = [
            // The end of the thread, after its last word, is CPU time too.
            ("CPU clock", on_cpu, cpu_ns, cpu_ns / 100 + 100_000),
            ("run_delay", waited(thread), run_delay_ns, run_delay_ns / 50 + PER_WAKEUP_NS * thread.wakeups),
            // A reading takes about 1 us in which another preemption may fall.
            ("yield delay", thread.yield_wait_ns, yield_delay_ns, yield_delay_ns / 50 + 1_000_000),
        ];
        for (which, ours, theirs, slack) in figures {
            println!("{kind}: {which} {ours} and {theirs} ns ({:+.2} %)", (share(ours, theirs) - 1.0) * 100.0);
            if ours.abs_diff(theirs) > slack {
                faults.push(format!("{kind}: {which} {ours} and {theirs} ns: {thread:?}"));
            }
        }
        if kind.starts_with('y') != (yield_delay_ns > 0) {
            faults.push(format!("{kind} yielded: {yield_delay_ns} ns"));
        }
    }
    assert_eq!(lives, 7, "{}", seen.stdout);
    faults
}

/// The iterations of calibrated work in a microsecond. With it given, no thread calibrates, and a
/// thread's life is little more than its measured phase.
fn iterations_per_us(bench: &Bench) -> String {
    let (_, truth) = bench.watch_workload(&on_cpus(2), "barriers", &["--threads", "1", "--rounds", "1"]);
    truth["iterations_per_us"].to_string()
}

/// Most that a share may be off, in points.
const POINTS: f64 = 3.0;

/// Runs `barriers` until three standard errors of the sampled share are less than that.
fn assert_spin(bench: &Bench, arguments: &str) {
    let speed = iterations_per_us(bench);
    let arguments = arguments.split(' ').chain(["--seconds", "2", "--iterations-per-us", &speed]).collect::<Vec<_>>();
    assert_undisturbed(|| {
        let mut faults = Vec::new();
        let (mut wait_cpu, mut cpu, mut spin, mut run, mut samples) = (0, 0, 0, 0, 0);
        // Samples are few on a virtual machine, and where others have the CPUs.
        for _ in 0..8 {
            let (seen, truth) = bench.watch_workload(&on_cpus(2), "barriers", &arguments);
            let total = |key| threads_of(&truth).iter().map(|thread| number(thread, key)).sum::<u64>();
            wait_cpu += total("wait_cpu_ns");
            cpu += total("cpu_ns");
            for thread in seen.threads() {
                spin += thread.spin_ns;
                run += thread.run_ns;
                samples += thread.samples;
            }
            faults.extend(seen.faults());
            let share = share(wait_cpu, cpu);
            if 300.0 * (share * (1.0 - share) / samples.max(1) as f64).sqrt() < POINTS {
                break;
            }
        }
        let (ours, truly) = (100.0 * share(spin, run), 100.0 * share(wait_cpu, cpu));
        let line = format!("spin {ours:.2} %, truth {truly:.2} %, {samples} samples: {}", arguments.join(" "));
        println!("{line}");
        if (ours - truly).abs() > POINTS {
            faults.push(line);
        }
        faults
    });
}

#[test]
fn spinning_is_what_the_program_says() {
    let Some(bench) = bench("spinning_is_what_the_program_says") else { return };
    assert_spin(&bench, "--threads 3 --wait spin --work-us 1000");
    assert_spin(&bench, "--threads 3 --wait spin --work-us 200");
    assert_spin(&bench, "--threads 3 --wait spin --work-us 200 --no-pause");
    // Shorter than a sampling interrupt in a virtual machine: the samples must not be taken at the same time on all CPUs.
    assert_spin(&bench, "--threads 2 --wait spin --work-us 30");
}

/// Two threads that meet after each step, spinning. With `serial`, the first thread works alone at the beginning of each step, in a function of its own;
/// with `unequal`, it does the same work in the function that both threads run. Prints the time of that work and of the steps, ns.
const SERIAL: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static atomic_int arrived, step;
static int serial;
static long long alone_ns;

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void meet(int *my_step)
{
    int next = ++*my_step;
    if (atomic_fetch_add(&arrived, 1) == 1) {
        atomic_store(&arrived, 0);
        atomic_store(&step, next);
    } else {
        while (atomic_load(&step) != next)
            ;
    }
}

__attribute__((noinline)) static long work_alone(long iterations)
{
    volatile long sum = 0;
    for (long i = 0; i < iterations; i++)
        sum += i;
    return sum;
}

__attribute__((noinline)) static long work_together(long iterations)
{
    volatile long sum = 0;
    for (long i = 0; i < iterations; i++)
        sum += 2 * i;
    return sum;
}

static void *run(void *first)
{
    int my_step = 0;
    for (int round = 0; round < 400; round++) {
        if (first) {
            long long before_ns = now_ns();
            if (serial)
                work_alone(1000000);
            else
                work_together(1000000);
            alone_ns += now_ns() - before_ns;
        }
        if (serial)
            meet(&my_step);
        work_together(1500000);
        meet(&my_step);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t second;
    serial = count > 1 && !strcmp(arguments[1], "serial");
    long long before_ns = now_ns();
    pthread_create(&second, NULL, run, NULL);
    run(&second);
    pthread_join(second, NULL);
    printf("%lld %lld\n", alone_ns, now_ns() - before_ns);
}
"#;

#[test]
fn serial_work_is_what_the_program_says() {
    let Some(bench) = bench("serial_work_is_what_the_program_says") else { return };
    let program = build(&bench, "serial", SERIAL);
    for (kind, serial) in [("serial", true), ("unequal", false)] {
        assert_undisturbed(|| {
            let seen = bench.watch(&on_cpus(2), &[program.as_path(), Path::new(kind)]);
            let truth: Vec<u64> = seen.stdout.split_whitespace().map(|ns| ns.parse().expect("a number")).collect();
            let &[alone, all] = truth.as_slice() else { panic!("{}", seen.stdout) };
            let (ours, error) = seen.threads().fold((0, 0.0f64), |(ns, error), thread| {
                (ns + thread.serial_ns, error.max(thread.serial_error_ns as f64))
            });
            let percent = |ns: f64| 100.0 * ns / all as f64;
            let truly = if serial { percent(alone as f64) } else { 0.0 };
            let line = format!(
                "{kind}: {:.1} %, truth {truly:.1} %, four errors are {:.1}",
                percent(ours as f64),
                percent(4.0 * error)
            );
            println!("{line}");
            let mut faults = seen.faults();
            if (percent(ours as f64) - truly).abs() > percent(4.0 * error) {
                faults.push(line);
            }
            faults
        });
    }
}

/// A thread that computes, makes futex system calls that wake nobody, and reads zeros, in turn. It prints the CPU time of each, ns, and its system time
/// (the kernel's account, which samples at each tick), ns.
const KERNEL: &str = r#"
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char zeros[1 << 20];

static long long cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(void)
{
    long long spent_ns[3] = {0}, before_ns = cpu_ns();
    int zero = open("/dev/zero", O_RDONLY), word = 0;
    for (int round = 0; round < 600; round++) {
        for (int kind = 0; kind < 3; kind++) {
            if (kind == 0)
                for (volatile int i = 0; i < 1000000; i++)
                    ;
            if (kind == 1)
                for (int i = 0; i < 8000; i++)
                    syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
            if (kind == 2)
                for (int i = 0; i < 30; i++)
                    if (read(zero, zeros, sizeof zeros) != sizeof zeros)
                        abort();
            long long now_ns = cpu_ns();
            spent_ns[kind] += now_ns - before_ns;
            before_ns = now_ns;
        }
    }
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    long long system_ns = usage.ru_stime.tv_sec * 1000000000LL + usage.ru_stime.tv_usec * 1000LL;
    printf("%lld %lld %lld %lld\n", spent_ns[0], spent_ns[1], spent_ns[2], system_ns);
}
"#;

/// The least rate of the kernel's tick (CONFIG_HZ), per second.
const LEAST_HZ: f64 = 100.0;

#[test]
fn time_in_the_kernel_is_what_the_program_says() {
    let Some(bench) = bench("time_in_the_kernel_is_what_the_program_says") else { return };
    let program = build(&bench, "kernel", KERNEL);
    assert_undisturbed(|| {
        let seen = bench.watch(&on_cpus(ONE_CPU), &[&program]);
        let truth: Vec<u64> = seen.stdout.split_whitespace().map(|ns| ns.parse().expect("a number")).collect();
        let &[computed, futexes, reads, system] = truth.as_slice() else { panic!("{}", seen.stdout) };
        let all = computed + futexes + reads;
        let thread = seen.threads().next().expect("a thread");
        let of_samples = 0.25 / thread.samples as f64;
        let of_ticks = 0.25 / (all as f64 * LEAST_HZ / 1e9);
        let percent = |part, whole| 100.0 * share(part, whole);
        // How much of a futex call is spent in user mode, in the loop and in the C library, depends on what entering the kernel costs on this CPU.
        // The kernel's own account tells: what of the system time is not the reads'. Of a read, hardly anything is spent in user mode.
        let (reads, system) = (percent(reads, all), percent(system, all));
        let figures = [
            (
                "futex",
                percent(thread.kernel_sync_ns, thread.run_ns),
                system - reads,
                system - 0.95 * reads,
                of_samples + of_ticks,
            ),
            (
                "reads",
                percent(thread.kernel_ns - thread.kernel_sync_ns, thread.run_ns),
                0.95 * reads,
                reads,
                of_samples,
            ),
        ];
        let mut faults = seen.faults();
        for (what, ours, least, most, variance) in figures {
            let error = 400.0 * variance.sqrt();
            let line =
                format!("{what}: {ours:.1} %, the program says {least:.1} to {most:.1} %, four errors are {error:.1}");
            println!("{line}");
            if ours < least - error || ours > most + error {
                faults.push(line);
            }
        }
        faults
    });
}

#[test]
fn yielding_is_spinning() {
    let Some(bench) = bench("yielding_is_spinning") else { return };
    assert_spin(&bench, "--threads 2 --wait yield --work-us 1000 --imbalance 0.25");
}

/// Waiting for other threads is one class, however a program waits. Of the time in which a thread could
/// have run, it is what is left beside work; the truth has that from clocks alone.
#[test]
fn waiting_for_other_threads_is_one_class_in_all_wait_modes() {
    let Some(bench) = bench("waiting_for_other_threads_is_one_class_in_all_wait_modes") else { return };
    let speed = iterations_per_us(&bench);
    for wait in ["futex", "spin", "yield"] {
        let arguments = "--threads 2 --seconds 3 --work-us 500 --imbalance 9 --iterations-per-us";
        let arguments = arguments.split(' ').chain([speed.as_str(), "--wait", wait]).collect::<Vec<_>>();
        assert_undisturbed(|| {
            let (seen, truth) = bench.watch_workload(&on_cpus(2), "barriers", &arguments);
            class_faults(wait, &seen, &truth)
        });
    }
}

fn class_faults(wait: &str, seen: &Seen, truth: &Value) -> Vec<String> {
    let mut faults = seen.faults();
    let (mut class, mut able, mut truly_able) = (0, 0, 0);
    // Of the thread that hardly waits, the difference of two clocks can be less than nothing.
    let mut truly = 0i64;
    let (mut own, mut yielded) = (0, 0);
    for answer in threads_of(truth) {
        let thread = seen.thread(number(answer, "tid"));
        let futex = thread.blocked_by[wire::Cause::Futex];
        // The kernel books waiting that began in sched_yield as waiting for a CPU; so does the truth.
        // What the hypervisor stole is in neither of the truth's clocks: it is left out on both sides.
        let spin = (thread.spin_ns as f64 * (1.0 - share(thread.steal_ns, thread.run_ns))) as u64;
        // The truth counts the CPU time of futex system calls as waiting.
        let asleep = futex + thread.kernel_sync_ns;
        class += spin + asleep;
        able += thread.wall_ns - waited(thread) - thread.steal_ns;
        yielded += thread.yield_wait_ns;
        own += if wait == "futex" { asleep } else { spin };
        let work = number(answer, "cpu_ns") - number(answer, "wait_cpu_ns");
        let could = number(answer, "wall_ns") - number(answer, "run_delay_ns") - thread.steal_ns;
        truly += could as i64 - work as i64;
        truly_able += could;
    }
    let (ours, truth) = (100.0 * share(class, able), 100.0 * share(truly.max(0) as u64, truly_able));
    let line = format!("{wait}: waited for others {ours:.2} %, truth {truth:.2} %, yields {yielded} ns");
    println!("{line}");
    if (ours - truth).abs() > POINTS {
        faults.push(line.clone());
    }
    if 10.0 * ((class + yielded) as f64) < (able + yielded) as f64 {
        faults.push(format!("{line}: too little to tell"));
    }
    // Main joins the other thread at the end: a little is asleep in every mode.
    if share(own + yielded, class + yielded) < 0.95 {
        faults.push(format!("{line}; only {own} of {class} ns in its own way"));
    }
    if (wait == "yield") != (yielded > 0) {
        faults.push(format!("{line}; waited after yields {yielded} ns"));
    }
    faults
}
