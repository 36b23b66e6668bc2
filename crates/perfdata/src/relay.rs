//! Records → events in order, by one thread or by two.
//!
//! Reading and decoding take about as long as what is done with events. So of a long file a thread of its own does the first, and hands batches of
//! what records tell to the caller's thread, which brings it in order and hands it on:
//!
//! 1. The first records are read by the caller: a small file is over before a thread would have begun.
//! 2. Then the reader fills a batch and sends it. No more than [`UNDER_WAY`] wait for the caller; the reader waits when there are more.
//! 3. The caller empties a batch and gives it back, so that its memory is used again.
//! 4. An error of the caller's closes the channel, and the reader ends at its next batch. Its own error comes when all from before was handed on,
//!    as if one thread had done both.
//!
//! What cannot be sought in, like a pipe, is read by the caller: it may keep its reader waiting for hours, and the caller could not end meanwhile.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use crate::decode::Decoder;
use crate::ending::{Cut, Ending};
use crate::error::Error;
use crate::event::Event;
use crate::records::Records;
use crate::rounds::{Rounds, Told};

/// Records that the caller reads before there is another thread: some 2 MB.
pub(crate) const AT_FIRST: usize = 16 << 10;
/// What is sent at once: 300 KB, …
const BATCH: usize = 4096;
/// … and how many of them wait at most: 5 MB. perf's marks let thousands of events go at once, so neither thread is as far as the other all the time,
/// and one that waits takes a while to be woken.
const UNDER_WAY: usize = 16;

type Batch = Vec<Told>;

/// Hands on what all records tell, in order. `alone`: so many records are read by the caller's thread, or all, if there are no more.
pub(crate) fn through(
    mut records: Records<impl BufRead + Send>,
    mut decoder: Decoder<'_>,
    cut: Option<Cut>,
    alone: usize,
    each: &mut impl FnMut(&Event) -> io::Result<()>,
) -> Result<Ending, Error> {
    let mut rounds = Rounds::new();
    let mut is_over = read(&mut records, &mut decoder, alone, |told| Ok(rounds.take(told, &mut *each)?))?;
    if !is_over {
        is_over = by_two(&mut records, &mut decoder, |told| rounds.take(told, &mut *each))?;
    }
    if !is_over {
        read(&mut records, &mut decoder, usize::MAX, |told| Ok(rounds.take(told, &mut *each)?))?;
    }
    rounds.finish(each)?;
    decoder.ending.cut = records.cut.or(cut);
    decoder.finish(rounds.late)
}

/// Reads so many records, or all; true: those were all.
fn read(
    records: &mut Records<impl BufRead>,
    decoder: &mut Decoder<'_>,
    most: usize,
    mut hand_on: impl FnMut(Told) -> Result<(), Error>,
) -> Result<bool, Error> {
    for _ in 0..most {
        let Some(head) = records.next()? else { return Ok(true) };
        let behind = std::mem::take(&mut records.behind);
        if let Some(told) = decoder.record(head, records.body()?, &behind)? {
            hand_on(told)?;
        }
    }
    Ok(false)
}

/// Reads the rest in a thread of its own; false: there is none to be had.
fn by_two(
    records: &mut Records<impl BufRead + Send>,
    decoder: &mut Decoder<'_>,
    mut hand_on: impl FnMut(Told) -> io::Result<()>,
) -> Result<bool, Error> {
    let (full, filled) = sync_channel::<Batch>(UNDER_WAY);
    let (empty, emptied) = channel::<Batch>();
    thread::scope(|scope| {
        let reading = move || send(records, decoder, &full, &emptied);
        let Ok(reader) = thread::Builder::new().name("reader".into()).spawn_scoped(scope, reading) else {
            return Ok(false);
        };
        // The channel ends with this, also when it is left early.
        for mut batch in filled {
            batch.drain(..).try_for_each(&mut hand_on)?;
            // The reader has ended: it needs none.
            let _ = empty.send(batch);
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(true)
    })
}

/// What the reader does.
fn send(
    records: &mut Records<impl BufRead>,
    decoder: &mut Decoder<'_>,
    full: &SyncSender<Batch>,
    emptied: &Receiver<Batch>,
) -> Result<(), Error> {
    let room = || emptied.try_recv().unwrap_or_else(|_| Batch::with_capacity(BATCH));
    // Nobody takes it any more: the caller has an error to tell.
    let send = |batch| full.send(batch).map_err(|_| Error::Io(io::ErrorKind::BrokenPipe.into()));
    let mut batch = room();
    let ended = read(records, decoder, usize::MAX, |told| {
        batch.push(told);
        if batch.len() < BATCH { Ok(()) } else { send(std::mem::replace(&mut batch, room())) }
    });
    send(batch)?;
    ended.map(|_| ())
}

#[cfg(test)]
mod tests;
