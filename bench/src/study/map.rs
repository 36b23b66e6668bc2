//! A heat map: a figure by configuration (rows) and schedule (columns), as medians with their spread.

use compare::paired;
use compare::ranks::p_value;
use compare::stats::median;
use serde::Serialize;

use crate::stats::quartiles;

/// Differences with a smaller probability of being chance are no noise.
const LEVEL: f64 = 0.05;

/// The unit of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Seconds,
    /// A share, from 0 to 1.
    Share,
    /// A percentage that can be above 100.
    Percent,
    PerSecond,
    Ratio,
}

impl Unit {
    /// Formats a value with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Unit::Seconds if value < 0.1 => format!("{:.2} ms", value * 1e3),
            Unit::Seconds => format!("{value:.3} s"),
            Unit::Share => format!("{:.1} %", value * 100.0),
            Unit::Percent => format!("{value:.1} %"),
            Unit::PerSecond => format!("{value:.0}/s"),
            Unit::Ratio => format!("{value:.3}x"),
        }
    }

    /// Formats the spread of a value: in the unit of the value, without its name.
    pub fn spread_beside(self, spread: f64, value: f64) -> String {
        match self {
            Unit::Seconds if value < 0.1 => format!("{:.2}", spread * 1e3),
            Unit::Seconds | Unit::Ratio => format!("{spread:.3}"),
            Unit::Share => format!("{:.1}", spread * 100.0),
            Unit::Percent => format!("{spread:.1}"),
            Unit::PerSecond => format!("{spread:.0}"),
        }
    }
}

/// What the colours of a map compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// All cells of the map.
    Map,
    /// The cells of a row: its programs have other times than those of the other rows.
    Row,
}

/// A heat map.
#[derive(Clone, Debug, Serialize)]
pub struct Map {
    /// Name in links and JSON.
    pub id: String,
    pub title: String,
    /// Number of the study's figure, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<&'static str>,
    /// What a cell contains.
    pub about: String,
    pub unit: Unit,
    pub scale: Scale,
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

/// A row of a map.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub name: String,
    /// By column; absent if the cell was not measured.
    pub cells: Vec<Option<Value>>,
}

/// The value of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Value {
    pub median: f64,
    /// First and third quartile.
    pub quartiles: (f64, f64),
    pub runs: usize,
    /// Median of the program's time, if the map is not about time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_s: Option<f64>,
    /// Whether the value cannot be told from what it is compared with: the first cell of its row, or the ratio 1.
    pub is_noise: bool,
}

/// The runs of a cell: the map's figure, and the program's time.
pub type Runs = Vec<(f64, Option<f64>)>;

impl Row {
    /// Makes a row. Each cell is compared with the first one that has runs, by the rank-sum test.
    pub fn new(name: impl Into<String>, cells: &[Runs]) -> Row {
        let figures = |runs: &Runs| runs.iter().map(|(figure, _)| *figure).collect::<Vec<f64>>();
        let first = cells.iter().position(|runs| !runs.is_empty());
        let reference = first.map_or_else(Vec::new, |at| figures(&cells[at]));
        let value = |(at, runs): (usize, &Runs)| {
            let is_noise = Some(at) != first && p_value(&reference, &figures(runs)) > LEVEL;
            Value::of(runs, is_noise)
        };
        Row { name: name.into(), cells: cells.iter().enumerate().map(value).collect() }
    }

    /// Makes a row of ratios. Each pair has the times of the same rounds: with something, and without it.
    pub fn ratios(name: impl Into<String>, pairs: &[(Vec<f64>, Vec<f64>)]) -> Row {
        let value = |(with, without): &(Vec<f64>, Vec<f64>)| {
            let runs: Runs = with.iter().zip(without).map(|(with, without)| (with / without, Some(*with))).collect();
            let ratio = paired::ratio(with, without);
            let is_noise = ratio.and_then(|ratio| ratio.interval).is_none_or(|(low, high)| low <= 1.0 && 1.0 <= high);
            Value::of(&runs, is_noise)
        };
        Row { name: name.into(), cells: pairs.iter().map(value).collect() }
    }
}

impl Value {
    /// Returns medians and spread; `None` without runs.
    fn of(runs: &Runs, is_noise: bool) -> Option<Value> {
        let figures: Vec<f64> = runs.iter().map(|(figure, _)| *figure).collect();
        let times: Vec<f64> = runs.iter().filter_map(|(_, time)| *time).collect();
        (!figures.is_empty()).then(|| Value {
            median: median(&figures),
            quartiles: quartiles(&figures),
            runs: figures.len(),
            time_s: (!times.is_empty()).then(|| median(&times)),
            is_noise,
        })
    }

    /// Returns half the distance between the quartiles.
    pub fn half_spread(&self) -> f64 {
        (self.quartiles.1 - self.quartiles.0) / 2.0
    }
}

