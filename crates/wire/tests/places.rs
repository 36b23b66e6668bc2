//! Both sides of user-monitored threads look for a thread in the same places of the table.

use std::collections::BTreeSet;

use testkit::native::umt_place;
use wire::umt::{PROBES, place};

#[test]
fn both_sides_look_in_the_same_places() {
    for tid in (1..u32::MAX).step_by(7_919_777) {
        for n in 0..PROBES {
            assert_eq!(place(tid, n), umt_place(tid, n));
        }
    }
    let close: BTreeSet<usize> = (1000..1256).map(|tid| place(tid, 0)).collect();
    assert!(close.len() > 200, "threads made one after the other have places of their own: {}", close.len());
}
