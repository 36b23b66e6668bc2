//! The sentences of the verdict (the diagnosis), each followed by the steps that the user can try.

use advise::NextStep;
use advise::numbers::{factor, factor_range};

use super::page::Page;
use crate::style::{Style, columns};

const INDENT: &str = "  ";
const UNDER_STEP: &str = "      ";
const OR: &str = "→ or ";

pub(super) fn write(page: &mut Page) {
    let (verdicts, style) = (&page.document.verdict, page.style);
    for sentence in verdicts.iter().flat_map(|verdict| &verdict.sentences) {
        page.extend(style.wrapped(&sentence.text, INDENT, INDENT));
        let action = sentence.next.iter().map(|step| columns(&style.clean(&step.action))).max().unwrap_or(0);
        for (at, step) in sentence.next.iter().enumerate() {
            page.extend(step_lines(style, step, at, action).iter().map(|line| style.step(line)));
        }
    }
}

/// Formats the speed-up that a step is expected to give. The text has the upper bound of the speed-up, if there is one, only for the `first` step of a
/// sentence.
pub(crate) fn forecast(step: &NextStep, first: bool) -> Option<String> {
    let (low, high) = (step.expected_low?, step.expected_high?);
    let without = step.bound_without.as_deref().map_or_else(String::new, |what| format!(" without {what}"));
    let bound = step.bound.filter(|_| first);
    let bound = bound.map_or_else(String::new, |bound| format!(" (bound {}{without})", factor(bound)));
    Some(format!("expected {} faster{bound}", factor_range(low, high)))
}

/// Formats a step as `→ ACTION  expected 1.2–1.5× faster (bound 1.5×)  why: cox explain KIND` on one line if it fits; otherwise the page of the
/// guide goes to a line of its own. Only the first step has the page and the bound (the largest possible speed-up).
fn step_lines(style: &Style, step: &NextStep, at: usize, action_width: usize) -> Vec<String> {
    let action = style.clean(&step.action);
    let arrow = style.clean(if at == 0 { "→ " } else { OR });
    let forecast = forecast(step, at == 0).map_or(String::new(), |text| style.clean(&format!("   {text}")));
    let why = if at == 0 { format!("   why: cox explain {}", step.topic) } else { String::new() };
    let one_line = format!("{INDENT}{arrow}{action}");
    let padding =
        " ".repeat((action_width + columns(INDENT) + columns(&style.clean(OR))).saturating_sub(columns(&one_line)));
    let fits = |line: &str| columns(line) <= style.columns();
    let stepped = format!("{one_line}{padding}{forecast}").trim_end().to_owned();
    let mut lines = if fits(&stepped) {
        vec![stepped]
    } else {
        let mut lines = style.wrapped(&action, &format!("{INDENT}{arrow}"), UNDER_STEP);
        lines.extend((!forecast.is_empty()).then(|| format!("{UNDER_STEP}{}", forecast.trim_start())));
        lines
    };
    match lines.as_mut_slice() {
        _ if why.is_empty() => {}
        [line] if fits(&format!("{line}{why}")) => line.push_str(&why),
        _ => lines.push(format!("{UNDER_STEP}{}", why.trim_start())),
    }
    lines
}
