//! Groups of reports on the command line of `cox compare`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use outputs::numbered;

/// Maximum number of runs in a group. More runs hardly change the result, and their exact probabilities take long to compute.
const MOST_RUNS: usize = 100;

/// A group of reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Files of its reports.
    pub files: Vec<PathBuf>,
}

/// Parses the groups. `is_file` decides whether a word with an equals sign, a comma or `%n` in it is the name of an existing file.
pub fn groups(words: &[String], is_file: &dyn Fn(&Path) -> bool) -> Result<Vec<Group>> {
    let mut groups = Vec::with_capacity(words.len());
    for word in words {
        let whole = is_file(Path::new(word));
        let (name, list) = word.split_once('=').filter(|_| !whole).map_or((None, word.as_str()), |(n, l)| (Some(n), l));
        let parts: Vec<&str> = if whole { vec![list] } else { list.split(',').collect() };
        if parts.iter().any(|part| part.is_empty()) || name.is_some_and(str::is_empty) {
            bail!("invalid group '{word}': a group is [NAME=]FILE[,FILE]...");
        }
        let mut files = Vec::new();
        for part in &parts {
            files.extend(series(Path::new(part), is_file)?);
        }
        if files.len() > MOST_RUNS {
            bail!("group '{word}' has {} runs; cox compares at most {MOST_RUNS} per group", files.len());
        }
        groups.push(Group { name: name.map_or_else(|| short(parts[0]), str::to_owned), files });
    }
    let distinct: BTreeSet<&String> = groups.iter().map(|group| &group.name).collect();
    if distinct.len() < groups.len() {
        let named = words.iter().any(|word| word.contains('=') && !is_file(Path::new(word)));
        if named {
            bail!("two groups have the same name; give each its own: NAME=FILE,...");
        }
        groups.iter_mut().zip(words).for_each(|(group, word)| group.name.clone_from(word));
    }
    Ok(groups)
}

/// Returns the files that a name stands for; with `%n`, those of runs 1, 2, … up to the first that does not exist.
fn series(name: &Path, is_file: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    if is_file(name) || numbered(name, 1) == name {
        return Ok(vec![name.to_owned()]);
    }
    let runs: Vec<PathBuf> = (1..).map(|run| numbered(name, run)).take_while(|path| is_file(path)).collect();
    if runs.is_empty() {
        bail!("no runs found for '{}': '{}' does not exist", name.display(), numbered(name, 1).display());
    }
    Ok(runs)
}

/// Derives a group's name from a file name: `before` from `runs/before.%n.json`.
fn short(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.strip_suffix(".json").unwrap_or(name);
    name.strip_suffix("%n").map_or(name, |name| name.trim_end_matches(['.', '-', '_'])).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str], files: &[&str]) -> Result<Vec<(String, Vec<String>)>> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let groups = groups(&words, &|path| files.iter().any(|file| Path::new(file) == path))?;
        let text = |path: PathBuf| path.display().to_string();
        Ok(groups.into_iter().map(|group| (group.name, group.files.into_iter().map(text).collect())).collect())
    }

    fn group(name: &str, files: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), files.iter().map(|file| (*file).to_owned()).collect())
    }

    #[test]
    fn groups_are_lists_series_and_names() {
        let files = ["r/b.1.json", "r/b.2.json", "r/b.4.json", "x=1,2.json"];
        let parsed = parse(&["a.json,c.json", "new=d.json", "r/b.%n.json", "x=1,2.json"], &files).unwrap();
        let expected = [
            group("a", &["a.json", "c.json"]),
            group("new", &["d.json"]),
            group("b", &["r/b.1.json", "r/b.2.json"]),
            group("x=1,2", &["x=1,2.json"]),
        ];
        assert_eq!(parsed, expected);
        let same = parse(&["one/a.json", "two/a.json"], &[]).unwrap();
        assert_eq!(same, [group("one/a.json", &["one/a.json"]), group("two/a.json", &["two/a.json"])]);
    }

    #[test]
    fn what_is_no_group() {
        let refused = [
            ("", "invalid group"),
            ("a=", "invalid group"),
            ("=a", "invalid group"),
            ("a,,b", "invalid group"),
            ("x.%n.json", "x.1.json"),
        ];
        for (word, clue) in refused {
            let error = parse(&[word], &[]).unwrap_err().to_string();
            assert!(error.contains(clue), "{word}: {error}");
        }
        assert!(parse(&["n=a.json", "n=b.json"], &[]).unwrap_err().to_string().contains("same name"));
        let many = vec!["a.json"; 101].join(",");
        assert!(parse(&[&many], &[]).unwrap_err().to_string().contains("at most 100"));
    }
}
