"""kt get-offsets and kt delete-records when a partition has no leader: the others are done, and printed after the time
of an election."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from support.kt import run_kt
from support.scripted_broker import ScriptedBroker, partition
from support.skipping_clock import SkippingClock

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus


class HalfLed:
    """A cluster whose partition t-1 has no leader; the clock goes on by a second with each look-up of leaders."""

    def __init__(self) -> None:
        self.clock = SkippingClock()
        self.lookups: list[int] = []
        self.broker = ScriptedBroker(
            {
                ApiKey.METADATA: self.cluster,
                ApiKey.LIST_OFFSETS: self.offsets,
                ApiKey.DELETE_RECORDS: self.deleted,
                ApiKey.DESCRIBE_TOPIC_PARTITIONS: self.topics,
                ApiKey.DESCRIBE_CONFIGS: lambda header, request: {"results": []},
            }
        )
        self.broker.topics = [{"name": "t", "partitions": [partition(0), partition(1, leader=-1)]}]

    def cluster(self, header: Any, request: Any) -> Any:
        self.lookups.append(header.correlation_id)
        self.clock.skip_ms(1000)
        return self.broker.say_cluster(header, request)

    def topics(self, header: Any, request: Any) -> Any:
        partitions = self.broker.topics[0]["partitions"]
        return {"topics": [{"name": "t", "topic_id": None, "partitions": partitions}], "next_cursor": None}

    def offsets(self, header: Any, request: Any) -> Any:
        offset = 0 if request.topics[0].partitions[0].timestamp == -2 else 7
        found = {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": offset, "leader_epoch": 0}
        return {"topics": [{"name": "t", "partitions": [found]}]}

    def deleted(self, header: Any, request: Any) -> Any:
        found = {"partition_index": 0, "low_watermark": 5, "error_code": 0}
        return {"topics": [{"name": "t", "partitions": [found]}]}

    def run(self, *words: str) -> Any:
        """Run a command."""
        with self.broker.in_background():
            return run_kt(*words, "--bootstrap-server", self.broker.bootstrap, clock=self.clock)


def test_the_offsets_of_the_other_partitions_are_printed_within_seconds() -> None:
    cluster = HalfLed()
    ran = cluster.run("get-offsets", "--topic", "t")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "t:0:7\n")
    assert ran.err.startswith("Skip getting offsets for topic-partition t-1 due to error: ")
    assert len(cluster.lookups) <= 10


@pytest.mark.parametrize(
    ("options", "done"),
    [
        ((), "partition: t-0\tlow_watermark: 5\n"),
        (("--dry-run",), "partition: t-0\tlow_watermark: 0 -> 5\t5 offsets\n"),
    ],
)
def test_the_records_of_the_other_partitions_are_deleted_within_seconds(
    tmp_path: pathlib.Path, options: tuple[str, ...], done: str
) -> None:
    cluster, path = HalfLed(), tmp_path / "old.json"
    parts = [{"topic": "t", "partition": index, "offset": 5} for index in (1, 0)]
    path.write_text(json.dumps({"partitions": parts, "version": 1}))
    ran = cluster.run("delete-records", "--offset-json-file", str(path), *options)
    assert ran.status == ExitStatus.FAILED
    assert ran.out.endswith(done)
    assert ran.err.startswith("partition: t-1\terror: ")
    assert len(cluster.lookups) <= 10
