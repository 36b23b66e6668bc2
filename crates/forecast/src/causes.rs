//! Causes that differ only by the number of a thread are one cause.
//!
//! A recording names each thread with its number: a program that starts processes all the time makes thousands of
//! causes, each with little time. For the forecast, all of them are the same program.

use std::collections::HashMap;

use crate::recording::{Detour, Recording};

/// Returns a name without the number of a thread in it, if it has one: `thread java(991)` is `thread java`. Numbers after a blank are part of the name, as in `device interrupt 24 (1)`.
fn without_number(name: &str) -> Option<String> {
    for (open, _) in name.rmatch_indices('(') {
        let (before, after) = (&name[..open], &name[open + 1..]);
        let Some((number, rest)) = after.split_once(')') else { continue };
        if is_number(number) && !before.is_empty() && !before.ends_with(' ') {
            return Some(format!("{before}{rest}"));
        }
        if let Some((outside, host)) = number.split_once(", host ")
            && is_number(host)
        {
            return Some(format!("{before}({outside}){rest}"));
        }
    }
    None
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the recording with one cause for all that differ only by the number of a thread. The name says how many
/// threads it stands for; a cause that is alone keeps its name.
#[must_use]
pub fn merged(recording: &Recording) -> Recording {
    let mut numbers: HashMap<String, u16> = HashMap::new();
    let mut causes: Vec<(String, usize, String)> = Vec::new();
    let mut merge = |name: &String| {
        let common = without_number(name);
        // The two kinds of names are kept apart: a name without a number is never that of several threads.
        let key = common.as_ref().map_or_else(|| format!("={name}"), |common| format!("~{common}"));
        let number = *numbers.entry(key).or_insert_with(|| {
            causes.push((name.clone(), 0, common.unwrap_or_default()));
            (causes.len() - 1) as u16
        });
        causes[usize::from(number)].1 += 1;
        number
    };
    let new: Vec<u16> = recording.causes.iter().map(&mut merge).collect();
    let cause = |detour: &Detour| Detour {
        // A cause without a name stays one: the check of the recording refuses it.
        cause: new.get(usize::from(detour.cause)).copied().unwrap_or(u16::MAX),
        ..*detour
    };
    let mut cpus = recording.cpus.clone();
    cpus.iter_mut().flat_map(|cpu| &mut cpu.detours).for_each(|detour| *detour = cause(detour));
    let name = |(first, threads, common): (String, usize, String)| match threads {
        1 => first,
        _ if common.is_empty() => first,
        _ => format!("{common} ({threads} threads)"),
    };
    Recording { length_ns: recording.length_ns, cpus, causes: causes.into_iter().map(name).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Cpu;

    #[test]
    fn threads_of_a_name_are_one_cause() {
        let names = [
            "thread cc1(41)",
            "timer tick",
            "IPI: TLB flush by java(991), munmap",
            "thread cc1(42)",
            "IPI: TLB flush by java(992), mprotect",
            "IPI: TLB flush by java(993), munmap",
            "thread cc1",
            "device interrupt 24 (1)",
            "device interrupt 25 (1)",
            "thread sh(7)",
            "thread java (outside the container, host 12)",
            "thread java (outside the container, host 13)",
        ];
        let detour = |at: u16| Detour { start_ns: u64::from(at) * 10, length_ns: 5, cause: at };
        let cpus = vec![Cpu { cpu: 0, detours: (0..12).map(detour).collect() }];
        let causes = names.map(str::to_owned).to_vec();
        let merged = merged(&Recording { length_ns: 1000, cpus, causes });
        assert_eq!(
            merged.causes,
            [
                "thread cc1 (2 threads)",
                "timer tick",
                "IPI: TLB flush by java, munmap (2 threads)",
                "IPI: TLB flush by java(992), mprotect",
                "thread cc1",
                "device interrupt 24 (1)",
                "device interrupt 25 (1)",
                "thread sh(7)",
                "thread java (outside the container) (2 threads)",
            ]
        );
        let of: Vec<u16> = merged.cpus[0].detours.iter().map(|detour| detour.cause).collect();
        assert_eq!(of, [0, 1, 2, 0, 3, 2, 4, 5, 6, 7, 8, 8]);
        assert_eq!(merged.cpus[0].detours[3].start_ns, 30);
        assert_eq!(merged.check(), Ok(()));
    }

    #[test]
    fn a_cause_without_a_name_is_still_refused() {
        let cpus = vec![Cpu { cpu: 0, detours: vec![Detour { start_ns: 1, length_ns: 1, cause: 3 }] }];
        let merged = merged(&Recording { length_ns: 1000, cpus, causes: vec!["tick".into()] });
        assert!(merged.check().is_err());
    }
}
