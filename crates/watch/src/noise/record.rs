//! The records of the rings.

use wire::noise::{Event, Named};

/// An event, and the thread that it names if its kind has one.
pub type Interruption = (Event, Option<Named>);

/// Splits a record of a ring into its event and the thread that it names.
pub(super) fn parse(bytes: &[u8]) -> Option<Interruption> {
    let (event, rest) = bytes.split_at_checked(size_of::<Event>())?;
    let named = rest.get(..size_of::<Named>()).map(bytemuck::pod_read_unaligned);
    Some((bytemuck::pod_read_unaligned(event), named))
}

#[cfg(test)]
mod tests {
    use wire::noise::kind;

    use super::*;

    #[test]
    fn a_record_is_an_event_with_or_without_a_name() {
        let event = Event { t_ns: 7, kind: kind::SWITCH, ..Event::default() };
        let named = Named { comm: *b"inject-rt\0\0\0\0\0\0\0", tgid: 3, call: -1 };
        let whole = [bytemuck::bytes_of(&event), bytemuck::bytes_of(&named)].concat();
        assert_eq!(parse(&whole), Some((event, Some(named))));
        assert_eq!(parse(&whole[..32]), Some((event, None)));
        assert_eq!(parse(&whole[..31]), None);
    }
}
