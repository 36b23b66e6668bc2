//! Compares a run under cox with runs without cox (*plain* runs). Pure: no input or output.

use super::headers::Plan;
use super::rounds::{End, Outcome};

/// The expected behaviour of a test with one number of threads, derived from its *plain* runs (without cox).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    outcome: Outcome,
    /// True if the test prints different lines in different runs without cox. Lines are then not compared.
    output_varies: bool,
    /// True if the standard output is part of the test.
    is_output_fixed: bool,
}

/// The result of comparing a run with its reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The run ended in the same way as the runs without cox, with the same output.
    Same,
    /// The run ended in the same way, but its output differs in a way that does not matter. Either the lines are in another order, or the standard
    /// output has other lines and the test does not prescribe it.
    OtherOutput,
    /// The run ended in another way than the runs without cox, or printed other lines.
    Differs,
    /// The run did not end within the limit.
    Hangs,
}

/// Makes the reference of a test from its runs without cox.
///
/// # Errors
/// The reason, if the test cannot be judged: it hangs, fails, or ends in different ways.
pub fn reference(plain: &[&Outcome], plan: &Plan) -> Result<Reference, String> {
    let should_fail = plan.should_fail;
    let Some(first) = plain.first() else { return Err("it was not run".into()) };
    if let Some(other) = plain.iter().find(|outcome| outcome.end != first.end) {
        return Err(format!("runs without cox end in different ways: {} and {}", first.end, other.end));
    }
    if !first.left.is_empty() {
        return Err(format!("without cox, it leaves processes behind: {}", first.left.join(", ")));
    }
    if first.end == End::Hang || (first.end != End::Exit(0)) != should_fail {
        let end = &first.end;
        return Err(if should_fail {
            format!("without cox, it should fail, but ends with {end}")
        } else {
            format!("without cox, it ends with {end}")
        });
    }
    let output_varies = plain.iter().any(|outcome| lines(outcome) != lines(first));
    Ok(Reference { outcome: (*first).clone(), output_varies, is_output_fixed: plan.is_output_fixed })
}

impl Reference {
    /// Judges a run. The order of lines is ignored, because it is arbitrary in a multithreaded program.
    #[must_use]
    pub fn judge(&self, run: &Outcome) -> Verdict {
        if run.end == End::Hang {
            Verdict::Hangs
        } else if run.end != self.outcome.end || run.left != self.outcome.left {
            Verdict::Differs
        } else if self.output_varies || run.output == self.outcome.output {
            Verdict::Same
        } else {
            let ([output, errors], [plain_output, plain_errors]) = (lines(run), lines(&self.outcome));
            let is_same = errors == plain_errors && (output == plain_output || !self.is_output_fixed);
            if is_same { Verdict::OtherOutput } else { Verdict::Differs }
        }
    }

    /// Describes how a run under cox differs from the runs without cox.
    #[must_use]
    pub fn difference(&self, run: &Outcome) -> String {
        if run.end != self.outcome.end {
            return format!("{}, without cox {}", run.end, self.outcome.end);
        }
        if run.left != self.outcome.left {
            return format!("it leaves processes behind: {}", run.left.join(", "));
        }
        let [ours, plain] = [lines(run), lines(&self.outcome)];
        let only = |of: &[Vec<String>; 2], not: &[Vec<String>; 2]| {
            let mut all = of.iter().zip(not).flat_map(|(of, not)| of.iter().filter(|line| !not.contains(line)));
            all.next().map_or_else(|| "nothing".to_owned(), |line| format!("'{line}'"))
        };
        format!("it prints {}, without cox {}", only(&ours, &plain), only(&plain, &ours))
    }
}

/// Returns the sorted lines of both outputs.
fn lines(outcome: &Outcome) -> [Vec<String>; 2] {
    outcome.output.each_ref().map(|text| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(head: &str) -> Plan {
        crate::conformance::headers::plan(head, crate::conformance::headers::Language::C).unwrap()
    }

    fn outcome(end: End, stdout: &str) -> Outcome {
        Outcome { end, output: [stdout.into(), String::new()], left: Vec::new() }
    }

    #[test]
    fn the_end_and_the_lines_are_compared_but_not_their_order() {
        let plain = outcome(End::Exit(0), "a\nb\n");
        let reference = reference(&[&plain, &plain], &plan("")).unwrap();
        assert_eq!(reference.judge(&plain), Verdict::Same);
        assert_eq!(reference.judge(&outcome(End::Exit(0), "b\na\n")), Verdict::OtherOutput);
        assert_eq!(reference.judge(&outcome(End::Exit(0), "a\na\nb\n")), Verdict::Differs);
        assert_eq!(reference.judge(&outcome(End::Exit(1), "a\nb\n")), Verdict::Differs);
        assert_eq!(reference.judge(&outcome(End::Hang, "a\nb\n")), Verdict::Hangs);
        let mut noisy = plain.clone();
        noisy.output[1] = "cox: hello\n".into();
        assert_eq!(reference.judge(&noisy), Verdict::Differs);
        let mut leaving = plain.clone();
        leaving.left = vec!["sleep".into()];
        assert_eq!(reference.judge(&leaving), Verdict::Differs);
    }

    #[test]
    fn where_the_test_does_not_say_what_it_prints_errors_count_still() {
        let plain = outcome(End::Exit(0), "a\n");
        let free = reference(&[&plain, &plain], &plan("{ dg-do run }")).unwrap();
        assert_eq!(free.judge(&outcome(End::Exit(0), "b\n")), Verdict::OtherOutput);
        let mut noisy = plain.clone();
        noisy.output[1] = "cox: hello\n".into();
        assert_eq!(free.judge(&noisy), Verdict::Differs);
    }

    #[test]
    fn where_plain_output_varies_the_end_alone_counts() {
        let [first, second] = ["tid 1\n", "tid 2\n"].map(|text| outcome(End::Exit(0), text));
        let varying = reference(&[&first, &second], &plan("")).unwrap();
        assert_eq!(varying.judge(&outcome(End::Exit(0), "tid 3\n")), Verdict::Same);
        assert_eq!(varying.judge(&outcome(End::Signal(11), "tid 1\n")), Verdict::Differs);
    }

    #[test]
    fn tests_that_fail_by_themselves_are_set_aside() {
        let [good, bad, hang] = [End::Exit(0), End::Exit(1), End::Hang].map(|end| outcome(end, ""));
        let [succeeds, fails] = ["{ dg-do run }", "{ dg-shouldfail }"].map(plan);
        assert!(reference(&[&bad, &bad], &succeeds).is_err());
        assert!(reference(&[&bad, &bad], &fails).is_ok());
        assert!(reference(&[&good, &good], &fails).is_err());
        assert!(reference(&[&good, &bad], &succeeds).unwrap_err().contains("in different ways"));
        assert!(reference(&[&hang, &hang], &fails).is_err());
        assert!(reference(&[], &succeeds).is_err());
    }
}
