//! What ran, what its report means and what to try: the sentences of the text report.

use std::collections::HashSet;

use super::view::View;
use crate::guide;
use crate::json::Document;
use crate::markup::{Markup, Safe, unbroken};
use crate::style::Style;
use crate::text::{footer, header, sections, sums, verdict};

/// Maximum length of a command in the title.
const COMMAND: usize = 120;

/// Returns the commands that were observed, for titles.
pub(super) fn command(document: &Document) -> String {
    let commands = document.account.programs.iter().map(|program| match program.command.as_slice() {
        [] => "all programs".to_owned(),
        words => words.join(" "),
    });
    let all = commands.collect::<Vec<_>>().join(" · ");
    if all.is_empty() { "no program was seen".to_owned() } else { crate::style::shortened(&all, COMMAND, "…") }
}

/// Writes the page's first lines.
pub(super) fn head(out: &mut Markup, view: &View) {
    let document = view.document;
    out.push_str("<header><h1>");
    // Each word is kept whole, so that options are not broken at their dashes.
    for word in command(document).split(' ') {
        write!(out, "<span class=\"word\">{}</span> ", Safe(word));
    }
    out.push_str("</h1>\n");
    for program in &document.account.programs {
        writeln!(out, "<p>{}</p>", Safe(header::outcome(document, program, sums(document, program).threads)));
    }
    writeln!(out, "<p class=\"observer\">{}</p>", Safe(header::observer(document)));
    let lost = footer::lost(document);
    if !lost.is_empty() {
        writeln!(out, "<p class=\"lost\">lost: {}</p>", Safe(lost.join(", ")));
    }
    out.push_str("</header>\n");
}

pub(super) fn write(out: &mut Markup, view: &View) {
    let document = view.document;
    for (at, sentence) in document.verdict.iter().flat_map(|verdict| &verdict.sentences).enumerate() {
        let class = if at == 0 { " class=\"headline\"" } else { "" };
        writeln!(out, "<p{class}>{}</p>", Safe(unbroken(&sentence.text)));
        if sentence.next.is_empty() {
            continue;
        }
        out.push_str("<ul class=\"steps\">");
        for (at, step) in sentence.next.iter().enumerate() {
            write!(out, "<li><strong>{}</strong>", Safe(&step.action));
            if let Some(forecast) = verdict::forecast(step, at == 0) {
                write!(out, " <span>{}</span>", Safe(forecast));
            }
            if at == 0 {
                let topic = Safe(&step.topic);
                write!(out, " <span class=\"why\">why: <a href=\"#why-{topic}\">{topic}</a></span>");
            }
            out.push_str("</li>");
        }
        out.push_str("</ul>\n");
    }
    explanations(out, document);
    let style = Style { width: 88, ..Style::default() };
    for section in sections(document, &style) {
        let lines: Vec<String> = section.iter().map(|line| Safe(line).to_string()).collect();
        writeln!(out, "<div class=\"scroll\"><pre>{}</pre></div>", lines.join("\n"));
    }
}

/// Writes the pages of the guide to which the steps refer, folded up.
fn explanations(out: &mut Markup, document: &Document) {
    let mut topics: Vec<&guide::Topic> = Vec::new();
    let sentences = document.verdict.iter().flat_map(|verdict| &verdict.sentences);
    for topic in sentences.filter_map(|sentence| guide::find(&sentence.next.first()?.topic)) {
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    let present: HashSet<&str> = topics.iter().map(|topic| topic.name).collect();
    for topic in topics {
        // The id is inside the folded part, so that a link to it unfolds it.
        writeln!(
            out,
            "<details class=\"guide\"><summary>{}: what it means, and what to do</summary><div id=\"why-{}\">\n{}</div></details>",
            Safe(topic.title()),
            topic.name,
            guide::html(topic, &present)
        );
    }
}
