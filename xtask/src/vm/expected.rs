//! The table of what each kernel must have (kernel/vm/expected.txt), and its comparison with what a kernel had.
//!
//! A row is a check, a column a kernel and a boot line. A cell is a value; after a colon, words that the reason must contain; `-`: not compared.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use super::facts::Fact;
use crate::apt::numbers_of;

/// A column: kernels from this version on, up to the next column of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    version: Vec<u32>,
    nohz_full: bool,
}

/// The table.
#[derive(Debug)]
pub struct Expected {
    columns: Vec<Column>,
    rows: Vec<(String, Vec<String>)>,
}

/// A check that was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Name of the check: `JOB: WHAT`.
    pub check: String,
    /// What the table demands.
    pub expected: String,
    /// What the kernel had; `None`: its job did not run to its end, or says nothing about it.
    pub found: Option<Fact>,
}

impl Compared {
    /// Returns whether the kernel had what the table demands.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let Some(found) = &self.found else { return false };
        let (value, words) = self.expected.split_once(": ").unwrap_or((&self.expected, ""));
        found.value == value && found.detail.contains(words)
    }
}

impl Expected {
    /// Parses the table: cells separated by `|`, comments after `#` at the begin of a line.
    ///
    /// # Errors
    /// When a row has another number of cells than the first one, or a column or a check occurs twice.
    pub fn parse(text: &str) -> Result<Expected> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut lines = lines.map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
        let head = lines.next().context("the table is empty")?;
        let columns: Vec<Column> = head.iter().skip(1).map(|cell| column(cell)).collect::<Result<_>>()?;
        for (at, one) in columns.iter().enumerate() {
            ensure!(!columns[..at].contains(one), "two columns '{}'", head[at + 1]);
        }
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        for mut cells in lines {
            let check = cells.remove(0);
            ensure!(cells.len() == columns.len(), "'{check}' has {} cells, not {}", cells.len(), columns.len());
            ensure!(rows.iter().all(|(name, _)| *name != check), "two rows '{check}'");
            rows.push((check, cells));
        }
        Ok(Expected { columns, rows })
    }

    /// Compares the facts of a boot with the rows of the jobs that were asked for.
    ///
    /// # Errors
    /// When the table has no column for this kernel and boot line.
    pub fn compare(
        &self,
        release: &str,
        boot_line: &str,
        is_asked: &dyn Fn(&str) -> bool,
        facts: &BTreeMap<String, Fact>,
    ) -> Result<Vec<Compared>> {
        let (version, nohz_full) = (numbers_of(release), has_nohz_full(boot_line));
        let ours = |(_, column): &(usize, &Column)| column.nohz_full == nohz_full && column.version <= version;
        let column = self.columns.iter().enumerate().filter(ours).max_by_key(|(_, column)| column.version.clone());
        let Some((at, _)) = column else { bail!("the table has no column for {release} with '{boot_line}'") };
        let is_asked = |check: &str| {
            let job = check.split(':').next().unwrap_or_default();
            job == "kernel" || is_asked(job)
        };
        let rows = self.rows.iter().filter(|(check, cells)| cells[at] != "-" && is_asked(check));
        let compare = |(check, cells): &(String, Vec<String>)| Compared {
            check: check.clone(),
            expected: cells[at].clone(),
            found: facts.get(check).cloned(),
        };
        Ok(rows.map(compare).collect())
    }
}

/// Returns whether a boot line makes CPUs tickless.
#[must_use]
pub fn has_nohz_full(boot_line: &str) -> bool {
    boot_line.split(' ').any(|word| word.starts_with("nohz_full="))
}

/// Parses the head of a column: `6.12` or `6.12 nohz_full`.
fn column(head: &str) -> Result<Column> {
    let (version, rest) = head.split_once(' ').unwrap_or((head, ""));
    ensure!(["", "nohz_full"].contains(&rest), "unknown boot line '{rest}' in the column '{head}'");
    let version = numbers_of(version);
    ensure!(version.len() == 2, "no kernel version in the column '{head}'");
    Ok(Column { version, nohz_full: rest == "nohz_full" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# what each has\ncheck | 5.10 | 6.1 | 6.12 | 6.1 nohz_full\n\nrun: backend | perf: not used: old | bpf | bpf | -\nulp: exit | 2 | 0 | 0 | 0\n";

    fn facts(all: &[(&str, &str, &str)]) -> BTreeMap<String, Fact> {
        let one = |(check, value, detail): &(&str, &str, &str)| {
            ((*check).to_owned(), Fact { value: (*value).to_owned(), detail: (*detail).to_owned() })
        };
        all.iter().map(one).collect()
    }

    fn bad(release: &str, line: &str, facts: &BTreeMap<String, Fact>) -> Vec<String> {
        let compared = Expected::parse(TABLE).unwrap().compare(release, line, &|_| true, facts).unwrap();
        compared.iter().filter(|one| !one.is_good()).map(|one| format!("{} {}", one.check, one.expected)).collect()
    }

    #[test]
    fn a_kernel_has_the_newest_column_that_is_not_newer() {
        let with_bpf = facts(&[("run: backend", "bpf", ""), ("ulp: exit", "0", "")]);
        for release in ["6.1.0-50-cloud-amd64", "6.11", "6.12.95+deb12-cloud-amd64", "7.3"] {
            assert!(bad(release, "", &with_bpf).is_empty(), "{release}");
        }
        assert_eq!(bad("6.0.3", "", &with_bpf).len(), 2);
        assert!(bad("7.3", "nohz_full=1-3 quiet", &facts(&[("ulp: exit", "0", "")])).is_empty());
        let table = Expected::parse(TABLE).unwrap();
        assert!(table.compare("5.4", "", &|_| true, &with_bpf).is_err());
        assert!(table.compare("5.10", "nohz_full=1", &|_| true, &with_bpf).is_err());
    }

    #[test]
    fn a_reason_is_compared_and_a_missing_fact_is_a_difference() {
        let reason = |why| facts(&[("run: backend", "perf", why), ("ulp: exit", "2", "")]);
        assert!(bad("5.10.0-32", "", &reason("eBPF not used: old kernel")).is_empty());
        assert_eq!(bad("5.10.0-32", "", &reason("no rights")), ["run: backend perf: not used: old"]);
        assert_eq!(bad("6.1", "", &facts(&[("run: backend", "bpf", "")])), ["ulp: exit 0"]);
        let table = Expected::parse(TABLE).unwrap();
        let one = table.compare("6.1", "", &|job| job == "run", &facts(&[("run: backend", "bpf", "")])).unwrap();
        assert!(one.len() == 1 && one[0].is_good(), "only the jobs that were asked for: {one:?}");
    }

    #[test]
    fn a_wrong_table_is_refused() {
        for (text, why) in [
            ("", "empty"),
            ("check | 6.1 | 6.1", "two columns"),
            ("check | 6", "no kernel version"),
            ("check | 6.1 quick", "unknown boot line"),
            ("check | 6.1\na | b | c", "has 2 cells, not 1"),
            ("check | 6.1\na | b\na | c", "two rows"),
        ] {
            let error = format!("{:#}", Expected::parse(text).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn our_table_is_right() {
        Expected::parse(super::super::EXPECTED).unwrap();
    }
}
