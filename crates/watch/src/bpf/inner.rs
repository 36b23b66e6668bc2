//! Maps that are elements of an array of maps: user space makes them and gives them to the programs.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};

/// Creates a map that no program uses yet. `sizes`: of a key and a value, bytes.
pub(crate) fn made(
    name: &str,
    kind: MapType,
    sizes: [u32; 2],
    entries: u32,
    flags: u32,
) -> libbpf_rs::Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: flags,
        ..Default::default()
    };
    MapHandle::create(kind, Some(name), sizes[0], sizes[1], entries, &options)
}

/// Puts maps into an array of maps, each at its index. The kernel waits for an RCU grace period. Before Linux 5.19 it takes one map at a time.
pub(crate) fn put<M: AsFd>(array: &MapHandle, maps: impl IntoIterator<Item = (u32, M)>) -> libbpf_rs::Result<()> {
    let (mut keys, mut values, mut count) = (Vec::new(), Vec::new(), 0);
    for (index, map) in maps {
        keys.extend(index.to_ne_bytes());
        values.extend(map.as_fd().as_raw_fd().to_ne_bytes());
        count += 1;
    }
    if array.update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY).is_ok() {
        return Ok(());
    }
    let mut each = keys.chunks_exact(size_of::<u32>()).zip(values.chunks_exact(size_of::<RawFd>()));
    each.try_for_each(|(index, map)| array.update(index, map, MapFlags::ANY))
}
