//! Output of `cox quiet plan`: each setting with its present value, the one that it would get, and the reason.

use quiet::{BootWord, Level, NOTHING, Plan, Reboot, Step};
use report::style::{Style, columns};
use serde_json::{Value, json};

/// Widest column with the names of settings. The change of a longer one follows its name.
const NAMES: usize = 62;

/// What a level does, as its heading says it.
fn heading(level: Level) -> &'static str {
    match level {
        Level::Pin => "the program runs on the quiet CPUs",
        Level::Cgroup => "the program has a cpuset of its own",
        Level::NoBalance => "the scheduler moves no thread there",
        Level::Irq => "devices interrupt the other CPUs",
        Level::Work => "the kernel works on the other CPUs",
        Level::Full => "what is periodic, or comes from other CPUs, stays away",
        Level::Tickless => "the tick stops while one thread runs",
    }
}

/// Returns the plan as text.
pub fn text(plan: &Plan, boot: &Reboot, style: &Style) -> String {
    let mut lines = Vec::new();
    let chosen = &plan.chosen;
    let title = format!("Quiet: CPUs {}. Everything else: CPUs {}.", chosen.cpus, chosen.housekeeping);
    lines.extend(style.wrapped(&title, "", "  ").iter().map(|line| style.title(line)));
    lines.push(format!("Level {}; nothing has been changed.", plan.extent.level));
    for price in &chosen.prices {
        lines.extend(style.wrapped(price, "  ! ", "    "));
    }
    for level in Level::ALL {
        let steps: Vec<&Step> = plan.steps.iter().filter(|step| step.level == level && step.is_change()).collect();
        if steps.is_empty() {
            continue;
        }
        lines.push(String::new());
        lines.push(style.heading(&format!("{level}: {}", heading(level))));
        let names: Vec<String> = steps.iter().map(|step| step.name.clone()).collect();
        let column = names.iter().map(|name| columns(name)).max().unwrap_or(0).min(NAMES);
        for (step, name) in steps.into_iter().zip(names) {
            let change = format!("{} → {}", value(&step.now), value(&step.wanted));
            lines.extend(style.wrapped(&change, &format!("  {name:column$}  "), "      "));
            let price = if step.price.is_empty() { String::new() } else { format!("; price: {}", step.price) };
            if !step.why.is_empty() {
                lines.extend(style.wrapped(&format!("against {}{price}", step.why), "      ", "      "));
            }
        }
    }
    if !plan.obstacles.is_empty() {
        lines.push(String::new());
        lines.push(style.heading("cannot be changed here"));
    }
    for obstacle in &plan.obstacles {
        lines.extend(style.wrapped(&obstacle.to_string(), "  ", "      "));
    }
    if !boot.words.is_empty() {
        lines.push(String::new());
        lines.push(style.heading("needs a reboot, with these words for the kernel"));
    }
    for BootWord { word, instead_of, adds } in &boot.words {
        let instead = instead_of.as_ref().map_or_else(String::new, |present| format!(" (instead of {present})"));
        lines.extend(style.wrapped(&format!("{word}{instead}: {adds}"), "  ", "      "));
    }
    if !boot.notes.is_empty() {
        lines.push(String::new());
        lines.push(style.heading("what a reboot would not change"));
    }
    for note in &boot.notes {
        lines.extend(style.wrapped(note, "  ", "      "));
    }
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn value(text: &str) -> &str {
    if text.is_empty() { "(none)" } else { text }
}

/// Returns the plan as JSON.
pub fn as_json(plan: &Plan, boot: &Reboot) -> Value {
    let step = |step: &Step| {
        let now = Some(&step.now).filter(|now| *now != NOTHING);
        json!({ "level": step.level.name(), "what": step.name, "now": now, "wanted": step.wanted,
                "why": step.why, "price": step.price })
    };
    let steps: Vec<Value> = plan.steps.iter().filter(|step| step.is_change()).map(step).collect();
    let obstacles: Vec<Value> = plan
        .obstacles
        .iter()
        .map(|obstacle| json!({ "level": obstacle.level.name(), "what": obstacle.what, "instead": obstacle.instead }))
        .collect();
    let words: Vec<Value> = boot
        .words
        .iter()
        .map(|boot| json!({ "word": boot.word, "instead_of": boot.instead_of, "adds": boot.adds }))
        .collect();
    json!({ "cpus": plan.chosen.cpus, "housekeeping": plan.chosen.housekeeping, "level": plan.extent.level.name(),
            "isolated": plan.extent.isolated, "prices": plan.chosen.prices, "steps": steps, "obstacles": obstacles,
            "reboot": words, "reboot_notes": boot.notes })
}

#[cfg(test)]
mod tests {
    use machine::{CpuSet, Root};
    use quiet::{Chosen, Extent, Facts, plan, reboot};

    use super::*;

    #[test]
    fn a_plan_fits_the_terminal() {
        let mut facts = Facts::read(&Root::live()).unwrap();
        facts.nohz_full = None;
        let (cpus, housekeeping): (CpuSet, CpuSet) = ([1].into_iter().collect(), [0].into_iter().collect());
        let system = cpus.union(&housekeeping);
        let chosen = Chosen { cpus, housekeeping, system, prices: vec!["a price ".repeat(20)] };
        let plan = plan(&facts, &chosen, Extent { level: Level::Tickless, isolated: false });
        for width in [60, 80, 100] {
            let text = text(&plan, &reboot(&facts, &chosen, ""), &Style { width, ..Style::default() });
            let wide: Vec<&str> = text.lines().filter(|line| columns(line) > width).collect();
            // A path has no place at which it could be broken.
            assert!(
                wide.iter().all(|line| line.starts_with("  /") && line.split_whitespace().count() == 1),
                "{wide:?}"
            );
            assert!(text.contains("the tick of CPU"), "{text}");
        }
    }

    #[test]
    fn a_heading_is_right_for_both_versions_of_cgroups() {
        // In version 2, only the program has a cpuset of its own.
        let said = heading(Level::Cgroup);
        assert!(said.starts_with("the program has a cpuset of its own"), "{said}");
    }
}
