//! The JSON document keeps the names it promised.

mod sample;

use report::Document;
use report::pack::SpinningRuntime;
use schemars::schema_for;
use serde_json::Value;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn names_on_top_and_in_a_thread() {
    let json: Value = serde_json::from_str(&sample::heat().to_json().unwrap()).unwrap();
    for name in [
        "schema_version",
        "cox_version",
        "backend",
        "events",
        "lost_events",
        "programs",
        "cpus",
        "preemptors",
        "verdict",
    ] {
        assert!(keys(&json).contains(&name), "{name}");
    }
    let thread = &json["programs"][0]["processes"][0]["threads"][0];
    for name in [
        "tid",
        "comm",
        "run_ns",
        "steal_ns",
        "spin_ns",
        "spin_basis",
        "wake_delay_ns",
        "preempt_wait_ns",
        "blocked_ns",
        "blocked_by",
        "unknown_ns",
        "wall_ns",
        "switches_voluntary",
        "switches_involuntary",
        "migrations",
        "cpus",
    ] {
        assert!(keys(thread).contains(&name), "{name}");
    }
    assert_eq!(thread["spin_basis"], "sampled");
    assert_eq!(thread["blocked_by"]["disk"], 150_000_000);
    assert_eq!(json["verdict"][0]["headline"], "too_many_threads_spinning");
    assert_eq!(json["schema_version"], 2);
}

#[test]
fn evidence_is_among_the_figures_of_the_same_document() {
    let document = sample::heat();
    let json: Value = serde_json::from_str(&document.to_json().unwrap()).unwrap();
    let mut seen = 0;
    for sentence in document.verdict.iter().flat_map(|verdict| &verdict.sentences) {
        for evidence in &sentence.evidence {
            assert_eq!(json["figures"][&evidence.figure].as_f64(), Some(evidence.value), "{}", evidence.figure);
            seen += 1;
        }
    }
    assert!(seen > 5);
}

/// A member that was added later does not change the version: documents from before are still read.
#[test]
fn a_document_without_later_members_is_read() {
    let mut json: Value = serde_json::from_str(&sample::heat().to_json().unwrap()).unwrap();
    assert!(json.as_object_mut().unwrap().remove("pack").is_some());
    assert!(json["facts"].as_object_mut().unwrap().remove("packed_cpus").is_some());
    assert_eq!(serde_json::from_value::<Document>(json).unwrap(), sample::heat());
}

#[test]
fn a_document_survives_its_json() {
    for document in [sample::heat(), sample::make(), sample::packed()] {
        let read: Document = serde_json::from_str(&document.to_json().unwrap()).unwrap();
        assert_eq!(read, document);
    }
}

#[test]
fn the_schema_names_every_field_of_the_document() {
    let schema = serde_json::to_value(schema_for!(report::Document)).unwrap();
    let json: Value = serde_json::from_str(&sample::heat().to_json().unwrap()).unwrap();
    for name in keys(&json) {
        assert!(schema["properties"].get(name).is_some(), "{name}");
    }
    let thread = &json["programs"][0]["processes"][0]["threads"][0];
    for name in keys(thread) {
        assert!(schema["$defs"]["Thread"]["properties"][name]["description"].is_string(), "{name}");
    }
}

/// Reports that version 1 of the schema's cox wrote: with `--overlap`, with `--pack-cpus`, and of two programs.
#[test]
fn reports_of_version_1_are_read() {
    let read = |text: &str| Document::read(text).unwrap_or_else(|why| panic!("{why}"));
    let overlap = read(include_str!("reports/version-1-overlap.json"));
    let counts = overlap.overlap.as_ref().map(|overlap| (overlap.runnable_wait_ns, &overlap.counts));
    let (runnable_wait_ns, counts) = counts.expect("a section on overlap");
    assert!(overlap.account.sees().causes);
    let again: Value = serde_json::from_str(&overlap.to_json().unwrap()).unwrap();
    assert_eq!((&again["schema_version"], again["overlap"]["runnable_wait_ns"].is_u64()), (&2.into(), true));
    assert!(runnable_wait_ns > 0 && counts.no_standby > 0 && counts.scan_rescues == 0, "{counts:?}");
    let packed = read(include_str!("reports/version-1-pack.json"));
    let pack = packed.pack.expect("a section on packing");
    assert_eq!((pack.threads, pack.slots, pack.slots_ns), (2, 2, 111_653_612));
    let co_run = read(include_str!("reports/version-1-beside.json"));
    assert!(co_run.account.co_run.is_some() && co_run.account.programs.len() == 2);
    assert!(!co_run.account.preemptors.is_empty() && !co_run.account.hot_functions.is_empty());
    // What this version says of them is from the same numbers.
    let again = Document::new("0.1.0", co_run.account.clone(), co_run.facts.clone());
    for (name, value) in &co_run.figures {
        assert_eq!(again.figures.get(name), Some(value), "{name}");
    }
}

/// Each name of version 1 says what the present one does, with numbers that are not 0.
#[test]
fn names_of_version_1_are_read() {
    let mut document = sample::packed();
    document.account.lost.preemptors_ns = 7;
    let pack = document.pack.as_mut().expect("a section on packing");
    (pack.period_ns, pack.spin_throttled) = (500_000, 3);
    pack.diagnostics = vec!["a mask".into()];
    pack.spinning_runtimes = vec![SpinningRuntime::of_libgomp(4711, 8, None)];
    let mut json: Value = serde_json::from_str(&document.to_json().unwrap()).unwrap();
    let older = |value: &mut Value, names: &[(&str, &str)]| {
        let members = value.as_object_mut().unwrap();
        for (now, before) in names {
            let value = members.remove(*now).unwrap_or_else(|| panic!("{now}"));
            assert!(members.insert((*before).to_owned(), value).is_none(), "{before}");
        }
    };
    older(&mut json, &[("preemptors", "took_cpu"), ("hot_functions", "hot"), ("co_run", "beside")]);
    older(&mut json["lost"], &[("preemptors_ns", "takers_ns"), ("trace_events", "moments")]);
    let pack = [
        ("slots", "seats"),
        ("slots_ns", "seats_ns"),
        ("period_ns", "turn_ns"),
        ("spin_throttled", "kept_from_spinning"),
        ("diagnostics", "complaints"),
    ];
    older(&mut json["pack"], &pack);
    older(&mut json["pack"]["spinning_runtimes"][0], &[("remedy", "cure")]);
    let kinds = ["sibling", "other", "idle"].map(|kind| (format!("preemptors.{kind}"), format!("took_cpu.{kind}")));
    let renamed = [kinds.to_vec(), vec![("worker_threads".into(), "crew_threads".into())]].concat();
    for (now, before) in &renamed {
        older(&mut json["figures"], &[(now, before)]);
    }
    let mut evidence = 0;
    for sentence in json["verdict"][0]["sentences"].as_array_mut().unwrap() {
        for figure in sentence["evidence"].as_array_mut().unwrap() {
            let before = renamed.iter().find(|(now, _)| figure["figure"] == **now).map(|(_, before)| before.as_str());
            evidence += usize::from(before.is_some());
            figure["figure"] = before.map_or_else(|| figure["figure"].clone(), Value::from);
        }
    }
    assert!(evidence > 0);
    json["schema_version"] = 1.into();
    assert_eq!(Document::read(&json.to_string()).unwrap(), document);
}
