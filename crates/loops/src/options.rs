//! What a user asks for: which loops change, their schedule, and facts about them. `cox run --schedule` and `libcox_loops.so` read the same text.
//!
//! | variable | option | value |
//! |---|---|---|
//! | `COX_SCHEDULE` | `--schedule` | `[all:]NAME[,chunk][,parameter=value]...`, as in [`crate::schedule`]; `[all:]auto`; `as_written`; or `from:FILE` |
//! | `COX_SCHEDULE_INPUTS` | `--schedule-inputs` | `mean_ns=F`, `deviation_ns=F`, `overhead_ns=F`, `weights=F:F:...`, separated by commas: facts that some schedules need |
//! | `COX_TIMING` | `--timing` | `wall`, `cpu` or `both`: the time by which adaptive schedules compare threads, [`Timing`] |
//!
//! `auto` tries schedules for each loop. `as_written` changes nothing: each loop gets the schedule that its runtime would
//! give it, from cox's library, which records what the loops do. It implies `all:`.
//!
//! `from:FILE` gives each loop the schedule that an earlier run with `auto` has written to a file; the file says whether `all:` holds.
//!
//! Without `all:`, only loops with `schedule(runtime)` and `schedule(auto)` change; with it, `dynamic` and `guided`
//! loops change, too.

use std::fmt;

use crate::inputs::Inputs;
use crate::kind::Kind;
use crate::schedule::Schedule;
use crate::statistics::Timing;

/// Which schedules the loops get.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Those that the program's runtime would give them.
    AsWritten,
    /// This one.
    Schedule(Schedule),
    /// The fastest of several, for each loop.
    Auto,
    /// Those that a file names, and `auto` for other loops: [`crate::saved`].
    From(String),
}

/// What a user asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whether `dynamic` and `guided` loops change, too.
    pub all: bool,
    /// The schedules of changed loops.
    pub wanted: Wanted,
    /// Facts about the loops.
    pub inputs: Inputs,
    /// The time that adaptive schedules use; `None`: the one that fits the schedule.
    pub timing: Option<Timing>,
}

impl Options {
    /// Reads the schedule, and the inputs if there are any.
    ///
    /// # Errors
    /// One line: what is wrong, and what to use.
    pub fn parse(schedule: &str, inputs: Option<&str>) -> Result<Options, String> {
        let (all, wanted) = parse_schedule(schedule)?;
        let inputs = inputs.map_or(Ok(Inputs::default()), parse_inputs)?;
        if let Wanted::Schedule(schedule) = &wanted {
            // Checks that what the schedule needs is there and valid. The number of threads is not known yet: it is the
            // number of weights.
            let threads = inputs.weights.as_ref().map_or(1, Vec::len);
            schedule.plan(1, threads, &inputs).map_err(|invalid| invalid.to_string())?;
        }
        Ok(Options { all, wanted, inputs, timing: None })
    }

    /// Returns whether a loop may get a schedule that uses CPU time.
    #[must_use]
    pub fn may_need_cpu_time(&self) -> bool {
        match &self.wanted {
            Wanted::AsWritten => false,
            Wanted::Schedule(schedule) => schedule.is_timed() && self.timing_of(schedule.kind) != Timing::Wall,
            // A file may name any schedule.
            Wanted::Auto | Wanted::From(_) => Kind::all().any(|kind| self.timing_of(kind) != Timing::Wall),
        }
    }

    /// Returns the time that a schedule uses.
    #[must_use]
    pub fn timing_of(&self, kind: Kind) -> Timing {
        self.timing.unwrap_or(Timing::of(kind))
    }
}

/// What precedes the name of a file with schedules of single loops.
pub const FROM: &str = "from:";

/// Reads a schedule: whether all loops change, and to what.
///
/// # Errors
/// As [`Options::parse`].
pub fn parse_schedule(text: &str) -> Result<(bool, Wanted), String> {
    let (all, name) = text.strip_prefix("all:").map_or((false, text), |name| (true, name));
    match name {
        "as_written" => Ok((true, Wanted::AsWritten)),
        "auto" => Ok((all, Wanted::Auto)),
        _ if text.starts_with(FROM) => Ok((true, Wanted::From(text[FROM.len()..].to_owned()))),
        _ => name
            .parse()
            .map(|schedule| (all, Wanted::Schedule(schedule)))
            .map_err(|invalid: crate::Invalid| invalid.to_string()),
    }
}

