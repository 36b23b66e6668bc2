//! The table of preemptors of tracked threads, and beside it the table of what each CPU did.

use advise::numbers::{count, duration, seconds};
use ledger::account::cpu;
use ledger::figures::Figure;
use ledger::{CpuAccount, Preemptor, PreemptorKind};

use super::page::Page;
use crate::json::Document;
use crate::round::{percent, permille};
use crate::style::Style;
use crate::table::{Align, Table};

/// Maximum number of preemptors listed.
const PREEMPTORS: usize = 8;
/// Maximum number of CPUs listed.
const CPUS: usize = 10;
/// The parts into which a CPU's time is divided.
const PARTS: [Figure<CpuAccount>; 4] = [cpu::busy_program_ns, cpu::busy_others_ns, cpu::idle_ns, cpu::unknown_ns];

pub(super) fn write(page: &mut Page) {
    let account = &page.document.account;
    if account.preemptors.is_empty() && account.cpus.is_empty() {
        return;
    }
    page.gap();
    let (document, style) = (page.document, page.style);
    page.extend(preemptors(document, style).into_iter().flat_map(|table| table.lines(style.columns())));
    page.gap();
    if let Some(cpus) = cpus(document, style) {
        page.extend(cpus.lines(style.columns()));
        page.paragraph(&legend(&account.cpus));
    }
}

/// Explains the columns of the table of CPUs.
fn legend(cpus: &[CpuAccount]) -> String {
    let unseen = if cpus.iter().any(|cpu| divide(cpu)[3] > 0) {
        "not seen: time before the first event on the CPU; "
    } else {
        ""
    };
    format!(
        "{unseen}idle/waited: idle while a thread of the program waited for a CPU; idle/blocked: idle at other \
         times while a thread of the program was off CPU"
    )
}

/// Returns the table of preemptors; `None` if there are none.
pub(crate) fn preemptors<'s>(document: &Document, style: &'s Style) -> Option<Table<'s>> {
    let took = &document.account.preemptors;
    if took.is_empty() {
        return None;
    }
    let (listed, others) = took.split_at(took.len().min(PREEMPTORS));
    let mut rows: Vec<(String, u64)> =
        listed.iter().map(|preemptor| (preemptor_name(preemptor), preemptor.wait_ns)).collect();
    if !others.is_empty() {
        let ns = others.iter().fold(0u64, |sum, preemptor| sum.saturating_add(preemptor.wait_ns));
        rows.push((format!("{} more names", others.len()), ns));
    }
    let mut table = Table::new(style);
    table.column("who took the CPU", Align::Left, 0, rows.iter().map(|(name, _)| name.clone()));
    table.column("time", Align::Right, 0, rows.iter().map(|(_, ns)| duration(*ns)));
    Some(table)
}

fn preemptor_name(preemptor: &Preemptor) -> String {
    match (preemptor.kind, preemptor.threads) {
        (PreemptorKind::Idle, _) => "CPU was idle".to_owned(),
        (PreemptorKind::Sibling, ..=1) => format!("{} {} (sibling)", preemptor.tid, preemptor.comm),
        (PreemptorKind::Sibling, threads) => format!("{} × {} (siblings)", preemptor.comm, count(threads)),
        // All threads of other users share one name, and have no id.
        (PreemptorKind::Cox, ..=1) => format!("{} {} (cox itself)", preemptor.tid, preemptor.comm),
        (PreemptorKind::Cox, threads) => format!("{} × {} (cox itself)", preemptor.comm, count(threads)),
        (PreemptorKind::Other, ..=1) => match preemptor.host_tid {
            None if preemptor.tid == 0 => preemptor.comm.clone(),
            None => format!("{} {}", preemptor.tid, preemptor.comm),
            Some(host) => format!("{} (outside the container, host {host})", preemptor.comm),
        },
        (PreemptorKind::Other, threads) => format!("{} × {}", preemptor.comm, count(threads)),
    }
}

/// Returns the table of CPUs. If there are too many CPUs, the table lists those that other programs used, or that were idle while threads waited.
pub(crate) fn cpus<'s>(document: &Document, style: &'s Style) -> Option<Table<'s>> {
    let all = &document.account.cpus;
    if all.is_empty() {
        return None;
    }
    let mut listed: Vec<&CpuAccount> = all.iter().collect();
    let mut others = Vec::new();
    if listed.len() > CPUS {
        let lost_ns = |cpu: &CpuAccount| cpu.busy_others_ns.saturating_add(cpu.idle_while_waiting_ns);
        listed.sort_by_key(|cpu| (std::cmp::Reverse(lost_ns(cpu)), cpu.cpu));
        others = listed.split_off(CPUS);
        listed.sort_by_key(|cpu| cpu.cpu);
    }
    let mut rows: Vec<(String, CpuAccount)> = listed.into_iter().map(|cpu| (cpu.cpu.to_string(), *cpu)).collect();
    if !others.is_empty() {
        rows.push((format!("{} more", others.len()), sum(&others)));
    }
    let shares: Vec<Vec<u64>> = rows.iter().map(|(_, cpu)| divide(cpu)).collect();
    let share = |at: usize| shares.iter().map(move |row| percent(row[at])).collect::<Vec<_>>();
    let mut table = Table::new(style);
    table.column("CPU", Align::Right, 0, rows.iter().map(|(name, _)| name.clone()));
    for (at, part) in PARTS.iter().enumerate() {
        // The column is left out if no time of any CPU is unknown.
        if part.name != cpu::unknown_ns.name || shares.iter().any(|row| row[at] > 0) {
            table.column(part.label, Align::Right, 0, share(at));
        }
    }
    let waited = rows.iter().map(|(_, cpu)| seconds(cpu.idle_while_waiting_ns));
    table.column(cpu::idle_while_waiting_ns.label, Align::Right, 0, waited);
    let blocked = rows.iter().map(|(_, cpu)| seconds(cpu.idle_while_blocked_ns));
    table.column(cpu::idle_while_blocked_ns.label, Align::Right, 1, blocked);
    Some(table)
}

fn divide(cpu: &CpuAccount) -> Vec<u64> {
    permille(&PARTS.map(|part| (part.value)(cpu).unwrap_or(0)))
}

fn sum(cpus: &[&CpuAccount]) -> CpuAccount {
    let mut sum = CpuAccount::default();
    cpus.iter().for_each(|cpu| sum.add(cpu));
    sum
}
