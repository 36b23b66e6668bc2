//! Function bounds from the unwind table, which even stripped files keep, because exceptions need it.

use gimli::{BaseAddresses, CieOrFde, EhFrame, RunTimeEndian, UnwindSection};
use object::read::ReadRef;
use object::{Object, ObjectSection};

/// Returns start and end of every function that `.eh_frame` describes, in ascending order. If the table is damaged, returns the part before
/// the damage.
pub(super) fn bounds<'data>(elf: &object::File<'data, impl ReadRef<'data>>) -> Vec<(u64, u64)> {
    let Some(section) = elf.section_by_name(".eh_frame") else { return Vec::new() };
    let Ok(data) = section.uncompressed_data() else { return Vec::new() };
    let address = |name| elf.section_by_name(name).map_or(0, |section| section.address());
    let bases =
        BaseAddresses::default().set_eh_frame(section.address()).set_text(address(".text")).set_got(address(".got"));
    let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut table = EhFrame::new(&data, endian);
    table.set_address_size(if elf.is_64() { 8 } else { 4 });
    let mut bounds = Vec::new();
    let mut entries = table.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(entry) = partial.parse(EhFrame::cie_from_offset)
            && let Some(end) = entry.initial_address().checked_add(entry.len())
        {
            bounds.push((entry.initial_address(), end));
        }
    }
    bounds.sort_unstable();
    bounds
}
