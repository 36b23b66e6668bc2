//! Tests the rule for waiting loops on hand-assembled machine code. `tests/loops.rs` tests it on compiled C.

use super::{CallTarget, Callee, Verdict, WaitLoops};

const START: u64 = 0x40_1000;

fn find(bytes: &[u8]) -> WaitLoops {
    WaitLoops::find(bytes, START, &|_| Callee::Other)
}

/// Returns the verdict on the instruction at offset `at` of the machine code.
fn verdict(bytes: &[u8], at: u64) -> Verdict {
    find(bytes).verdict(START + at)
}

/// `pause; mov (%rdi),%eax; cmp %esi,%eax; jne 0; ret`
const PAUSING: [u8; 9] = [0xf3, 0x90, 0x8b, 0x07, 0x39, 0xf0, 0x75, 0xf8, 0xc3];

#[test]
fn a_polling_loop_with_pause_waits_and_what_follows_does_not() {
    for at in [0, 2, 4, 6, 7] {
        assert_eq!(verdict(&PAUSING, at), Verdict::Waits, "at {at}");
    }
    assert_eq!(verdict(&PAUSING, 8), Verdict::Straight);
    assert_eq!(verdict(&PAUSING, 9), Verdict::Straight);
    assert_eq!(find(&PAUSING).verdict(START - 1), Verdict::Straight);
    assert!(find(&PAUSING).pauses);
}

#[test]
fn a_polling_loop_without_pause_waits() {
    // mov (%rdi),%eax; test %eax,%eax; je 0; ret
    assert_eq!(verdict(&[0x8b, 0x07, 0x85, 0xc0, 0x74, 0xfa, 0xc3], 2), Verdict::Waits);
    // cmpl $0,(%rdi); je 0; ret
    assert_eq!(verdict(&[0x83, 0x3f, 0x00, 0x74, 0xfb, 0xc3], 0), Verdict::Waits);
}

#[test]
fn counting_without_looking_at_memory_works() {
    // dec %ecx; jne 0; ret
    assert_eq!(verdict(&[0xff, 0xc9, 0x75, 0xfc, 0xc3], 0), Verdict::Works);
    // jmp 0
    assert_eq!(verdict(&[0xeb, 0xfe], 0), Verdict::Works);
}

#[test]
fn pause_alone_is_enough() {
    // pause; dec %ecx; jne 0; ret
    assert_eq!(verdict(&[0xf3, 0x90, 0xff, 0xc9, 0x75, 0xfa, 0xc3], 2), Verdict::Waits);
}

#[test]
fn a_pointer_chase_works() {
    // mov (%rdi),%rdi; test %rdi,%rdi; jne 0; ret
    assert_eq!(verdict(&[0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf8, 0xc3], 3), Verdict::Works);
}

#[test]
fn a_scan_works() {
    // inc %rdi; cmpb $0,(%rdi); jne 0; ret
    assert_eq!(verdict(&[0x48, 0xff, 0xc7, 0x80, 0x3f, 0x00, 0x75, 0xf8, 0xc3], 3), Verdict::Works);
}

#[test]
fn reading_along_memory_until_told_to_stop_works() {
    // mov (%rsi),%eax; add $64,%rsi; cmpl $0,(%rdi); je 0; ret
    let bytes = [0x8b, 0x06, 0x48, 0x83, 0xc6, 0x40, 0x83, 0x3f, 0x00, 0x74, 0xf5, 0xc3];
    assert_eq!(verdict(&bytes, 6), Verdict::Works);
}

#[test]
fn a_loop_that_stores_works_even_with_pause() {
    // pause; incl (%rsi); cmpl $0,(%rdi); je 0; ret
    let bytes = [0xf3, 0x90, 0xff, 0x06, 0x83, 0x3f, 0x00, 0x74, 0xf7, 0xc3];
    assert_eq!(verdict(&bytes, 4), Verdict::Works);
}

