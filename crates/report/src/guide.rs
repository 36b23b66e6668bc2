//! The user guide inside the program: the pages of docs/. A user who has only the binary can read the pages that a report refers to.
//!
//! `cox explain NAME` prints a page with [`plain`]. HTML reports contain the pages that they refer to, made by [`html`].

use std::collections::HashSet;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html::push_html};

use crate::style::broken;

/// A page of the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The page's name for `cox explain`: its file name without `.md`.
    pub name: &'static str,
    /// Whether the page explains a situation that a report's diagnosis (verdict) can name, such as load imbalance. These pages are in docs/advice.
    pub advice: bool,
    /// The page, in Markdown.
    pub text: &'static str,
}

macro_rules! topics {
    ($folder:literal, $advice:literal: $($name:literal)*) => {
        [$(Topic { name: $name, advice: $advice, text: include_str!(concat!("../../../docs/", $folder, $name, ".md")) }),*]
    };
}

/// Pages on commands and figures.
pub const PAGES: [Topic; 20] = topics!("", false: "run" "traces" "page" "report" "pack" "overlap" "umt" "loops" "noise" "quiet" "ulp" "advise" "compare" "doctor"
    "figures" "glossary" "changes" "bench" "study" "README");

/// Pages in docs/advice. Each explains a situation that a report's diagnosis (verdict) can name, such as load imbalance.
pub const ADVICE: [Topic; 21] = topics!("advice/", true: "blocked" "child_wait" "cpu_hog" "disk_bound" "file_lock" "hypervisor_steal"
    "imbalance" "lock_convoy" "network_bound" "nothing_to_gain" "page_faults" "pinned_too_few" "quota_throttled" "serial" "sleeping"
    "slow_wakeups" "too_little_evidence" "too_many_threads_sleeping" "too_many_threads_spinning" "waiting_for_input"
    "waiting_for_threads");

/// Returns all topics, pages on commands first.
pub fn topics() -> impl Iterator<Item = &'static Topic> {
    PAGES.iter().chain(&ADVICE)
}

/// Finds a topic by its name. Also accepts the forms `docs/advice/imbalance.md` and `too-many-threads-spinning`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Topic> {
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.strip_suffix(".md").unwrap_or(name);
    topics().find(|topic| topic.name == name || topic.name == name.replace('-', "_"))
}

impl Topic {
    /// Returns the page's first heading.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches('#').trim()
    }

    /// Returns the part below the heading with this id (`ebpf` for `## ebpf`), up to the next heading of the same or a higher level.
    #[must_use]
    pub fn section(&self, id: &str) -> Option<&'static str> {
        let mut fenced = false;
        let mut found: Option<(usize, usize)> = None;
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            fenced ^= line.starts_with("```");
            let level = line.bytes().take_while(|byte| *byte == b'#').count();
            if level > 0 && !fenced {
                match found {
                    Some((from, above)) if level <= above => return self.text.get(from..at),
                    None if anchor(&line[level..]) == id => found = Some((at, level)),
                    _ => {}
                }
            }
            at += line.len();
        }
        found.and_then(|(from, _)| self.text.get(from..))
    }
}

/// Returns the id that a heading has in a rendered page: lower case, words joined by dashes, without punctuation.
fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    };
    heading.trim().to_lowercase().chars().filter_map(kept).collect()
}

/// Formats a page, or a part of one, for a terminal: its Markdown, with links to other pages replaced by `cox explain …`, and without comments, which
/// mark what is made from the code.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    let mut opened: Option<(usize, String)> = None;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Link { dest_url, .. }) => {
                if let Some(topic) = local(&dest_url) {
                    out.push_str(&text[at..range.start]);
                    at = range.end;
                    opened = Some((range.start + 1, topic));
                }
            }
            Event::End(TagEnd::Link) => {
                if let Some((from, topic)) = opened.take() {
                    let whole = &text[from..range.end];
                    let words = whole.rsplit_once("](").map_or(whole, |(words, _)| words);
                    out.push_str(&format!("{words} (cox explain {topic})"));
                }
            }
            Event::Html(html) if html.starts_with("<!--") => {
                out.push_str(&text[at..range.start]);
                at = range.end;
            }
            _ => {}
        }
    }
    out.push_str(&text[at..]);
    out
}

