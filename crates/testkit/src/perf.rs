//! perf recordings made by hand, and random changes to their records.

use std::io;

use crate::Random;
use crate::text::change_order;

/// perf's `sample_type` for `perf sched record`: identifier, address, thread, time, CPU, period, payload.
const SAMPLE_TYPE: u64 = 0x1_0587;
const SAMPLE_ID_ALL: u64 = 1 << 18;

const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// Names and fields of events. The ID of an event is 100 plus its index.
const EVENTS: [(&str, &str); 5] = [
    (
        "sched_switch",
        "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
         \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
         \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
         \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\nprint fmt: \"\", __print_flags(REC->prev_state, \"|\", \
         { 0x00000001, \"S\" }, { 0x00000002, \"D\" }, { 0x00000010, \"X\" }, { 0x00000020, \"Z\" })\n",
    ),
    (
        "sched_waking",
        "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n",
    ),
    (
        "sched_stat_runtime",
        "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:u64 runtime;\toffset:16;\tsize:8;\tsigned:0;\n",
    ),
    (
        "sched_migrate_task",
        "\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
         \tfield:int orig_cpu;\toffset:16;\tsize:4;\tsigned:1;\n\tfield:int dest_cpu;\toffset:20;\tsize:4;\tsigned:1;\n",
    ),
    (
        "sched_process_fork",
        "\tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
         \tfield:__data_loc char[] child_comm;\toffset:16;\tsize:4;\tsigned:0;\n\tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n",
    ),
];

/// Returns the data that perf copies from tracefs.
pub fn tracing_data() -> Vec<u8> {
    let mut blob = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
    for (name, text) in [("header_page", "page"), ("header_event", "event")] {
        blob.extend(name.bytes().chain([0]));
        text_with_length(&mut blob, text);
    }
    blob.extend(1u32.to_le_bytes());
    text_with_length(&mut blob, "name: ftrace_event\nID: 1\n");
    blob.extend(2u32.to_le_bytes());
    blob.extend(b"irq\0\x01\0\0\0");
    text_with_length(&mut blob, "name: sched_switch\nID: 100\n");
    blob.extend(b"sched\0");
    blob.extend((EVENTS.len() as u32).to_le_bytes());
    for (at, (name, fields)) in EVENTS.iter().enumerate() {
        text_with_length(&mut blob, &format!("name: {name}\nID: {}\n{COMMON}{fields}", 100 + at));
    }
    blob.extend([0; 16]);
    blob
}

fn text_with_length(blob: &mut Vec<u8>, text: &str) {
    blob.extend((text.len() as u64).to_le_bytes());
    blob.extend(text.bytes());
}

/// Returns a record.
pub fn record(kind: u32, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut record = kind.to_le_bytes().to_vec();
    record.extend(flags.to_le_bytes());
    record.extend((8 + body.len() as u16).to_le_bytes());
    record.extend(body);
    record
}

fn attr(event: usize) -> Vec<u8> {
    let mut attr = vec![0; 128];
    attr[..4].copy_from_slice(&2u32.to_le_bytes());
    attr[4..8].copy_from_slice(&128u32.to_le_bytes());
    attr[8..16].copy_from_slice(&(100 + event as u64).to_le_bytes());
    attr[24..32].copy_from_slice(&SAMPLE_TYPE.to_le_bytes());
    attr[40..48].copy_from_slice(&SAMPLE_ID_ALL.to_le_bytes());
    attr
}

/// Returns the IDs of an event: one per CPU.
fn ids(event: usize) -> [u64; 2] {
    [1000 + event as u64 * 2, 1001 + event as u64 * 2]
}

fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

/// Returns a sample of the event with this index.
pub fn sample(event: usize, t_ns: u64, cpu: u32, tid: u32, fields: &[u8]) -> Vec<u8> {
    let mut payload = (100 + event as u16).to_le_bytes().to_vec();
    payload.extend([0; 6]);
    payload.extend(fields);
    let mut body = Vec::new();
    for word in [ids(event)[cpu as usize % 2], 0xffff, u64::from(tid) << 32 | u64::from(tid), t_ns, cpu.into(), 1] {
        body.extend(word.to_le_bytes());
    }
    // The payload's size is padded so that records stay aligned.
    let padding = (8 - (payload.len() + 4) % 8) % 8;
    payload.extend(vec![0; padding]);
    body.extend((payload.len() as u32).to_le_bytes());
    body.extend(&payload);
    record(9, 0, &body)
}