#[test]
fn storing_along_memory_moves_data() {
    // mov %al,(%rdi); inc %rdi; cmp %rsi,%rdi; jne 0; ret
    let bytes = [0x88, 0x07, 0x48, 0xff, 0xc7, 0x48, 0x39, 0xf7, 0x75, 0xf6, 0xc3];
    assert_eq!(verdict(&bytes, 0), Verdict::Moves);
    // rep movsb has no loop of its own; inside one it moves: rep movsb; dec %edx; jne 0; ret
    assert_eq!(verdict(&[0xf3, 0xa4, 0xff, 0xca, 0x75, 0xfa, 0xc3], 2), Verdict::Moves);
    // addsd (%rdi),%xmm0; dec %ecx; jne 0; ret
    assert_eq!(verdict(&[0xf2, 0x0f, 0x58, 0x07, 0xff, 0xc9, 0x75, 0xf8, 0xc3], 4), Verdict::Moves);
}

#[test]
fn trying_a_lock_waits_and_taking_tickets_works() {
    // mov $1,%eax; xchg %eax,(%rdi); test %eax,%eax; jne 0; ret
    let exchange = [0xb8, 1, 0, 0, 0, 0x87, 0x07, 0x85, 0xc0, 0x75, 0xf5, 0xc3];
    assert_eq!(verdict(&exchange, 5), Verdict::Waits);
    // lock bts $0,(%rdi); jc 0; ret
    assert_eq!(verdict(&[0xf0, 0x0f, 0xba, 0x2f, 0x00, 0x72, 0xf9, 0xc3], 0), Verdict::Waits);
    // xor %eax,%eax; lock cmpxchg %edx,(%rdi); jne 0; ret
    assert_eq!(verdict(&[0x31, 0xc0, 0xf0, 0x0f, 0xb1, 0x17, 0x75, 0xf8, 0xc3], 2), Verdict::Waits);
    // lock cmpxchg %edx,(%rdi); jne 0: the second try expects the value that the first one has read, and so succeeds.
    assert_eq!(verdict(&[0xf0, 0x0f, 0xb1, 0x17, 0x75, 0xfa, 0xc3], 0), Verdict::Works);
    // mov $1,%eax; lock xadd %eax,(%rdi); cmp %esi,%eax; jl 0; ret
    let ticket = [0xb8, 1, 0, 0, 0, 0xf0, 0x0f, 0xc1, 0x07, 0x39, 0xf0, 0x7c, 0xf3, 0xc3];
    assert_eq!(verdict(&ticket, 9), Verdict::Works);
    // mov (%rdi),%eax; lea 1(%rax),%edx; lock cmpxchg %edx,(%rdi); jne 0: an atomic update.
    let update = [0x8b, 0x07, 0x8d, 0x50, 0x01, 0xf0, 0x0f, 0xb1, 0x17, 0x75, 0xf5, 0xc3];
    assert_eq!(verdict(&update, 0), Verdict::Works);
}

#[test]
fn a_reduction_over_one_place_works() {
    // add (%rdi),%eax; cmpl $0,(%rsi); je 0; ret: the test is a poll, the sum is not.
    assert_eq!(verdict(&[0x03, 0x07, 0x83, 0x3e, 0x00, 0x74, 0xf9, 0xc3], 0), Verdict::Works);
    // A plain counter instead of the sum: inc %eax; cmpl $0,(%rsi); je 0; ret
    assert_eq!(verdict(&[0xff, 0xc0, 0x83, 0x3e, 0x00, 0x74, 0xf9, 0xc3], 0), Verdict::Waits);
}

#[test]
fn a_test_of_what_cannot_change_shows_a_path_that_is_not_repeated() {
    // mov (%rdi),%eax; test %eax,%eax; je +4; cmp %r8,%rcx; jb 0; ret
    let bytes = [0x8b, 0x07, 0x85, 0xc0, 0x74, 0x05, 0x4c, 0x39, 0xc1, 0x72, 0xf5, 0xc3];
    assert_eq!(verdict(&bytes, 2), Verdict::Works);
    // The same with pause in front.
    let bytes = [0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0x05, 0x4c, 0x39, 0xc1, 0x72, 0xf3, 0xc3];
    assert_eq!(verdict(&bytes, 4), Verdict::Waits);
}

#[test]
fn time_is_no_poll() {
    // rdtsc; cmp %esi,%eax; jb 0; ret
    assert_eq!(verdict(&[0x0f, 0x31, 0x39, 0xf0, 0x72, 0xfa, 0xc3], 2), Verdict::Works);
}

