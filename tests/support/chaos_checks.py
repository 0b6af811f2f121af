"""What must hold after kills: the records of a broker against the journals of those who wrote and read them."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.consumer_records import ConsumerRecord


class Line(NamedTuple):
    """A line of a journal."""

    event: str
    name: str
    run: int
    words: list[str]
    time_ns: int


def read_journal(path: pathlib.Path) -> list[Line]:
    """Its lines."""
    lines = []
    for text in path.read_text().splitlines() if path.exists() else []:
        event, name, run, *words, time_ns = text.split(" ")
        lines.append(Line(event, name, int(run), words, int(time_ns)))
    return lines


def read_topic(bootstrap: str, topic: str, partitions: int, isolation: str) -> list[list[ConsumerRecord]]:
    """All that a reader of this isolation is given, by partition, up to the end that it has when asked for."""
    settings = {"bootstrap.servers": bootstrap, "isolation.level": isolation, "auto.offset.reset": "earliest"}
    places = [(topic, partition) for partition in range(partitions)]
    found: list[list[ConsumerRecord]] = [[] for _ in places]
    with Consumer(Config(CONSUMER, settings)) as consumer:
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while not all(consumer.has_read_to(place, end) for place, end in ends.items()):
            for record in consumer.poll(1000):
                found[record.partition].append(record)
    return found


def check_numbered(lines: Iterable[Line], found: list[list[ConsumerRecord]]) -> tuple[list[str], int]:
    """Records of idempotent writers: each run's numbers of a partition are 0, 1, 2, ... in the order of the log, none
    lost, doubled or out of order, all that was acknowledged among them, at the offset that was told."""
    problems = []
    places: dict[tuple[str, int, int], dict[int, int]] = defaultdict(dict)
    for partition, records in enumerate(found):
        for record in records:
            name, run, number = record.value.decode().split(" ")[:3]
            seen = places[name, int(run), partition]
            if int(number) != len(seen):
                problems.append(f"{name} {run} partition {partition} offset {record.offset}: {number}, not {len(seen)}")
            seen[int(number)] = record.offset
    acknowledged = 0
    for line in lines:
        numbers = [int(word) for word in line.words] if line.event in ("acked", "done") else []
        if line.event == "acked":
            partition, number, offset = numbers
            acknowledged += 1
            at = places[line.name, line.run, partition].get(number)
            if at != offset:
                problems.append(f"{line} is at {at}")
        elif line.event == "done":
            partition, count = numbers
            if len(places[line.name, line.run, partition]) != count:
                problems.append(f"{line}, {len(places[line.name, line.run, partition])} were written")
        else:
            problems.append(str(line))
    return problems, acknowledged


def check_copies(name: str, source: list[list[ConsumerRecord]], copied: list[list[ConsumerRecord]]) -> list[str]:
    """Exactly one copy of each record, in order."""
    problems = []
    for partition, (one, other) in enumerate(zip(source, copied, strict=True)):
        wanted, given = [record.value for record in one], [record.value for record in other]
        if wanted != given:
            at = next((i for i, pair in enumerate(zip(wanted, given, strict=False)) if pair[0] != pair[1]), None)
            twice = len(given) - len(set(given))
            missing = len(set(wanted) - set(given))
            where = (
                "" if at is None else f"; first {wanted[at][:40]!r} and {given[at][:40]!r} (offset {other[at].offset})"
            )
            problems.append(
                f"{name}-{partition}: {len(given)} of {len(wanted)}, {twice} twice, {missing} missing{where}"
            )
    return problems


def check_java_values(lines: Iterable[dict[str, Any]], found: list[list[ConsumerRecord]]) -> list[str]:
    """Records of kafka-verifiable-producer (`run.number`): none twice, what was acknowledged where it was told, and in
    order by run and partition.

    It has no retries, hence no idempotence. A record that it reports as failed may be there or not, also behind later
    ones: its request can lie in a connection that the client gave up and be read after those of the next connection.
    """
    problems = []
    lines = list(lines)
    acknowledged = {line["value"].encode() for line in lines if line["name"] == "producer_send_success"}
    places: dict[bytes, tuple[int, int]] = {}
    for partition, records in enumerate(found):
        newest: dict[bytes, int] = {}
        for record in records:
            run, _, number = record.value.partition(b".")
            is_ordered = record.value in acknowledged
            if (is_ordered and int(number) <= newest.get(run, -1)) or record.value in places:
                problems.append(f"{record.value!r} at {partition}:{record.offset} behind {newest.get(run)}")
            if is_ordered:
                newest[run] = int(number)
            places[record.value] = (partition, record.offset)
    for line in lines:
        if line["name"] == "producer_send_success":
            at = places.get(line["value"].encode())
            if at != (line["partition"], line["offset"]):
                problems.append(f"{line} is at {at}")
    return problems


def json_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """The JSON objects of a log; a line that a kill cut off is none."""
    found = []
    for text in path.read_text(errors="replace").splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError):
            value = json.loads(text)
            if isinstance(value, dict):
                found.append(value)
    return found


def check_topics(lines: Iterable[Line], topics: Iterable[str]) -> list[str]:
    """What was confirmed to be created is there, what was confirmed to be deleted is not."""
    state: dict[str, str] = {}
    for line in lines:
        state[line.words[0]] = line.event
    there = set(topics)
    problems = [f"{name} is not there" for name, event in state.items() if event == "created" and name not in there]
    return problems + [
        f"{name} is there again" for name, event in state.items() if event == "deleted" and name in there
    ]


def check_keyed(lines: Iterable[Line], found: list[list[ConsumerRecord]]) -> list[str]:
    """Versions of a key only grow, and none that was acknowledged is lost to an older one. A key may be gone when a
    tombstone was sent, acknowledged or not."""
    problems = []
    newest: dict[str, int] = {}
    for record in (record for records in found for record in records):
        version = int(record.headers[0][1])  # type: ignore[arg-type]
        key = record.key.decode()
        if version <= newest.get(key, -1):
            problems.append(f"{key}: version {version} at offset {record.offset} behind {newest[key]}")
        newest[key] = version
        if record.value is not None and int(record.value.split(b" ")[0]) != version:
            problems.append(f"{key}: {record.value[:20]!r} is not version {version}")
    last: dict[str, tuple[int, str]] = {}
    deleting: dict[str, int] = {}
    for line in lines:
        if line.event == "failed":
            problems.append(str(line))
        elif line.event != "done":
            number, version = (int(word) for word in line.words)
            key = f"{line.name}.{line.run}.{number}"
            if line.event == "deleting":
                deleting[key] = version
            else:
                last[key] = max(last.get(key, (-1, "")), (version, line.event))
    for key, (version, event) in last.items():
        is_gone = key not in newest and deleting.get(key, -1) >= version
        if newest.get(key, -1) < version and not is_gone:
            problems.append(f"{key}: {event} {version} was acknowledged, the log has {newest.get(key)}")
    return problems


def check_members(lines: list[Line], ends: list[int]) -> list[str]:
    """Every record was read; who is given a partition goes on not before the last commit that was confirmed to then."""
    problems = []
    read: dict[int, list[tuple[int, int]]] = defaultdict(list)
    confirmed: dict[int, list[tuple[int, int]]] = defaultdict(list)
    started: dict[tuple[str, int, int], int] = {}
    for line in sorted((line for line in lines if line.event == "committed"), key=lambda line: line.time_ns):
        confirmed[int(line.words[0])].append((line.time_ns, int(line.words[1])))
    for line in lines:
        partition, *numbers = (int(word) for word in line.words)
        member = (line.name, line.run, partition)
        if line.event == "assigned":
            started[member] = line.time_ns
        elif line.event == "read":
            read[partition].append((numbers[0], numbers[1]))
            since = started.pop(member, None)
            floor = max((end for when, end in confirmed[partition] if since is not None and when < since), default=0)
            if numbers[0] < floor:
                problems.append(f"{line}: {floor} was committed before")
    for partition, end in enumerate(ends):
        reached = 0
        for first, last in sorted(read[partition]):
            if first > reached:
                problems.append(f"partition {partition}: {reached} to {first} were read by nobody")
            reached = max(reached, last)
        if reached != end:
            problems.append(f"partition {partition}: read to {reached} of {end}")
    return problems


def check_commits(offsets: list[list[ConsumerRecord]], lines_by_group: dict[str, list[Line]]) -> list[str]:
    """`__consumer_offsets` as readers of committed transactions see it: no group's offset ever goes back, and what
    members were told is committed is there."""
    from kafkatools.core.protocol.schemas.offsets import decode_record

    problems = []
    newest: dict[tuple[str, int], int] = {}
    for record in (record for records in offsets for record in records):
        key, value = decode_record(record.key, record.value)
        if value is None or not hasattr(value, "offset"):
            continue
        place = (key.group, key.partition)
        if value.offset < newest.get(place, 0):
            problems.append(f"{place}: {value.offset} at {record.partition}:{record.offset} after {newest[place]}")
        newest[place] = value.offset
    for group, lines in lines_by_group.items():
        for line in lines:
            if line.event == "committed" and newest.get((group, int(line.words[0])), -1) < int(line.words[1]):
                problems.append(f"{group}: {line}, the log has {newest.get((group, int(line.words[0])))}")
    return problems


def check_ends(admin: Any, topics: dict[str, int]) -> list[str]:
    """No open transaction holds readers of committed records back."""
    from kafkatools.core.admin.offsets import LATEST, READ_COMMITTED, list_offsets

    wanted = {(topic, partition): LATEST for topic, count in topics.items() for partition in range(count)}
    stable, ends = list_offsets(admin, wanted, isolation_level=READ_COMMITTED), list_offsets(admin, wanted)
    return [
        f"{place}: stable to {stable[place].offset} of {ends[place].offset}, {ends[place].error}"
        for place in wanted
        if stable[place].offset != ends[place].offset or ends[place].error
    ]
