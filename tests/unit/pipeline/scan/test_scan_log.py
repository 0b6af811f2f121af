"""`kafkatools.scan` over log files: rows, order, bounds, damage, and what other libraries make of it."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.recorded_segments import log_directory
from support.requirements import require

try:
    import pyarrow as pa
except ImportError:
    require("pyarrow is not installed: pip install '.[sql]'")

sys.path.append(str(pathlib.Path(__file__).parents[2] / "core" / "records"))

from records_truth import recorded_names, true_records  # noqa: E402
from support.embedded import embedded_broker  # noqa: E402
from support.file_batches import read_file_batches  # noqa: E402

import kafkatools  # noqa: E402
from kafkatools.errors import PipelineError  # noqa: E402
from kafkatools.pipeline.scan import plans  # noqa: E402

LAST = 1196
"""The last offset of the recording multi-segment, which has no gaps."""


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> pathlib.Path:
    """A partition of nine segments."""
    return pathlib.Path(shutil.copytree(log_directory("multi-segment"), tmp_path / "ledger-0"))


def offsets(path: pathlib.Path, **options: Any) -> list[int]:
    found: list[int] = kafkatools.scan(f"log:{path}", columns=["offset"], **options).to_arrow()["offset"].to_pylist()
    return found


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", recorded_names())
def test_rows_are_the_recorded_records(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_LOG_PART_BYTES", 2048)
    columns = ["offset", "timestamp", "key", "value", "headers"]
    table = kafkatools.scan(f"log:{log_directory(name)}", columns=columns, threads=threads).to_arrow()
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    headers = [tuple((item["key"], item["value"]) for item in row or ()) for row in table["headers"].to_pylist()]
    data = zip(table["offset"].to_pylist(), table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    rows = [
        (offset, time // 1000, key, value, head)
        for (offset, key, value), time, head in zip(data, times, headers, strict=True)
    ]
    assert rows == true_records(name)


def test_threads_keep_the_order_of_offsets(ledger: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_LOG_PART_BYTES", 1024)
    assert offsets(ledger, threads=4) == list(range(LAST + 1))


def test_only_requested_columns_are_made_in_their_order(ledger: pathlib.Path) -> None:
    scanned = kafkatools.scan(f"log:{ledger}", columns=["value", "partition"])
    assert [str(field.type) for field in scanned.schema] == ["binary", "int32"]
    assert all(batch.schema == scanned.schema for batch in scanned)
    assert kafkatools.scan(f"log:{ledger}").schema.names == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    ]  # fmt: skip


def test_offset_bounds_prune_segments_and_rows(ledger: pathlib.Path) -> None:
    assert offsets(ledger, offsets=(100, 903)) == list(range(100, 903))
    assert offsets(ledger, offsets=(-5, 2)) == [0, 1]
    assert offsets(ledger, offsets=(LAST, None)) == [LAST]
    assert offsets(ledger, partitions=[0], offsets=(5, 7)) == [5, 6]
    sorted(ledger.glob("*.log"))[0].write_bytes(b"damage")  # a segment that the bounds leave out is not read
    assert offsets(ledger, offsets=(LAST, None)) == [LAST]


def test_a_missing_partition_is_an_error_that_names_the_existing_ones(ledger: pathlib.Path) -> None:
    with pytest.raises(PipelineError, match=r"ledger-0 has no partition 9: its only partition is 0$"):
        offsets(ledger, partitions=[0, 9])
    with embedded_broker(ledger.parent / "data") as bootstrap:
        with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(kafkatools.NewTopic("t", 4))
        with pytest.raises(PipelineError, match=r"^topic:t has no partition 9: its partitions are 0 to 3$"):
            kafkatools.scan("topic:t", bootstrap_servers=bootstrap, partitions=[9]).to_arrow()
        assert kafkatools.scan("topic:t", bootstrap_servers=bootstrap, partitions=[3]).to_arrow().num_rows == 0


def test_time_bounds_select_records_by_their_own_time(ledger: pathlib.Path) -> None:
    table = kafkatools.scan(f"log:{ledger}", columns=["offset", "timestamp"]).to_arrow()
    times = table["timestamp"].to_pylist()
    start, end = sorted(times)[300], sorted(times)[700]
    within = [offset for offset, time in enumerate(times) if start <= time < end]
    assert offsets(ledger, timestamps=(start, end)) == within
    milliseconds = (round(start.timestamp() * 1000), round(end.timestamp() * 1000))
    assert offsets(ledger, timestamps=milliseconds) == within
    assert offsets(ledger, timestamps=(start - timedelta(microseconds=1), end)) == within


def test_read_committed_leaves_out_aborted_and_open_transactions() -> None:
    path = f"log:{log_directory('txn-java')}"
    table = kafkatools.scan(path, columns=["offset", "transaction"]).to_arrow()
    states = dict(zip(table["offset"].to_pylist(), table["transaction"].to_pylist(), strict=True))
    assert set(states.values()) >= {"open", "committed", "aborted"}
    stable_end = min(offset for offset, state in states.items() if state == "open")
    found = kafkatools.scan(path, columns=["offset"], isolation_level="read_committed").to_arrow()["offset"].to_pylist()
    assert found == [offset for offset in states if states[offset] in (None, "committed") and offset < stable_end]


@pytest.mark.parametrize("threads", [1, 2])
def test_damage_ends_the_scan_with_file_and_position(
    ledger: pathlib.Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "_LOG_PART_BYTES", 4096)
    file = sorted(ledger.glob("*.log"))[3]
    data = bytearray(file.read_bytes())
    batch = list(read_file_batches(data))[5]
    data[batch.position + 80] ^= 4
    file.write_bytes(data)
    with pytest.raises(PipelineError, match=f"{file} at byte {batch.position}: Record is corrupt"):
        offsets(ledger, threads=threads)


def test_a_truncated_batch_is_the_end_of_the_log_only_in_its_last_segment(ledger: pathlib.Path) -> None:
    for place, ends in ((-1, True), (-2, False)):
        file = sorted(ledger.glob("*.log"))[place]
        data = file.read_bytes()
        last = list(read_file_batches(data))[-1]
        file.write_bytes(data[: last.position + 40])
        if ends:
            assert offsets(ledger) == list(range(LAST - last.last_offset + last.base_offset))
        else:
            with pytest.raises(PipelineError, match=f"{file} at byte {last.position}: the log ends within a batch"):
                offsets(ledger)


def test_tables_of_batches_and_of_damage(ledger: pathlib.Path) -> None:
    batches = kafkatools.scan(f"log:{ledger}", table="batches", columns=["count"]).to_arrow()
    assert sum(batches["count"].to_pylist()) == LAST + 1
    assert kafkatools.scan(f"log:{ledger}", table="errors").to_arrow().num_rows == 0


def test_closing_a_reader_early_ends_its_threads(ledger: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr(plans, "_LOG_PART_BYTES", 1024)
    batches = iter(kafkatools.scan(f"log:{ledger}", columns=["value"], threads=3))
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("scan-")]


@pytest.mark.slow
def test_duckdb_polars_and_pandas_take_a_scan(ledger: pathlib.Path) -> None:
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    pytest.importorskip("pandas")
    scanned = kafkatools.scan(f"log:{ledger}", columns=["partition", "offset"])
    total = sum(range(LAST + 1))
    query = 'select count(*), sum("offset") from scanned'
    assert duckdb.sql(query).fetchall() == [(LAST + 1, total)]
    assert polars.DataFrame(scanned).equals(scanned.to_polars())
    assert scanned.to_polars()["offset"].sum() == total
    assert int(scanned.to_pandas()["offset"].sum()) == total


def test_mistakes_are_one_line(ledger: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for message, call in (
        ("it must begin with one of", lambda: kafkatools.scan("orders")),
        ("parquet:x cannot be scanned; use topic:NAME or log:PATH", lambda: kafkatools.scan("parquet:x")),
        ("There is no column valeu; the columns are key,", lambda: kafkatools.scan("log:x", columns=["valeu"])),
        ("There is no table rows; the tables are records,", lambda: kafkatools.scan("log:x", table="rows")),
        ("needs the address of its cluster: bootstrap_servers=", lambda: kafkatools.scan("topic:orders")),
        ("topic: must name exactly one topic", lambda: kafkatools.scan("topic:", bootstrap_servers="h:1")),
        ("has no setting group.id, only isolation.level", lambda: kafkatools.scan("log:x", group_id="g")),
        ("has no time zone", lambda: kafkatools.scan("log:x", timestamps=(datetime(2026, 1, 1), None))),
        (f"{tmp_path}/missing does not exist", lambda: offsets(tmp_path / "missing")),
        ("isolationLevel must be one of", lambda: offsets(ledger, isolation_level="none")),
    ):
        with pytest.raises(PipelineError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_neither_spark_nor_pandas_is_imported() -> None:
    path = log_directory("txn-java")
    code = (
        "import sys, kafkatools; list(kafkatools.scan(sys.argv[1], columns=['value', 'transaction'], threads=2));"
        "print(sorted({'pyspark', 'py4j', 'duckdb'} & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code, f"log:{path}"], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
