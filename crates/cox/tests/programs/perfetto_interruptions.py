# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What interrupted threads, from a trace with Perfetto's own protobuf classes: for each thread and cause the time of its slices in nanoseconds, slices
within others not counted. Only slices on tracks under a thread's own track count.

usage: perfetto_interruptions.py FILE > JSON
"""
import collections
import json
import sys
import zlib

from perfetto.protos.perfetto.trace import perfetto_trace_pb2


def packets(trace):
    for packet in trace.packet:
        if packet.HasField("compressed_packets"):
            inner = perfetto_trace_pb2.Trace()
            inner.ParseFromString(zlib.decompress(packet.compressed_packets))
            yield from inner.packet
        else:
            yield packet


def main():
    trace = perfetto_trace_pb2.Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    threads, parents, names, events = {}, {}, {}, collections.defaultdict(list)
    for packet in packets(trace):
        sequence = packet.trusted_packet_sequence_id
        track = packet.track_descriptor
        if track.HasField("thread"):
            threads[track.uuid] = track.thread.tid
        if track.HasField("parent_uuid"):
            assert track.name == "interrupted by", track
            parents[track.uuid] = track.parent_uuid
        for name in packet.interned_data.event_names:
            names[sequence, name.iid] = name.name
        for name in packet.interned_data.event_categories:
            names[sequence, "class", name.iid] = name.name
        event = packet.track_event
        if packet.HasField("track_event") and event.track_uuid in parents:
            name = None
            if event.type == event.TYPE_SLICE_BEGIN:
                name = names[sequence, event.name_iid]
                assert names[sequence, "class", event.category_iids[0]]
            events[event.track_uuid].append((packet.timestamp, name))
    told = {}
    for track, edges in events.items():
        sums = told[threads[parents[track]]] = collections.Counter()
        open_, since = [], 0
        for at, name in edges:
            assert at >= since, "slices are in order"
            if open_:
                sums[open_[-1]] += at - since
            if name is None:
                open_.pop()
            else:
                open_.append(name)
            since = at
        assert not open_, "a slice that never ends"
    json.dump(told, sys.stdout)


main()
