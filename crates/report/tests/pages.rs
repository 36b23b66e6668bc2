//! Every figure and every kind of verdict has its place in docs/.

use std::path::{Path, PathBuf};

use advise::Kind;
use advise::figures::Figure;
use schemars::schema_for;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Every situation that a verdict can name, as the schema lists them.
fn kinds() -> Vec<Kind> {
    let schema = serde_json::to_value(schema_for!(Kind)).expect("a schema is JSON");
    let names = schema["oneOf"].as_array().expect("a list of kinds").iter().map(|kind| kind["const"].clone());
    names.map(|name| serde_json::from_value(name).expect("a kind")).collect()
}

#[test]
fn every_kind_has_its_page() {
    for kind in kinds() {
        let page = std::fs::read_to_string(docs().parent().unwrap().join(format!("docs/advice/{kind}.md")))
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        for heading in
            ["## What it means", "## How cox knows", "## What to do", "## What to expect", "## When this is wrong"]
        {
            assert!(page.contains(heading), "{kind}: {heading}");
        }
    }
    let pages = std::fs::read_dir(docs().join("advice")).unwrap().count();
    assert_eq!(pages, kinds().len(), "a page for no kind");
}

#[test]
fn the_guide_inside_the_program_is_docs() {
    use report::guide;
    let names = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let pages = entries.filter(|path| path.extension().is_some_and(|end| end == "md"));
        let mut names: Vec<String> = pages.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let mut pages: Vec<&str> = guide::PAGES.iter().map(|topic| topic.name).collect();
    let mut advice: Vec<&str> = guide::ADVICE.iter().map(|topic| topic.name).collect();
    pages.sort_unstable();
    advice.sort_unstable();
    assert_eq!(pages, names(docs()));
    assert_eq!(advice, names(docs().join("advice")));
    // What a verdict refers to can be read, and every link between pages leads somewhere.
    for kind in kinds() {
        assert!(guide::find(&kind.to_string()).is_some_and(|topic| topic.advice), "{kind}");
    }
    for topic in guide::topics() {
        let text = guide::plain(topic.text);
        for reference in text.split("cox explain ").skip(1) {
            let end = reference.find(|c: char| !c.is_ascii_alphanumeric() && !"_#-".contains(c));
            let reference = &reference[..end.unwrap_or(reference.len())];
            let (name, section) = reference.split_once('#').map_or((reference, None), |(name, id)| (name, Some(id)));
            if name.chars().any(char::is_uppercase) && name != "README" {
                continue; // the name of an argument
            }
            let target = guide::find(name).unwrap_or_else(|| panic!("{}: {reference}", topic.name));
            assert!(section.is_none_or(|id| target.section(id).is_some()), "{}: {reference}", topic.name);
        }
    }
}

#[test]
fn every_figure_is_defined() {
    let page = std::fs::read_to_string(docs().join("figures.md")).unwrap();
    for figure in Figure::all() {
        let (name, of_cpus) = (figure.name(), matches!(figure, Figure::Cpus(_)));
        // The page says how sums are called, by causes and over CPUs, and defines what is added up.
        let defined =
            name.strip_prefix("blocked_by.").or(name.strip_prefix("cpus.").filter(|_| of_cpus)).unwrap_or(&name);
        assert!(page.contains(&format!("`{defined}`")), "{name}");
    }
}

#[test]
fn every_field_of_the_json_is_defined() {
    let page = std::fs::read_to_string(docs().join("figures.md")).unwrap();
    let schema = serde_json::to_value(schema_for!(report::Document)).unwrap();
    let defined = |object: &serde_json::Value, of: &str| {
        for name in object["properties"].as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{name}`")), "{name} of {of}");
        }
    };
    defined(&schema, "the document");
    for (name, object) in schema["$defs"].as_object().unwrap() {
        if object.get("properties").is_some() {
            defined(object, name);
        }
    }
}

#[test]
fn thresholds_named_on_pages_are_those_of_the_rules() {
    use advise::thresholds as t;
    let page =
        |kind: Kind| std::fs::read_to_string(docs().parent().unwrap().join(format!("docs/advice/{kind}.md"))).unwrap();
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    for (kind, share) in [
        (Kind::NothingToGain, t::WORTH_SHARE),
        (Kind::TooManyThreadsSleeping, t::QUEUE_UTILISATION),
        (Kind::Imbalance, t::IMBALANCE_SHARE),
        (Kind::LockConvoy, t::CONVOY_CONCURRENCY),
        (Kind::LockConvoy, t::ROTATION_SHARE),
        (Kind::CpuHog, t::WORTH_SHARE),
        (Kind::PinnedTooFew, t::IDLE_CPU_SHARE),
        (Kind::QuotaThrottled, t::THROTTLED_SHARE),
        (Kind::Sleeping, t::INTENDED_SHARE),
        (Kind::HypervisorSteal, t::STEAL_SHARE),
        (Kind::TooLittleEvidence, t::LOSS_TOO_MUCH),
    ] {
        assert!(page(kind).contains(&percent(share)), "{kind}: {}", percent(share));
    }
}
