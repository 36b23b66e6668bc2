//! The client against a simulated cox-observe.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::protocol::Reply;

/// A helper, and what it believes to be the socket of its process.
fn pretended() -> (Helper, OwnedFd) {
    let (socket, its) = pair().unwrap();
    let child = Command::new("true").spawn().unwrap();
    (Helper { socket, child, buffer: vec![0; MAX_REPLY], cpu_ns: 0 }, its)
}

/// It may be too late for that.
fn gives(its: &OwnedFd, process: u32) {
    for reply in [Reply::Given(process), Reply::Done] {
        let _ = send_message(its, &reply.encode());
    }
}

fn has_hung_up(helper: &Helper) -> bool {
    let mut lifeline = [PollFd::new(&helper.socket, PollFlags::empty())];
    poll(&mut lifeline, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

/// Nothing more is asked after an answer that was not heard to its end.
#[track_caller]
fn asks_in_vain(helper: &mut Helper) {
    let next = helper.ask(&Request::Give(2), Some(2)).map(|answer| answer.given);
    assert!(next.is_err(), "{next:?}");
    assert!(has_hung_up(helper), "processes are told");
}

#[test]
fn an_answer_that_comes_late_is_not_the_next_ones() {
    let (mut helper, its) = pretended();
    let late = helper.ask_within(0, &Request::Give(1), Some(1)).map(|answer| answer.given);
    assert!(late.unwrap_err().to_string().contains("no answer in 0 s"));
    gives(&its, 1);
    asks_in_vain(&mut helper);
}

#[test]
fn the_rest_of_an_answer_that_broke_off_is_not_the_next_one() {
    let (mut helper, its) = pretended();
    send_message(&its, b"nonsense").unwrap();
    gives(&its, 1);
    assert!(helper.ask(&Request::Give(1), Some(1)).is_err());
    asks_in_vain(&mut helper);
}

#[test]
fn a_refusal_is_an_answer_after_which_more_is_asked() {
    let (mut helper, its) = pretended();
    send_message(&its, &Reply::Refused(Why::NoTarget, "another user's").encode()).unwrap();
    gives(&its, 0);
    let refused = helper.ask(&Request::Give(1), Some(1)).map(|answer| answer.given);
    assert!(matches!(refused, Err(WatchError::NoTarget { pid: 1, .. })), "{refused:?}");
    let next = helper.ask(&Request::Give(2), Some(2)).map(|answer| answer.given);
    assert_eq!(next.unwrap(), Some(0));
    assert!(!has_hung_up(&helper));
}
