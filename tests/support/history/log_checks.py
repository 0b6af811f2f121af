"""Checks of the workload `log`: nothing acknowledged is lost, nothing is doubled or out of order, and what a reader was
given stays where it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from support.history.final_logs import Partition
from support.history.record import OK, Operation

Place = tuple[str, int]


def place_of(operation: Operation) -> Place:
    """The partition that an operation concerns."""
    return operation.values["topic"], operation.values["partition"]


def check_sends(operations: Sequence[Operation], logs: Mapping[Place, Partition]) -> list[str]:
    """Records of idempotent producers against the final logs."""
    sends = [operation for operation in operations if operation.kind == "send"]
    by_value = {(place_of(send), send.values["value"]): send for send in sends}
    found: dict[tuple[Place, str], list[int]] = defaultdict(list)
    problems = []
    newest: dict[tuple[Place, str, int], tuple[int, Operation]] = {}
    for place, log in logs.items():
        for entry in log.visible("read_uncommitted"):
            key = (place, entry.value)
            found[key].append(entry.offset)
            send = by_value.get(key)
            if send is None:
                problems.append(f"invented: {place} offset {entry.offset} holds {entry.value!r}, which nobody sent")
                continue
            producer = (place, send.process, send.run)
            number, former = newest.get(producer, (-1, send))
            if send.values["number"] < number:
                problems.append(f"reordered: {place} offset {entry.offset} holds {send} behind {former}")
            newest[producer] = (send.values["number"], send)
    for key, send in by_value.items():
        offsets = found.get(key, [])
        if len(offsets) > 1:
            problems.append(f"doubled: {send} is at the offsets {offsets}")
        if send.outcome == OK and send.result["offset"] not in offsets:
            problems.append(f"lost: {send} is at {offsets or 'no offset'}")
    return problems + _check_real_time(sends)


def _check_real_time(sends: Iterable[Operation]) -> list[str]:
    """A record that was sent after another one was acknowledged has the larger offset."""
    problems = []
    by_place: dict[Place, list[Operation]] = defaultdict(list)
    for send in sends:
        if send.outcome == OK:
            by_place[place_of(send)].append(send)
    for place, acknowledged in by_place.items():
        ended = sorted(acknowledged, key=attrgetter("ended_ns"))
        highest: Operation | None = None
        index = 0
        for send in sorted(acknowledged, key=attrgetter("begun_ns")):
            while ended[index].ended_ns < send.begun_ns:
                if highest is None or ended[index].result["offset"] > highest.result["offset"]:
                    highest = ended[index]
                index += 1
            if highest is not None and send.result["offset"] < highest.result["offset"]:
                problems.append(f"reordered: {place} {send} began after {highest} was acknowledged")
    return problems


def check_reads(operations: Sequence[Operation], logs: Mapping[Place, Partition]) -> list[str]:
    """Readers: each session goes through the final log of its isolation without a gap, twice or a change."""
    problems = []
    expected: dict[tuple[Place, str], dict[int, tuple[int, str]]] = {}
    for place, log in logs.items():
        for isolation in ("read_uncommitted", "read_committed"):
            visible = log.visible(isolation)
            expected[place, isolation] = {entry.offset: (i, entry.value) for i, entry in enumerate(visible)}
    last: dict[tuple[str, int, int, Place, str], tuple[int, int]] = {}
    for read in operations:
        if read.kind != "read" or place_of(read) not in logs:
            continue
        place, isolation = place_of(read), read.values["isolation"]
        session = (read.process, read.run, read.values["session"], place, isolation)
        index, former = last.get(session, (None, -1))
        for offset, value in zip(read.values["offsets"], read.values["read"], strict=True):
            position = expected[place, isolation].get(offset)
            if position is None or position[1] != value:
                problems.append(f"{_what(logs[place], offset, value)}: offset {offset} of {place} by {read}")
                break
            if index is not None and position[0] != index + 1:
                word = "skipped" if position[0] > index else "went back"
                problems.append(f"reader {word}: {place} from offset {former} to {offset} by {read}")
                break
            index, former = position[0], offset
        if index is not None:
            last[session] = (index, former)
    return problems


def _what(log: Partition, offset: int, value: str) -> str:
    entry = next((entry for entry in log.entries if entry.offset == offset), None)
    if entry is not None and entry.value == value:
        return f"non-atomic: a read_committed reader was given a record whose transaction is {entry.fate}"
    return f"lost after it was read: {value!r}, the final log has {None if entry is None else entry.value!r}"
