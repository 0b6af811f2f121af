"""The progress line of a query: what ended splits have read of the sources, while others still run."""

from __future__ import annotations

import io
import pathlib
import shutil
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from support.recorded_segments import log_directory

from kafkatools import progress
from kafkatools.commands.pipeline.spark_progress import spark_progress
from kafkatools.console import Console
from kafkatools.pipeline.run.read_progress import BYTES, OFFSETS, ReadProgress
from kafkatools.pipeline.run.session import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


class _Terminal(io.BytesIO):
    def __init__(self, awaited: bytes) -> None:
        super().__init__()
        self.is_drawn = threading.Event()
        self._awaited = awaited

    def isatty(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if self._awaited in data:
            self.is_drawn.set()
        return super().write(data)


def test_bytes_of_ended_splits_are_shown_while_others_run(
    spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress.TerminalProgress.start, "__defaults__", (0.0,))
    register(spark)
    log = pathlib.Path(shutil.copytree(log_directory("multi-segment"), tmp_path / "ledger-0"))
    reports, gate = tmp_path / "reports", tmp_path / "gate"
    options = {"reportPath": str(reports), "splitBytes": "2048", "minPartitions": "8"}
    table = spark.read.format("kafka-log").options(**options).load(str(log))

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        for batch in batches:
            while batch["offset"][0].as_py() > 600 and not gate.exists():
                time.sleep(0.05)
            yield batch

    terminal = _Terminal(b"left")
    console = Console(io.BytesIO(), io.BytesIO(), terminal, {"COLUMNS": "160"})
    counted: list[int] = []
    query = threading.Thread(target=lambda: counted.append(table.mapInArrow(hold, table.schema).count()))
    with spark_progress(console, spark, "Running", str(reports)):
        query.start()
        try:
            assert terminal.is_drawn.wait(120)
        finally:
            gate.touch()
            query.join()
    assert counted == [1197]
    size = sum(file.stat().st_size for file in log.glob("*.log"))
    state = ReadProgress(str(reports), lambda: 0).state()
    assert state is not None and (state.done, state.total, state.unit) == (size, size, BYTES)


def test_a_topic_is_measured_in_offsets(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    from kafkatools.testing import Kafka

    register(spark)
    with Kafka() as kafka:
        topic = kafka.topic("measured-")
        with kafka.producer() as producer:
            for number in range(50):
                producer.send(str(topic), b"%d" % number)
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": str(topic)}
        table = spark.read.format("kt").options(**options, reportPath=str(tmp_path), minPartitions="4").load()
        assert table.count() == 50
    state = ReadProgress(str(tmp_path), lambda: 0).state()
    assert state is not None and (state.done, state.total, state.unit) == (50, 50, OFFSETS)
