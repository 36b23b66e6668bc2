//! Servers, each with a small load that ends by itself. They listen on a socket in their own folder only.

use super::inputs;
use super::program::{Family, Find, Knob, Nature, Program};

const fn server(
    name: &'static str,
    command: &'static str,
    from: &'static str,
    input: fn(&std::path::Path) -> anyhow::Result<()>,
) -> Program {
    Program {
        name,
        family: Family::Other,
        find: Find::Command(command),
        from,
        nature: Nature::Open,
        knob: Knob::Words,
        // The shell starts the executable that follows.
        launcher: &["sh", "run.sh", "{n}"],
        arguments: &[],
        input,
    }
}

/// The servers: redis with threads for its sockets, memcached with worker threads.
pub const PROGRAMS: &[Program] = &[
    server("redis", "redis-server", "redis-server redis-tools", inputs::redis),
    server("memcached", "memcached", "memcached", inputs::memcached),
];