/// Like [`plain`], but breaks lines at `columns`: the lines of paragraphs, quotations and list items, and table rows that are longer than
/// `columns`. Code and headings stay unchanged.
#[must_use]
pub fn within(text: &str, columns: usize) -> String {
    let mut out = Vec::new();
    let mut block = Block::default();
    let mut fenced = false;
    for line in plain(text).lines() {
        let bare = line.trim_start();
        let fence = bare.starts_with("```");
        if fenced || fence || bare.is_empty() || bare.starts_with('#') {
            block.end(columns, &mut out);
            fenced ^= fence;
            out.push(line.to_owned());
            continue;
        }
        let indent = line.len() - bare.len();
        // An indent of four columns begins code, unless a paragraph or a list continues.
        if indent >= 4 && block.is_empty() {
            out.push(line.to_owned());
            continue;
        }
        let quoted = bare.strip_prefix('>');
        if quoted.is_some() != (block.rest == QUOTATION) {
            block.end(columns, &mut out);
        }
        if let Some(quoted) = quoted {
            if block.is_empty() {
                block.begin(QUOTATION, QUOTATION.to_owned());
            }
            block.add(quoted.trim_start());
            continue;
        }
        match marker(bare) {
            Some(marker) => {
                block.end(columns, &mut out);
                block.begin(&line[..indent + marker], " ".repeat(indent + marker));
                block.add(&bare[marker..]);
            }
            None if bare.starts_with('|') => {
                block.end(columns, &mut out);
                block.begin("", "    ".to_owned());
                block.add(line);
                block.end(columns, &mut out);
            }
            None => {
                if block.is_empty() {
                    block.begin(&line[..indent], line[..indent].to_owned());
                }
                block.add(bare);
            }
        }
    }
    block.end(columns, &mut out);
    out.iter().map(|line| line.clone() + "\n").collect()
}

/// The prefix of each line of a quotation.
const QUOTATION: &str = "> ";

/// Returns the length of a list item's marker, including the space after it: `- `, `* `, `12. `.
fn marker(line: &str) -> Option<usize> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match digits {
        0 => line.starts_with(['-', '*']).then_some(1)?,
        _ => line[digits..].starts_with('.').then_some(digits + 1)?,
    };
    line[mark..].starts_with(' ').then_some(mark + 1)
}

/// A paragraph, a quotation, a list item or a table row: its words are collected, and then broken into lines anew.
#[derive(Default)]
struct Block {
    first: String,
    rest: String,
    words: String,
}

impl Block {
    fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    fn begin(&mut self, first: &str, rest: String) {
        *self = Block { first: first.to_owned(), rest, words: String::new() };
    }

    fn add(&mut self, line: &str) {
        if !self.words.is_empty() {
            self.words.push(' ');
        }
        self.words.push_str(line.trim_end());
    }

    fn end(&mut self, columns: usize, out: &mut Vec<String>) {
        if self.is_empty() {
            return;
        }
        let Block { first, rest, words } = std::mem::take(self);
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        out.extend(broken(&words, columns, &first, &rest));
    }
}

/// Renders a topic for a page that contains the topics in `present`. Links to these stay inside the page; other links become text. Headings are
/// two levels lower, since they are parts of a section.
#[must_use]
pub fn html(topic: &Topic, present: &HashSet<&str>) -> String {
    let mut out = String::new();
    let mut dropped = false;
    let events = Parser::new_ext(topic.text, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => match find(dest_url.split('#').next()?) {
            Some(other) if dest_url.contains(".md") && present.contains(other.name) => {
                let dest_url = CowStr::from(format!("#why-{}", other.name));
                Some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
            }
            _ => {
                dropped = true;
                None
            }
        },
        Event::End(TagEnd::Link) if std::mem::take(&mut dropped) => None,
        Event::Start(Tag::Heading { level, .. }) => Some(Event::Html(format!("<h{}>", lower(level as usize)).into())),
        Event::End(TagEnd::Heading(level)) => Some(Event::Html(format!("</h{}>\n", lower(level as usize)).into())),
        other => Some(other),
    });
    push_html(&mut out, events);
    out
}

fn lower(level: usize) -> usize {
    (level + 2).min(6)
}