impl Map {
    /// Returns where a value is between the smallest and the largest of its row or map, from 0 to 1.
    pub fn heat(&self, row: &Row, value: f64) -> f64 {
        let rows = match self.scale {
            Scale::Row => std::slice::from_ref(row),
            Scale::Map => &self.rows[..],
        };
        let medians = rows.iter().flat_map(|row| &row.cells).flatten().map(|cell| cell.median);
        let (least, most) = medians
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), median| (least.min(median), most.max(median)));
        if most > least { (value - least) / (most - least) } else { 0.0 }
    }

    /// Returns whether any cell was measured.
    pub fn has_values(&self) -> bool {
        self.rows.iter().any(|row| row.cells.iter().any(Option::is_some))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(figures: &[f64]) -> Runs {
        figures.iter().map(|figure| (*figure, Some(2.0 * figure))).collect()
    }

    #[test]
    fn a_cell_is_noise_if_it_cannot_be_told_from_the_first_of_its_row() {
        let slow = [1.0, 1.1, 1.2, 1.3, 1.4];
        let row = Row::new(
            "row",
            &[vec![], runs(&slow), runs(&[2.0, 2.1, 2.2, 2.3, 2.4]), runs(&[1.05, 1.15, 1.25, 1.35, 0.5])],
        );
        let noise: Vec<Option<bool>> = row.cells.iter().map(|cell| cell.map(|cell| cell.is_noise)).collect();
        assert_eq!(noise, [None, Some(false), Some(false), Some(true)]);
        let first = row.cells[1].unwrap();
        assert_eq!((first.median, first.quartiles, first.runs), (1.2, (1.1, 1.3), 5));
        assert!((first.half_spread() - 0.1).abs() < 1e-12);
        assert_eq!(first.time_s, Some(2.4));
        // Three runs beside three cannot differ significantly.
        let few = Row::new("few", &[runs(&slow[..3]), runs(&[2.0, 2.1, 2.2])]);
        assert!(few.cells[1].unwrap().is_noise);
    }

    #[test]
    fn a_ratio_is_noise_if_its_interval_contains_1() {
        let without = vec![1.0, 2.0, 1.0, 2.0, 1.0];
        let times = |factors: [f64; 5]| without.iter().zip(factors).map(|(time, factor)| time * factor).collect();
        let row = Row::ratios(
            "cox",
            &[
                (times([1.1, 1.11, 1.1, 1.09, 1.1]), without.clone()),
                (times([1.1, 0.9, 1.0, 1.2, 0.8]), without.clone()),
            ],
        );
        let [slower, same] = [row.cells[0].unwrap(), row.cells[1].unwrap()];
        assert!((slower.median - 1.1).abs() < 1e-9 && !slower.is_noise);
        assert!((same.median - 1.0).abs() < 1e-9 && same.is_noise);
    }

    #[test]
    fn colours_compare_a_row_or_the_map() {
        let rows = vec![Row::new("a", &[runs(&[1.0]), runs(&[2.0])]), Row::new("b", &[runs(&[5.0]), vec![]])];
        let map = |scale| Map {
            id: "id".into(),
            title: "title".into(),
            figure: None,
            about: String::new(),
            unit: Unit::Seconds,
            scale,
            columns: vec!["x".into(), "y".into()],
            rows: rows.clone(),
        };
        let heat = |map: &Map, row: usize, column: usize| {
            map.heat(&map.rows[row], map.rows[row].cells[column].unwrap().median)
        };
        let (by_row, by_map) = (map(Scale::Row), map(Scale::Map));
        assert_eq!([heat(&by_row, 0, 0), heat(&by_row, 0, 1), heat(&by_row, 1, 0)], [0.0, 1.0, 0.0]);
        assert_eq!([heat(&by_map, 0, 0), heat(&by_map, 0, 1), heat(&by_map, 1, 0)], [0.0, 0.25, 1.0]);
    }

    #[test]
    fn values_have_their_unit_and_spreads_have_none() {
        let texts = [
            (Unit::Seconds, 1.5),
            (Unit::Share, 0.125),
            (Unit::Percent, 310.0),
            (Unit::PerSecond, 81.6),
            (Unit::Ratio, 1.0),
        ]
        .map(|(unit, value)| unit.text(value));
        assert_eq!(texts, ["1.500 s", "12.5 %", "310.0 %", "82/s", "1.000x"]);
        assert_eq!(Unit::Seconds.text(0.0125), "12.50 ms");
        // In the unit of the value, also where the spread alone would have another one.
        let spreads = [(0.002, 1.5), (0.002, 0.05)].map(|(spread, value)| Unit::Seconds.spread_beside(spread, value));
        assert_eq!(spreads, ["0.002", "2.00"]);
        assert_eq!(
            (Unit::Share.spread_beside(0.002, 0.1), Unit::PerSecond.spread_beside(3.0, 9.0)),
            ("0.2".into(), "3".into())
        );
    }
}
