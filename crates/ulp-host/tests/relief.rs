//! A ULP whose page faults take long holds up no others. Runs alone: sentinels notice an idle CPU.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use place::Place;
use testkit::group::Group;
use testkit::skip::{Need, skip};

/// Number of page faults.
const FAULTS: u64 = 30;
/// In so many of them, the others must have their turns. The host notices the first one late.
const MOST: u64 = FAULTS / 2;

/// Returns in how many faults the others had turns, as the program says.
fn with_turns(text: &str) -> Option<u64> {
    text.strip_suffix(&format!(" of {FAULTS}\n"))?.parse().ok()
}

/// A thread provides each page: a signal interrupts the fault, and the ULP that has faulted goes home.
#[test]
fn a_fault_that_can_be_interrupted_goes_home() {
    let test = "a_fault_that_can_be_interrupted_goes_home";
    let place = Place::new();
    let program = place.compile("relief", &[]);
    let (output, ends) = place.run_on_one_cpu(4, &program, &[&FAULTS.to_string()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text == "no userfaultfd\n" {
        return skip(test, Need::Root, "userfaultfd is not permitted");
    }
    assert_eq!(ends, [0; 4], "{}", String::from_utf8_lossy(&output.stderr));
    assert!(with_turns(&text) >= Some(MOST), "{text}{}", place.told());
}

/// Requests per second to the slow disk.
const REQUESTS: u32 = 20;

/// Pages of a file are read slowly: the carrier sleeps, and the ULPs that wait for it go home.
#[test]
fn who_waits_for_a_carrier_that_reads_a_page_goes_home() {
    let test = "who_waits_for_a_carrier_that_reads_a_page_goes_home";
    let place = Place::new();
    let program = place.compile("relief", &[]);
    let path = place.folder().join("pages");
    fs::write(&path, vec![1; FAULTS as usize * 4096]).unwrap();
    let file = File::open(&path).unwrap();
    let slow = match Group::with_slow_disk(place.folder(), REQUESTS) {
        Ok(slow) => slow,
        Err(why) => return skip(test, Need::SlowDisk, why),
    };
    // Their pages must be read again.
    file.sync_all().unwrap();
    // SAFETY: the descriptor is open.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
    let host = place.on_one_cpu(4, &program, &[&FAULTS.to_string(), path.to_str().unwrap()]);
    let within = slow.within();
    let (output, ends) = place.ended(place.started_by(&within.iter().map(String::as_str).collect::<Vec<_>>(), &host));
    assert_eq!(ends, [0; 4], "{}", String::from_utf8_lossy(&output.stderr));
    // Of two neighbouring pages, often only the first one has to be waited for.
    let told = place.told();
    assert!(told["relieved"].as_u64() >= Some(3 * FAULTS / 4), "{told}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(with_turns(&text) >= Some(FAULTS / 4), "{text}{told}");
}
