//! What every page has around its content: the head with styles and nothing to fetch, sections with links to them, the foot.

use std::fmt::{self, Write};

use crate::markup::Safe;

const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Whether there is something on a page that the script makes handier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Needed,
    None,
}

/// Up to where content begins.
pub(super) fn open(out: &mut String, title: &str, script: Script) -> fmt::Result {
    let scripts = if script == Script::Needed { "; script-src 'unsafe-inline'" } else { "" };
    out.push_str("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n");
    // Nothing is ever fetched, whatever a name may try.
    writeln!(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'{scripts}\">"
    )?;
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    write!(out, "<title>cox: {}</title>\n<style>{CSS}</style></head>\n<body>\n<main>\n", Safe(title))
}

/// Links to sections: id and name of each.
pub(super) fn links<'n>(out: &mut String, sections: impl IntoIterator<Item = (&'n str, &'n str)>) -> fmt::Result {
    out.push_str("<nav aria-label=\"Sections\">");
    for (id, name) in sections {
        write!(out, "<a href=\"#{id}\">{}</a> ", Safe(name))?;
    }
    out.push_str("</nav>\n");
    Ok(())
}

/// A section; `id` is of our own.
pub(super) fn section(
    out: &mut String,
    id: &str,
    title: &str,
    write: impl FnOnce(&mut String) -> fmt::Result,
) -> fmt::Result {
    writeln!(out, "<section id=\"{id}\"><h2>{}</h2>", Safe(title))?;
    write(out)?;
    out.push_str("</section>\n");
    Ok(())
}

/// The foot; `pages` says where the page is explained.
pub(super) fn close(out: &mut String, version: &str, pages: &str, script: Script) -> fmt::Result {
    writeln!(out, "<footer>Coxswain {}. What each figure means: cox explain figures; {pages}</footer>", Safe(version))?;
    out.push_str("</main>\n");
    if script == Script::Needed {
        write!(out, "<div id=\"tip\" role=\"status\" hidden></div>\n<script>{SCRIPT}</script>\n")?;
    }
    out.push_str("</body></html>\n");
    Ok(())
}
