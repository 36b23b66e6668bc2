//! Parses DejaGnu's directives, which are Tcl lists: `{ dg-do run { target { lp64 && { ! ia32 } } } }`.

/// A word of a Tcl list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A plain or quoted word.
    Text(String),
    /// A nested list in braces.
    List(Vec<Word>),
}

impl Word {
    /// Returns the text, or `None` for a list.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Word::Text(text) => Some(text),
            Word::List(_) => None,
        }
    }

    /// Returns the content of a Tcl word without braces and quotes, with its parts joined by spaces. So `"-a -b"`, `{ -a -b }` and `{ "-a -b" }` give
    /// the same options.
    #[must_use]
    pub fn flat(&self) -> String {
        match self {
            Word::Text(text) => text.clone(),
            Word::List(words) => words.iter().map(Word::flat).collect::<Vec<_>>().join(" "),
        }
    }
}

/// Returns the directives of a source in order: lists that begin with `dg-`. A list that does not end on its line is ignored.
#[must_use]
pub fn directives(source: &str) -> Vec<Vec<Word>> {
    source.lines().filter_map(directive).collect()
}

fn directive(line: &str) -> Option<Vec<Word>> {
    let start = line.match_indices('{').find(|(at, _)| line[at + 1..].trim_ascii_start().starts_with("dg-"))?.0;
    let mut rest = line[start + 1..].chars();
    list(&mut rest)
}

/// Reads up to the closing brace of the list. Returns `None` if there is none.
fn list(rest: &mut std::str::Chars<'_>) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    loop {
        match rest.next()? {
            '}' => return Some(words),
            '{' => words.push(Word::List(list(rest)?)),
            '"' => words.push(Word::Text(quoted(rest)?)),
            space if space.is_whitespace() => {}
            first => {
                let mut text = String::from(first);
                loop {
                    match rest.clone().next()? {
                        end if end.is_whitespace() || end == '}' => break,
                        within => text.push(within),
                    }
                    rest.next();
                }
                words.push(Word::Text(text));
            }
        }
    }
}

fn quoted(rest: &mut std::str::Chars<'_>) -> Option<String> {
    let mut text = String::new();
    loop {
        match rest.next()? {
            '"' => return Some(text),
            '\\' => text.push(rest.next()?),
            within => text.push(within),
        }
    }
}

/// Evaluates a selector. `holds` returns whether a name (`lp64`) or a machine pattern (`x86_64-*-*`) applies. Several words in a row are
/// alternatives.
pub fn selects(selector: &[Word], holds: &dyn Fn(&str) -> bool) -> bool {
    let mut words = selector.iter().peekable();
    let mut any = false;
    let mut all = true;
    let mut negated = false;
    while let Some(word) = words.next() {
        let value = match word {
            Word::Text(text) if text == "!" => {
                negated = !negated;
                continue;
            }
            Word::Text(text) => holds(text),
            Word::List(inner) => selects(inner, holds),
        } != negated;
        negated = false;
        all &= value;
        // && binds more tightly than || and than juxtaposition.
        match words.peek().and_then(|word| word.text()) {
            Some("&&") => {
                words.next();
            }
            next => {
                if next == Some("||") {
                    words.next();
                }
                any |= all;
                all = true;
            }
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(line: &str) -> Vec<Word> {
        let mut all = directives(line);
        assert_eq!(all.len(), 1, "{line}");
        all.remove(0)
    }

    #[test]
    fn lists_have_words_quotes_and_lists() {
        let words = only(r#"/* { dg-set-target-env-var OMP_PLACES "{6,7}:4:-2,!{2,3}" } */"#);
        let texts: Vec<_> = words.iter().map(Word::flat).collect();
        assert_eq!(texts, ["dg-set-target-env-var", "OMP_PLACES", "{6,7}:4:-2,!{2,3}"]);
        let words = only("! { dg-skip-if \"\" {! lp64} { \"*\" } {\"-O2\"} }");
        assert_eq!(words[2], Word::List(vec![Word::Text("!".into()), Word::Text("lp64".into())]));
        assert_eq!(words[4].flat(), "-O2");
    }

    #[test]
    fn what_is_no_directive_or_is_not_closed_is_left_out() {
        assert_eq!(
            directives("int f(void) { return 1; }\n/* { dg-do run */\n/* { dg-options \"-O2 } */\n{"),
            Vec::<Vec<Word>>::new()
        );
    }

    #[test]
    fn selectors_are_logic() {
        let holds = |name: &str| matches!(name, "lp64" | "x86_64-*-*");
        for (text, expected) in [
            ("{ dg-x lp64 }", true),
            ("{ dg-x ia32 }", false),
            ("{ dg-x i?86-*-* x86_64-*-* }", true),
            ("{ dg-x ! lp64 }", false),
            ("{ dg-x { i?86-*-* x86_64-*-* } && lp64 }", true),
            ("{ dg-x lp64 && { ! lp64 } }", false),
            ("{ dg-x ia32 || lp64 }", true),
            ("{ dg-x ia32 && lp64 || lp64 }", true),
            ("{ dg-x ! { ia32 || lp64 } }", false),
        ] {
            assert_eq!(selects(&only(text)[1..], &holds), expected, "{text}");
        }
    }
}