/// Reads facts about loops.
///
/// # Errors
/// As [`Options::parse`].
pub fn parse_inputs(text: &str) -> Result<Inputs, String> {
    let mut inputs = Inputs::default();
    for part in text.split(',') {
        let invalid =
            || format!("'{part}' is none of mean_ns=F, deviation_ns=F, overhead_ns=F, weights=F:F:... with numbers F");
        let (name, value) = part.split_once('=').ok_or_else(invalid)?;
        let number = |value: &str| value.parse::<f64>().map_err(|_| invalid());
        match name {
            "mean_ns" => inputs.mean_ns = Some(number(value)?),
            "deviation_ns" => inputs.deviation_ns = Some(number(value)?),
            "overhead_ns" => inputs.overhead_ns = Some(number(value)?),
            "weights" => inputs.weights = Some(value.split(':').map(number).collect::<Result<_, _>>()?),
            _ => return Err(invalid()),
        }
    }
    Ok(inputs)
}

/// The schedule as it is written, without `all:`.
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Wanted::AsWritten => f.write_str("as_written"),
            Wanted::Schedule(schedule) => schedule.fmt(f),
            Wanted::Auto => f.write_str("auto"),
            Wanted::From(path) => write!(f, "{FROM}{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_a_schedule_and_which_loops_change() {
        let wanted = |text| {
            let options = Options::parse(text, None).unwrap();
            (options.all, options.wanted)
        };
        let schedule = |text: &str| Wanted::Schedule(text.parse().unwrap());
        assert_eq!(wanted("fac2"), (false, schedule("fac2")));
        assert_eq!(wanted("all:gss,16"), (true, schedule("gss,16")));
        assert_eq!((wanted("auto"), wanted("all:auto")), ((false, Wanted::Auto), (true, Wanted::Auto)));
        assert_eq!(wanted("as_written"), (true, Wanted::AsWritten));
        assert_eq!(wanted("from:a:b"), (true, Wanted::From("a:b".to_owned())));
        for text in ["gss,16", "auto", "as_written", "from:/a"] {
            assert_eq!(wanted(text).1.to_string(), text);
        }
        let inputs = Options::parse("wf", Some("weights=1:2.5,mean_ns=3")).unwrap().inputs;
        assert_eq!((inputs.weights, inputs.mean_ns), (Some(vec![1.0, 2.5]), Some(3.0)));
    }

    #[test]
    fn a_timing_that_is_asked_for_counts_for_all_schedules() {
        let options = Options::parse("all:auto", None).unwrap();
        let [weighted, awf_b] = [Kind::StaticWeighted, Kind::AwfB].map(|kind| options.timing_of(kind));
        assert_eq!((weighted, awf_b), (Timing::Both, Timing::Wall));
        let cpu = Options { timing: Some(Timing::find("cpu").unwrap()), ..options };
        assert_eq!([Kind::StaticWeighted, Kind::AwfB].map(|kind| cpu.timing_of(kind)), [Timing::Cpu; 2]);
        assert_eq!(Timing::find("CPU").unwrap_err(), "unknown timing 'CPU': use wall, cpu or both");
    }

    #[test]
    fn wrong_values_get_one_line() {
        let line = |schedule, inputs| Options::parse(schedule, inputs).unwrap_err();
        assert_eq!(line("ss,0", None), "invalid chunk '0': use a whole number from 1");
        assert!(line("all:fax2", None).starts_with("unknown schedule 'fax2': use fac2"));
        assert!(line("fac", None).contains("needs the mean time of an iteration"));
        assert!(line("wf", Some("weights=1:0")).contains("invalid value 0 for the weights"));
        for inputs in ["", "mean_ns", "mean_ns=x", "speed=1", "weights=1:"] {
            assert!(line("ss", Some(inputs)).contains("is none of mean_ns=F"), "{inputs}");
        }
    }
}
