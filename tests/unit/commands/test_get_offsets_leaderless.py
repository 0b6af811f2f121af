"""kt get-offsets when a partition has no leader: the others are printed after the time of an election."""

from __future__ import annotations

from typing import Any

from support.kt import run_kt
from support.scripted_broker import ScriptedBroker, partition
from support.skipping_clock import SkippingClock

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus


def test_the_other_partitions_are_printed_within_seconds() -> None:
    clock = SkippingClock()
    lookups = []

    def cluster(header: Any, request: Any) -> Any:
        lookups.append(header.correlation_id)
        clock.skip_ms(1000)
        return broker.say_cluster(header, request)

    partitions = [partition(0), partition(1, leader=-1)]

    def topics_of(header: Any, request: Any) -> Any:
        return {"topics": [{"name": "t", "topic_id": None, "partitions": partitions}], "next_cursor": None}

    def offsets(header: Any, request: Any) -> Any:
        found = {"partition_index": 0, "error_code": 0, "timestamp": -1, "offset": 7, "leader_epoch": 0}
        return {"topics": [{"name": "t", "partitions": [found]}]}

    broker = ScriptedBroker(
        {ApiKey.METADATA: cluster, ApiKey.LIST_OFFSETS: offsets, ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics_of}
    )
    broker.topics = [{"name": "t", "partitions": partitions}]
    with broker.in_background():
        ran = run_kt("get-offsets", "--bootstrap-server", broker.bootstrap, "--topic", "t", clock=clock)
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "t:0:7\n")
    assert ran.err.startswith("Skip getting offsets for topic-partition t-1 due to error: ")
    assert len(lookups) <= 10
