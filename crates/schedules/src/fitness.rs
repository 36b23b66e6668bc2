//! Whether the loops of a program can change, as far as its file and its environment show. cox refuses before the program starts: a run in which
//! nothing changed would be taken for one with the schedule.

use std::ffi::OsStr;
use std::path::Path;

use loops::options::{Options, Wanted};
use loops::saved::Saved;
use machine::CpuSet;
use session::launch::file_of;
use session::preload;
use symbols::elf::{LIBGOMP, LIBOMP, build_id, has_inside};

/// Returns why the loops of `program` cannot change; `None` also if the program itself has no loops, because its libraries, or programs that it
/// starts, may have some.
#[must_use]
pub fn of_program(program: &OsStr) -> Option<&'static str> {
    // If the file is missing, the attempt to execute it fails later, and reports this.
    let file = file_of(program)?;
    if let Some(obstacle) = preload::obstacle(&file) {
        return Some(obstacle);
    }
    // LLVM's runtime also has gcc's functions.
    if has_inside(&file, &LIBOMP) {
        return Some("LLVM's OpenMP runtime (libomp) is linked into it statically; link it to libomp.so");
    }
    has_inside(&file, &LIBGOMP).then_some("libgomp is linked into it statically; link it to libgomp.so")
}

/// Returns what in the environment contradicts the options. `variable` returns the value of a variable; `allowed` are the CPUs on which the program may
/// run, as many threads as which a runtime makes unless the environment says otherwise.
pub fn of_environment(
    options: &Options,
    variable: impl Fn(&str) -> Option<String>,
    allowed: Option<&CpuSet>,
) -> Option<String> {
    let wanted = &options.wanted;
    if let Some(value) = variable("OMP_SCHEDULE").filter(|_| *wanted != Wanted::AsWritten) {
        return Some(format!("OMP_SCHEDULE={value} is in the environment: unset it, or leave out --schedule"));
    }
    let weights = options.inputs.weights.as_ref()?.len();
    let threads = variable("OMP_NUM_THREADS").and_then(|text| text.split(',').next()?.trim().parse::<usize>().ok());
    let (threads, why) = match (threads, allowed) {
        (Some(threads), _) => (threads, "OMP_NUM_THREADS"),
        (None, Some(allowed)) => (allowed.len(), "the number of allowed CPUs"),
        (None, None) => return None,
    };
    (threads != weights).then(|| {
        format!(
            "there are weights for {weights} threads, and the program has {threads} ({why}): give one weight per thread"
        )
    })
}

/// Returns why the schedules or profiles in a file cannot be used: they are for another build of a program or library.
pub fn of_file(saved: &Saved) -> Option<String> {
    saved.modules.iter().find_map(|module| {
        let (now, then) = (build_id(Path::new(&module.path))?, module.build_id.as_ref()?);
        let way = if saved.profiles.is_empty() { "auto" } else { "profile" };
        (now != *then)
            .then(|| format!("it is for another build of {}: run it with --schedule {way} again", module.path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_may_contradict() {
        let options = |schedule, inputs| Options::parse(schedule, inputs).unwrap();
        let none = |_: &str| None;
        assert_eq!(of_environment(&options("fac2", None), none, None), None);
        let schedule = |name: &str| (name == "OMP_SCHEDULE").then(|| "guided,4".to_owned());
        let said = of_environment(&options("fac2", None), schedule, None).unwrap();
        assert!(said.starts_with("OMP_SCHEDULE=guided,4 is in the environment: unset it"), "{said}");
        assert_eq!(of_environment(&options("as_written", None), schedule, None), None);
        let weighted = options("wf", Some("weights=1:2:3"));
        let cpus = |list: &str| Some(list.parse::<CpuSet>().unwrap());
        assert_eq!(of_environment(&weighted, none, cpus("0,4-5").as_ref()), None);
        assert!(
            of_environment(&weighted, none, cpus("0-1").as_ref())
                .unwrap()
                .contains("weights for 3 threads, and the program has 2")
        );
        let threads = |name: &str| (name == "OMP_NUM_THREADS").then(|| "3,2".to_owned());
        assert_eq!(of_environment(&weighted, threads, cpus("0-1").as_ref()), None);
        assert!(
            of_environment(&weighted, |name| threads(name).map(|_| "4".to_owned()), None)
                .unwrap()
                .contains("has 4 (OMP_NUM_THREADS)")
        );
    }

    #[test]
    fn programs_that_are_missing_are_no_matter_of_schedules() {
        assert_eq!(of_program(OsStr::new("/nowhere/at/all")), None);
        assert_eq!(of_program(std::env::current_exe().unwrap().as_os_str()), None);
    }
}
