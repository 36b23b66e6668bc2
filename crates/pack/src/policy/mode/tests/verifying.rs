//! When it is measured again what rotation gains.

use super::*;

/// How long the mode rotates until it measures again, s.
fn verified_after_s(mode: &mut Mode, without: f64, with: f64) -> u64 {
    while !rotates(mode) {
        next(mode, &spinning(without));
    }
    let (mut now_ns, mut first_ns) = (0, None);
    while rotates(mode) {
        now_ns = mode.until_ns();
        first_ns = first_ns.or(Some(now_ns));
        assert!(now_ns < 10 * VERIFY_NS.1, "never");
        next(mode, &spinning(with));
    }
    assert!(measures(mode), "{without} {with}");
    (now_ns - first_ns.unwrap_or(0)) / 1_000_000_000
}

#[test]
fn verification_measures_again_and_becomes_rarer() {
    let mut mode = adapted();
    let after: Vec<u64> = (0..6).map(|_| verified_after_s(&mut mode, 0.8, 0.88)).collect();
    let expected = [10, 20, 40, 80, 120, 120];
    for (after, expected) in after.iter().zip(expected) {
        assert!(after.abs_diff(expected) <= 1, "{after} {expected}");
    }
}

#[test]
fn where_there_is_no_doubt_verification_can_wait() {
    let after = verified_after_s(&mut adapted(), 0.7, 0.9);
    assert!(after.abs_diff(70) <= 1, "{after}");
}

#[test]
fn verification_notices_that_the_program_has_become_another() {
    let mut mode = adapted();
    verified_after_s(&mut mode, 0.8, 0.88);
    settles(&mut mode, &blocking(0.99, 1_000_000));
    assert_eq!(Kind::of(&blocking(0.99, 1_000_000), SLOTS), Kind::Free);
    assert_eq!(next(&mut mode, &blocking(0.99, 1_000_000)).0, Action::Rest);
}
