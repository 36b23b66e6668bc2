//! A strict reader of pages: every element must be closed, in order, every attribute must be quoted and occur once, and every `&` must begin a
//! character reference.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::{BTreeMap, BTreeSet};

/// An element with what is in it.
#[derive(Debug, Default)]
pub struct Element {
    pub name: String,
    attributes: BTreeMap<String, String>,
    content: Vec<Content>,
}

#[derive(Debug)]
enum Content {
    Text(String),
    Element(Element),
}

impl Element {
    /// An attribute's value; empty if there is none.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// Whether it has an attribute, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.attributes.contains_key(name)
    }

    /// An attribute that is a whole number.
    pub fn number(&self, name: &str) -> u64 {
        self.attribute(name).parse().unwrap_or_else(|_| panic!("{name} of {}: {}", self.name, self.attribute(name)))
    }

    /// Whether it is of a class.
    pub fn is(&self, class: &str) -> bool {
        self.attribute("class").split(' ').any(|is| is == class)
    }

    /// All elements within that fit, outer ones first.
    pub fn find<'e>(&'e self, fits: &dyn Fn(&Element) -> bool) -> Vec<&'e Element> {
        let mut found = Vec::new();
        for content in &self.content {
            if let Content::Element(element) = content {
                found.extend(fits(element).then_some(element));
                found.extend(element.find(fits));
            }
        }
        found
    }
}

/// What is written in it and its elements, in order.
pub fn text(element: &Element) -> String {
    let each = element.content.iter().map(|content| match content {
        Content::Text(text) => text.clone(),
        Content::Element(element) if ["script", "style"].contains(&element.name.as_str()) => String::new(),
        Content::Element(element) => text(element),
    });
    each.collect()
}

/// Elements that are never closed.
const VOID: [&str; 1] = ["meta"];
/// Elements whose text is not markup.
const RAW: [&str; 2] = ["script", "style"];

/// The page as a tree; or what is wrong with it.
pub fn tree(page: &str) -> Result<Element, String> {
    let mut rest = page.strip_prefix("<!doctype html>").ok_or("no doctype")?;
    let mut open = vec![Element::default()];
    let mut ids = BTreeSet::new();
    while !rest.is_empty() {
        let around = || rest.chars().take(80).collect::<String>();
        if let Some(after) = rest.strip_prefix("</") {
            let (name, after) = after.split_once('>').ok_or_else(around)?;
            let element = open.pop().ok_or_else(around)?;
            if element.name != name {
                return Err(format!("<{}> is closed by </{name}>: {}", element.name, around()));
            }
            open.last_mut().ok_or_else(around)?.content.push(Content::Element(element));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('<') {
            let (element, closed, after) = tag(after).ok_or_else(around)?;
            let id = element.attribute("id").to_owned();
            if !id.is_empty() && !ids.insert(id.clone()) {
                return Err(format!("two of id {id}"));
            }
            rest = after;
            if closed || VOID.contains(&element.name.as_str()) {
                open.last_mut().ok_or("nothing is open")?.content.push(Content::Element(element));
            } else {
                let raw = RAW.contains(&element.name.as_str()).then(|| format!("</{}>", element.name));
                open.push(element);
                if let Some(end) = raw {
                    rest = &rest[rest.find(&end).ok_or("never closed")?..];
                }
            }
        } else {
            let end = rest.find('<').unwrap_or(rest.len());
            let text = unescaped(&rest[..end]).ok_or_else(around)?;
            open.last_mut().ok_or_else(around)?.content.push(Content::Text(text));
            rest = &rest[end..];
        }
    }
    match open.len() {
        1 => open.pop().ok_or_else(String::new),
        _ => Err(format!("never closed: {:?}", open.iter().map(|element| &element.name).collect::<Vec<_>>())),
    }
}

/// A start tag behind its `<`: the element, whether it is closed at once, and what comes after it.
fn tag(after: &str) -> Option<(Element, bool, &str)> {
    let end = after.find(|c: char| !c.is_ascii_alphanumeric())?;
    let (name, mut rest) = after.split_at(end);
    let mut element = Element { name: name.to_owned(), ..Element::default() };
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("/>") {
            return Some((element, true, after)).filter(|(element, ..)| !element.name.is_empty());
        }
        if let Some(after) = rest.strip_prefix('>') {
            return Some((element, false, after)).filter(|(element, ..)| !element.name.is_empty());
        }
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).filter(|end| *end > 0)?;
        let (name, after) = rest.split_at(end);
        let value = match after.strip_prefix("=\"") {
            Some(after) => {
                let (value, after) = after.split_once('"')?;
                rest = after;
                unescaped(value).filter(|_| !value.contains('<'))?
            }
            // `open`, `hidden`: there or not.
            None if !after.starts_with('=') => {
                rest = after;
                String::new()
            }
            None => return None,
        };
        if element.attributes.insert(name.to_owned(), value).is_some() {
            return None;
        }
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut parts = text.split('&');
    plain.push_str(parts.next()?);
    for part in parts {
        let (reference, after) = part.split_once(';')?;
        plain.push(match reference {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            _ => return None,
        });
        plain.push_str(after);
    }
    (!text.contains('>')).then_some(plain)
}