/// Returns the topic and section (`TOPIC#SECTION`) to which a link in a page of the guide leads, if it leads to another page of the guide.
fn local(link: &str) -> Option<String> {
    let (file, section) = link.split_once('#').map_or((link, None), |(file, section)| (file, Some(section)));
    // A page in another folder does not belong to the guide, whatever its name.
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_ours = file.ends_with(".md") && ["", ".", "..", "advice"].contains(&folder);
    let topic = is_ours.then(|| find(file))??;
    Some(section.map_or_else(|| topic.name.to_owned(), |section| format!("{}#{section}", topic.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::columns as width;

    #[test]
    fn links_to_pages_become_commands_and_others_stay() {
        let text = "See [waiting for\nothers](waiting_for_threads.md), [spin](../figures.md#spin) and [gcc](https://gcc.gnu.org/), `[x](run.md)`, [w](../workloads/README.md).";
        assert_eq!(
            plain(text),
            "See waiting for\nothers (cox explain waiting_for_threads), spin (cox explain figures#spin) and [gcc](https://gcc.gnu.org/), `[x](run.md)`, [w](../workloads/README.md)."
        );
    }

    #[test]
    fn comments_are_left_out() {
        let text = "# One\n\n<!-- figures: x -->\n| a | b |\n|---|---|\n| c | d |\n<!-- end -->\n\n<!-- y -->\n```\n<!-- code -->\n```\n<!-- end -->\nlast\n";
        assert_eq!(plain(text), "# One\n\n| a | b |\n|---|---|\n| c | d |\n\n```\n<!-- code -->\n```\nlast\n");
        assert!(topics().all(|topic| !plain(topic.text).contains("<!--")));
    }

    #[test]
    fn paragraphs_and_lists_are_broken_anew_and_code_is_not() {
        let text = "# A heading that is much longer than that\n\nOne two three\nfour five six.\n- first item\n  goes on\n- second\n\n\
                    ```sh\ncox run --output a --json b --html c -- ./app\n```\n\n| a | b |\n|---|---|\n| one two | three four five |\n\n> a quotation of\n> two lines\nand text\n\n    code   stays   as it is, always\n\nlasts 1234567890 34 ms\n\n1. x\n";
        let broken = "# A heading that is much longer than that\n\nOne two three four\nfive six.\n- first item goes on\n- second\n\n\
                    ```sh\ncox run --output a --json b --html c -- ./app\n```\n\n| a | b |\n|---|---|\n| one two | three\n    four five |\n\n> a quotation of two\n> lines\nand text\n\n    code   stays   as it is, always\n\nlasts 1234567890\n34 ms\n\n1. x\n";
        assert_eq!(within(text, 20), broken);
        // Nothing but breaks is changed, of any page.
        let words = |text: &str| text.split_whitespace().filter(|word| *word != ">").collect::<Vec<_>>().join(" ");
        for topic in topics() {
            for columns in [60, 80, 100] {
                let text = within(topic.text, columns);
                assert_eq!(words(&text), words(&plain(topic.text)), "{} {columns}", topic.name);
                let mut fenced = false;
                for line in text.lines() {
                    fenced ^= line.trim_start().starts_with("```");
                    let kept = fenced || line.starts_with('#') || line.starts_with("    ");
                    let one_word = line.trim_start().split(' ').count() <= 2;
                    assert!(kept || one_word || width(line) <= columns, "{}: {line}", topic.name);
                }
            }
        }
    }

    #[test]
    fn a_section_ends_before_the_next_heading_of_its_level() {
        let topic =
            Topic { name: "x", advice: false, text: "# X\n## One two\na\n### b\n```sh\n# no heading\n```\n## c\nd\n" };
        assert_eq!(topic.section("one-two"), Some("## One two\na\n### b\n```sh\n# no heading\n```\n"));
        assert_eq!(topic.section("c"), Some("## c\nd\n"));
        assert_eq!(topic.section("no-heading"), None);
    }

    #[test]
    fn names_are_found_in_the_forms_that_reports_have() {
        for name in ["imbalance", "docs/advice/imbalance.md", "advice/imbalance.md"] {
            assert_eq!(find(name).map(|topic| topic.name), Some("imbalance"));
        }
        assert_eq!(find("too-many-threads-spinning").map(|topic| topic.name), Some("too_many_threads_spinning"));
        assert_eq!(find("magic"), None);
    }

    #[test]
    fn pages_render_without_links_that_lead_nowhere() {
        let present = HashSet::from(["imbalance", "waiting_for_threads"]);
        for topic in &ADVICE {
            let page = html(topic, &present);
            assert!(page.starts_with("<h3>"), "{}", topic.name);
            for link in page.split("href=\"").skip(1) {
                let target = link.split('"').next().unwrap();
                assert!(target.starts_with("#why-"), "{}: {target}", topic.name);
                assert!(present.contains(&target[5..]), "{}: {target}", topic.name);
            }
        }
        assert!(html(find("imbalance").unwrap(), &present).contains("href=\"#why-waiting_for_threads\""));
    }
}
