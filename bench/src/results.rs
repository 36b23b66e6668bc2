//! The results of an experiment, as printed and as written by `--json`.

use anyhow::Result;
use serde::Serialize;

use crate::json::Header;
use crate::rounds::Rounds;
use crate::stats::{Bracket, Estimate, median, median_estimate, quartiles};
use crate::verdict::{Outcome, Verdict};

/// The results of one experiment.
#[derive(Debug, Serialize)]
pub struct Experiment {
    #[serde(flatten)]
    header: Header,
    /// True if measured with `--quick`: only a check that the experiment works; the figures are not reliable.
    quick: bool,
    /// Cases in the order of the command line.
    pub cases: Vec<Case>,
}

impl Experiment {
    /// Makes the results of an experiment on this machine, still without cases.
    ///
    /// # Errors
    /// When the list of CPUs cannot be read.
    pub fn new(experiment: &'static str, quick: bool) -> Result<Experiment> {
        Ok(Experiment { header: Header::new(experiment)?, quick, cases: Vec::new() })
    }

    /// Returns whether a case has a verdict with this outcome.
    pub fn any(&self, outcome: Outcome) -> bool {
        self.cases.iter().flat_map(|case| &case.verdicts).any(|verdict| verdict.outcome == outcome)
    }
}

/// The results of one case.
#[derive(Debug, Serialize)]
pub struct Case {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the case, with its sizes.
    pub about: String,
    /// The measured figures.
    pub figures: Vec<Figure>,
    /// Remarks that qualify the figures.
    pub notes: Vec<String>,
    /// Criteria and outcomes.
    pub verdicts: Vec<Verdict>,
}

/// Unit in which a figure is printed. In JSON all times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// Nanoseconds.
    Ns,
    /// Milliseconds.
    Ms,
}

/// One measured quantity, such as the wall time, for all treatments.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// Name of the figure.
    pub name: &'static str,
    /// Printed unit.
    pub shown: Shown,
    /// One row per treatment, after the row of the plain program (without a treatment).
    pub rows: Vec<Row>,
    #[serde(skip)]
    rounds: Rounds<f64>,
}

/// One figure for one treatment.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Name of the treatment.
    pub with: &'static str,
    /// The measurements; absent if the treatment was not possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Why the treatment was not possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impossible: Option<String>,
}

/// The measurements of a row, in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// Median of the values.
    pub median_ns: f64,
    /// First and third quartile of the values.
    pub quartiles_ns: (f64, f64),
    /// Median of `measurement ÷ mean of the plain measurements just before and after it`; absent for the plain measurements themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Estimate>,
    /// Median of `measurement − mean of the plain measurements just before and after it`; absent for the plain measurements themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_ns: Option<Estimate>,
    /// All values in order of time.
    pub values_ns: Vec<f64>,
}

/// The name of a treatment, and the reason if it could not be measured.
#[derive(Clone, Debug)]
pub struct Column {
    /// Printed name.
    pub name: &'static str,
    /// Why the treatment could not be measured.
    pub impossible: Option<String>,
}

impl Figure {
    /// Makes a figure from `rounds`. They contain only those treatments of `columns` that could be measured, in the same order.
    pub fn new(name: &'static str, shown: Shown, columns: &[Column], rounds: Rounds<f64>) -> Figure {
        let plain = Measured::new(rounds.plain.clone(), None);
        let mut rows = vec![Row { with: "plain", measured: Some(plain), impossible: None }];
        let mut measured = rounds.treated.iter();
        for column in columns {
            let row = match &column.impossible {
                Some(why) => Row { with: column.name, measured: None, impossible: Some(why.clone()) },
                None => Row {
                    with: column.name,
                    measured: measured.next().map(|b| Measured::new(b.iter().map(|b| b.treated).collect(), Some(b))),
                    impossible: None,
                },
            };
            rows.push(row);
        }
        Figure { name, shown, rows, rounds }
    }

    /// Makes a figure with one row for each of `parts` (a name and its values). These values are not compared with plain measurements.
    pub fn parts(name: &'static str, shown: Shown, parts: Vec<(&'static str, Vec<f64>)>) -> Figure {
        let row = |(with, values): (&'static str, Vec<f64>)| Row {
            with,
            measured: Some(Measured::new(values, None)),
            impossible: None,
        };
        let rows = parts.into_iter().map(row).collect();
        Figure { name, shown, rows, rounds: Rounds { plain: Vec::new(), treated: Vec::new() } }
    }

    /// Returns the measurements of this treatment, if it was possible.
    pub fn with(&self, name: &str) -> Option<&Measured> {
        self.rows.iter().find(|row| row.with == name)?.measured.as_ref()
    }

    /// Returns the measurements of this treatment by round, each with the plain measurements just before and after it; `None` if the treatment was
    /// not possible.
    pub fn brackets(&self, name: &str) -> Option<&[Bracket<f64>]> {
        let possible = self.rows.iter().skip(1).filter(|row| row.measured.is_some());
        let place = possible.map(|row| row.with).position(|with| with == name)?;
        self.rounds.treated.get(place).map(Vec::as_slice)
    }
}

impl Measured {
    fn new(values_ns: Vec<f64>, brackets: Option<&[Bracket<f64>]>) -> Measured {
        let estimate = |of: fn(&Bracket<f64>) -> f64| {
            brackets.map(|brackets| median_estimate(&brackets.iter().map(of).collect::<Vec<_>>()))
        };
        Measured {
            median_ns: median(&values_ns),
            quartiles_ns: quartiles(&values_ns),
            ratio: estimate(Bracket::ratio),
            added_ns: estimate(Bracket::added),
            values_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_treatment_does_not_shift_the_others() {
        let columns = [
            Column { name: "first", impossible: Some("not installed".into()) },
            Column { name: "second", impossible: None },
        ];
        let bracket = Bracket { before: 10.0, treated: 12.0, after: 10.0 };
        let rounds = Rounds { plain: vec![10.0; 7], treated: vec![vec![bracket; 6]] };
        let figure = Figure::new("time", Shown::Ns, &columns, rounds);
        assert!(figure.with("first").is_none());
        assert_eq!(figure.brackets("first"), None);
        assert_eq!(figure.brackets("second"), Some([bracket; 6].as_slice()));
        let second = figure.with("second").unwrap();
        assert_eq!(second.ratio.unwrap().median, 1.2);
        assert_eq!(second.added_ns.unwrap().interval, Some((2.0, 2.0)));
        assert_eq!(figure.with("plain").unwrap().ratio, None);
    }
}
