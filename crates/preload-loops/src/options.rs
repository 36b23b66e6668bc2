//! What the environment asks for.
//!
//! | variable | value |
//! |---|---|
//! | `COX_SCHEDULE` | `[all:]NAME[,chunk][,parameter=value]...`, as in [`loops::schedule`] |
//! | `COX_SCHEDULE_INPUTS` | `mean_ns=F`, `deviation_ns=F`, `overhead_ns=F`, `weights=F:F:...`, separated by commas: facts that some schedules need |
//!
//! Without `all:`, only loops with `schedule(runtime)` change; with it, `dynamic` and `guided` loops change, too. Without `COX_SCHEDULE`, the library
//! does nothing.

use loops::{Inputs, Invalid, Schedule};

/// Options of this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whether `dynamic` and `guided` loops change, too.
    pub all: bool,
    /// The schedule of changed loops.
    pub schedule: Schedule,
    /// Facts about the loops.
    pub inputs: Inputs,
}

impl Options {
    /// Reads the values of `COX_SCHEDULE` and, if set, `COX_SCHEDULE_INPUTS`. The error is one line.
    pub fn parse(schedule: &str, inputs: Option<&str>) -> Result<Options, String> {
        let (all, name) = schedule.strip_prefix("all:").map_or((false, schedule), |name| (true, name));
        let invalid = |invalid: Invalid| format!("invalid COX_SCHEDULE '{schedule}': {invalid}");
        let inputs = inputs.map_or(Ok(Inputs::default()), parse_inputs)?;
        let schedule: Schedule = name.parse().map_err(invalid)?;
        // Checks that what the schedule needs is there and valid. The number of threads is not known yet: it is the number of weights.
        let threads = inputs.weights.as_ref().map_or(1, Vec::len);
        schedule.plan(1, threads, &inputs).map_err(invalid)?;
        Ok(Options { all, schedule, inputs })
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
        let options = Options::parse("fac2", None).unwrap();
        assert_eq!((options.all, options.schedule.to_string()), (false, "fac2".to_owned()));
        let options = Options::parse("all:gss,16", None).unwrap();
        assert_eq!((options.all, options.schedule.to_string()), (true, "gss,16".to_owned()));
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
