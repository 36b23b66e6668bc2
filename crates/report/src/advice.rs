//! The output of `cox advise`: forecasts of how long a program would take on fewer CPUs, as text and as JSON.

use advise::forecast::tried::{Answer, Tried};
use advise::forecast::{Basis, Choice, Forecast, Way};
use advise::numbers::{about_percent, counted, duration, seconds};
use ledger::Provenance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pack::{OTHERS, cpus_of};
use crate::style::Style;

/// Version of the JSON schema of [`Advice`].
pub const SCHEMA_VERSION: u32 = 1;

/// The document of `cox advise --json`, from which its text is made. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// The program's command line.
    pub command: Vec<String>,
    /// The exit code of the run on which the advice is based; absent if unknown.
    pub exit_code: Option<i32>,
    /// The CPUs that the program would have, as a list: `0-3,8`; absent if only their number is known.
    pub cpu_list: Option<String>,
    /// The run on which the advice is based.
    pub run: Run,
    /// Where and when the run on which the advice is based was measured.
    #[serde(default)]
    pub provenance: Option<Provenance>,
    /// What trying the ways has shown; absent unless the ways were tried (`--runs`).
    #[serde(default)]
    pub tried: Option<Tried>,
    /// What is not forecast, and why, one sentence each.
    #[serde(default)]
    pub not_forecast: Vec<String>,
    /// The forecast for each way to run the program.
    #[serde(flatten)]
    pub forecast: Forecast,
}

/// The run on which advice is based.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Whether the ways to run the program were tried and measured during this run, or modelled from the run's account.
    pub basis: Basis,
    /// How long the run took. If the ways were tried: the first run, which showed what kind of program it is.
    pub elapsed_ns: u64,
    /// Number of CPUs that the run had.
    pub cpus: u64,
    /// Number of windows of the run that were compared; 0 if the run was not divided into windows.
    pub windows: u64,
    /// Minimum length of a window (a part of the run in which one way to run the program was measured), nanoseconds.
    pub window_ns: u64,
    /// The part of the CPUs' time that other programs used during the run, or during all runs if the ways were tried; absent if not measured.
    pub others: Option<f64>,
}

