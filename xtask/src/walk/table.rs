//! The results of the walk as a table.

use std::time::Duration;

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The step succeeded.
    Good,
    /// The step failed, and why.
    Failed(String),
    /// The step was not run, because an earlier step that it needs failed.
    NotWalked,
}

/// One row of the table: a step of the walk, and how it ended.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the part of the walk.
    pub part: &'static str,
    /// Name of the step.
    pub step: String,
    /// How the step ended.
    pub outcome: Outcome,
    /// Duration of the step.
    pub time: Duration,
}

/// Returns whether every step was run and succeeded.
#[must_use]
pub fn all_good(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.outcome == Outcome::Good)
}

/// Returns the table, and a last line with the totals.
#[must_use]
pub fn text(rows: &[Row]) -> String {
    let heads = ["part", "step", "seconds", "result"].map(str::to_owned);
    let mut lines = vec![heads];
    lines.extend(rows.iter().map(|row| {
        [row.part.to_owned(), row.step.clone(), format!("{:.1}", row.time.as_secs_f64()), result(&row.outcome)]
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let [part, step, seconds] = [width(0), width(1), width(2)];
    let mut text = String::new();
    for [a, b, c, d] in &lines {
        text += &format!("{a:part$}  {b:step$}  {c:>seconds$}  {d}\n");
    }
    let count = |wanted: fn(&Outcome) -> bool| rows.iter().filter(|row| wanted(&row.outcome)).count();
    let good = count(|outcome| *outcome == Outcome::Good);
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let left_out = count(|outcome| *outcome == Outcome::NotWalked);
    let time: Duration = rows.iter().map(|row| row.time).sum();
    text += &format!("{good} steps succeeded, {failed} failed, {left_out} not run, {:.0} s\n", time.as_secs_f64());
    text
}

fn result(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Good => "good".to_owned(),
        Outcome::Failed(why) => format!("FAILED: {why}"),
        Outcome::NotWalked => "not run".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: &str, outcome: Outcome, ms: u64) -> Row {
        Row { part: "root", step: step.to_owned(), outcome, time: Duration::from_millis(ms) }
    }

    #[test]
    fn columns_are_aligned_and_failures_counted() {
        let rows = [
            row("make demo", Outcome::Good, 61_240),
            row("größer", Outcome::Failed("exit code 2".to_owned()), 900),
            row("last", Outcome::NotWalked, 0),
        ];
        let expected = "\
part  step       seconds  result
root  make demo     61.2  good
root  größer         0.9  FAILED: exit code 2
root  last           0.0  not run
1 steps succeeded, 1 failed, 1 not run, 62 s
";
        assert_eq!(text(&rows), expected);
        assert!(!all_good(&rows) && !all_good(&rows[1..2]) && !all_good(&rows[2..]) && all_good(&rows[..1]));
    }
}
