//! A program that creates and ends threads all the time. Each thread checks that it has the CPUs and the scheduling
//! class that the program started with.
//!
//! For each line of standard input, it prints the number of threads created since the last line, and how many of them
//! had other CPUs or another class. Ends with standard input.

use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use changes::{Knob, KnobIo, LiveKnobIo, Value};
use machine::Root;

const MOTHERS: u32 = 3;

/// Counts since the last question.
#[derive(Default)]
struct Tally {
    asked: u64,
    births: u64,
    strangers: u64,
}

struct Program {
    knob_io: LiveKnobIo,
    began_with: (Value, u32),
    tally: Mutex<Tally>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let knob_io = LiveKnobIo::new(Root::live());
    // SCHED_OTHER is set whatever class the program was started in, because it must differ from SCHED_IDLE.
    let knob = Knob::Scheduling(knob_io.thread(tid())?);
    if let Value::Scheduling(scheduling) = knob_io.read(&knob)? {
        knob_io.write(&knob, &Value::Scheduling(changes::Scheduling { policy: 0, ..scheduling }))?;
    }
    let began_with = now(&knob_io)?;
    let program = Arc::new(Program { knob_io, began_with, tally: Mutex::default() });
    for _ in 0..MOTHERS {
        let program = Arc::clone(&program);
        thread::spawn(move || bear(&program));
    }
    for _ in io::stdin().lines() {
        let mut tally = program.tally.lock().map_err(|_| "a thread panicked")?;
        println!("{} {}", tally.births, tally.strangers);
        *tally = Tally { asked: tally.asked + 1, ..Tally::default() };
    }
    Ok(())
}

fn tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Returns the calling thread's CPUs and scheduling class.
fn now(knob_io: &LiveKnobIo) -> Result<(Value, u32), changes::Error> {
    let thread = knob_io.thread(tid())?;
    let Value::Scheduling(scheduling) = knob_io.read(&Knob::Scheduling(thread))? else {
        unreachable!("a scheduling knob has a scheduling")
    };
    Ok((knob_io.read(&Knob::Affinity(thread))?, scheduling.policy))
}

/// Creates threads one after the other. Each creates another one that it does not wait for.
fn bear(program: &Arc<Program>) {
    loop {
        let program = Arc::clone(program);
        let child = thread::spawn(move || {
            program.is_born();
            thread::spawn(move || program.is_born());
        });
        // A thread that panicked reports it itself.
        let _ = child.join();
        thread::sleep(Duration::from_millis(2));
    }
}

impl Program {
    fn is_born(&self) {
        let asked = self.tally.lock().map_or(0, |tally| tally.asked);
        let is_stranger = now(&self.knob_io).is_ok_and(|now| now != self.began_with);
        thread::sleep(Duration::from_millis(1));
        if let Ok(mut tally) = self.tally.lock() {
            // An observation from before the last question belongs to the earlier answer.
            if tally.asked == asked {
                tally.births += 1;
                tally.strangers += u64::from(is_stranger);
            }
        }
    }
}