impl Advice {
    /// Formats the advice for a terminal.
    #[must_use]
    pub fn text(&self, style: &Style) -> String {
        let forecast = &self.forecast;
        let command = self.command.first().map_or("?", String::as_str);
        let cpus = match &self.cpu_list {
            Some(list) => cpus_of(list),
            None => counted(forecast.cpus, "CPU"),
        };
        let how = match self.run.basis {
            Basis::Measured => "measured",
            Basis::Modelled => "modelled from the account of a run",
        };
        let title = format!("cox: {command} · {} on {cpus} · {how}", counted(forecast.threads, "thread"));
        let mut lines = vec![style.title(&style.clean(&title)), String::new(), style.clean(&self.now())];
        match &self.tried {
            None => {
                lines.push(row("bound", "", &seconds(forecast.bound_ns), ""));
                for (place, choice) in forecast.choices.iter().enumerate() {
                    let line = style.clean(&line(choice, &format!("{:.2} of the bound", choice.of_bound), place == 0));
                    lines.push(if place == 0 { style.step(&line) } else { line });
                }
                if !self.not_forecast.is_empty() {
                    lines.push(String::new());
                    lines.extend(self.not_forecast.iter().flat_map(|why| style.wrapped(why, "  ", "    ")));
                }
            }
            Some(tried) => lines.extend(self.tried_lines(tried, style)),
        }
        if let Some(others) = self.run.others.filter(|others| *others > OTHERS) {
            let effect = match self.tried {
                Some(_) => ": the times include their effect",
                None => ": all times except the bound include their effect",
            };
            let told = format!("  Other programs had {:.0} % of these CPUs{effect}", 100.0 * others);
            lines.extend([String::new(), style.warning(&style.clean(&told))]);
        }
        lines.into_iter().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    /// Formats the measured ways, what the runs show, and why other ways were not tried.
    fn tried_lines(&self, tried: &Tried, style: &Style) -> Vec<String> {
        let choices = &self.forecast.choices;
        let fastest_ns = choices.first().map_or(1, |choice| choice.time_ns.max(1)) as f64;
        let mut lines = Vec::new();
        for (place, choice) in choices.iter().enumerate() {
            let is_best = place == 0 && tried.answer == Answer::Fastest;
            let compared = format!("{:.2} × as long", choice.time_ns as f64 / fastest_ns);
            let line = style.clean(&line(choice, if place == 0 { "" } else { &compared }, is_best));
            lines.push(if is_best { style.step(&line) } else { line });
        }
        if let [first, second, ..] = &choices[..] {
            lines.push(String::new());
            lines.extend(style.wrapped(&verdict(tried, &name(first), &name(second)), "  ", "    "));
        }
        lines.extend(tried.notes.iter().flat_map(|note| style.wrapped(&format!("Not tried: {note}."), "  ", "    ")));
        lines
    }

    /// Formats the line above the forecasts, which names the run on which they are based.
    fn now(&self) -> String {
        let (threads, now) = (counted(self.forecast.threads, "thread"), &self.run);
        let on = counted(self.forecast.cpus, "CPU");
        if let Some(tried) = &self.tried {
            let fewest = self.forecast.choices.iter().filter_map(|choice| choice.runs).min().unwrap_or(tried.rounds);
            let most = counted(tried.rounds, "run");
            let runs = match fewest < tried.rounds {
                true => format!("{fewest} to {most} of each way, more of those that may be fastest"),
                false => format!("{most} of each way"),
            };
            return format!("  how long it takes on {on}, measured in {runs}:");
        }
        match now.basis {
            Basis::Modelled => {
                let (cpus, time) = (counted(now.cpus, "CPU"), seconds(now.elapsed_ns));
                format!("  the run: {threads} on {cpus}, {time}. Forecast for {on}:")
            }
            Basis::Measured => format!(
                "  how long {threads} on {on} would take, measured in {} of one run of {}:",
                counted(now.windows, "time window"),
                seconds(now.elapsed_ns)
            ),
        }
    }
}

fn row(name: &str, compared: &str, time: &str, note: &str) -> String {
    format!("    {name:<24}  {compared:<17}  {time:>9}{note}")
}

fn name(choice: &Choice) -> String {
    match choice.way {
        Way::OneThread | Way::FewerThreads => counted(choice.threads, "thread"),
        Way::Ranks => counted(choice.threads, "rank"),
        Way::Passive => "OMP_WAIT_POLICY=passive".to_owned(),
        Way::Active => "OMP_WAIT_POLICY=active".to_owned(),
        Way::Taskset => "taskset".to_owned(),
        Way::Packing => "packing (cox pack)".to_owned(),
    }
}

/// Formats a way. `compared`: its time, compared with that of the bound or of another way.
fn line(choice: &Choice, compared: &str, is_best: bool) -> String {
    let best = is_best.then(|| "← best".to_owned());
    let remarks: Vec<String> = best.into_iter().chain(choice.note.clone()).collect();
    let note = format!(" {:<13}  {}", range(choice), remarks.join(", "));
    row(&name(choice), compared, &seconds(choice.time_ns), &note)
}

/// Says what the runs show about the first two ways.
fn verdict(tried: &Tried, first: &str, second: &str) -> String {
    let (low, high) = tried.interval;
    let at_most = about_percent((1.0 / low).max(high) - 1.0);
    match tried.answer {
        Answer::Fastest => {
            let ratio = tried.ratio;
            format!(
                "Fastest: {first}. It takes {ratio:.2} of the time of {second} (95 % interval: {low:.2}–{high:.2})."
            )
        }
        Answer::Equal => format!("No significant difference between {first} and {second}: at most {at_most}."),
        Answer::NearFastest => {
            let slower = about_percent((high - 1.0).max(0.0));
            format!("{first} is fastest, or at most {slower} slower than {second} (95 % interval: {low:.2}–{high:.2}).")
        }
        Answer::Undecided => format!(
            "No significant difference between {first} and {second}: it may be up to {at_most}. More runs (--runs) show smaller differences."
        ),
    }
}

/// Formats a forecast's interval: `± 0.1 s`, or both ends if one is much nearer to the forecast than the other.
fn range(choice: &Choice) -> String {
    let (below, above) = (choice.time_ns - choice.low_ns, choice.high_ns - choice.time_ns);
    if above > 2 * below || below > 2 * above {
        let number = |ns: u64| seconds(ns).trim_end_matches(" s").to_owned();
        return format!("({}–{})", number(choice.low_ns), number(choice.high_ns));
    }
    format!("± {}", if above < 100_000_000 { duration(above) } else { seconds(above) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(way: Way, threads: u64, [low, time, high]: [u64; 3], note: Option<&str>) -> Choice {
        let ms = |ms: u64| ms * 1_000_000;
        Choice {
            way,
            threads,
            time_ns: ms(time),
            low_ns: ms(low),
            high_ns: ms(high),
            of_bound: 12_800.0 / time as f64,
            basis: Basis::Measured,
            note: note.map(str::to_owned),
            runs: None,
            runs_ns: Vec::new(),
        }
    }

    fn advice() -> Advice {
        Advice {
            schema_version: SCHEMA_VERSION,
            cox_version: "1".into(),
            command: vec!["./app".into(), "9".into()],
            exit_code: Some(0),
            cpu_list: Some("0-11".into()),
            run: Run {
                basis: Basis::Measured,
                elapsed_ns: 14_200_000_000,
                cpus: 12,
                windows: 40,
                window_ns: 80_000_000,
                others: Some(0.01),
            },
            provenance: None,
            tried: None,
            not_forecast: vec!["OMP_WAIT_POLICY is not forecast.".to_owned()],
            forecast: Forecast {
                threads: 16,
                cpus: 12,
                bound_ns: 12_800_000_000,
                choices: vec![
                    choice(Way::FewerThreads, 12, [13_100, 13_200, 13_300], Some("OMP_NUM_THREADS=12")),
                    choice(Way::Packing, 16, [13_500, 13_800, 14_100], None),
                    choice(Way::Taskset, 16, [16_000, 19_100, 27_000], None),
                ],
            },
        }
    }

    #[test]
    fn ways_stand_under_one_another() {
        let text = advice().text(&Style::default());
        let expected = [
            "cox: ./app · 16 threads on CPUs 0-11 · measured",
            "",
            "  how long 16 threads on 12 CPUs would take, measured in 40 time windows of one run of 14.20 s:",
            "    bound                                          12.80 s",
            "    12 threads                0.97 of the bound    13.20 s ± 0.10 s       ← best, OMP_NUM_THREADS=12",
            "    packing (cox pack)        0.93 of the bound    13.80 s ± 0.30 s",
            "    taskset                   0.67 of the bound    19.10 s (16.00–27.00)",
            "",
            "  OMP_WAIT_POLICY is not forecast.",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
        let mut shared = advice();
        shared.run.others = Some(0.3);
        assert!(shared.text(&Style::default()).ends_with("include their effect\n"));
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let plain = advice().text(&Style { unicode: false, ..Style::default() });
        assert!(plain.contains("+/- 0.10 s") && plain.contains("<- best") && plain.is_ascii(), "{plain}");
    }

    #[test]
    fn a_model_says_what_is_now() {
        let mut advice = Advice { cpu_list: None, ..advice() };
        advice.run = Run { basis: Basis::Modelled, elapsed_ns: 9_600_000_000, cpus: 16, ..advice.run };
        let text = advice.text(&Style::default());
        assert!(text.contains("16 threads on 12 CPUs · modelled"), "{text}");
        assert!(text.contains("the run: 16 threads on 16 CPUs, 9.60 s. Forecast for 12 CPUs:"), "{text}");
    }

    fn tried(answer: Answer, interval: (f64, f64)) -> Advice {
        let fastest = (answer == Answer::Fastest).then_some(Way::FewerThreads);
        let notes = vec!["cox does not know that".to_owned()];
        let ratio = f64::midpoint(interval.0, interval.1);
        Advice { tried: Some(Tried { rounds: 5, answer, fastest, ratio, interval, notes }), ..advice() }
    }

    #[test]
    fn tried_ways_are_compared_with_the_fastest() {
        let text = tried(Answer::Fastest, (0.93, 0.99)).text(&Style::default());
        let expected = [
            "cox: ./app · 16 threads on CPUs 0-11 · measured",
            "",
            "  how long it takes on 12 CPUs, measured in 5 runs of each way:",
            "    12 threads                                     13.20 s ± 0.10 s       ← best, OMP_NUM_THREADS=12",
            "    packing (cox pack)        1.05 × as long       13.80 s ± 0.30 s",
            "    taskset                   1.45 × as long       19.10 s (16.00–27.00)",
            "",
            "  Fastest: 12 threads. It takes 0.96 of the time of packing (cox pack) (95 % interval: 0.93–0.99).",
            "  Not tried: cox does not know that.",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn a_difference_that_is_not_significant_has_a_limit() {
        let text = |answer, interval| tried(answer, interval).text(&Style::default());
        let equal = text(Answer::Equal, (0.98, 1.01));
        assert!(
            equal.contains("between 12 threads and packing (cox pack): at most 2.0 %.") && !equal.contains("best"),
            "{equal}"
        );
        let near = text(Answer::NearFastest, (0.9, 1.03));
        let words =
            "12 threads is fastest, or at most 3.0 % slower than packing (cox pack) (95 % interval: 0.90–1.03).";
        assert!(near.contains(words) && !near.contains("best"), "{near}");
        let undecided = text(Answer::Undecided, (0.8, 1.1));
        assert!(
            undecided.contains("it may be up to 25 %.") && undecided.contains("--runs") && !undecided.contains("best")
        );
        assert!(undecided.lines().all(|line| line.chars().count() <= 100), "{undecided}");
    }

    #[test]
    fn documents_of_earlier_versions_can_be_read() {
        let mut json = serde_json::to_value(advice()).unwrap();
        json.as_object_mut().unwrap().remove("tried");
        for choice in json["choices"].as_array_mut().unwrap() {
            choice.as_object_mut().unwrap().retain(|name, _| !name.starts_with("runs"));
        }
        assert_eq!(serde_json::from_value::<Advice>(json).unwrap(), advice());
    }

    #[test]
    fn what_is_written_can_be_read() {
        let json = serde_json::to_value(advice()).unwrap();
        assert_eq!((&json["threads"], &json["choices"][0]["way"]), (&16.into(), &"fewer_threads".into()));
        assert_eq!(serde_json::from_value::<Advice>(json).unwrap(), advice());
    }
}
