# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What threads did, added up from a trace with Perfetto's own protobuf classes: an independent reader. Once from switches and wakings, as
Perfetto's own processor does, and once from the slices on threads' tracks.

usage: perfetto_sums.py FILE > JSON

A thread's account begins when it is first woken. `blocked` lasts until it is woken, `wake_delay` from then until it is switched in; woken
before it was off its CPU, it was not blocked at all.
"""
import collections
import json
import sys
import zlib

from perfetto.protos.perfetto.trace import perfetto_trace_pb2

RUNNABLE, PREEMPTED, DEAD = 0, 256, 16


def events(trace):
    """Wakings, switches and reasons, by time; of what happened at once, wakings first."""
    for packet in trace.packet:
        bundle = packet.ftrace_events
        sched = bundle.compact_sched
        names = sched.intern_table
        at = 0
        for n, step in enumerate(sched.waking_timestamp):
            at += step
            yield at, 0, "waking", bundle.cpu, sched.waking_pid[n], names[sched.waking_comm_index[n]]
        at = 0
        for n, step in enumerate(sched.switch_timestamp):
            at += step
            yield at, 2, "switch", bundle.cpu, sched.switch_next_pid[n], sched.switch_prev_state[n]
        for event in bundle.event:
            if event.HasField("sched_blocked_reason"):
                reason = event.sched_blocked_reason
                yield event.timestamp, 1, "reason", bundle.cpu, reason.pid, reason.caller


def packets(trace):
    """All packets, also those that are compressed."""
    for packet in trace.packet:
        if packet.HasField("compressed_packets"):
            inner = perfetto_trace_pb2.Trace()
            inner.ParseFromString(zlib.decompress(packet.compressed_packets))
            yield from inner.packet
        else:
            yield packet


def slices(all_packets):
    """Sums of slices by thread and name, slices within others by themselves; and how many instants. Times of a sequence are differences."""
    sums, instants = collections.defaultdict(collections.Counter), collections.Counter()
    tracks, sequences, names = {}, {}, {}
    for packet in all_packets:
        sequence = packet.trusted_packet_sequence_id
        if packet.sequence_flags & 1:
            sequences[sequence] = {"clock": None, "track": None, "open": []}
            names = {key: name for key, name in names.items() if key[0] != sequence}
        state = sequences.setdefault(sequence, {"clock": None, "track": None, "open": []})
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults
            assert defaults.timestamp_clock_id == 64
            state["track"] = defaults.track_event_defaults.track_uuid
        if packet.HasField("clock_snapshot") and state["track"]:
            clocks = {clock.clock_id: clock for clock in packet.clock_snapshot.clocks}
            assert clocks[64].is_incremental and clocks[64].timestamp == 0
            state["clock"] = clocks[6].timestamp
        if packet.HasField("track_descriptor") and packet.track_descriptor.HasField("thread"):
            assert packet.track_descriptor.uuid == state["track"]
            tracks[state["track"]] = packet.track_descriptor.thread
        for name in packet.interned_data.event_names:
            names[sequence, name.iid] = name.name
        event = packet.track_event
        if not packet.HasField("track_event") or event.track_uuid or state["track"] is None:
            continue
        state["clock"] += packet.timestamp
        tid = tracks[state["track"]].tid
        if event.type == event.TYPE_SLICE_BEGIN:
            state["open"].append((names[sequence, event.name_iid], state["clock"]))
        elif event.type == event.TYPE_SLICE_END:
            name, since = state["open"].pop()
            assert name.startswith("spinning") == bool(state["open"]), name
            sums[tid][name] += state["clock"] - since
        elif event.type == event.TYPE_INSTANT:
            assert state["open"][-1][0] == "running"
            instants[tid] += 1
    assert not any(state["open"] for state in sequences.values()), "a slice that never ends"
    return sums, instants


class Thread:
    def __init__(self, at):
        self.sums = collections.Counter()
        self.state, self.since, self.woken = "woken", at, None
        self.reason = None

    def book(self, what, until):
        self.sums[what] += until - self.since
        self.since = until

    def waking(self, at):
        # One from before the block counts only if none comes in it.
        if self.state != "blocked" or self.woken is None or self.woken < self.since:
            self.woken = at

    def comes(self, at, names):
        if self.state == "blocked":
            woken = self.woken if self.woken is not None else at
            woken = max(woken, self.since)
            self.sums["blocked " + names.get(self.reason, "?")] += woken - self.since
            self.book("blocked", woken)
            self.book("wake_delay", at)
        elif self.state == "woken":
            self.book("wake_delay", at)
        elif self.state == "preempted":
            self.book("preempt_wait", at)
        self.state, self.since, self.woken, self.reason = "runs", at, None, None

    def leaves(self, at, state):
        if self.state == "runs":
            self.book("run", at)
        self.state = "preempted" if state in (RUNNABLE, PREEMPTED) else "dead" if state == DEAD else "blocked"
        self.since = at


def main():
    trace = perfetto_trace_pb2.Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    causes = {}
    known, lost, counts, lines = {}, 0, 0, {}
    for packet in packets(trace):
        causes.update({s.iid: s.str.decode() for s in packet.interned_data.kernel_symbols})
        known.update({thread.tid: thread for thread in packet.process_tree.threads})
        lost += packet.ftrace_events.lost_events
        counts += packet.track_event.HasField("counter_value")
        if packet.track_descriptor.HasField("counter"):
            lines[packet.track_descriptor.name] = packet.track_descriptor.counter.unit_name
    threads, on = {}, {}
    for at, _, kind, cpu, tid, detail in sorted(events(trace), key=lambda event: event[:2]):
        if kind == "waking":
            if tid not in threads:
                threads[tid] = Thread(at)
            threads[tid].waking(at)
        elif kind == "reason" and tid in threads:
            threads[tid].reason = detail
        elif kind == "switch":
            before = threads.get(on.get(cpu))
            if before:
                before.leaves(at, detail)
            on[cpu] = tid
            if tid in threads:
                threads[tid].comes(at, causes)
    sums, instants = slices(packets(trace))
    told = {
        "slices": {tid: dict(of) for tid, of in sums.items()},
        "samples that spun alone": sum(instants.values()),
        "lines": lines,
        "threads": {
            tid: {"name": known[tid].name, "process": known[tid].tgid, "end": thread.state, **thread.sums}
            for tid, thread in threads.items()
            if tid in known
        },
        "bundles with losses": lost,
        "points of counters": counts,
    }
    json.dump(told, sys.stdout)


main()
