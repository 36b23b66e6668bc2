//! `cox explain`: the user guide, from the program itself.

use anyhow::{Context, Result, bail};
use outputs::{Output, to_stdout};
use report::guide::{self, Topic};

use crate::cli;
use crate::faces::style;

/// Prints the page of a topic, or a section of it (`doctor#ebpf`); without a topic, the list of topics.
pub fn explain(options: &cli::Explain) -> Result<u8> {
    let text = match options.topic.as_deref() {
        None => list(),
        Some(wanted) => {
            let (name, section) = wanted.split_once('#').map_or((wanted, None), |(name, part)| (name, Some(part)));
            let Some(topic) = guide::find(name) else {
                bail!("unknown topic '{name}'; `cox explain` lists the topics");
            };
            let text = match section {
                None => topic.text,
                Some(id) => topic.section(id).with_context(|| format!("topic '{name}' has no section '{id}'"))?,
            };
            guide::within(text, style(&Output::Stdout, false).columns())
        }
    };
    to_stdout(|out| out.write_all(text.as_bytes()))?;
    Ok(0)
}

fn list() -> String {
    let line = |topic: &Topic| format!("  {:28} {}\n", topic.name, topic.title());
    let pages: String = guide::PAGES.iter().filter(|topic| topic.name != "README").map(line).collect();
    let advice: String = guide::ADVICE.iter().map(line).collect();
    format!("Commands and figures:\n{pages}\nSituations that a verdict names:\n{advice}\nRead one: cox explain NAME\n")
}
