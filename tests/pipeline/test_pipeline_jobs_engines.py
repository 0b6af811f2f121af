"""The jobs in this process give the rows of the Spark jobs, over recorded directories, damaged ones too."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support import recorded_segments
from support.compacted_logs import CONFIG, clean, put, put_in_transaction, write_rounds
from support.embedded import embedded_broker
from support.kt import run_kt
from support.log_batches import NOW_MS
from support.manual_clock import ManualClock

from kafkatools import Admin, NewTopic, Producer, ProducerRecord
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog

pytestmark = pytest.mark.usefixtures("spark")

SOUND = ("txn-java", "txn-librdkafka", "compacted", "compacted-txn", "message-set-v1-gzip", "codec-zstd-java")
DAMAGED = (
    "damaged-zero-middle", "damaged-bitflip-gzip-valid-crc", "damaged-length-minus-3", "damaged-magic-3",
    "damaged-record-count-more-valid-crc", "damaged-truncated-in-records", "damaged-v1-crc",
)  # fmt: skip


def rows(*words: str, status: int) -> list[dict[str, Any]]:
    ran = run_kt(*words, "--json", clock=ManualClock(wall_ms=NOW_MS))
    assert ran.status == status, ran
    return [json.loads(line) for line in ran.out.splitlines()]


def same_rows(*words: str, status: int = 0) -> list[dict[str, Any]]:
    """The rows of a job, the same from both engines at the same time."""
    here = rows(*words, status=status)
    assert here == rows(*words, "--engine", "spark", status=status)
    return here


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return _linked(tmp_path_factory.mktemp("sound"), SOUND)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return _linked(tmp_path_factory.mktemp("damaged"), DAMAGED)


def _linked(root: pathlib.Path, names: tuple[str, ...]) -> pathlib.Path:
    for name in names:
        (root / f"{name}-0").symlink_to(recorded_segments.log_directory(name))
    return root


@pytest.mark.parametrize("words", [(), ("--exact",), ("--exact", "--no-keys")])
def test_counts_are_the_same(words: tuple[str, ...], sound: pathlib.Path, damaged: pathlib.Path) -> None:
    assert len(same_rows("count", f"log:{sound}", *words)) == len(SOUND)
    assert len(same_rows("count", f"log:{damaged}", *words, status=3)) == len(DAMAGED)


@pytest.mark.parametrize("by", ["records", "bytes"])
def test_top_keys_are_the_same(by: str, sound: pathlib.Path, damaged: pathlib.Path) -> None:
    assert same_rows("top-keys", f"log:{sound}", "--by", by, "--top", "50")
    assert same_rows("top-keys", f"log:{damaged}", "--by", by, status=3)


SAME = {
    "type": "summary", "only_left": 0, "only_right": 0, "changed": 0, "left_not_compared": 0, "right_not_compared": 0,
}  # fmt: skip


@pytest.mark.parametrize("by", ["key", "offset", "multiset"])
@pytest.mark.parametrize("compare", ["key,value", "value,timestamp,headers"])
def test_differences_are_the_same(by: str, compare: str, tmp_path: pathlib.Path) -> None:
    sides = []
    for side, name in (("left", "compacted"), ("right", "compacted-purged")):
        directory = tmp_path / side
        directory.mkdir()
        (directory / "t-0").symlink_to(recorded_segments.log_directory(name))
        sides.append(f"log:{directory}")
    words = ("diff", *sides, "--by", by, "--compare", compare)
    assert same_rows(*words, status=3)[-1]["type"] == "summary"
    assert same_rows("diff", sides[0], sides[0], "--by", by, "--compare", compare) == [SAME]


def test_records_without_a_key_are_reported_by_both_engines(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send_many("t", [b"1", b"2"]).result()
        words = ("diff", "topic:t", "topic:t", "--bootstrap-server", bootstrap)
        reports = [run_kt(*words, *engine, "--json") for engine in ((), ("--engine", "spark"))]
    assert [ran.status for ran in reports] == [1, 1]
    assert reports[0].err == reports[1].err
    assert json.loads(reports[0].out) == json.loads(reports[1].out) == SAME | {
        "left_not_compared": 2, "right_not_compared": 2,
    }  # fmt: skip
    error = json.loads(reports[0].err)["error"]
    assert (error["kind"], error["left"], error["right"]) == ("NOT_COMPARED", 2, 2)


@pytest.mark.parametrize("words", [("--no-keys",), ("--top", "7")])
def test_profiles_are_the_same(
    words: tuple[str, ...], sound: pathlib.Path, damaged: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for root, status, batches in ((sound, 0, 6), (damaged, 3, 5)):
        profile = ("topic-profile", f"log:{root}", "--out", str(tmp_path / "page.html"), *words)
        here = rows(*profile, status=status)
        pages = [(tmp_path / "page.html").read_text()]
        assert here == rows(*profile, "--engine", "spark", status=status)
        pages.append((tmp_path / "page.html").read_text())
        assert pages[0].split("<footer>")[0] == pages[1].split("<footer>")[0]
        partitions = [row for row in here if row["type"] == "partition"]
        assert len(partitions) >= batches
        assert all(row["stored_bytes"] == row["size_bytes"] and row["size_basis"] == "batches" for row in partitions)
        assert any(row["type"] == "key" for row in here) is ("--top" in words)


@pytest.mark.parametrize("words", [(), ("--retention-ms", "-1", "--retention-bytes", "100"), ("--retention-ms", "90d")])
def test_retention_forecasts_are_the_same(words: tuple[str, ...], sound: pathlib.Path, damaged: pathlib.Path) -> None:
    assert len(same_rows("retention-forecast", str(sound), *words)) == len(list(sound.glob("*/*.log")))
    assert len(same_rows("retention-forecast", f"log:{damaged}", *words, status=3)) == len(
        list(damaged.glob("*/*.log"))
    )


def test_compaction_forecasts_are_the_same(tmp_path: pathlib.Path) -> None:
    log = PartitionLog.open(str(tmp_path / "profiles-0"), CONFIG, RealFileSystem(), NOW_MS)
    write_rounds(log, 0)
    clean(log)
    write_rounds(log, 3)
    first_dirty = log.first_dirty_offset
    log.close()
    log = PartitionLog.open(str(tmp_path / "profiles-0"), LogConfig(), RealFileSystem(), NOW_MS)
    put(log, (None, b"without a key"), (b"k7", None))  # before the topic was compacted
    log.roll(NOW_MS)
    put_in_transaction(log, 300, (b"k1", b"open"))
    log.roll(NOW_MS)
    put(log, (b"k4", b"behind the open transaction"))
    log.flush()
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\nprofiles 0 {first_dirty}\n")
    bases = [segment.base_offset for segment in log.segments]
    here = same_rows("compact-forecast", str(tmp_path))
    assert [row["base_offset"] for row in here] == bases[:-2]
    for column in ("superseded", "aborted", "without_key", "tombstones", "removable_bytes"):
        assert sum(row[column] for row in here) > 0, column
    data = bytearray((tmp_path / "profiles-0" / f"{bases[1]:020d}.log").read_bytes())
    data[70] ^= 1  # in the records of the first batch
    (tmp_path / "profiles-0" / f"{bases[1]:020d}.log").write_bytes(data)
    assert same_rows("compact-forecast", str(tmp_path), "--min-cleanable-dirty-ratio", "1", status=3) != here
    log.close()


def test_compaction_forecasts_of_damaged_segments_are_the_same(damaged: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for name in DAMAGED:
        directory = tmp_path / f"{name}-0"
        directory.mkdir()
        for file in (damaged / f"{name}-0").glob("*.log"):
            (directory / file.name).symlink_to(file)
        (directory / f"{1 << 40:020d}.log").touch()  # the active segment
    here = same_rows("compact-forecast", str(tmp_path), status=3)
    assert len(here) >= 5 and sum(row["records"] for row in here) > 100


def test_findings_are_the_same(damaged: pathlib.Path) -> None:
    directories = [str(path.resolve()) for path in sorted(damaged.iterdir())]
    assert same_rows("check", *directories, status=3)


def test_a_topic_is_counted_and_compared_with_its_files(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        lines = "".join(f"k{number % 7}\tv{number}\n" for number in range(500)).encode()
        server = ("--bootstrap-server", bootstrap)
        produced = run_kt("console-producer", *server, "--topic", "t", "--property", "parse.key=true", stdin=lines)
        assert produced.status == 0
        (count,) = same_rows("count", "topic:t", "--exact", *server)
        assert (count["records"], count["distinct_keys"]) == (500, 7)
        assert same_rows("top-keys", "topic:t", *server)[0]["records"] == 72
        log = f"log:{tmp_path}/data/t-0"
        assert same_rows("diff", "topic:t", log, "--by", "offset", *server)[-1]["only_left"] == 0
        words = ("--group", "g", "--topic", "t", "--reset-offsets", "--to-earliest", "--execute")
        assert run_kt("consumer-groups", *server, *words, cwd=tmp_path).status == 0
        files = str(tmp_path / "data/t-0")
        (segment,) = same_rows("retention-forecast", files, *server, "--retention-ms", "1")
        assert (segment["reason"], segment["is_active"]) == ("retention.ms", True)
        assert same_rows("compact-forecast", files, *server) == []  # the active segment is not cleaned
        page = tmp_path / "page.html"
        profile = same_rows("topic-profile", "topic:t", "--out", str(page), *server)
        (partition,) = (row for row in profile if row["type"] == "partition")
        assert partition["size_basis"] == "records"
        assert partition["size_bytes"] == sum(len(line) - 2 for line in lines.splitlines(keepends=True))
        assert partition["stored_bytes"] == sum(file.stat().st_size for file in (tmp_path / "data/t-0").glob("*.log"))
        assert [row["lag"] for row in profile if row["type"] == "lag"] == [500]
        assert "Bytes of keys and values, before compression." in page.read_text()


def test_aborted_and_open_transactions_are_left_out_unless_requested(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        server = ("--bootstrap-server", bootstrap)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic("t", 1), NewTopic("committed", 1)])
        with Producer(bootstrap_servers=bootstrap) as producer:
            for topic in ("t", "committed"):
                producer.send(topic, b"1", key=b"k")
        with Producer(bootstrap_servers=bootstrap, transactional_id="aborts") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("t", b"2", key=b"k").result()
            producer.abort_transaction()
        sides, log = ("diff", "topic:t", "topic:committed", *server), f"log:{tmp_path}/data/t-0"
        for by in ("key", "multiset"):
            assert same_rows(*sides, "--by", by)[-1] == SAME
            assert same_rows("diff", log, "topic:committed", *server, "--by", by)[-1]["changed"] == 0
        everything = ("--isolation-level", "read_uncommitted")
        assert same_rows(*sides, *everything, status=3)[-1]["changed"] == 1
        assert same_rows(*sides, "--by", "offset", status=3)[-1]["only_left"] == 1
        assert [same_rows("top-keys", "topic:t", *server, *words)[0]["records"] for words in ((), everything)] == [1, 2]
        opened = Producer(bootstrap_servers=bootstrap, transactional_id="stays-open")
        opened.init_transactions()
        opened.begin_transaction()
        opened.send("t", b"3", key=b"open").result()
        ran = run_kt(*sides)
        opened.abort_transaction()
        opened.close()
        assert ran.err.startswith("t-0 ends at offset 3: the transaction of producer ")
        assert (ran.status, ran.err.splitlines()[-1]) == (0, "0 only-left, 0 only-right, 0 changed")


# -- export --

CELLS = (
    b"plain", b"", None, b"  space at both ends ", b'a "quoted", \\ slashed / cell', b"two\nlines", b"carriage\rreturn",
    b"\\", b'"', b"\x00\xff no text", "é 😀 \u2028".encode(), b"tab\t\x01\x7f", b"# first, like a comment", b",",
)  # fmt: skip
YEAR_2023, YEAR_10000, YEAR_57000 = 1_700_000_000_123, 253_402_300_800_005, 1_738_000_000_000_000


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, pathlib.Path]]:
    """A broker with a topic of every cell as key, value and header, and its log directory."""
    directory = tmp_path_factory.mktemp("hostile")
    with embedded_broker(
        directory / "data", num_partitions="2", log_message_timestamp_after_max_ms=str((1 << 63) - 1)
    ) as bootstrap:
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number, cell in enumerate(CELLS):
                for time in (0, YEAR_2023 + number * 3_600_000, YEAR_10000):
                    headers = [("name", cell), ("näme", b"\xfe")] if number % 2 else []
                    other = CELLS[-1 - number]
                    producer.send(ProducerRecord("h", other, cell, partition=1, timestamp=time, headers=headers))
            producer.send(ProducerRecord("h", b"late", partition=0, timestamp=YEAR_57000)).result(10_000)
        yield bootstrap, directory / "data"


CSV_CELL = re.compile(r'"((?:[^"\\]|\\.)*)"(,|\n)|([^,\n]*)(,|\n)', re.S)


def spark_csv(text: str) -> list[list[str | None]]:
    """The rows of Spark's CSV: a backslash escapes within quotes only, an empty cell is null."""
    found: list[list[str | None]] = [[]]
    at = 0
    while at < len(text):
        cell = CSV_CELL.match(text, at)
        assert cell is not None, text[at:]
        at = cell.end()
        quoted, end, plain, plain_end = cell.groups()
        found[-1].append(plain or None if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.S))
        if (end or plain_end) == "\n":
            found.append([])
    return found[:-1]