#[test]
fn the_innermost_loop_decides() {
    // 0: mov (%rdi),%eax; test %eax,%eax; je 0; 6: mov %al,(%rsi); inc %rsi; dec %ecx; jne 0; ret
    let bytes = [0x8b, 0x07, 0x85, 0xc0, 0x74, 0xfa, 0x88, 0x06, 0x48, 0xff, 0xc6, 0xff, 0xc9, 0x75, 0xf1, 0xc3];
    assert_eq!(verdict(&bytes, 2), Verdict::Waits);
    assert_eq!(verdict(&bytes, 6), Verdict::Moves);
}

#[test]
fn a_loop_entered_at_its_test_inside_a_working_loop_waits() {
    // 0: incl (%rsi); jmp 6; 4: pause; 6: cmpl $0,(%rdi); je 4; 11: dec %ecx; jne 0; ret
    let bytes = [0xff, 0x06, 0xeb, 0x02, 0xf3, 0x90, 0x83, 0x3f, 0x00, 0x74, 0xf9, 0xff, 0xc9, 0x75, 0xf1, 0xc3];
    assert_eq!(verdict(&bytes, 4), Verdict::Waits);
    assert_eq!(verdict(&bytes, 6), Verdict::Waits);
    assert_eq!(verdict(&bytes, 0), Verdict::Works);
}

#[test]
fn calls_are_followed_only_when_they_relax() {
    // 0: call +0x100; cmpl $0,(%rbx); je 0; ret
    let bytes = [0xe8, 0xfb, 0x00, 0x00, 0x00, 0x83, 0x3b, 0x00, 0x74, 0xf6, 0xc3];
    let target = CallTarget::Code(START + 0x100);
    for (callee, expected) in
        [(Callee::Relaxes, Verdict::Waits), (Callee::Yields, Verdict::Waits), (Callee::Other, Verdict::Works)]
    {
        let loops = WaitLoops::find(&bytes, START, &|asked| {
            assert_eq!(asked, target);
            callee
        });
        assert_eq!(loops.verdict(START + 5), expected, "{callee:?}");
        assert_eq!(loops.yields, callee == Callee::Yields);
    }
    // call *0x10(%rip)
    let bytes = [0xff, 0x15, 0x10, 0, 0, 0, 0x83, 0x3b, 0x00, 0x74, 0xf5, 0xc3];
    let loops = WaitLoops::find(&bytes, START, &|asked| {
        assert_eq!(asked, CallTarget::Pointer(START + 0x16));
        Callee::Yields
    });
    assert_eq!(loops.verdict(START + 6), Verdict::Waits);
}

#[test]
fn system_calls_end_the_matter() {
    // syscall; cmpl $0,(%rdi); je 0; ret
    assert_eq!(verdict(&[0x0f, 0x05, 0x83, 0x3f, 0x00, 0x74, 0xf9, 0xc3], 2), Verdict::Works);
}

#[test]
fn a_short_function_with_pause_waits_as_a_whole() {
    let loops = find(&[0xf3, 0x90, 0xc3]);
    assert!(loops.relaxes_only);
    assert_eq!(loops.verdict(START + 2), Verdict::Waits);
    // A function that also contains a call does not only pause: pause; call +0; ret
    let other = find(&[0xf3, 0x90, 0xe8, 0, 0, 0, 0, 0xc3]);
    assert!(!other.relaxes_only && other.pauses);
    assert_eq!(other.verdict(START), Verdict::Straight);
}

#[test]
fn long_loops_are_not_judged() {
    // 40 × inc %eax; cmpl $0,(%rdi); je 0
    let mut bytes = [0xff, 0xc0].repeat(40);
    bytes.extend([0x83, 0x3f, 0x00, 0x74, 0xab, 0xc3]);
    assert_eq!(verdict(&bytes, 80), Verdict::Straight);
}

#[test]
fn any_bytes_are_survived() {
    // A xorshift generator makes random bytes.
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    for len in 0..600 {
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                // One byte in four is the opcode of a short jump (jne), so that there are loops.
                if seed & 3 == 0 { 0x75 } else { seed.to_le_bytes()[3] | ((seed & 0x80) as u8) }
            })
            .collect();
        let loops = find(&bytes);
        for at in 0..len {
            loops.verdict(START + at);
        }
    }
}
