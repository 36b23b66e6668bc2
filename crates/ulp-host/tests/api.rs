//! A Rust program that uses the crate `cox-ulp`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::fs;
use std::path::Path;
use std::process::Command;

use place::{Place, lines};
use testkit::skip::{Need, installed};

/// ULPs meet at a barrier of ULP 0, add to its sum, and start programs.
const PROGRAM: &str = r#"
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

static BARRIER: cox_ulp::Barrier = cox_ulp::Barrier::new(4);
static SUM: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);
static LOCKED: cox_ulp::Mutex<u64> = cox_ulp::Mutex::new(0);

fn number_of<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

fn shared<T>(name: &std::ffi::CStr, own: &'static T) -> &'static T {
    cox_ulp::export(name, std::ptr::from_ref(own).cast_mut().cast::<c_void>()).unwrap();
    unsafe { &*cox_ulp::import(0, name).unwrap().cast::<T>() }
}

fn main() {
    let number = cox_ulp::number().unwrap();
    assert_eq!(cox_ulp::count(), 4);
    let (barrier, sum) = (shared(c"barrier", &BARRIER), shared(c"sum", &SUM));
    let (last, locked) = (shared(c"last", &LAST), shared(c"locked", &LOCKED));
    assert_eq!(number_of(cox_ulp::export(c"sum", std::ptr::null_mut())), Some(17));
    assert_eq!((number_of(cox_ulp::wait(number)), number_of(cox_ulp::resume(u32::MAX))), (Some(35), Some(22)));
    for round in 1..=500 {
        sum.fetch_add(1, Ordering::Relaxed);
        last.fetch_add(u64::from(barrier.wait()), Ordering::Relaxed);
        assert_eq!(sum.load(Ordering::Relaxed), 4 * round);
        barrier.wait();
        {
            // Others come while it is held.
            let mut held = locked.lock();
            let before = *held;
            cox_ulp::yield_now();
            *held = before + 1;
        }
        if round % 7 == 0 {
            cox_ulp::decouple().unwrap();
        }
        assert!(matches!(number_of(cox_ulp::yield_to((number + 1) % 4)), None | Some(11)));
        cox_ulp::yield_now();
    }
    cox_ulp::couple().unwrap();
    barrier.wait();
    assert_eq!((last.load(Ordering::Relaxed), *locked.lock()), (500, 4 * 500));
    let path = c"/bin/sh";
    let child = cox_ulp::spawn(path, &[path, c"-c", c"exit $CODE"], &[c"CODE=5"]).unwrap();
    assert_eq!(cox_ulp::wait(child).unwrap().code(), Some(5));
    assert_eq!((number_of(cox_ulp::pid(child)), cox_ulp::pid(number).unwrap()), (Some(3), std::process::id()));
    println!("{number} ok");
}
"#;

#[test]
fn ulps_of_a_rust_program_meet_and_start_programs() {
    let test = "ulps_of_a_rust_program_meet_and_start_programs";
    let place = Place::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cox-ulp/src/lib.rs");
    let compile = |options: &[&str], source: &Path| {
        let mut compiler = Command::new("rustc");
        compiler.args(["--edition", "2024", "-O", "-L", "."]).args(options).arg(source).current_dir(place.folder());
        compiler.status().is_ok_and(|status| status.success())
    };
    if !installed(test, Need::Programs, "rustc") {
        return;
    }
    fs::write(place.folder().join("api.rs"), PROGRAM).unwrap();
    assert!(compile(&["--crate-type", "rlib", "--crate-name", "cox_ulp"], &source));
    assert!(compile(&["--extern", "cox_ulp"], Path::new("api.rs")));
    let program = place.folder().join("api").display().to_string();
    let (output, ends) = place.run(4, &program, &[]);
    let right: Vec<String> = (0..4).map(|number| format!("{number} ok")).collect();
    assert_eq!((lines(&output), ends), (right, vec![0; 4]));
    assert_eq!((place.told()["spawned"].as_u64(), place.told()["stays"].as_u64() > Some(0)), (Some(4), true));
}