def exported(out: pathlib.Path) -> dict[str, list[Any]]:
    """The rows of an export by directory, read without Spark."""
    import pyarrow.parquet

    found: dict[str, list[Any]] = {}
    for path in sorted(out.rglob("part-*")):
        folder = found.setdefault(str(path.parent.relative_to(out)), [])
        if path.suffix == ".parquet":
            file = pyarrow.parquet.ParquetFile(path)
            times = file.schema.column(file.schema_arrow.names.index("timestamp")).physical_type
            folder += [{"schema": [(field.name, str(field.type)) for field in file.schema_arrow], "times": times, **row}
                       for row in file.read().to_pylist()]  # fmt: skip
        elif path.suffix == ".json":
            folder += [json.loads(line) for line in path.read_bytes().splitlines()]
        else:
            names, *cells = spark_csv(path.read_bytes().decode())
            folder += [dict(zip(names, row, strict=True)) for row in cells]
    for rows_of_folder in found.values():
        rows_of_folder.sort(key=lambda row: (row.get("topic", ""), int(row["partition"]), int(row["offset"])))
    return found


def same_export(tmp_path: pathlib.Path, source: str, kind: str, *words: str, status: int = 0) -> dict[str, list[Any]]:
    """The files of an export, the same from both engines."""
    results, printed, states = [], [], []
    for engine in ("local", "spark"):
        out = tmp_path / f"{kind}-{engine}"
        ran = rows("export", source, "--to", f"{kind}:{out}", *words, "--engine", engine, status=status)
        results.append(exported(out))
        printed.append([{**row, "sink": "", "files": 0} for row in ran])
        states.append(json.loads((out / "_kt_export.json").read_text()))
        assert states[-1]["export"].pop("dialect") == ("duckdb" if engine == "local" and "--where" in words else None)
        assert not (out / "_kt-export").exists()
    assert printed[0] == printed[1] and states[0] == states[1]
    assert results[0].keys() == results[1].keys()
    for folder, found in results[0].items():
        assert found == results[1][folder], folder
    return results[0]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return _linked(tmp_path_factory.mktemp("recorded"), (*SOUND, *DAMAGED))


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_exports_are_the_same(kind: str, recorded: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = same_export(tmp_path, f"log:{recorded}", kind, "--partition-by", "topic,date", status=3)
    assert {folder.split("/")[0] for folder in found} >= {f"topic={name}" for name in SOUND}


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_hostile_cells_are_exported_the_same(
    kind: str, hostile: tuple[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    bootstrap, _ = hostile
    found = same_export(tmp_path, "topic:h", kind, "--bootstrap-server", bootstrap)
    assert {"date=1970-01-01", "date=2023-11-14", "date=+10000-01-01"} < found.keys()
    if kind == "parquet":
        assert [row["value"] for row in found["date=1970-01-01"]] == list(reversed(CELLS))
    (total,) = rows("export", "topic:h", "--to", f"{kind}:{tmp_path}/{kind}-spark", "--bootstrap-server", bootstrap,
                    status=0)[2:]  # fmt: skip
    assert (total["rows"], total["rounds"]) == (0, 0)  # in this process it goes on where Spark ended


def test_conditions_and_rounds_are_the_same(hostile: tuple[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    words = ("--partition-by", "none", "--round", "7", "--where", "offset < 5 AND partition = 1", "--text")
    found = same_export(tmp_path, f"log:{hostile[1]}/h-0,{hostile[1]}/h-1", "parquet", *words, "--no-headers")
    assert [row["offset"] for row in found["."]] == [0, 1, 2, 3, 4]
    assert [row["key"] for row in found["."]] == ["plain", "plain", "plain", "", ""]


# -- replay --

ORIGIN, OTHER = "kafka_dlt-original-topic", "__connect.errors.topic"
DEAD_HEADERS = (
    [(ORIGIN, b"first")], [(OTHER, b"second")], [(OTHER, b"second"), (ORIGIN, b"first")],
    [(ORIGIN, None), (OTHER, b"second")], [(ORIGIN, b"gone"), (ORIGIN, b"first")], [],
    [("why", b"unknown")], [(ORIGIN, b"first"), ("kt-replays", b"2")],
    [(ORIGIN, b"first"), ("kt-replays", b"3")], [(ORIGIN, b"first"), ("kt-replays", b"no number"), ("x", None)],
)  # fmt: skip


def test_replays_are_the_same(tmp_path: pathlib.Path) -> None:
    """Each engine sends from a dead-letter topic, and its files, to topics of its own cluster."""
    sent = []
    for engine in ("local", "spark"):
        with embedded_broker(tmp_path / engine, num_partitions="2") as bootstrap:
            with Admin(bootstrap_servers=bootstrap) as admin:
                admin.create_topics([NewTopic(name, 2) for name in ("dead", "first", "second", "all")])
            with Producer(bootstrap_servers=bootstrap) as producer:
                for number in range(60):
                    headers = DEAD_HEADERS[number % len(DEAD_HEADERS)]
                    key, value = b"k%d" % number if number % 7 else None, b"v%d" % number if number % 6 else None
                    place = {"partition": number % 2, "timestamp": YEAR_2023 + number}
                    producer.send(ProducerRecord("dead", value, key, headers=headers, **place))
            words = ("--bootstrap-server", bootstrap, "--engine", engine)
            planned = rows("replay", "topic:dead", *words, "--dry-run", status=3)
            assert rows("replay", "topic:dead", *words, "--keep-timestamps", status=3) == planned
            log = f"log:{tmp_path}/{engine}/dead-0"
            all_of = rows("replay", log, "--to", "topic:all", "--where", "partition = 0", *words, status=3)
            looped = rows("replay", "topic:dead", "--topic-header", "why", "--topic-header", ORIGIN, *words,
                          "--allow-loop", "--dry-run", status=3)  # fmt: skip
            sent.append(
                [planned, all_of, looped, *(_by_partition(bootstrap, name) for name in ("first", "second", "all"))]
            )
    assert sent[0] == sent[1]
    planned, *_, first, second, every = sent[0]
    assert [(row["target"], row["decision"], row["records"]) for row in planned] == [
        (None, "no-origin", 12), ("first", "send", 30), ("first", "too-often", 6), ("second", "send", 12),
    ]  # fmt: skip
    assert (len(first), len(second), len(every)) == (30, 12, 24)


def _by_partition(bootstrap: str, topic: str) -> list[tuple[object, ...]]:
    """The records of a topic: with a key where it is, with the timestamp unless it is new."""
    words = ("--from-beginning", "--exit-at-end", "--json", "--bootstrap-server", bootstrap, "--topic", topic)
    found = [json.loads(line) for line in run_kt("console-consumer", *words).out.splitlines()]
    return sorted(
        (
            str(row["key"]), str(row["value"]), row["partition"] if row["key"] is not None else -1, str(row["headers"]),
            row["timestamp"] if topic != "all" else 0,
        )
        for row in found
    )  # fmt: skip
