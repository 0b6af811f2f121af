"""Metrics that clients push (KIP-714): the answers of Apache Kafka 4.3.1, and the file that gets the metrics."""

import fcntl
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.raw_client import RawClient
from support.telemetry_story import Teller, tell

from kafkatools.core.broker.telemetry import metrics_file
from kafkatools.core.broker.telemetry.metrics_file import Push, append_push, read_pushes
from kafkatools.core.broker.telemetry.otlp import decode_metrics
from kafkatools.core.errors import InvalidRecord
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.compression import compress

RECORDED = pathlib.Path(__file__).parents[4] / "golden/broker/telemetry.json"
INVALID_RECORD = 87
GZIP, ZSTD = 1, 4
OPENTELEMETRY = """
import sys
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
data = MetricsData()
resource = data.resource_metrics.add()
resource.resource.attributes.add(key="client_rack").value.string_value = "r1"
scope = resource.scope_metrics.add()
total = scope.metrics.add(name="a.total")
total.sum.is_monotonic, total.sum.aggregation_temporality = True, 1
point = total.sum.data_points.add(as_double=1.5, time_unix_nano=7)
point.attributes.add(key="node").value.int_value = 3
scope.metrics.add(name="a.now", unit="ms").gauge.data_points.add(as_int=-4)
sys.stdout.buffer.write(data.SerializeToString())
"""


@pytest.fixture(scope="module")
def metrics_data() -> bytes:
    """MetricsData as OpenTelemetry's own classes write it."""
    done = subprocess.run([sys.executable, "-c", OPENTELEMETRY], capture_output=True, check=True)
    assert done.stdout
    return done.stdout


def test_answers_are_those_of_apache_kafka(run_node: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    node = run_node({"client.metrics.file": str(tmp_path / "metrics.jsonl")}).node
    assert list(tell(node.bootstrap)) == json.loads(RECORDED.read_text())


def test_a_node_without_a_file_does_not_ask_for_metrics(run_node: Callable[..., Any]) -> None:
    with RawClient(run_node().node.bootstrap) as client:
        listed = {key.api_key for key in client.call(ApiKey.API_VERSIONS, 0, {}).api_keys}
    assert not listed & {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


@pytest.mark.slow
def test_pushed_metrics_are_lines_of_the_file(
    run_node: Callable[..., Any], tmp_path: pathlib.Path, metrics_data: bytes
) -> None:
    path = tmp_path / "metrics.jsonl"
    node = run_node({"client.metrics.file": str(path)}).node
    with RawClient(node.bootstrap) as client:
        listed = {key.api_key for key in client.call(ApiKey.API_VERSIONS, 0, {}).api_keys}
        assert listed >= {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
        for codec in (0, ZSTD):
            teller = Teller(client)
            teller.get()
            assert teller.push(metrics_data if not codec else compress(codec, metrics_data), codec) == 0
        teller = Teller(client)
        teller.get()
        assert teller.push(b"\x0a\xff") == INVALID_RECORD
        teller = Teller(client)
        teller.get()
        assert teller.push(compress(GZIP, bytes(40 << 20)), GZIP) == INVALID_RECORD
    plain, packed = read_pushes(str(path))
    assert plain["metrics"] == packed["metrics"]
    assert plain["metrics"] == [
        {"name": "a.total", "type": "sum (delta)", "value": 1.5, "attributes": {"node": 3}, "time_ns": 7},
        {"name": "a.now", "type": "gauge", "value": -4, "attributes": {}, "time_ns": 0},
    ]
    assert plain["resource"] == {"client_rack": "r1"}
    assert (plain["client_id"], plain["principal"], plain["terminating"]) == ("raw", "User:ANONYMOUS", False)
    assert plain["address"].startswith("127.0.0.1:")


def test_every_cut_of_the_metrics_is_decoded_or_refused(metrics_data: bytes) -> None:
    for size in range(len(metrics_data)):
        try:
            decode_metrics(metrics_data[:size])
        except InvalidRecord as error:
            assert "MetricsData" in str(error)


def test_a_large_file_becomes_the_older_one(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_file, "MAX_BYTES", 600)
    path = str(tmp_path / "metrics.jsonl")
    for number in range(6):
        append_push(path, push(number))
    assert [each["time_ms"] for each in read_pushes(path)][-3:] == [3, 4, 5]
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"time_ms": 6')
    assert [each["time_ms"] for each in read_pushes(path)][-1] == 5


@pytest.mark.parametrize("pushes_between", [1, 2])
def test_a_file_that_another_node_renamed_is_not_renamed_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, pushes_between: int
) -> None:
    """Between open and write of a push another node renames the file, and also creates the new one."""
    path = str(tmp_path / "metrics.jsonl")
    append_push(path, push(0))
    monkeypatch.setattr(metrics_file, "MAX_BYTES", os.path.getsize(path) * 3 // 2)
    opened = os.open

    def open_before_other_node(*arguments: Any) -> int:
        descriptor = opened(*arguments)
        monkeypatch.setattr(os, "open", opened)
        for number in range(pushes_between):
            append_push(path, push(number + 1))
        return descriptor

    monkeypatch.setattr(os, "open", open_before_other_node)
    append_push(path, push(3))
    assert sorted(each["time_ms"] for each in read_pushes(path)) == [*range(pushes_between + 1), 3]


def test_a_file_that_a_paused_node_renames_still_gets_pushes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_file, "MAX_BYTES", 1)
    path = tmp_path / "metrics.jsonl"
    with path.open("ab") as of_other_node:
        fcntl.flock(of_other_node, fcntl.LOCK_EX)
        append_push(str(path), push(0))
        assert path.exists()
    append_push(str(path), push(1))
    assert [each["time_ms"] for each in read_pushes(str(path))] == [0, 1]
    assert not path.exists()


def test_lines_that_a_full_disk_cut_off_hide_no_other_pushes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"time_ms": 0')
    append_push(str(path), push(1))
    append_push(str(path), push(2))
    (tmp_path / "metrics.jsonl.1").write_text('{"time_ms": 0')
    assert [each["time_ms"] for each in read_pushes(str(path))] == [2]


def push(number: int) -> Push:
    return {
        "time_ms": number,
        "client_instance_id": "",
        "client_id": "c",
        "software": "",
        "principal": "User:a",
        "address": "",
        "terminating": False,
        "resource": {},
        "metrics": [],
    }


def test_a_file_that_cannot_be_written_is_reported_and_refuses_the_push(
    run_node: Callable[..., Any], tmp_path: pathlib.Path, metrics_data: bytes
) -> None:
    running = run_node({"client.metrics.file": str(tmp_path / "none" / "metrics.jsonl")})
    with RawClient(running.node.bootstrap) as client:
        teller = Teller(client)
        teller.get()
        assert teller.push(metrics_data) == INVALID_RECORD
    assert "Cannot write client.metrics.file" in running.failures[0]
    assert "No such file or directory" in running.failures[0]
    running.failures.clear()
