//! Builds the [`Account`] that users read, from an observer's record. The main part of a record is the clocks: a clock ([`wire::Clock`]) contains the
//! time that one thread spent in each state, up to its last event.
//!
//! - `family`: groups clocks into processes, and processes into programs.
//! - `life`: closes the clocks: books each thread's time from its last event to the end of the window.
//! - `thread`: converts a clock into a thread's account, and adds the thread's wakers.
//! - `spin`: converts sample sites into spin time and hot functions.
//! - `cpus`: computes what each CPU did, including the interval that is open at the end of the window.
//! - `busy`: computes how many CPUs were busy with the program at the same time.
//! - `latencies`: computes the quantiles of the lengths of waits, blocks and time slices.
//! - `preemptors`: computes which threads held the CPUs that tracked threads waited for.
//!
//! Samples, wakers and preemptors are recorded by thread id. If several threads of a session had the same id (a reused id, a thread that called
//! exec), all samples, wakers and preemptors of this id are attributed to the thread that ran longest.

mod busy;
mod cpus;
mod family;
mod latencies;
mod life;
mod preemptors;
mod spin;
mod thread;

use latencies::Given;
use life::{lives, owners};
use wire::{Backend, Record};

use crate::account::{Account, Lost, OwnCost, Process, Program, Thread};
use crate::sees::{Delays, Sees};
use crate::summary::is_spin_seen;

pub use family::ProgramInfo;
pub use thread::shell_exit_code;

/// Builds the account of a session. `programs` are the programs that the session observed; if the list is empty, all threads belong to one nameless
/// program. `own_user_cpu_ns` is the CPU time of cox itself.
pub fn build(record: &Record, programs: &[ProgramInfo], own_user_cpu_ns: u64) -> Account {
    let nameless = [ProgramInfo { start_ns: record.start_ns, ..ProgramInfo::default() }];
    let programs = if programs.is_empty() { &nameless[..] } else { programs };
    let mut lives = lives(record);
    let open = preemptors::close(record, &mut lives);
    let owners = owners(&lives);

    let mut threads: Vec<Thread> = lives.iter().map(|life| thread::account(life, record.start_ns)).collect();
    spin::book(&mut threads, &owners, &record.sample_sites);
    thread::book_wakers(&mut threads, &owners, &lives, &record.pairs);
    let mut hot_functions = spin::hot(&threads, &owners, &record.sample_sites);
    if programs.len() > 1 {
        // The samples show whether a thread worked alone among all observed threads, not among those of its program.
        spin::forget_serial(&mut threads, &mut hot_functions);
    }
    let mut sees = Sees::of(record.backend, is_spin_seen(&threads));
    sees.latencies_of_threads = record.latencies_of_threads;
    if record.lacks_wakings {
        sees.delays = Delays::InBlocked;
    }
    let mut latencies = Given::of(record, &sees, programs.len());
    for (thread, life) in threads.iter_mut().zip(&lives) {
        thread.latencies = latencies.thread(&life.clock);
    }

    // Only the BPF programs read the exit statuses of all processes.
    let waited_for = record.backend == Backend::Bpf;
    let processes = family::processes(&lives);
    let program_of = family::programs(&processes, programs);
    let mut accounts: Vec<Program> = programs.iter().map(|info| info.account(record.end_ns)).collect();
    let mut threads: Vec<Option<Thread>> = threads.into_iter().map(Some).collect();
    for (members, program) in processes.iter().zip(program_of) {
        let info = &programs[program];
        let is_root = info.root_pid == Some(members.pid);
        let process = Process {
            pid: members.pid,
            parent_pid: members.parent_pid,
            comm: members.name(&lives),
            exit_code: if waited_for { members.exit_code(&lives) } else { info.exit_code.filter(|_| is_root) },
            threads: members.lives.iter().filter_map(|i| threads[*i].take()).collect(),
            latencies: latencies.process(&members.lives, &lives, program),
        };
        let account = &mut accounts[program];
        if is_root && account.exit_code.is_none() {
            account.exit_code = process.exit_code;
        }
        account.processes.push(process);
    }
    if let (Some(first), Some(unlisted)) = (accounts.first_mut(), thread::unlisted(record)) {
        first.unlisted = Some(unlisted);
    }

    if let ([only], true) = (accounts.as_mut_slice(), sees.busy_cpus) {
        only.busy_cpus_ns = busy::by_number(record, only);
    }
    // Programs without histograms have no quantiles.
    let with_histograms = accounts.iter_mut().take(record.latencies_of_programs as usize);
    with_histograms.zip(latencies.programs()).for_each(|(account, latencies)| account.latencies = Some(latencies));

    let losses = record.losses;
    Account {
        backend: record.backend,
        sees: Some(sees),
        provenance: None,
        window_ns: record.end_ns.saturating_sub(record.start_ns),
        events: record.events,
        lost: Lost {
            events: losses.events,
            members: losses.members,
            finals: losses.finals,
            samples: losses.samples,
            pairs: losses.pairs,
            preemptors_ns: losses.preemptors_ns.saturating_add(open.nameless_ns),
            idle_split: losses.idle_split,
            trace_events: losses.trace_events,
        },
        own_cost: OwnCost { user_ns: own_user_cpu_ns, kernel_ns: record.kernel_cost_ns },
        programs: accounts,
        cpus: cpus::accounts(record),
        preemptors: preemptors::of(record, &lives, &open),
        hot_functions,
        co_run: None,
    }
}

#[cfg(test)]
mod tests;
