//! From the text of a next step to a change. The parser works on the words of the action, so that it also reads steps with other numbers.

use machine::CpuSet;

use super::change::Change;

/// How a step of the advice can be followed.
#[derive(Clone, Debug, PartialEq)]
pub enum Followed {
    /// By one of these changes: the first that the situation offers.
    Changes(Vec<Change>),
    /// Only by a programmer or an administrator, or it is a command that answers a question. The reason.
    ByHand(&'static str),
    /// The action is not in this file: a defect of the experiment.
    Unknown,
}

const PROGRAM: &str = "a change of the program";
const MACHINE: &str = "a change of the machine, or of other programs";
const QUESTION: &str = "a command that answers a question";

/// First words of actions that cannot be followed literally, and why.
const BY_HAND: &[(&str, &str)] = &[
    ("schedule(", PROGRAM),
    ("use smaller chunks", PROGRAM),
    ("give part of", PROGRAM),
    ("divide this work among", PROGRAM),
    ("hold the ", PROGRAM),
    ("let the threads meet", PROGRAM),
    ("make fewer and larger", PROGRAM),
    ("send fewer and larger", PROGRAM),
    ("read ahead", PROGRAM),
    ("use faster storage", MACHINE),
    ("spin briefly", PROGRAM),
    ("ask the host", MACHINE),
    ("find what makes the kernel", MACHINE),
    ("run it on CPUs", MACHINE),
    ("cox quiet ", MACHINE),
    ("cox advise ", QUESTION),
    ("cox doctor", QUESTION),
    ("cox run --backend", QUESTION),
];

/// Reads the action of a next step. `cpus` is the number of CPUs that the experiment may use.
pub fn read(action: &str, cpus: usize) -> Followed {
    if let Some((_, why)) = BY_HAND.iter().find(|(words, _)| action.starts_with(words)) {
        return Followed::ByHand(why);
    }
    if let Some((first, second)) = action.split_once(", with ") {
        return together(read(first, cpus), read_number(second));
    }
    let changes = [assignment, unset, number, allow, bind, alone, under]
        .into_iter()
        .find_map(|rule| rule(action))
        .or_else(|| quota(action, cpus));
    changes.map_or(Followed::Unknown, Followed::Changes)
}

/// `OMP_NUM_THREADS=2`, `2 threads` or `2 ranks …`, behind "with".
fn read_number(text: &str) -> Option<Vec<Change>> {
    assignment(text).or_else(|| number(&format!("run it with {text}")))
}

/// The first change of each step, one after the other.
fn together(first: Followed, second: Option<Vec<Change>>) -> Followed {
    match (first, second.map(|changes| changes.into_iter().next())) {
        (Followed::Changes(changes), Some(Some(second))) => Followed::Changes(
            changes.into_iter().take(1).map(|first| Change::All(vec![first, second.clone()])).collect(),
        ),
        (by_hand @ Followed::ByHand(_), _) => by_hand,
        _ => Followed::Unknown,
    }
}

/// `OMP_WAIT_POLICY=passive`, perhaps followed by an explanation.
fn assignment(action: &str) -> Option<Vec<Change>> {
    let (name, rest) = action.split_once('=')?;
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let value = rest.split([' ', ',', ';']).next().filter(|value| !value.is_empty())?;
    Some(vec![Change::Set(name.to_owned(), value.to_owned())])
}

/// `unset OMP_PLACES, or let it include CPU 0-1`. Of several variables, the first is unset.
fn unset(action: &str) -> Option<Vec<Change>> {
    let name = action.strip_prefix("unset ")?.split([' ', ',']).next().filter(|name| !name.is_empty())?;
    Some(vec![Change::Unset(name.to_owned())])
}

/// `run it with 2 threads`, `run it with 2 ranks on this machine (mpirun -n 2)`, `run 2 children at the same time …`.
fn number(action: &str) -> Option<Vec<Change>> {
    let number =
        action.strip_prefix("run it with ").or_else(|| action.strip_prefix("run "))?.split(' ').next()?.parse().ok()?;
    Some(vec![Change::Number(number)])
}

/// `allow CPU 0-1 (taskset -c 0-1, cpuset or job request)`.
fn allow(action: &str) -> Option<Vec<Change>> {
    let cpus = action.strip_prefix("allow CPU ")?.split(' ').next()?;
    Some(vec![Change::Allow(cpu_list(cpus)?)])
}

/// `--bind-to none`, alone or after `mpirun`.
fn bind(action: &str) -> Option<Vec<Change>> {
    let (_, rest) = action.split_once("--bind-to ")?;
    let binding = rest.split([' ', ',', ')', ';']).next().filter(|binding| !binding.is_empty())?;
    Some(vec![Change::Bind(binding.to_owned())])
}

/// `stop hog, or keep it off CPU 0-1`, `look for another busy program on these CPUs (top)`: with a hog of the experiment, the hog ends.
fn alone(action: &str) -> Option<Vec<Change>> {
    let words = ["stop ", "look for another busy program"];
    words.iter().any(|words| action.starts_with(words)).then(|| vec![Change::Alone])
}

/// `cox pack --cpus 0-1 …`, `cox run --overlap -- …`. A step for a running program (`--pid`) is followed with a new one.
fn under(action: &str) -> Option<Vec<Change>> {
    let command = action.strip_prefix("cox ")?;
    let mut words = command.split(' ').take_while(|word| *word != "--" && *word != "…" && *word != "--pid");
    let verb = words.next().filter(|verb| matches!(*verb, "pack" | "run"))?;
    let words = std::iter::once(verb).chain(words).map(str::to_owned).collect();
    Some(vec![Change::Under(words)])
}

/// `raise the group's cpu.max to 2 CPUs or more`, `ask for a quota of 2 CPUs or more (container or job limit)`.
fn quota(action: &str, cpus: usize) -> Option<Vec<Change>> {
    let words = ["raise the group's cpu.max to ", "ask for a quota of "];
    let rest = words.iter().find_map(|words| action.strip_prefix(words))?;
    let number: f64 = rest.split(' ').next()?.parse().ok()?;
    Some(vec![Change::Quota(number.min(cpus as f64))])
}

fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let cpus: CpuSet = text.trim_end_matches([',', ')']).parse().ok()?;
    Some(cpus.iter().collect())
}

#[cfg(test)]
mod tests;
