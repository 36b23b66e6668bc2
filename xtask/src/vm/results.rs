//! Reads what the guest writes to its second serial port (kernel/vm/init).

use std::collections::BTreeMap;

use serde_json::Value;

/// What a job in the guest did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// Exit code; 143 and 137: it reached its time limit.
    pub code: i32,
    /// What it printed.
    pub printed: String,
    /// The JSON document that it wrote; null if it wrote none, or one that is not JSON.
    pub document: Value,
}

/// The results of one boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// The jobs that ended, by name.
    pub jobs: BTreeMap<String, Job>,
    /// The job that had begun when the guest stopped writing.
    pub unfinished: Option<String>,
    /// True if the guest reached its end.
    pub done: bool,
}

impl Results {
    /// Returns whether a job has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.unfinished.is_some() || !self.jobs.is_empty()
    }
}

/// Reads the guest's lines. A guest that crashed may end in the middle of a line.
#[must_use]
pub fn read(text: &str) -> Results {
    let mut results = Results::default();
    let (mut job, mut json) = (Job::default(), String::new());
    for line in text.lines() {
        let line = line.trim_end_matches('\r');
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "begin" => {
                results.unfinished = Some(rest.to_owned());
                (job, json) = (Job::default(), String::new());
            }
            ">" => job.printed.extend([rest, "\n"]),
            "json" => json.extend([rest, "\n"]),
            "end" => {
                let Some((name, Ok(code))) = rest.split_once(' ').map(|(name, code)| (name, code.parse())) else {
                    continue;
                };
                job.code = code;
                job.document = serde_json::from_str(&json).unwrap_or_default();
                results.jobs.insert(name.to_owned(), std::mem::take(&mut job));
                results.unfinished = None;
            }
            "done" => results.done = true,
            _ => {}
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_read_with_their_documents() {
        let text = "begin run\r\n> one\r\n> \r\njson {\r\njson   \"a\": 1 }\r\nend run 0\r\nbegin ulp\n> end ulp 5\nend ulp 143\ndone\n";
        let results = read(text);
        let run = Job { code: 0, printed: "one\n\n".to_owned(), document: serde_json::json!({"a": 1}) };
        assert_eq!(results.jobs["run"], run);
        // What a job prints is not taken for the end of the job.
        assert_eq!((results.jobs["ulp"].code, results.jobs["ulp"].printed.as_str()), (143, "end ulp 5\n"));
        assert!(results.done && results.unfinished.is_none());
    }

    #[test]
    fn a_guest_that_stops_leaves_its_job_unfinished() {
        for cut in ["begin run\n> one\njson {\"a\"", "begin run\nend run"] {
            let results = read(cut);
            assert_eq!((results.unfinished.as_deref(), results.done), (Some("run"), false), "{cut}");
            assert!(results.jobs.is_empty());
        }
    }
}
