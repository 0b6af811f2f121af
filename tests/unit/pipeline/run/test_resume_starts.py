"""Where a resumed run starts in partitions of which its manifest has nothing: where the options of the source say."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.log_batches import NOW_MS, make_batch

import kafkatools
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.jobs.offsets import ranges_of_log
from kafkatools.pipeline.run.resume_starts import resume_offsets
from kafkatools.pipeline.run.spec import Source
from kafkatools.pipeline.uris import Cluster, Uri

READ: Any = {"partitions": [{"topic": "t", "partition": 0, "end_offset": 3}]}
"""The source in a manifest of a run that has read nothing of t-1, and did not have t-2."""
LATEST = {"startingOffsetsByTimestampStrategy": "latest"}
STARTS: list[tuple[dict[str, str], dict[str, int]]] = [
    ({}, {"0": 3, "1": -2}),
    ({"startingOffsets": '{"t":{"0":1,"1":2}}'}, {"0": 3, "1": 2}),
    ({"startingTimestamp": str(NOW_MS), **LATEST}, {"0": 3, "1": 1}),
    ({"startingTimestamp": str(NOW_MS + 1), **LATEST}, {"0": 3, "1": 2}),
    ({"startingOffsetsByTimestamp": json.dumps({"t": {"0": 0, "1": NOW_MS}})}, {"0": 3, "1": 1}),
]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the topic t, of which partition 1 has a record of yesterday and one of now."""
    with embedded_broker(tmp_path_factory.mktemp("data")) as bootstrap:
        with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([kafkatools.NewTopic("t", 2)])
        with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
            for timestamp in (NOW_MS - 86_400_000, NOW_MS):
                producer.send("t", b"v", partition=1, timestamp=timestamp)
        yield bootstrap


@pytest.mark.parametrize(("options", "starts"), STARTS)
def test_partitions_of_a_topic(options: dict[str, str], starts: dict[str, int], bootstrap: str) -> None:
    source = Source("input", Uri("topic", "t"), options, cluster=Cluster(bootstrap))
    assert json.loads(resume_offsets(source, READ)) == {"t": starts}


@pytest.mark.parametrize(("options", "starts"), STARTS)
def test_partitions_of_a_log(options: dict[str, str], starts: dict[str, int], tmp_path: pathlib.Path) -> None:
    times = {0: [NOW_MS] * 3, 1: [NOW_MS - 86_400_000, NOW_MS]}
    for partition, timestamps in times.items():
        write(tmp_path / f"t-{partition}", timestamps)
    source = Source("input", Uri("log", str(tmp_path)), options)
    assert json.loads(resume_offsets(source, READ)) == {"t": starts}


def test_whole_segments_begin_before_the_log_start_offset(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "t-0", [NOW_MS] * 5)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    part, uri = TopicPartition("t", 0), Uri("log", str(tmp_path))
    assert ranges_of_log(uri, {}, {part: 5}) == {part: (2, 5)}
    assert ranges_of_log(uri, {"wholeSegments": "true"}, {part: 5}) == {part: (0, 5)}


def write(directory: pathlib.Path, timestamps: list[int]) -> None:
    directory.mkdir()
    batch = make_batch([b"v"] * len(timestamps), timestamps=timestamps)
    (directory / f"{0:020}.log").write_bytes(batch)
