//! The frame of every page: the head, with styles and without external resources, sections with links to them, and the foot.

use crate::markup::{Markup, Safe};

const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Whether the page contains something that the script makes easier to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Needed,
    None,
}

/// Writes the page up to its content.
pub(super) fn open(out: &mut Markup, title: &str, script: Script) {
    let scripts = if script == Script::Needed { "; script-src 'unsafe-inline'" } else { "" };
    out.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n");
    // The content security policy forbids the browser to load any resource, even if a name in the report injected markup that asks for one.
    writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'{scripts}\">"
    );
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    write!(out, "<title>cox: {}</title>\n<style>{CSS}</style></head>\n<body>\n<main>\n", Safe(title));
}

/// Writes links to sections, given by id and name.
pub(super) fn links<'n>(out: &mut Markup, sections: impl IntoIterator<Item = (&'n str, &'n str)>) {
    out.push_str("<nav aria-label=\"Sections\">");
    for (id, name) in sections {
        write!(out, "<a href=\"#{id}\">{}</a> ", Safe(name));
    }
    out.push_str("</nav>\n");
}

/// Writes a section. `id` must be one of our own, since it is not escaped.
pub(super) fn section(out: &mut Markup, id: &str, title: &str, write: impl FnOnce(&mut Markup)) {
    writeln!(out, "<section id=\"{id}\"><h2>{}</h2>", Safe(title));
    write(out);
    out.push_str("</section>\n");
}

/// Writes the foot. `pages`: a text that says where the user guide explains this page.
pub(super) fn close(out: &mut Markup, version: &str, pages: &str, script: Script) {
    writeln!(out, "<footer>Coxswain {}. What each figure means: cox explain figures; {pages}</footer>", Safe(version));
    out.push_str("</main>\n");
    if script == Script::Needed {
        write!(out, "<div id=\"tip\" role=\"status\" hidden></div>\n<script>{SCRIPT}</script>\n");
    }
    out.push_str("</body></html>\n");
}
