//! Lists the online CPUs, on each of which the backends open perf events.

use std::io;

use machine::Root;
use machine::topology::Topology;

use crate::observer::WatchError;

/// Returns the numbers of the CPUs that are online, ascending.
pub(crate) fn cpus() -> Result<Vec<u32>, WatchError> {
    let online = Topology::read_online(&Root::live());
    let online = online.map_err(|error| WatchError::system("listing the CPUs", io::Error::other(error)))?;
    Ok(online.iter().collect())
}
