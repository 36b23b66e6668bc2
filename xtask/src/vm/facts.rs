//! What a boot has shown: from the results of the jobs to facts, which kernel/vm/expected.txt names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::judge;
use super::results::{Job, Results};

/// A fact about a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The value that is compared.
    pub value: String,
    /// The reason, or what the job printed.
    pub detail: String,
}

/// A CPU has its tick if it has at least this share of the ticks of CPU 0, which always has one. Rates mean little: an emulated CPU gets its interrupts
/// only when it is its turn.
const SHARE: f64 = 0.5;

/// Returns the facts about a kernel, by the names `JOB: WHAT`. `console`: the kernel's log.
#[must_use]
pub fn facts(results: &Results, console: &str) -> BTreeMap<String, Fact> {
    let mut facts = BTreeMap::new();
    for (name, job) in &results.jobs {
        let mut enter = |what: &str, value: String, detail: &str| {
            facts.insert(format!("{name}: {what}"), Fact { value, detail: detail.to_owned() });
        };
        enter("exit", job.code.to_string(), &job.printed);
        match name.as_str() {
            "doctor" => doctor(&job.document, &mut enter),
            "run" | "trace" | "overlap" => run(job, &mut enter),
            "pack" => pack(job, &mut enter),
            "noise" => noise(job, &mut enter),
            "ulp" => ulp(job, &mut enter),
            name if name.starts_with("quiet") => printed(job, &mut enter),
            _ => {}
        }
    }
    let log = judge::first_warning(console);
    let fact =
        Fact { value: if log.is_some() { "warns" } else { "quiet" }.to_owned(), detail: log.unwrap_or("").to_owned() };
    facts.insert("kernel: log".to_owned(), fact);
    facts
}

type Enter<'a> = dyn FnMut(&str, String, &str) + 'a;

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

/// Returns the value at a path such as `/figures/threads` as it is printed.
fn word(document: &Value, path: &str) -> String {
    match document.pointer(path) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "none".to_owned(),
    }
}

fn number(document: &Value, path: &str) -> f64 {
    document.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

/// What `cox doctor` finds: each feature by its name.
fn doctor(document: &Value, enter: &mut Enter<'_>) {
    for feature in document["features"].as_array().into_iter().flatten() {
        let Some(name) = feature["name"].as_str() else { continue };
        let detail = feature["how"].as_str().or(feature["reason"].as_str()).unwrap_or_default();
        enter(name, yes(feature["available"] == Value::Bool(true)), detail);
    }
}

/// What `cox run` reports. If it uses a weaker backend, it prints the reason.
fn run(job: &Job, enter: &mut Enter<'_>) {
    let document = &job.document;
    enter("backend", word(document, "/backend"), &job.printed);
    enter("threads", word(document, "/figures/threads"), "");
    enter("lost events", word(document, "/figures/lost_events"), "");
    enter("states add up", yes(number(document, "/checks/worst_gap") < 0.001 && document["checks"].is_object()), "");
    enter("wake-ups", yes(number(document, "/figures/wakeups") > 0.0), "");
    if document["overlap"].is_object() {
        enter("doorbells", word(document, "/overlap/backend"), &job.printed);
        enter("processes", word(document, "/overlap/processes"), &job.printed);
        enter("standbys wake", yes(number(document, "/overlap/rings") > 0.0), &document["overlap"].to_string());
        enter("standbys run tasks", yes(number(document, "/overlap/tasks") > 0.0), &document["overlap"].to_string());
    }
}

fn pack(job: &Job, enter: &mut Enter<'_>) {
    let document = &job.document;
    enter("backend", word(document, "/backend"), &job.printed);
    enter("threads move", yes(number(document, "/moves") > 0.0), &job.printed);
    enter("masks restored", yes(job.printed.contains("masks restored")), &job.printed);
}

/// What `cox noise` measures on CPUs 0 and 1. CPU 0 keeps its tick on each boot line.
fn noise(job: &Job, enter: &mut Enter<'_>) {
    let document = &job.document;
    let Some(cpus) = document["cpus"].as_array() else { return };
    let blind = document.pointer("/events/blind").unwrap_or(&Value::Null);
    enter("events", yes(blind.is_null()), blind.as_str().unwrap_or_default());
    enter("lost events", word(document, "/events/lost"), "");
    let ticks: Vec<f64> = cpus.iter().map(|cpu| ticks_per_second(document, cpu)).collect();
    let detail = format!("{ticks:.1?} ticks a second");
    let [first, second] = [0, 1].map(|at| ticks.get(at).copied().unwrap_or(0.0));
    enter("ticks on CPU 0", yes(first > 0.0), &detail);
    enter("ticks on CPU 1", yes(second > SHARE * first), &detail);
    // Each CPU has such a line: `check: 29 of 29 counters of the kernel agree with the events`.
    let checks = job
        .printed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("check: ")?.split_once(" counters of the kernel agree"));
    let agree =
        |(counts, _): (&str, &str)| counts.split_once(" of ").is_some_and(|(some, all)| some == all && all != "0");
    let agree: Vec<bool> = checks.map(agree).collect();
    enter("counters agree", yes(agree.len() == cpus.len() && agree.iter().all(|agree| *agree)), &job.printed);
}

