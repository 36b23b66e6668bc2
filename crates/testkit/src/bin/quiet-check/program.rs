//! The programs that cox runs on quiet CPUs, and those that run beside it.

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::machine_state::numbers_of;

/// How many processes of [`fork`] live at the same time.
const CHILDREN: usize = 20;
/// Pause of [`fork`] and [`write()`] after each process and file. Emulated CPUs are slow: with a third of it, the 20 sessions had not ended after half an hour on
/// a busy host: the guest did little else than start processes.
const PAUSE: Duration = Duration::from_millis(120);

/// Prints what it has: its CPUs, its cgroup, the kind of its partition, each in a line. Then it waits.
pub fn report_and_wait() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap();
    let cgroup = cgroup.lines().find_map(|line| line.strip_prefix("0::")).unwrap().to_owned();
    let partition = fs::read_to_string(format!("/sys/fs/cgroup{cgroup}/cpuset.cpus.partition"));
    println!("{cpus}\n{cgroup}\n{}", partition.as_deref().map_or("none", str::trim));
    wait();
}

/// Waits until standard input ends: that of the process that started it.
pub fn wait() {
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Runs on its CPU for some time, alone and then with a second thread, and prints for both how many timer interrupts came to that CPU in how many
/// seconds.
pub fn spin(alone: Duration, shared: Duration) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let cpu = *numbers_of(cpus).first().unwrap();
    let measure = |length: Duration| {
        // What happens at the start is not counted.
        busy(length / 10);
        let (begin, before) = (Instant::now(), timer_interrupts(cpu));
        busy(length);
        println!("{} {:.2}", timer_interrupts(cpu) - before, begin.elapsed().as_secs_f64());
    };
    measure(alone);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        measure(shared);
        is_over.store(true, Ordering::Relaxed);
    });
}

fn busy(length: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Returns how many local timer interrupts a CPU had since the boot.
pub fn timer_interrupts(cpu: u32) -> u64 {
    let text = fs::read_to_string("/proc/interrupts").unwrap();
    let column = format!("CPU{cpu}");
    let at = text.lines().next().unwrap().split_ascii_whitespace().position(|name| name == column).unwrap();
    let row = text.lines().find_map(|line| line.trim().strip_prefix("LOC:")).unwrap();
    row.split_ascii_whitespace().nth(at).unwrap().parse().unwrap()
}

/// Starts processes and threads, one after another, until it is killed. Each process lives until some others have begun.
pub fn fork() {
    let mut children = VecDeque::new();
    loop {
        let mut command = Command::new(env::current_exe().unwrap());
        children.push_back(command.arg("wait").stdin(Stdio::piped()).spawn().unwrap());
        thread::spawn(|| ()).join().unwrap();
        thread::sleep(PAUSE);
        if children.len() > CHILDREN {
            let mut oldest = children.pop_front().unwrap();
            drop(oldest.stdin.take());
            oldest.wait().unwrap();
        }
    }
}

/// Writes a file, until it is killed.
pub fn write() {
    let path = format!("/tmp/written-{}", std::process::id());
    loop {
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        fs::File::open(&path).unwrap().sync_all().unwrap();
        thread::sleep(PAUSE);
    }
}
