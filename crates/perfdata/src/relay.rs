//! Converts records to sorted events, with one thread or with two.
//!
//! Reading and decoding take about as long as the processing of the events. For a long file, a second thread therefore
//! reads and decodes, and sends batches of decoded records to the caller's thread. That thread sorts the events and
//! passes them on:
//!
//! 1. The caller reads the first records alone: a small file is finished before a second thread could start.
//! 2. The reader thread fills a batch and sends it. At most [`UNDER_WAY`] batches wait for the caller; if the queue is
//!    full, the reader waits.
//! 3. The caller empties a batch and returns it, so that its memory is reused.
//! 4. If the caller fails, it closes the channel, and the reader ends at its next batch. If the reader fails, its error
//!    is returned after all earlier events were passed on, as with one thread.
//!
//! If the input cannot seek, it may be a pipe, and the caller reads it without a second thread. A pipe can block a
//! reader for hours; the caller would have to wait for the reader thread, and could not end meanwhile.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use crate::decode::Decoder;
use crate::ending::{Cut, Ending};
use crate::error::Error;
use crate::event::Event;
use crate::records::Records;
use crate::rounds::{Decoded, Rounds};

/// Number of records (about 2 MB) that the caller reads before it starts a second thread.
pub(crate) const AT_FIRST: usize = 16 << 10;
/// Number of decoded records in a batch. A batch takes 300 KB.
const BATCH: usize = 4096;
/// Maximum number of batches that wait for the caller (5 MB). The queue is long for two reasons. The caller works in bursts, because each of perf's
/// marks lets it pass on thousands of events. And a sleeping thread takes a while to wake up.
const UNDER_WAY: usize = 16;

type Batch = Vec<Decoded>;

/// Reads all records and passes their events on, in order. The caller's thread reads the first `alone` records before it starts a second thread.
pub(crate) fn through(
    mut records: Records<impl BufRead + Send>,
    mut decoder: Decoder<'_>,
    cut: Option<Cut>,
    alone: usize,
    each: &mut impl FnMut(&Event) -> io::Result<()>,
) -> Result<Ending, Error> {
    let mut rounds = Rounds::new();
    let mut take = |told| rounds.take(told, &mut *each);
    let is_over = read(&mut records, &mut decoder, alone, &mut take)? || by_two(&mut records, &mut decoder, &mut take)?;
    if !is_over {
        read(&mut records, &mut decoder, usize::MAX, &mut take)?;
    }
    rounds.finish(each)?;
    decoder.ending.cut = records.cut.or(cut);
    decoder.finish(rounds.late)
}

/// Reads up to `most` records. Returns true if the stream ended.
fn read(
    records: &mut Records<impl BufRead>,
    decoder: &mut Decoder<'_>,
    most: usize,
    mut hand_on: impl FnMut(Decoded) -> io::Result<()>,
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

/// Reads the remaining records in a second thread. Returns false if the thread could not be created.
fn by_two(
    records: &mut Records<impl BufRead + Send>,
    decoder: &mut Decoder<'_>,
    mut hand_on: impl FnMut(Decoded) -> io::Result<()>,
) -> Result<bool, Error> {
    let (full, filled) = sync_channel::<Batch>(UNDER_WAY);
    let (empty, emptied) = channel::<Batch>();
    thread::scope(|scope| {
        let reading = move || send(records, decoder, &full, &emptied);
        let Ok(reader) = thread::Builder::new().name("reader".into()).spawn_scoped(scope, reading) else {
            return Ok(false);
        };
        // The receiver is dropped when this loop ends or returns early, which closes the channel.
        for mut batch in filled {
            batch.drain(..).try_for_each(&mut hand_on)?;
            // Sending fails only if the reader has ended and needs no batch.
            let _ = empty.send(batch);
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(true)
    })
}

/// The body of the reader thread.
fn send(
    records: &mut Records<impl BufRead>,
    decoder: &mut Decoder<'_>,
    full: &SyncSender<Batch>,
    emptied: &Receiver<Batch>,
) -> Result<(), Error> {
    let room = || emptied.try_recv().unwrap_or_else(|_| Batch::with_capacity(BATCH));
    // Sending fails only if the caller has stopped receiving. The caller then returns its own error.
    let send = |batch| full.send(batch).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe));
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
