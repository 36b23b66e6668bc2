//! Tests of HTML pages in headless Chromium.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A probe that finds content that is cut off without an indication. A scrollable box must have a shadow at its edge, and a text that is too long
/// must end in an ellipsis.
pub const CUT: &str = r##"
const name = (e) => `${e.tagName}.${e.getAttribute("class") ?? ""}: ${e.textContent.trim().slice(0, 40)}`;
const looked = () => {
  const cut = [];
  for (const e of document.querySelectorAll("body, body *")) {
    if (e.closest(".defs, #tip, script, [hidden]")) continue;
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const style = getComputedStyle(e);
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && style.overflowX !== "visible") {
      const shadow = e.classList.contains("scroll") && Number(getComputedStyle(e, "::after").opacity) > 0.5;
      if (!shadow && style.textOverflow !== "ellipsis") cut.push("cut: " + name(e));
    }
    if (box.right > innerWidth + 1 && !e.closest(".scroll")) cut.push("beyond the window: " + name(e));
    if (e.tagName === "text") {
      let svg = e.ownerSVGElement;
      while (svg.ownerSVGElement) svg = svg.ownerSVGElement;
      const whole = svg.getBoundingClientRect();
      if (box.left < whole.left - 1 || box.right > whole.right + 1) cut.push("beyond its picture: " + name(e));
    }
  }
  const scrolls = [...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1).length;
  answer(scrolls, cut.length, ...cut.slice(0, 5));
};
// Shadows are there from the first picture on.
requestAnimationFrame(() => requestAnimationFrame(looked));
"##;

/// Opens the page in a window that is `width` pixels wide, and returns what `probe` found: a script that ends with a call of `answer` with values.
/// The browser's console must stay empty, also when the page is opened without the probe.
pub fn asked(folder: &Path, page: &str, probe: &str, width: u32) -> Vec<String> {
    asked_all(folder, page, &[(probe, width)]).remove(0)
}

/// Returns what each probe found in a window of its width, like [`asked`]. All are asked in one run of the browser, because starting it takes seconds.
///
/// Chromium dumps the page when its virtual time is over. The virtual clock does not wait for frames, which are late on a busy machine, and it jumps
/// ahead when no timer is due. Timers prevent the jumps, and if the browser ends before the page's first frames, it is started again.
pub fn asked_all(folder: &Path, page: &str, questions: &[(&str, u32)]) -> Vec<Vec<String>> {
    // A page that needs no script forbids all scripts, which would include the probe.
    let allowed =
        page.replace("style-src 'unsafe-inline'\"", "style-src 'unsafe-inline'; script-src 'unsafe-inline'\"");
    fs::write(folder.join("plain.html"), page).unwrap();
    let mut frames = String::new();
    for (number, (probe, width)) in questions.iter().enumerate() {
        let probe = format!(
            "<script>const answer = (...values) => parent.postMessage(values.join('|'), '*');\n{probe}</script></body>"
        );
        fs::write(folder.join(format!("probed{number}.html")), allowed.replace("</body>", &probe)).unwrap();
        // A browser window cannot be as narrow as a telephone, but a frame can. A frame outside the window would not be drawn.
        frames += &format!(
            "<iframe src='probed{number}.html' style='position:absolute;top:0;left:0;width:{width}px;height:900px;border:0'></iframe>"
        );
    }
    let page = format!(
        "<!doctype html><body><script>addEventListener('message', (event) => {{\
         for (let at = 0; at < frames.length; at++)\
         if (frames[at] === event.source) document.body.setAttribute('said' + at, event.data); }});\
         setInterval(() => document.body.offsetWidth, 1)</script>{frames}<iframe src='plain.html'></iframe></body>"
    );
    fs::write(folder.join("frame.html"), page).unwrap();
    (0..5).find_map(|_| opened(folder, questions.len())).expect("the page answers in one of five browsers")
}

/// Returns the answers to `count` questions, or `None` if the browser ended before it had drawn the page's first frames.
fn opened(folder: &Path, count: usize) -> Option<Vec<Vec<String>>> {
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
    let answer = |number| {
        let said = dom.split_once(&format!(" said{number}=\""))?.1;
        Some(said.split_once('"').unwrap().0.split('|').map(str::to_owned).collect())
    };
    (0..count).map(answer).collect()
}
