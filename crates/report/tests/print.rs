use report::{Document, Style, text::text};
#[test]
fn p() {
    let mut names: Vec<_> = std::fs::read_dir("/tmp/stage").unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "json")).collect();
    names.sort();
    for p in names {
        let Ok(d) = serde_json::from_str::<Document>(&std::fs::read_to_string(&p).unwrap()) else { println!("bad {}", p.display()); continue };
        let d = Document::new("0", d.account, d.facts);
        let t = text(&d, &Style::default());
        let a = report::audit::audit(&t);
        println!("{:10} {:?} {:?} {}", p.file_stem().unwrap().to_string_lossy(), d.verdict[0].headline, d.verdict[0].confidence, if a.is_ok() { "" } else { "AUDIT" });
        std::fs::write(p.with_extension("re"), t).unwrap();
    }
}
