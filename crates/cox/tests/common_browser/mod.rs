//! Pages in headless Chromium.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What the page in `page` says about itself in a window `width` pixels wide: `probe` is a script that ends with a call of
/// `answer` with values. Nothing may be on the console, also when the page is opened as it is.
pub fn asked(folder: &Path, page: &str, probe: &str, width: u32) -> Vec<String> {
    let probe = format!(
        "<script>const answer = (...values) => parent.postMessage(values.join('|'), '*');\n{probe}</script></body>"
    );
    // A page that needs no script allows none, the probe neither.
    let allowed =
        page.replace("style-src 'unsafe-inline'\"", "style-src 'unsafe-inline'; script-src 'unsafe-inline'\"");
    fs::write(folder.join("plain.html"), page).unwrap();
    fs::write(folder.join("probed.html"), allowed.replace("</body>", &probe)).unwrap();
    // Windows are never as narrow as telephones; frames can be.
    let frame = format!(
        "<!doctype html><body><script>addEventListener('message', (event) => document.body.dataset.said = event.data)</script>\
         <iframe src='probed.html' style='width:{width}px;height:900px;border:0'></iframe><iframe src='plain.html'></iframe></body>"
    );
    fs::write(folder.join("frame.html"), frame).unwrap();
    let mut browser = Command::new("timeout");
    browser.args(["120", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    browser.args(["--window-size=1400,1000", "--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom"]);
    browser.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    browser.arg(format!("file://{}", folder.join("frame.html").display()));
    let output = browser.output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let complaints: Vec<&str> = complaints.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = dom.split_once("data-said=\"").unwrap_or_else(|| panic!("no answer: {dom}")).1;
    said.split_once('"').unwrap().0.split('|').map(str::to_owned).collect()
}
