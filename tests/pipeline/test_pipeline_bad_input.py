"""Bad bytes never stop a read and never vanish: the recorded damages, and two hundred random ones.

Readers are asked as Spark's workers ask them, without a session. What is lost must lie in the damaged ranges that they
tell, and nothing else may be lost.
"""

from __future__ import annotations

import base64
import json
import pathlib
import random
import struct
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from support.kt import run_kt
from support.recorded_logs import unpack_log
from support.recorded_segments import GOLDEN, log_directory

pytest.importorskip("pyspark", reason="PySpark is not installed")

from support.file_batches import read_file_batches

from kafkatools.core.records.batch import RecordBatch, stamp_crc
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.reports import read_reports
from kafkatools.pipeline.sources.log.options import read_options
from kafkatools.pipeline.sources.log.source import LogReader
from kafkatools.pipeline.sources.schema import spark_schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = tuple[int, bytes | None, bytes | None, int, int]
"""Offset, key, value, timestamp, position of the batch."""


class Read(NamedTuple):
    """What came out of a directory; ranges are file name, position, length, kind, reason."""

    rows: Counter[tuple[str | int | bytes | None, ...]]
    damages: list[tuple[str, int, int, str, str]]


def read(directory: pathlib.Path, reports: pathlib.Path, **options: str) -> Read:
    given = {"path": str(directory), "includeMetadata": "true", "reportPath": str(reports), **options}
    reader = LogReader(read_options(given), spark_schema(False, True))
    rows: Counter[tuple[Any, ...]] = Counter()
    for task in reader.partitions():
        for batch in reader.read(task):
            columns = [
                batch.column(name).to_pylist() for name in ("offset", "key", "value", "timestamp", "batchPosition")
            ]
            columns[3] = [(each - EPOCH) // timedelta(milliseconds=1) for each in columns[3]]
            rows.update(zip(*columns, strict=True))
    damages = [
        (pathlib.Path(each.file).name, each.position, each.length, each.kind, each.reason)
        for report in read_reports(str(reports))
        for each in report.damages
    ]
    return Read(rows, sorted(damages))


# -- Recorded damages --


def damaged_logs() -> list[str]:
    return sorted(json.loads((GOLDEN / "cases.json").read_text())["damaged-logs"])


GOES_FURTHER = {
    "damaged-magic-1": "behind a wrong magic",
    "damaged-magic-255": "behind a wrong magic",
    "damaged-bitflip-lz4-valid-crc": "up to the record that is damaged",
    "damaged-bitflip-zstd-valid-crc": "up to the record that is damaged",
    "damaged-record-count-less-valid-crc": "all that the batch says it has",
}
"""Where the reader finds more than dump-log shows."""

WRONG_MAGIC = {"damaged-magic-127", "damaged-magic-3", "damaged-magic-3-last", "damaged-magic-5-first"}
"""What dump-log shows, as Kafka's tool does, and no consumer would take."""


def shown(directory: pathlib.Path) -> Counter[Row]:
    """The records of batches with a right checksum that dump-log finds."""

    def cell(value: Any) -> bytes | None:
        if isinstance(value, dict):
            return base64.b64decode(value["b64"])
        return None if value is None else str(value).encode()

    files = ",".join(str(path) for path in sorted(directory.glob("*.log")))
    told = run_kt("dump-log", "--json", "--deep-iteration", "--print-data-log", "--salvage", "--files", files)
    found: Counter[Row] = Counter()
    batch: dict[str, Any] = {}
    for line in map(json.loads, told.out.splitlines()):
        if line["type"] == "batch":
            batch = line
        elif line["type"] == "record" and batch["is_valid"] and not batch.get("is_control"):
            record = (
                line["offset"],
                cell(line.get("key")),
                cell(line.get("value")),
                line["timestamp"],
                batch["position"],
            )
            found[record] += 1
    return found


@pytest.mark.parametrize("name", [name for name in damaged_logs() if name != "damaged-log-missing"])
def test_recorded_damages_lose_what_dump_log_loses(name: str, tmp_path: pathlib.Path) -> None:
    directory = log_directory(name)
    found, expected = read(directory, tmp_path), shown(directory)
    if name in GOES_FURTHER:
        assert found.rows > expected
    elif name in WRONG_MAGIC:
        assert found.rows < expected
        assert {row[4] for row in expected - found.rows} == {each[1] for each in found.damages}
    else:
        assert found.rows == expected
    pieces = read(directory, tmp_path / "pieces", splitBytes="1024")
    assert pieces.rows == found.rows
    assert sum(each[2] for each in pieces.damages) == sum(each[2] for each in found.damages)


EXACT = {
    "damaged-bitflip-payload": [
        (15603, 3412, "checksum", "Record is corrupt (stored crc = 503616363, computed crc = 2717341810)")
    ],
    "damaged-v1-crc": [(460, 41, "checksum", "Record is corrupt (stored crc = 397451589, computed crc = 246124548)")],
    "damaged-v0-truncated": [(5119, 89, "truncated", "the log ends within a batch: 89 of 92 bytes are present")],
    "damaged-text-tail": [
        (19015, 126, "truncated", "the log ends within a batch: 126 of 1852797996 bytes are present")
    ],
    "damaged-truncated-after-length": [(15603, 12, "truncated", "the log ends with 12 bytes of an incomplete batch")],
    "damaged-magic-3": [(1144, 483, "magic", "Invalid magic found in record: 3")],
    "damaged-record-count-negative-valid-crc": [
        (104, 138, "records", "Found invalid record count -1 in magic v2 batch")
    ],
    "damaged-truncated-empty": [],
}


@pytest.mark.parametrize("name", EXACT)
def test_damage_is_told_with_place_size_and_reason(name: str, tmp_path: pathlib.Path) -> None:
    found = read(log_directory(name), tmp_path)
    assert [each[1:] for each in found.damages] == EXACT[name]


def unknown_codec(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log whose second batch has codec 7 and a checksum that is right."""
    directory = unpack_log("plain-librdkafka", tmp_path)
    (path,) = directory.glob("*.log")
    data = bytearray(path.read_bytes())
    at = next(read_file_batches(data)).size_bytes
    data[at + 22] |= 7
    stamp_crc(data, at, RecordBatch(data, at).size_bytes)
    path.write_bytes(data)
    return directory


def test_an_unknown_codec_loses_its_batch_alone(tmp_path: pathlib.Path) -> None:
    sound = read(unpack_log("plain-librdkafka", tmp_path / "sound"), tmp_path / "a")
    found = read(unknown_codec(tmp_path), tmp_path / "b")
    ((_, position, length, kind, reason),) = found.damages
    assert (kind, reason) == ("codec", "Unknown compression type id: 7")
    assert {row[4] for row in sound.rows - found.rows} == {position}
    assert (
        length
        == next(read_file_batches((unknown_codec(tmp_path / "c") / f"{0:020}.log").read_bytes(), position)).size_bytes
    )


def test_strict_refuses_the_first_damage(tmp_path: pathlib.Path) -> None:
    for number, directory in enumerate((log_directory("damaged-length-huge"), unknown_codec(tmp_path))):
        (told,) = read(directory, tmp_path / str(number)).damages[:1]
        with pytest.raises(PipelineError) as raised:
            read(directory, tmp_path / "strict", strict="true")
        assert f"{told[0]} at byte {told[1]}: {told[4]} ({told[2]} bytes lost)" in str(raised.value)
        assert "\n" not in str(raised.value)


def test_strict_takes_a_sound_log(tmp_path: pathlib.Path) -> None:
    directory = unpack_log("txn-java", tmp_path)
    assert read(directory, tmp_path / "a", strict="true") == read(directory, tmp_path / "b")


def test_formats_may_change_within_a_log(tmp_path: pathlib.Path) -> None:
    """Magic 0, 1 and 2 one behind the other, as a broker that was upgraded leaves them."""
    sources = [unpack_log(name, tmp_path) for name in ("message-set-v0-gzip", "message-set-v1-segments", "txn-java")]
    parts = [(source / f"{0:020}.log").read_bytes() for source in sources]
    mixed = tmp_path / "mixed-0"
    mixed.mkdir()
    (mixed / f"{0:020}.log").write_bytes(b"".join(parts))
    (mixed / f"{900:020}.log").touch()
    expected = sum((Counter(dict.fromkeys(batches_of(part), 1)) for part in parts), Counter())
    found = read(mixed, tmp_path / "reports")
    assert not found.damages
    assert Counter(row[:4] for row in found.rows) == Counter(row[:4] for row in expected)
    assert read(mixed, tmp_path / "pieces", splitBytes="1024").rows == found.rows


# -- Random damages --


def batches_of(data: bytes) -> dict[Row, tuple[int, int]]:
    """The records of a sound segment, each with the place of its batch."""
    found: dict[Row, tuple[int, int]] = {}
    position = 0
    for batch in read_file_batches(data):
        place = position, position + batch.size_bytes
        if not batch.is_control:
            for record in batch.records():
                found[record.offset, record.key, record.value, record.timestamp, position] = place
        position = place[1]
    return found


INPUTS = {
    "multi-segment": f"{0:020}.log",
    "txn-java": f"{33:020}.log",
    "codec-lz4-java": f"{0:020}.log",
    "log-append-time": f"{0:020}.log",
    "message-set-v1-segments": f"{0:020}.log",
    "message-set-v0-gzip": f"{0:020}.log",
}


def alone(path: pathlib.Path) -> pathlib.Path:
    """A segment without the others."""
    for other in path.parent.iterdir():
        if other.stem != path.stem:
            other.unlink()
    return path


def flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 6)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def overwrite(data: bytearray, chance: random.Random) -> None:
    at, size = chance.randrange(len(data)), chance.randint(1, 600)
    data[at : at + size] = chance.choice((b"\0", b"\xff", b"\x02")) * len(data[at : at + size])


def cut_off(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def cut_out(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randint(1, 700)]


def insert(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    data[at:at] = chance.randbytes(chance.randint(1, 500))


def wrong_length(data: bytearray, chance: random.Random) -> None:
    places = sorted({place[0] for place in batches_of(bytes(data)).values()})
    value = chance.choice((0, -1, 13, 48, 49, 1 << 30, (1 << 31) - 1, -(1 << 31), chance.randrange(20000)))
    struct.pack_into(">i", data, chance.choice(places) + 8, value)


def append(data: bytearray, chance: random.Random) -> None:
    data += chance.choice((bytes(400), chance.randbytes(300), bytes(data[:777])))


DAMAGES = (flip, overwrite, cut_off, cut_out, insert, wrong_length, append)


@pytest.mark.parametrize("name", INPUTS)
def test_random_damage_loses_nothing_else(name: str, tmp_path: pathlib.Path) -> None:
    """A batch whose bytes are all there comes out, whatever lies before it, in one piece and in many."""
    path = alone(unpack_log(name, tmp_path) / INPUTS[name])
    directory = path.parent
    sound = path.read_bytes()
    expected = batches_of(sound)
    bytes_of = {place: sound[slice(*place)] for place in expected.values()}
    for seed in range(35):
        chance = random.Random(f"{name} {seed}")
        data = bytearray(sound)
        damage = DAMAGES[seed % len(DAMAGES)]
        damage(data, chance)
        path.write_bytes(data)
        for options in ({}, {"splitBytes": "1024"}):
            where = f"{damage.__name__}, seed {seed}, {options}"
            found = read(directory, tmp_path / f"reports-{seed}-{len(options)}", **options)
            check(where, found, path.name, bytes(data), {row: bytes_of[place] for row, place in expected.items()})


def check(where: str, found: Read, file: str, data: bytes, expected: dict[Row, bytes]) -> None:
    """What must come out does, and what is told as damaged is in the file, each byte once."""
    records = Counter(row[:4] for row in found.rows.elements())
    for row, batch in expected.items():
        if (at := data.find(batch)) >= 0:
            assert records[row[:4]], f"{where}: offset {row[0]} of the batch at {at} is lost, {found.damages}"
    end = 0
    for _, position, length, _, reason in (each for each in found.damages if each[0] == file):
        assert end <= position < len(data), (where, found.damages)
        end = position + length
        assert end <= len(data), (where, found.damages)
        assert reason
        assert "\n" not in reason


def test_random_damage_below_the_bounds(tmp_path: pathlib.Path) -> None:
    """The same for who reads a range of offsets only and has no index: what is passed over is not believed blindly."""
    path = alone(unpack_log("multi-segment", tmp_path) / INPUTS["multi-segment"])
    path.with_suffix(".index").unlink()
    sound = path.read_bytes()
    expected = batches_of(sound)
    first = sorted(row[0] for row in expected)[len(expected) * 2 // 3]
    options = {"startingOffsets": json.dumps({"log": {"0": first}}), "endingOffsets": "latest"}
    for seed in range(42):
        chance = random.Random(seed)
        data = bytearray(sound)
        damage = wrong_length if seed % 2 else DAMAGES[seed % len(DAMAGES)]
        damage(data, chance)
        path.write_bytes(data)
        found = read(path.parent, tmp_path / f"reports-{seed}", **options)
        records = {row[:4] for row in found.rows}
        for row, place in expected.items():
            if row[0] >= first and sound[slice(*place)] in data:
                assert row[:4] in records, (seed, damage.__name__, row[0], found.damages)
