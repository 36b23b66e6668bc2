//! `cox run --overlap` and `--schedule` of programs from Debian packages: their output is the same as without cox.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::overlapped::{WAYS, number, rounds};
use testkit::run::{COX, preload_library, root_with_two_cpus};
use testkit::skip::{Need, skip};

/// What a program has written, by name, its standard output among it.
type Written = BTreeMap<String, Vec<u8>>;

/// Runs a shell's `script` in a folder that `prepare` has filled, once alone, then under each backend; `$COX` is what its programs are to be run
/// with. Everything it writes is the same. How many tasks standbys ran.
fn writes_the_same(test: &str, program: &str, prepare: impl Fn(&Path), script: &str) -> Option<u64> {
    let ways: Vec<String> = WAYS.into_iter().chain(["--overlap=off"]).map(ToOwned::to_owned).collect();
    writes_the_same_by(&ways, test, program, prepare, script)
}

/// As [`writes_the_same`], with these options of `cox run`.
fn writes_the_same_by(
    ways: &[String],
    test: &str,
    program: &str,
    prepare: impl Fn(&Path),
    script: &str,
) -> Option<u64> {
    root_with_two_cpus(test)?;
    let library = preload_library(test)?;
    if Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        skip(test, Need::Programs, format_args!("needs {program}"));
        return None;
    }
    let run = |words: &str| {
        let folder = TempDir::new().unwrap();
        prepare(folder.path());
        let mut command = Command::new("sh");
        command.args(["-e", "-c", script]).current_dir(folder.path()).stdin(Stdio::null());
        command.env("COX", words).env("COX_PRELOAD", &library).env("OMP_NUM_THREADS", "3");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program} by '{words}': {output:?}");
        let mut written = Written::from([("standard output".to_owned(), output.stdout)]);
        collect(folder.path(), folder.path(), &mut written);
        written
    };
    let alone = run("");
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut tasks = 0;
    for way in ways {
        for _ in 0..rounds(2).parse().unwrap() {
            let together = run(&format!("{COX} run -q --json {} {way} --", report.path().display()));
            assert_eq!(together.keys().collect::<Vec<_>>(), alone.keys().collect::<Vec<_>>(), "{way}");
            let differ = |(name, bytes): &(&String, &Vec<u8>)| alone[*name] != **bytes;
            assert_eq!(together.iter().find(differ).map(|file| file.0), None, "{way}");
            let text = fs::read_to_string(report.path()).unwrap();
            let document: Value = serde_json::from_str(&text).unwrap();
            if way.contains("--overlap") {
                tasks += number(&document["overlap"], "tasks");
            }
            if way.contains("--schedule") {
                assert!(!document["loops"]["loops"].as_array().unwrap().is_empty(), "{way}: no loop has changed");
            }
        }
    }
    Some(tasks)
}

fn collect(folder: &Path, top: &Path, written: &mut Written) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, top, written);
        } else {
            written.insert(path.strip_prefix(top).unwrap().display().to_string(), fs::read(&path).unwrap());
        }
    }
}

/// Some files with numbers in them.
fn numbers(folder: &Path) {
    for file in 1..4 {
        let text: String = (file * 1000..file * 20_000).map(|number| format!("{number}\n")).collect();
        fs::write(folder.join(format!("numbers-{file}")), text).unwrap();
    }
}

/// Tasks that write files and wait for children; regions that are cancelled.
#[test]
fn rpmbuild_writes_the_same_packages() {
    let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/many.spec");
    let script = r#"
        define() { printf '%%%s %s\n' "$1" "$2"; }
        export SOURCE_DATE_EPOCH=1000000000 HOME=$PWD
        { define _topdir /tmp/coxswain-test-rpm
          define _rpmdir "$PWD/rpms"
          define _buildhost here
          define use_source_date_epoch_as_buildtime 1
          define clamp_mtime_to_source_date_epoch 1
        } > .rpmmacros
        $COX rpmbuild -bb --quiet --nodeps --noclean many.spec
        rm -rf .rpmmacros /tmp/coxswain-test-rpm
        find . -name '*.rpm' | wc -l"#;
    let prepare = |folder: &Path| {
        fs::copy(spec, folder.join("many.spec")).unwrap();
    };
    let tasks = writes_the_same("rpmbuild_writes_the_same_packages", "rpmbuild", prepare, script);
    assert_ne!(tasks, Some(0), "no standby has helped");
}

/// Files that are read in loops of a region.
#[test]
fn par2_writes_the_same_recovery_blocks_and_repairs() {
    let script = "
        $COX par2 create -q -q -s65536 -r60 -n3 all numbers-1 numbers-2 numbers-3
        rm numbers-2
        $COX par2 repair -q -q all.par2";
    writes_the_same("par2_writes_the_same_recovery_blocks_and_repairs", "par2", numbers, script);
}

#[test]
fn graphicsmagick_writes_the_same_pictures() {
    let script = "
        $COX gm convert -size 320x240 gradient:red-blue -swirl 100 -blur 0x3 -modulate 90,120 a.ppm
        $COX gm convert a.ppm -rotate 30 -resize 50% -despeckle b.ppm";
    writes_the_same("graphicsmagick_writes_the_same_pictures", "gm", |_| {}, script);
}

/// Schedules with each backend of `--overlap`, and without it.
fn with_schedules() -> Vec<String> {
    let overlap = WAYS.into_iter().chain(["--overlap=off", ""]);
    let pair = |way: &str| {
        ["all:fac2", "all:static_steal", "all:awf_c", "all:auto"].map(|schedule| format!("{way} --schedule {schedule}"))
    };
    overlap.flat_map(pair).collect()
}

#[test]
fn graphicsmagick_writes_the_same_pictures_under_each_schedule() {
    let script = "
        $COX gm convert -size 320x240 gradient:red-blue -swirl 100 -blur 0x3 -modulate 90,120 a.ppm
        $COX gm convert a.ppm -rotate 30 -resize 50% -despeckle b.ppm";
    let test = "graphicsmagick_writes_the_same_pictures_under_each_schedule";
    writes_the_same_by(&with_schedules(), test, "gm", |_| {}, script);
}

/// Quantum chemistry in Fortran: the energy of benzene, to the last digit that it prints.
#[test]
fn xtb_computes_the_same_energy_under_each_schedule() {
    let ring = |radius: f64, element: &str| -> String {
        let at = |angle: f64| format!("{element} {:.4} {:.4} 0.0\n", radius * angle.cos(), radius * angle.sin());
        (0..6).map(|corner| at(f64::from(corner) * std::f64::consts::FRAC_PI_3)).collect()
    };
    let prepare = |folder: &Path| {
        fs::write(folder.join("benzene.xyz"), format!("12\nbenzene\n{}{}", ring(1.396, "C"), ring(2.479, "H")))
            .unwrap();
    };
    // What it prints beside the results are times and dates.
    let script = "
        $COX xtb benzene.xyz --sp > all 2> errors
        grep -E 'TOTAL ENERGY|HOMO-LUMO|GRADIENT NORM' all
        rm -f all errors xtbrestart wbo charges xtbtopo.mol";
    let test = "xtb_computes_the_same_energy_under_each_schedule";
    writes_the_same_by(&with_schedules(), test, "xtb", prepare, script);
}
