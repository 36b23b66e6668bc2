//! A comparison as comma-separated values (RFC 4180), for spreadsheets and for other statistics: all numbers, unrounded.

use super::{Comparison, is_a_time};

const HEADINGS: &str = "figure,unit,group,runs,median,median_low,median_high,compared_with,change,change_low,change_high,\
                        p_value,p_needed,verdict\n";

impl Comparison {
    /// Returns one line for each figure and group: median and change with their 95 % intervals, and the verdict. Unknown values are empty.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut csv = HEADINGS.to_owned();
        for row in &self.figures {
            for (at, group) in self.groups.iter().enumerate() {
                let median = row.medians.get(at);
                let change = row.change(at);
                let (low, high) = median.and_then(|median| median.interval).unzip();
                let (least, most) = change.and_then(|change| change.interval).unzip();
                let verdict = change.and_then(|change| serde_json::to_value(change.verdict).ok());
                csv += &line([
                    row.figure.clone(),
                    unit(&row.figure).to_owned(),
                    group.name.clone(),
                    group.runs.to_string(),
                    number(median.map(|median| median.median)),
                    number(low),
                    number(high),
                    change.map_or_else(String::new, |_| self.groups[0].name.clone()),
                    number(change.and_then(|change| change.change)),
                    number(least),
                    number(most),
                    number(change.map(|change| change.p_value)),
                    number(change.map(|change| change.p_needed)),
                    verdict.and_then(|verdict| verdict.as_str().map(str::to_owned)).unwrap_or_default(),
                ]);
            }
        }
        csv
    }

    /// Returns one line for each figure, group and run.
    #[must_use]
    pub fn csv_of_runs(&self) -> String {
        let mut csv = "figure,unit,group,run,value\n".to_owned();
        for row in &self.figures {
            for (group, values) in self.groups.iter().zip(&row.runs) {
                for (run, value) in (1u64..).zip(values) {
                    let unit = unit(&row.figure).to_owned();
                    csv += &line([row.figure.clone(), unit, group.name.clone(), run.to_string(), value.to_string()]);
                }
            }
        }
        csv
    }
}

fn unit(figure: &str) -> &'static str {
    if is_a_time(figure) { "ns" } else { "count" }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn line<const N: usize>(fields: [String; N]) -> String {
    fields.map(field).join(",") + "\n"
}

/// Quotes a field if needed. A name that begins like a formula is marked as text, because names come from outside and a spreadsheet would evaluate a
/// formula.
fn field(text: String) -> String {
    let is_formula =
        text.starts_with(['=', '+', '@', '\t', '\r']) || (text.starts_with('-') && text.parse::<f64>().is_err());
    let text = if is_formula { format!("'{text}") } else { text };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use super::*;

    fn group(name: &str, values: &[f64]) -> (String, Vec<Run>) {
        let run = |ns: &f64| Run::with_figures(vec![("wall_ns".into(), *ns), ("thread_ns".into(), *ns)]);
        (name.to_owned(), values.iter().map(run).collect())
    }

    #[test]
    fn every_run_and_every_change_has_its_line() {
        let (fast, slow) = ([10.0, 11.0, 12.0, 13.0, 14.0, 15.0], [20.0, 21.0, 22.0, 23.0, 24.0, 25.0]);
        let comparison = Comparison::new("0.1.0", &[group("a", &fast), group("=b, \"new\"", &slow)]);
        let csv = comparison.csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[1].starts_with("wall_ns,ns,a,6,12.5,10,15,,,,,,,"), "{csv}");
        assert!(lines[2].starts_with("wall_ns,ns,\"'=b, \"\"new\"\"\",6,22.5,20,25,a,0."), "{csv}");
        assert!(lines[2].ends_with(",slower"), "{csv}");
        let runs = comparison.csv_of_runs();
        assert_eq!(runs.lines().count(), 1 + 12 * comparison.figures.len());
        assert!(runs.contains("\nwall_ns,ns,a,6,15\n"), "{runs}");
    }

    #[test]
    fn numbers_below_zero_are_no_formulas() {
        assert_eq!(["-0.5", "-x", "a\"b", "x"].map(|text| field(text.to_owned())), ["-0.5", "'-x", "\"a\"\"b\"", "x"]);
    }
}