/// Returns a context switch.
pub fn switch(t_ns: u64, cpu: u32, prev: u32, state: u64, next: u32) -> Vec<u8> {
    let mut fields = comm(&format!("t{prev}")).to_vec();
    fields.extend(prev.to_le_bytes());
    fields.extend(120u32.to_le_bytes());
    fields.extend(state.to_le_bytes());
    fields.extend(comm(&format!("t{next}")));
    fields.extend(next.to_le_bytes());
    fields.extend(120u32.to_le_bytes());
    sample(0, t_ns, cpu, prev, &fields)
}

/// Returns a wake-up.
pub fn waking(t_ns: u64, cpu: u32, waker: u32, tid: u32) -> Vec<u8> {
    let mut fields = comm(&format!("t{tid}")).to_vec();
    fields.extend(tid.to_le_bytes());
    sample(1, t_ns, cpu, waker, &fields)
}

fn stamp(event: usize, t_ns: u64, cpu: u32, tid: u32) -> Vec<u8> {
    let words = [u64::from(tid) << 32 | u64::from(tid), t_ns, cpu.into(), ids(event)[0]];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns a record that names a thread; `exec` means that an exec changed the name.
pub fn named(t_ns: u64, pid: u32, tid: u32, name: &str, exec: bool) -> Vec<u8> {
    let mut body: Vec<u8> = [pid, tid].iter().flat_map(|id| id.to_le_bytes()).collect();
    body.extend(comm(name));
    body.extend(stamp(0, t_ns, 0, tid));
    record(3, if exec { 1 << 13 } else { 0 }, &body)
}

/// Returns a record of a new thread.
pub fn fork(t_ns: u64, ids: [u32; 4]) -> Vec<u8> {
    let mut body: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    body.extend(t_ns.to_le_bytes());
    body.extend(stamp(0, t_ns, 0, ids[2]));
    record(7, 0, &body)
}

/// Returns a record of events that were lost because the buffer was full.
pub fn lost(t_ns: u64, count: u64) -> Vec<u8> {
    let mut body: Vec<u8> = [1000, count].iter().flat_map(|word| word.to_le_bytes()).collect();
    body.extend(stamp(0, t_ns, 0, 1));
    record(2, 0, &body)
}

/// Returns a record of lost samples of one event on one CPU, which perf writes at its end; it has no time.
pub fn lost_samples(count: u64, flags: u16) -> Vec<u8> {
    let mut body = count.to_le_bytes().to_vec();
    body.extend(stamp(0, 0, 0, 0));
    record(13, flags, &body)
}

/// Returns the record that marks the end of a round.
pub fn mark() -> Vec<u8> {
    record(68, 0, &[])
}

/// Returns the records of a short history on two CPUs. In a round, the records of one CPU's buffer follow those of the other's.
pub fn story() -> Vec<Vec<u8>> {
    let mut fork_fields = vec![0; 4];
    fork_fields.extend(10u32.to_le_bytes());
    fork_fields.extend((3u32 << 16 | 24).to_le_bytes());
    fork_fields.extend(12u32.to_le_bytes());
    fork_fields.extend(b"kid\0");
    let mut ran = 10u32.to_le_bytes().to_vec();
    ran.extend([0; 4]);
    ran.extend(200u64.to_le_bytes());
    let mut moved = (3u32 << 16 | 28).to_le_bytes().to_vec();
    moved.extend([11u32, 0, 1].iter().flat_map(|number| number.to_le_bytes()));
    moved.extend([0; 4]);
    moved.extend(b"x\0\0\0");
    vec![
        named(0, 10, 10, "main", false),
        fork(0, [10, 1, 11, 10]),
        switch(1000, 0, 0, 0, 10),
        waking(1200, 0, 10, 11),
        sample(2, 1290, 0, 10, &ran),
        switch(1300, 0, 10, 1, 11),
        switch(1100, 1, 0, 0, 20),
        mark(),
        fork(1400, [10, 10, 12, 10]),
        sample(4, 1401, 0, 11, &fork_fields),
        sample(3, 1450, 0, 11, &moved),
        switch(1500, 0, 11, 0, 12),
        lost(1510, 3),
        switch(1250, 1, 20, 2, 0),
        mark(),
        named(1600, 12, 12, "other", true),
        record(10, 0, &[0; 64]),
        switch(1700, 0, 12, 0x20, 0),
        mark(),
    ]
}

/// Times of the story's events in sorted order.
pub const TIMES: [u64; 15] = [0, 0, 1000, 1100, 1200, 1250, 1290, 1300, 1400, 1401, 1450, 1500, 1510, 1600, 1700];

/// Returns a recording in file mode.
pub fn file_mode(records: &[Vec<u8>]) -> Vec<u8> {
    let data = records.concat();
    let attrs_at = 104;
    let ids_at = attrs_at + EVENTS.len() * 144;
    let data_at = ids_at + EVENTS.len() * 16;
    let command = [1u32, 8].iter().flat_map(|n| n.to_le_bytes()).chain(*b"perf\0\0\0\0").collect::<Vec<u8>>();
    let mut file = b"PERFILE2".to_vec();
    let sections = [104, 144, attrs_at, EVENTS.len() * 144, data_at, data.len(), 0, 0];
    file.extend(sections.iter().flat_map(|word| (*word as u64).to_le_bytes()));
    file.extend([1u64 << 1 | 1 << 11, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    for event in 0..EVENTS.len() {
        file.extend(attr(event));
        file.extend([(ids_at + event * 16) as u64, 16].iter().flat_map(|word| word.to_le_bytes()));
    }
    (0..EVENTS.len()).flat_map(ids).for_each(|id| file.extend(id.to_le_bytes()));
    file.extend(data);
    let blob = tracing_data();
    let behind = file.len() + 32;
    let table = [behind, blob.len(), behind + blob.len(), command.len()];
    file.extend(table.iter().flat_map(|word| (*word as u64).to_le_bytes()));
    file.extend(blob);
    file.extend(command);
    file
}

/// Returns a recording in pipe mode.
pub fn pipe_mode(records: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"PERFILE2".to_vec();
    file.extend(16u64.to_le_bytes());
    for event in 0..EVENTS.len() {
        let mut body = attr(event);
        ids(event).iter().for_each(|id| body.extend(id.to_le_bytes()));
        file.extend(record(64, 0, &body));
    }
    let mut blob = tracing_data();
    blob.resize(blob.len().next_multiple_of(8), 0);
    file.extend(record(66, 0, &(blob.len() as u32).to_le_bytes()));
    file.extend(blob);
    file.extend(records.concat());
    file
}

/// Compresses the records as one stream and returns it as records of `piece` bytes each, in the form of `kind`.
///
/// # Errors
/// When the compression fails.
pub fn compressed(records: &[Vec<u8>], kind: u32, piece: usize) -> io::Result<Vec<Vec<u8>>> {
    let packed = zstd::encode_all(&records.concat()[..], 1)?;
    let pieces = packed.chunks(piece).map(|piece| {
        if kind == 81 {
            return record(81, 0, piece);
        }
        let mut body = (piece.len() as u64).to_le_bytes().to_vec();
        body.extend(piece);
        body.resize(body.len().next_multiple_of(8), 0);
        record(83, 0, &body)
    });
    Ok(pieces.collect())
}

/// Output of `perf script` for a similar recording, in the formats of several versions of perf.
pub const SCRIPT: &str = "\
    perf 17772 [000] 61240.175844:       sched:sched_waking: comm=migration/0 pid=18 prio=0 target_cpu=000
    perf 17772/17773 [000] 61240.175849: sched:sched_switch: prev_comm=perf prev_pid=17772 prev_prio=120 prev_state=D ==> next_comm=a b next_pid=18 next_prio=0
    a b    18 [001] 61240.175870: sched:sched_switch: a b:18 [120] S ==> swapper/1:0 [120]
    a b    18 [001] 61240.175871: PERF_RECORD_FORK(17:18):(15:16)
    a b    18 [001] 61240.175872: sched:sched_stat_runtime: comm=a b pid=18 runtime=906914 [ns]
    a b    18 [001] 61240.175873: sched:sched_migrate_task: comm=a b pid=18 prio=120 orig_cpu=0 dest_cpu=1
";

/// Changes records: numbers in them, their order and their number. The structure of records stays valid, except for what their contents say.
pub fn change(records: &mut Vec<Vec<u8>>, random: &mut Random) {
    for _ in 0..=random.below(6) {
        if random.one_in(3) {
            change_order(records, random);
            continue;
        }
        let which = random.below(records.len());
        let Some(body) = records.get_mut(which).and_then(|record| record.get_mut(8..)) else { continue };
        // Numbers are aligned to four bytes.
        let at = random.below(body.len() / 4) * 4;
        let width = if random.one_in(2) { 4 } else { 8 };
        let number = random.nasty().to_le_bytes();
        body.iter_mut().skip(at).zip(&number[..width]).for_each(|(byte, new)| *byte = *new);
    }
}
