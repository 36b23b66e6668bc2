//! What the library does before the program runs, and at its end.

use std::ffi::CStr;
use std::sync::atomic::Ordering;

use crate::known::SAVED;
use crate::plans::{NO_WEIGHTS, NOT_MONOTONIC};
use crate::region::OPTIONS;
use crate::{clock, cpu_time, delays, file, team};
use loops::Timing;
use loops::options::{Options, Wanted, parse_inputs};
use loops::saved::Saved;

/// Set if the program's children keep their schedules.
const ALONE: &CStr = c"COX_SCHEDULE_ALONE";
/// The folder for records: [`wire::loop_records::FOLDER`].
const FOLDER: &CStr = c"COX_LOOPS";

/// Run by the dynamic loader before main: the process has one thread, so the environment may be read.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Run by exit(3).
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_load() {
    let Some(schedule) = variable(c"COX_SCHEDULE") else { return };
    let options = schedule.and_then(|schedule: &'static str| {
        let inputs = variable(c"COX_SCHEDULE_INPUTS").transpose()?;
        if let Some(inputs) = inputs {
            parse_inputs(inputs).map_err(|why| format!("invalid COX_SCHEDULE_INPUTS '{inputs}': {why}"))?;
        }
        let options = Options::parse(schedule, inputs);
        let options = options.and_then(|options| match &options.wanted {
            Wanted::From(path) => {
                let saved = read(path)?;
                let all = saved.all;
                let _ = SAVED.set(saved);
                Ok(Options { all, ..options })
            }
            _ => Ok(options),
        });
        let options = options.map_err(|why| format!("invalid COX_SCHEDULE '{schedule}': {why}"))?;
        let timing = variable(c"COX_TIMING").transpose()?.map(Timing::find).transpose();
        Ok(Options { timing: timing.map_err(|why| format!("invalid COX_TIMING: {why}"))?, ..options })
    });
    if text(ALONE).is_some() {
        // SAFETY: the name is a C string; the process has one thread.
        unsafe { libc::unsetenv(c"COX_SCHEDULE".as_ptr()) };
    }
    match options {
        Ok(options) => {
            clock::start();
            if options.may_need_cpu_time() {
                cpu_time::at_load();
            }
            if let Some(folder) = text(FOLDER) {
                file::at_load(folder);
            }
            if text(delays::VARIABLE).is_some() {
                delays::at_load();
            }
            let _ = OPTIONS.set(options);
        }
        // cox refuses such values before the program starts. The program's output must not suffer if somebody else sets them.
        Err(line) => say(&format!("{line}; the schedules of loops do not change")),
    }
}

/// Reads the file with the schedules of single loops.
fn read(path: &str) -> Result<Saved, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    Saved::parse(&text)
}

/// Returns the value of an environment variable, if it is set; an error if it is not UTF-8. Must be called only while the process has one thread.
fn variable(name: &CStr) -> Option<Result<&'static str, String>> {
    let value = text(name)?;
    Some(value.to_str().map_err(|_| format!("invalid {}: it is not UTF-8", name.to_string_lossy())))
}

/// Returns the value of an environment variable, if it is set. Must be called only while the process has one thread.
fn text(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name is a C string. At load no other thread changes the environment, and the values stay at their addresses.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: null, or the C string that getenv returns.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Says which loops have not had the schedule that was asked for.
extern "C" fn at_exit() {
    let Some(options) = OPTIONS.get() else { return };
    let all = team::INSTANCES.load(Ordering::Relaxed);
    for (counter, why) in
        [(&NOT_MONOTONIC, "the program asks for a monotonic schedule"), (&NO_WEIGHTS, "the team has another size")]
    {
        let count = counter.load(Ordering::Relaxed);
        if count > 0 {
            let asked = match &options.wanted {
                Wanted::Schedule(schedule) => schedule.to_string(),
                _ => "the schedule that was asked for".to_owned(),
            };
            say(&format!("{count} of {all} loop instances had fac2 instead of {asked}: {why}"));
        }
    }
}

/// Prints one line on stderr; nothing if that fails.
fn say(line: &str) {
    let line = format!("cox: {line}\n");
    // SAFETY: the bytes are valid for the call.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
