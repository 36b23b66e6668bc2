//! Output of `cox doctor`: one line per feature, and below a "no" how to fix it.

use machine::features::{Available, Feature};
use report::style::Style;
use serde_json::json;

/// Width of the column with the features' names.
const NAMES: usize = 30;

/// On terminals narrower than this, the reasons have no column of their own: a reason that does not fit beside the name continues on the next line.
const TWO_COLUMNS: usize = 90;

/// Returns the findings as text.
pub fn text(features: &[Feature], style: &Style) -> String {
    let indent = " ".repeat(if style.columns() < TWO_COLUMNS { 6 } else { NAMES + 8 });
    let mut lines = Vec::new();
    for feature in features {
        let (word, why, fix) = match &feature.available {
            Available::Yes { how } => ("yes", how, None),
            Available::No { reason, fix } => ("no", reason, Some(fix)),
            Available::Unknown { reason, fix } => ("?", reason, Some(fix)),
        };
        let name = format!("  {:NAMES$} {word:4} ", feature.name);
        lines.extend(style.wrapped(why, &name, &indent));
        if let Some(fix) = fix.filter(|fix| !fix.is_empty()) {
            let advice = format!("{fix} (cox explain {})", feature.doc);
            lines.extend(style.wrapped(&advice, &format!("{indent}-> "), &format!("{indent}   ")));
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Returns a finding as JSON.
pub fn as_json(feature: &Feature) -> serde_json::Value {
    let (available, how, reason, fix) = match &feature.available {
        Available::Yes { how } => (Some(true), Some(how), None, None),
        Available::No { reason, fix } => (Some(false), None, Some(reason), Some(fix)),
        Available::Unknown { reason, fix } => (None, None, Some(reason), Some(fix)),
    };
    json!({ "name": feature.name, "available": available, "how": how, "reason": reason, "fix": fix, "doc": feature.doc })
}

#[cfg(test)]
mod tests {
    use machine::Root;
    use machine::features::{Facts, evaluate};

    use super::*;

    #[test]
    fn findings_fit_the_terminal() {
        let why = "what the kernel or a security module refuses without CAP_BPF and CAP_PERFMON (running as uid 1000)";
        let (reason, fix) = (why.to_owned(), format!("sudo setcap …; {why}"));
        let mut features = evaluate(&Facts::read(&Root::live()).unwrap());
        features.iter_mut().for_each(|f| {
            f.available = Available::No { reason: reason.clone(), fix: fix.clone() };
        });
        for width in [60, 80, 100] {
            let style = Style { width, ..Style::default() };
            let text = text(&features, &style);
            assert!(text.lines().all(|line| report::style::columns(line) <= width), "{text}");
            let said: Vec<&str> = text.split_whitespace().collect();
            assert!(said.join(" ").contains(why), "{text}");
        }
    }
}
