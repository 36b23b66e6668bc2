//! What observers cost, and what the study computes from perf's recordings.

use crate::study::cell::{Observer, Programs};
use crate::study::map::{Map, Row, Scale, Unit};
use crate::study::percentages::{Percentages, Three};
use crate::study::results::Results;
use crate::study::sample::Sample;

/// What observing costs: 4.2 and 4.3.
pub fn overheads(results: &Results) -> Vec<Map> {
    let mut settings = results.settings(false);
    settings.extend(results.settings(true));
    let mut maps = Vec::new();
    for programs in [Programs::Mandelbrot, Programs::Triad, Programs::Sedov] {
        let app = programs.apps()[0];
        let settings = settings.iter().filter(|setting| setting.programs == programs);
        let rows = settings.flat_map(|setting| {
            [Observer::Cox, Observer::Perf].map(|observer| {
                let times = |schedule, observer| {
                    let runs = results.same(*setting, schedule, observer);
                    runs.iter().filter_map(|sample| Some(sample.programs.first()?.elapsed_s)).collect::<Vec<f64>>()
                };
                let pair = |schedule| (times(schedule, observer), times(schedule, Observer::None));
                let pairs: Vec<_> = results.schedules.iter().map(pair).collect();
                Row::ratios(format!("{}, {}", observer.name(), setting.words()), &pairs)
            })
        });
        let rows: Vec<Row> = rows.filter(|row| row.cells.iter().any(Option::is_some)).collect();
        maps.push(Map {
            id: format!("overhead-{}", app.name()),
            title: format!("Cost of observing {}", app.name()),
            figure: match programs {
                Programs::Mandelbrot => Some("4.2"),
                Programs::Triad => Some("4.3"),
                _ => None,
            },
            about: "time with the observer ÷ time without, by the program's own clock; below it, the time with the observer".to_owned(),
            unit: Unit::Ratio,
            scale: Scale::Map,
            columns: results.schedules.clone(),
            rows,
        });
    }
    maps
}

/// The study's percentages beside those of cox, from the same recordings of perf: 4.4 to 4.8, as the study computes them.
pub fn percentages(results: &Results) -> Vec<Map> {
    type Part = fn(&Three) -> f64;
    let parts: [(&str, &str, &str, Part); 3] = [
        ("migration", "4.4, 4.7", "threads that migrated while they waited", |three| three.migration),
        (
            "switches",
            "4.5, 4.8",
            "context switches (study: wait time + sch delay, which contains all sleep; cox: waiting for a CPU)",
            |three| three.switches,
        ),
        ("idle", "4.6, A.1", "idle CPUs", |three| three.idle),
    ];
    type Whose = fn(&Percentages) -> Three;
    let whose: [(&str, Whose); 2] =
        [("study", |percentages| percentages.study), ("cox", |percentages| percentages.cox)];
    let mut settings = results.settings(false);
    settings.extend(results.settings(true));
    let map = |(id, figure, about, part): (&str, &'static str, &str, Part)| {
        let rows = settings.iter().flat_map(|setting| {
            whose.map(|(name, three)| {
                let of = |sample: &Sample| sample.percentages.as_ref().map(|percentages| part(&three(percentages)));
                let runs = results.by_schedule(*setting, 0, Observer::Perf, of);
                let programs = if setting.programs.is_co_run() { "both" } else { setting.programs.apps()[0].name() };
                Row::new(format!("{name}: {programs}, {}", setting.words()), &runs)
            })
        });
        Map {
            id: format!("study-{id}"),
            title: format!("The study's percentage beside that of cox: {id}"),
            figure: Some(figure),
            about: format!(
                "{about}; percent of the execution time, summed over threads and CPUs, from perf's recording"
            ),
            unit: Unit::Percent,
            scale: Scale::Row,
            columns: results.schedules.clone(),
            rows: rows.filter(|row| row.cells.iter().any(Option::is_some)).collect(),
        }
    };
    parts.map(map).into()
}
