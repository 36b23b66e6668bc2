//! The first line of a script: `#!`, the interpreter, and at most one argument (load_script in the kernel's fs/binfmt_script.c).

/// Length of the part of a file in which the kernel looks for the line, bytes.
pub const FIRST_BYTES: usize = 256;

/// What executes a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Path of the interpreter.
    pub path: Vec<u8>,
    /// The rest of the line: one argument, with all blanks in it.
    pub argument: Option<Vec<u8>>,
}

/// Returns what executes a file that begins with these bytes; `None` if it is no script. `Some(Err(()))`: the line names no interpreter, or is too long.
#[must_use]
pub fn interpreter(first: &[u8]) -> Option<Result<Interpreter, ()>> {
    let line = first.get(..first.len().min(FIRST_BYTES))?.strip_prefix(b"#!")?;
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let (line, ends) = match line.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&line[..end], true),
        None => (line, first.len() < FIRST_BYTES),
    };
    let begin = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(begin, |last| last + 1);
    let line = &line[begin..end];
    let path_end = line.iter().position(is_blank).unwrap_or(line.len());
    // A path that is cut off may name another interpreter. A cut argument is passed on, as the kernel does.
    if path_end == 0 || (path_end == line.len() && !ends) {
        return Some(Err(()));
    }
    let rest = &line[path_end..];
    let argument = rest.iter().position(|byte| !is_blank(byte)).map(|begin| rest[begin..].to_vec());
    Some(Ok(Interpreter { path: line[..path_end].to_vec(), argument }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(first: &[u8]) -> Option<Result<(String, Option<String>), ()>> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        interpreter(first).map(|found| found.map(|one| (text(one.path), one.argument.map(text))))
    }

    #[test]
    fn a_line_is_an_interpreter_and_one_argument() {
        let ok = |path: &str, argument: Option<&str>| Some(Ok((path.to_owned(), argument.map(str::to_owned))));
        assert_eq!(of(b"#!/bin/sh\necho"), ok("/bin/sh", None));
        assert_eq!(of(b"#! \t/usr/bin/env  python3 -u \t\nimport"), ok("/usr/bin/env", Some("python3 -u")));
        assert_eq!(of(b"#!/bin/sh"), ok("/bin/sh", None));
        assert_eq!(of(b"\x7fELF"), None);
        assert_eq!(of(b""), None);
        assert_eq!(of(b"#!\n/bin/sh"), Some(Err(())));
    }

    #[test]
    fn a_path_that_is_cut_off_is_refused_and_an_argument_is_not() {
        let long = |line: &str| format!("#!{line:x<300}").into_bytes();
        assert_eq!(of(&long("/bin/")), Some(Err(())));
        let found = of(&long("/bin/sh -")).unwrap().unwrap();
        assert_eq!((found.0.as_str(), found.1.unwrap().len()), ("/bin/sh", 256 - 2 - "/bin/sh ".len()));
    }
}
