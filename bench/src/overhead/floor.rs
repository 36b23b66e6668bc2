//! The minimal cost of any BPF observer of switches and wake-ups: two programs that count their calls, and optionally read the clock. What cox costs
//! beyond this is cox's own work.

use std::mem::MaybeUninit;

use anyhow::{Result, bail};
use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};

#[allow(missing_docs, unsafe_op_in_unsafe_fn, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/floor.skel.rs"));
}
use skeleton::{FloorSkel, FloorSkelBuilder};

/// The two BPF programs, attached.
pub struct Floor {
    _links: [Link; 2],
    skel: FloorSkel<'static>,
}

impl Floor {
    /// Loads and attaches the two BPF programs.
    pub fn begin(reads_clock: bool) -> Result<Floor> {
        // The skeleton borrows its object. Leak the object: this costs little memory per measured slice, and avoids a self-referential struct.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = FloorSkelBuilder::default().open(object)?;
        if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
            settings.reads_clock = reads_clock;
        }
        let skel = open.load()?;
        let links = [skel.progs.on_switch.attach_trace()?, skel.progs.on_waking.attach_trace()?];
        Ok(Floor { _links: links, skel })
    }

    /// Detaches the programs. Fails if they counted fewer than three events per round trip. A round trip has two switches and at most two wake-ups; a
    /// kernel that does not trace every wake-up gave 3.5 events per round trip.
    pub fn end(self, round_trips: u64) -> Result<()> {
        let cpus = self.skel.maps.bss_data.as_deref().map(|state| &state.cpus);
        let events: u64 = cpus.map_or(0, |cpus| cpus.iter().map(|cpu| cpu.events).sum());
        if events < 3 * round_trips {
            bail!("the empty BPF programs counted only {events} events in {round_trips} round trips");
        }
        Ok(())
    }
}