fn ticks_per_second(document: &Value, cpu: &Value) -> f64 {
    let is_tick = |part: &&Value| {
        let cause = part["cause"].as_u64().and_then(|at| document["causes"].get(usize::try_from(at).ok()?));
        cause.is_some_and(|cause| cause["class"] == "tick")
    };
    let parts = cpu["by_cause"].as_array().into_iter().flatten().filter(is_tick);
    let count: f64 = parts.map(|part| number(part, "/count")).sum();
    count / (number(cpu, "/length_ns").max(1.0) / 1e9)
}

/// What `cox ulp --stats` prints: `cox: carriers: 4 · 8341 yields on them, …`.
fn ulp(job: &Job, enter: &mut Enter<'_>) {
    let line = job.printed.lines().find(|line| line.starts_with("cox: carriers: ")).unwrap_or_default();
    let yields = line.split(" · ").find_map(|part| part.split_once(" yields on them")).map(|(count, _)| count);
    enter("yields on carriers", yes(yields.is_some_and(|count| count != "0")), &job.printed);
}

/// What `quiet-check` prints: `fact NAME = VALUE`, and below it indented lines with the reason.
fn printed(job: &Job, enter: &mut Enter<'_>) {
    let mut lines = job.printed.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((name, value)) = line.strip_prefix("fact ").and_then(|fact| fact.split_once(" = ")) else { continue };
        let mut detail = String::new();
        while let Some(reason) = lines.next_if(|line| line.starts_with("    ")) {
            detail.extend([reason.trim_start(), "\n"]);
        }
        enter(name, value.to_owned(), &detail);
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::read;
    use super::*;

    fn of(text: &str, console: &str) -> BTreeMap<String, Fact> {
        facts(&read(text), console)
    }

    #[test]
    fn what_doctor_finds_is_told_with_its_reason() {
        let facts = of(
            "begin doctor\njson {\"features\":[{\"name\":\"eBPF\",\"available\":true,\"how\":\"tp_btf\",\"reason\":null},\n\
             json {\"name\":\"sched_ext\",\"available\":false,\"how\":null,\"reason\":\"not set\"}]}\nend doctor 0\ndone\n",
            "[ 1.0] fine\n",
        );
        let fact = |name: &str| (facts[name].value.as_str(), facts[name].detail.as_str());
        assert_eq!(fact("doctor: eBPF"), ("yes", "tp_btf"));
        assert_eq!(fact("doctor: sched_ext"), ("no", "not set"));
        assert_eq!((fact("doctor: exit").0, fact("kernel: log").0), ("0", "quiet"));
    }

    #[test]
    fn ticks_are_counted_by_cpu_and_the_audit_must_have_compared() {
        let noise = |ticks: [u32; 2], checks: [&str; 2]| {
            let cpus = ticks.map(|ticks| {
                format!("{{\"length_ns\":2000000000,\"by_cause\":[{{\"cause\":1,\"count\":{ticks}}},{{\"cause\":0,\"count\":900}}]}}")
            });
            let document = format!(
                "{{\"causes\":[{{\"class\":\"ipi\"}},{{\"class\":\"tick\"}}],\"events\":{{\"blind\":null,\"lost\":0}},\"cpus\":[{}]}}",
                cpus.join(",")
            );
            let printed = checks.map(|check| format!(">   check: {check}\n")).concat();
            of(&format!("begin noise\n{printed}json {document}\nend noise 0\n"), "[ 2.0] WARNING: CPU: 0 at x.c:1\n")
        };
        let good = "29 of 29 counters of the kernel agree with the events";
        let facts = noise([500, 2], [good, good]);
        let value = |name: &str| facts[name].value.clone();
        assert_eq!((value("noise: ticks on CPU 0"), value("noise: ticks on CPU 1")), ("yes".into(), "no".into()));
        assert_eq!((value("noise: counters agree"), value("kernel: log")), ("yes".into(), "warns".into()));
        assert_eq!(noise([600, 500], [good, good])["noise: ticks on CPU 1"].value, "yes");
        for bad in
            ["28 of 29 counters of the kernel agree", "0 of 0 counters of the kernel agree", "the events were not read"]
        {
            assert_eq!(noise([1, 1], [good, bad])["noise: counters agree"].value, "no", "{bad}");
        }
        assert_eq!(noise([0, 0], [good, good])["noise: ticks on CPU 0"].value, "no");
    }

    #[test]
    fn printed_facts_have_the_lines_below_them() {
        let facts = of(
            "begin quiet\n> fact one CPU exit = 125\n>     cox: EINVAL\n>     x\n> other\n> fact restored = yes\nend quiet 101\n",
            "",
        );
        let fact = |name: &str| (facts[name].value.as_str(), facts[name].detail.as_str());
        assert_eq!(fact("quiet: one CPU exit"), ("125", "cox: EINVAL\nx\n"));
        assert_eq!((fact("quiet: restored"), facts["quiet: exit"].value.as_str()), (("yes", ""), "101"));
    }

    #[test]
    fn a_job_without_a_document_has_no_backend() {
        let facts = of(
            "begin run\n> cox: cannot\nend run 125\nbegin ulp\n> cox: carriers: 4 · 17 yields on them, 2\nend ulp 0\n",
            "",
        );
        assert_eq!((facts["run: backend"].value.as_str(), facts["run: exit"].value.as_str()), ("none", "125"));
        assert_eq!(facts["run: states add up"].value, "no");
        assert_eq!(facts["ulp: yields on carriers"].value, "yes");
        let coupled = of("begin ulp\n> cox: carriers: 4 · 0 yields on them, 2\nend ulp 0\n", "");
        assert_eq!(coupled["ulp: yields on carriers"].value, "no");
    }
}
