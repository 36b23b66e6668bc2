# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What threads did, added up from a trace with Perfetto's own protobuf classes: an independent reader.

usage: perfetto_sums.py FILE > JSON

A thread's account begins when it is first woken. `blocked` lasts until it is woken, `wake_delay` from then until it is switched in; woken
before it was off its CPU, it was not blocked at all.
"""
import collections
import json
import sys

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
    known, lost, counts = {}, 0, 0
    for packet in trace.packet:
        causes.update({s.iid: s.str.decode() for s in packet.interned_data.kernel_symbols})
        known.update({thread.tid: thread for thread in packet.process_tree.threads})
        lost += packet.ftrace_events.lost_events
        counts += packet.track_event.HasField("counter_value")
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
    told = {
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
