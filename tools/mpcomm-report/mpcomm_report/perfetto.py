# ===- perfetto.py - traces for Perfetto and Chrome --------------------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The Trace Event Format ("Trace Event Format", Google, 2016): one process for each rank
of each timeline, one thread for each stream, a counter for memory, and a flow through
the events that start, carry and await a collective. https://ui.perfetto.dev reads it.
"""


def trace(timelines):
    events = []
    process = 0
    for t in timelines:
        flows = {c.id: "%s-%d" % (t.label, c.id) for c in t.collectives}
        known = {c.id: c for c in t.collectives}
        for rank in sorted({s.rank for s in t.streams} or {0}):
            process += 1
            meta(events, process, None, "process_name",
                 name="%s %s, rank %d" % (t.name, t.label, rank))
            meta(events, process, None, "process_sort_index", sort_index=process)
            carried = {}
            streams = [s for s in t.streams if s.rank == rank]
            for thread, s in enumerate(streams, 1):
                meta(events, process, thread, "thread_name", name=s.name)
                meta(events, process, thread, "thread_sort_index", sort_index=thread)
                for e in s.events:
                    events.append(complete(e, process, thread, known))
                    if e.flow is not None:
                        carried.setdefault(e.flow, []).append((e, thread, s.computes))
            lowest = rank == min([s.rank for s in t.streams], default=0)
            compute = next(((s.events, thread) for thread, s in enumerate(streams, 1)
                            if s.computes), None)
            for flow, places in sorted(carried.items()):
                add_flow(events, process, "%s-%d" % (flows[flow], rank), known[flow],
                         places, compute)
            if lowest:
                events += [{"ph": "C", "name": "memory", "pid": process, "tid": 0,
                            "ts": micro(time), "args": {"bytes": size}}
                           for time, size in t.memory]
    return {"displayTimeUnit": "ms", "traceEvents": events}


def micro(seconds):
    return round(seconds * 1e6, 4)


def meta(events, process, thread, kind, **arguments):
    event = {"ph": "M", "name": kind, "pid": process, "args": arguments}
    if thread is not None:
        event["tid"] = thread
    events.append(event)


def complete(e, process, thread, known):
    # A flow binds to the slice that is open at its time: none is empty.
    length = e.end - e.begin
    if e.flow is not None:
        length = max(length, 1e-9)
    event = {"ph": "X", "name": e.name, "cat": "step", "pid": process, "tid": thread,
             "ts": micro(e.begin), "dur": micro(length), "args": {}}
    if e.location:
        event["args"]["location"] = e.location
    if e.flow is not None:
        c = known[e.flow]
        event["cat"] = "communication"
        event["args"].update(collective=c.id, bytes=c.bytes, tensors=c.tensors,
                             hidden_us=micro(c.hidden), exposed_us=micro(c.exposed),
                             reason=c.reason, detail=c.detail)
    return event


def add_flow(events, process, name, c, places, compute):
    """From the operation that made the collective ready, through the transfers, to the
    one that needed its result. `places`: events of the flow as (event, thread, whether on
    the compute stream); `compute`: that stream's events and thread, if the times of the
    collective are its own."""
    places.sort(key=lambda p: (p[0].begin, p[0].end))
    own = [p for p in places if p[2]]
    steps = [(e.begin, thread) for e, thread, on_compute in places if not on_compute]
    if not steps:
        return
    if own and own[0][0].begin == own[0][0].end and own[0][0].begin <= steps[0][0]:
        steps.insert(0, (own[0][0].begin, own[0][1]))
        own.pop(0)
    elif compute:
        before = [e for e in compute[0] if e.begin < c.ready]
        if before:
            steps.insert(0, (max(before[-1].begin, min(before[-1].end, c.ready) - 1e-9),
                             compute[1]))
    if own:  # the end of the await
        steps.append((max(own[-1][0].begin, own[-1][0].end - 1e-9), own[-1][1]))
    elif compute:
        after = next((e for e in compute[0] if e.begin >= c.awaited and
                      e.begin >= c.end), None)
        if after:
            steps.append((after.begin, compute[1]))
    if len(steps) < 2:
        return
    for i, (time, thread) in enumerate(steps):
        last = i == len(steps) - 1
        event = {"ph": "s" if i == 0 else "f" if last else "t", "id": name,
                 "name": "collective", "cat": "communication", "pid": process,
                 "tid": thread, "ts": micro(time)}
        if last:
            event["bp"] = "e"
        events.append(event)
