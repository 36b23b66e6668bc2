//! Views for Paraver, and the trace itself, refer only to types and values that the trace declares.

use std::collections::BTreeMap;
use std::fs;

use testkit::measured::bench;
use testkit::traced::trace;

/// Numbers of states, and of event types with their values, that a `.pcf` declares.
fn declared(pcf: &str) -> (Vec<u32>, BTreeMap<u32, Vec<u32>>) {
    let number = |line: &str| line.split_whitespace().next().and_then(|word| word.parse::<u32>().ok());
    let states = pcf.split("STATES\n").nth(1).expect("states").lines().map_while(number).collect();
    let types = pcf.split("EVENT_TYPE\n").skip(1).map(|block| {
        let (types, values) = block.split_once("VALUES\n").unwrap_or((block, ""));
        let r#type = types.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a type");
        (r#type, values.lines().map_while(number).collect())
    });
    (states, types.collect())
}

/// What follows `key` in a line of its own.
fn property<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' ')).collect()
}

#[test]
fn views_for_paraver_refer_to_what_the_trace_declares() {
    let test = "views_for_paraver_refer_to_what_the_trace_declares";
    let Some(bench) = bench(test) else { return };
    let traced = trace(&bench, &[], &["sh", "-c", "for n in 1 2 3; do sleep 0.01 & done; wait"]);
    let read = |ending: &str| fs::read_to_string(traced.paraver.with_extension(ending)).expect("read");
    let (prv, pcf) = (read("prv"), read("pcf"));
    let (states, types) = declared(&pcf);
    // Everything in the trace is declared.
    for line in prv.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<u64> = line.split(':').map(|field| field.parse().expect("a number")).collect();
        match fields[0] {
            1 => assert!(states.contains(&(fields[7] as u32)), "{line}"),
            2 => {
                let values = types.get(&(fields[6] as u32)).unwrap_or_else(|| panic!("{line}"));
                assert!(values.is_empty() || values.contains(&(fields[7] as u32)), "{line}");
            }
            _ => panic!("{line}"),
        }
    }
    // So is everything that views speak of.
    assert!(trace::paraver::VIEWS.len() >= 6);
    for ending in trace::paraver::VIEWS {
        let view = read(ending);
        assert!(view.starts_with("#ParaverCFG\nConfigFile.Version: 3.4\n"), "{ending}");
        let windows = property(&view, "window_name").len();
        assert_eq!(property(&view, "ConfigFile.NumWindows:"), [windows.to_string()], "{ending}");
        assert_eq!(property(&view, "window_id").len(), windows);
        for filter in property(&view, "window_filter_module") {
            let numbers: Vec<u32> = filter.split(' ').skip(1).map(|word| word.parse().expect("a number")).collect();
            assert!(filter.starts_with("evt_type ") && numbers.len() == numbers[0] as usize + 1, "{ending}: {filter}");
            assert!(numbers[1..].iter().all(|number| types.contains_key(number)), "{ending}: {filter}");
        }
        // Functions of states get states: in lists after their number, and as the ends of ranges.
        for module in property(&view, "window_semantic_module") {
            let (of, lists) = module.split_once(" { ").expect("parameters");
            let (count, lists) = lists.split_once(", { ").expect("how many");
            let lists: Vec<&str> = lists.trim_end_matches(" } }").split(", ").collect();
            assert_eq!(count, lists.len().to_string(), "{ending}: {module}");
            assert!(["thread State Record Dur.", "compose_thread Select Range"].contains(&of), "{ending}: {module}");
            for list in lists {
                let numbers: Vec<u32> = list.split(' ').map(|word| word.parse().expect("a number")).collect();
                assert_eq!(numbers.len(), numbers[0] as usize + 1, "{ending}: {module}");
                assert!(numbers[1..].iter().all(|number| states.contains(number)), "{ending}: {module}");
            }
            // A function's parameters count only if the window has that function.
            let (level, function) = of.split_once(' ').expect("a level");
            assert!(view.contains(&format!("{{{level}, {function}}}")), "{ending}: {module}");
        }
        for histogram in view.split("< NEW ANALYZER2D >").skip(1) {
            let window = |key| property(histogram, key)[0].parse::<usize>().expect("a window");
            assert!((1..=windows).contains(&window("Analyzer2D.ControlWindow:")), "{ending}");
            assert!((1..=windows).contains(&window("Analyzer2D.DataWindow:")), "{ending}");
        }
    }
}
