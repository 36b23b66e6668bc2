//! What the environment asks for.
//!
//! | variable | value |
//! |---|---|
//! | `COX_SCHEDULE` | `[all:]NAME[,chunk][,parameter=value]...`, as in [`loops::schedule`]; `[all:]auto`; or `as_written` |
//! | `COX_SCHEDULE_INPUTS` | `mean_ns=F`, `deviation_ns=F`, `overhead_ns=F`, `weights=F:F:...`, separated by commas: facts that some schedules need |
//!
//! `auto` tries schedules for each loop. `as_written` changes nothing: each loop gets the schedule that its runtime would give it, from this library, which
//! records what the loops do. It implies `all:`.
//!
//! Without `all:`, only loops with `schedule(runtime)` change; with it, `dynamic` and `guided` loops change, too. Without `COX_SCHEDULE`, the library
//! does nothing.

use loops::{Inputs, Invalid, Schedule};

/// Which schedules the loops get.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Those that the program's runtime would give them.
    AsWritten,
    /// This one.
    Schedule(Schedule),
    /// The fastest of several, for each loop.
    Auto,
}

/// Options of this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whether `dynamic` and `guided` loops change, too.
    pub all: bool,
    /// The schedules of changed loops.
    pub wanted: Wanted,
    /// Facts about the loops.
    pub inputs: Inputs,
}

impl Options {
    /// Reads the values of `COX_SCHEDULE` and, if set, `COX_SCHEDULE_INPUTS`. The error is one line.
    pub fn parse(schedule: &str, inputs: Option<&str>) -> Result<Options, String> {
        let (all, name) = schedule.strip_prefix("all:").map_or((false, schedule), |name| (true, name));
        let invalid = |invalid: Invalid| format!("invalid COX_SCHEDULE '{schedule}': {invalid}");
        let inputs = inputs.map_or(Ok(Inputs::default()), parse_inputs)?;
        let wanted = match name {
            "as_written" => return Ok(Options { all: true, wanted: Wanted::AsWritten, inputs }),
            "auto" => return Ok(Options { all, wanted: Wanted::Auto, inputs }),
            _ => Wanted::Schedule(name.parse().map_err(invalid)?),
        };
        // Checks that what the schedule needs is there and valid. The number of threads is not known yet: it is the number of weights.
        let threads = inputs.weights.as_ref().map_or(1, Vec::len);
        if let Wanted::Schedule(schedule) = &wanted {
            schedule.plan(1, threads, &inputs).map_err(invalid)?;
        }
        Ok(Options { all, wanted, inputs })
    }
}

fn parse_inputs(text: &str) -> Result<Inputs, String> {
    let mut inputs = Inputs::default();
    for part in text.split(',') {
        let invalid = || format!("invalid COX_SCHEDULE_INPUTS '{text}': '{part}' is not a known name and a number");
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
        let options = Options::parse("wf", Some("weights=1:2.5,mean_ns=3")).unwrap();
        assert_eq!((options.inputs.weights, options.inputs.mean_ns), (Some(vec![1.0, 2.5]), Some(3.0)));
    }

    #[test]
    fn wrong_values_get_one_line() {
        let line = |schedule, inputs| Options::parse(schedule, inputs).unwrap_err();
        assert_eq!(line("ss,0", None), "invalid COX_SCHEDULE 'ss,0': invalid chunk '0': use a whole number from 1");
        assert!(
            line("all:fax2", None).starts_with("invalid COX_SCHEDULE 'all:fax2': unknown schedule 'fax2': use fac2")
        );
        assert!(line("fac", None).contains("needs the mean time of an iteration"));
        assert!(line("wf", Some("weights=1:0")).contains("invalid value 0 for the weights"));
        for inputs in ["", "mean_ns", "mean_ns=x", "speed=1", "weights=1:"] {
            assert!(line("ss", Some(inputs)).starts_with("invalid COX_SCHEDULE_INPUTS"), "{inputs}");
        }
    }
}
