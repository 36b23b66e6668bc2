//! Every figure and every kind of verdict has its place in docs/.

use std::path::{Path, PathBuf};

use advise::Kind;
use advise::figures::Figure;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn every_kind_has_its_page() {
    for kind in Kind::ALL {
        let page = std::fs::read_to_string(docs().parent().unwrap().join(kind.page()))
            .unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        for heading in
            ["## What it means", "## How cox knows", "## What to do", "## What to expect", "## When this is wrong"]
        {
            assert!(page.contains(heading), "{}: {heading}", kind.name());
        }
    }
    let pages = std::fs::read_dir(docs().join("advice")).unwrap().count();
    assert_eq!(pages, Kind::ALL.len(), "a page for no kind");
}

#[test]
fn every_figure_is_defined() {
    let page = std::fs::read_to_string(docs().join("figures.md")).unwrap();
    for figure in Figure::all() {
        assert!(page.contains(&format!("`{}`", figure.name())), "{}", figure.name());
    }
}

#[test]
fn every_field_of_the_json_is_defined() {
    let page = std::fs::read_to_string(docs().join("figures.md")).unwrap();
    let schema = serde_json::to_value(report::json::schema()).unwrap();
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
    let page = |kind: Kind| std::fs::read_to_string(docs().parent().unwrap().join(kind.page())).unwrap();
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
        assert!(page(kind).contains(&percent(share)), "{}: {}", kind.name(), percent(share));
    }
}
