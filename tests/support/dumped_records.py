"""What Apache Kafka's dump tool printed of recorded segments, as data: the truth that jobs are held against."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from support import recorded_segments

_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (-?\d+) .*? producerId: (-?\d+) .*?isTransactional: (\w+) "
    r"isControl: (\w+) .*?position: (\d+) \w+: (-?\d+) size: (\d+) magic: \d+ compresscodec: (\w+)"
)
_RECORD = re.compile(r"\| offset: (\d+) .*?keySize: (-?\d+) valueSize: (-?\d+)(.*)", re.DOTALL)
_KEY = re.compile(r" key: (.*?)( payload: |$)", re.DOTALL)


@dataclass
class DumpedBatch:
    """A batch (or a wrapper of magic 0 or 1) with its records."""

    file: str
    base_offset: int
    last_offset: int
    count: int
    producer_id: int
    is_transactional: bool
    is_control: bool
    position: int
    timestamp: int
    size: int
    codec: str
    records: list[DumpedRecord] = field(default_factory=list)


@dataclass
class DumpedRecord:
    """One record; `marker` is COMMIT or ABORT for the end of a transaction."""

    offset: int
    key_size: int
    value_size: int
    key: str | None
    marker: str | None = None


def batches_of(archive: str, directory: str, case: str) -> list[DumpedBatch]:
    """The batches in the order of the dump, from a case with --print-data-log."""
    return list(_parsed(recorded_segments.case(archive, directory, case).stdout.decode("utf-8", "replace")))


def _parsed(text: str) -> Iterator[DumpedBatch]:
    file, batch = "", None
    for line in re.split(r"\n(?=Dumping |baseOffset: |offset: |\| offset: )", text):
        if line.startswith("Dumping "):
            file = line.split()[1]
        elif line.startswith("baseOffset: "):
            found = _BATCH.match(line)
            assert found is not None, line
            if batch is not None:
                yield batch
            base, last, count, producer, transactional, control, position, timestamp, size, codec = found.groups()
            batch = DumpedBatch(
                file, int(base), int(last), int(count), int(producer), transactional == "true", control == "true",
                int(position), int(timestamp), int(size), codec,
            )  # fmt: skip
        elif line.startswith("offset: "):
            if batch is not None:
                yield batch
            numbers = {name: int(number) for name, number in re.findall(r"(\w+): (-?\d+)", line)}
            codec = re.findall(r"compresscodec: (\w+)", line)[0]
            offset = numbers["offset"]
            batch = DumpedBatch(
                file, offset, offset, -1, -1, False, False, numbers["position"],
                numbers.get("CreateTime", numbers.get("LogAppendTime", -1)), numbers["size"], codec,
            )  # fmt: skip
        elif line.startswith("| offset: ") and batch is not None:
            batch.records.append(_record(line.rstrip("\n")))
    if batch is not None:
        yield batch


def _record(line: str) -> DumpedRecord:
    found = _RECORD.match(line)
    assert found is not None, line
    offset, key_size, value_size, rest = found.groups()
    key = _KEY.search(rest)
    marker = re.search(r"endTxnMarker: (\w+)", rest)
    return DumpedRecord(
        int(offset), int(key_size), int(value_size),
        key[1] if key is not None and int(key_size) >= 0 else None, marker[1] if marker else None,
    )  # fmt: skip


def transaction_states(batches: list[DumpedBatch]) -> dict[int, str]:
    """Base offset of each transactional batch of data -> committed, aborted or open, by the markers behind it."""
    waiting: dict[int, list[int]] = {}
    states = {}
    for batch in batches:
        if batch.is_control:
            for offset in waiting.pop(batch.producer_id, []):
                states[offset] = {"COMMIT": "committed", "ABORT": "aborted"}[batch.records[0].marker or ""]
        elif batch.is_transactional:
            waiting.setdefault(batch.producer_id, []).append(batch.base_offset)
    return states | {offset: "open" for offsets in waiting.values() for offset in offsets}
