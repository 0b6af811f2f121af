"""A Spark master that does not answer is an error within seconds; jobs that wait for executors are told."""

from __future__ import annotations

import socket
import time

import pytest

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.masters import ensure_reachable, master_addresses
from kafkatools.pipeline.run.waiting import Waiting, WaitingTimes


@pytest.mark.parametrize(
    ("master", "addresses"),
    [
        ("local[*]", []),
        ("yarn", []),
        ("spark://a:7077", [("a", 7077)]),
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("sc://a", [("a", 15002)]),
        ("sc://a:443/;use_ssl=true;token=x", [("a", 443)]),
        ("sc://a:444;token=x", [("a", 444)]),
        ("k8s://https://a:6443", [("a", 6443)]),
        ("k8s://a", [("a", 443)]),
    ],
)
def test_addresses_of_masters(master: str, addresses: list[tuple[str, int]]) -> None:
    assert master_addresses(master) == addresses


def test_a_malformed_address_is_named() -> None:
    with pytest.raises(PipelineError, match="Invalid Spark master spark://a:port"):
        master_addresses("spark://a:port")


def test_a_master_that_refuses_is_told_at_once_with_each_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ensure_reachable(f"spark://127.0.0.1:{port}")
        ensure_reachable(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    started = time.monotonic()
    with pytest.raises(PipelineError) as refused:
        ensure_reachable(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    assert time.monotonic() - started < 5
    assert str(refused.value) == (
        f"The Spark master spark://127.0.0.1:1,127.0.0.1:{port} cannot be reached (127.0.0.1:1: Connection refused; "
        f"127.0.0.1:{port}: Connection refused): check its address and that it runs"
    )


def test_waiting_is_told_after_four_seconds_and_each_minute() -> None:
    times = WaitingTimes()
    told = [now for now in range(130) if times.waited_s(True, float(now)) is not None]
    assert told == [4, 64, 124]
    assert times.waited_s(False, 130.0) is None
    assert [now for now in range(131, 140) if times.waited_s(True, float(now)) is not None] == [135]


def test_the_reason_names_what_the_application_asks_for() -> None:
    assert Waiting(0, None, "64g").text(4.2) == (
        "Waiting for executors for 4 s: none has registered; no worker of the cluster may have 64g of memory and at "
        "least 1 free core(s), or other applications hold them (spark.executor.memory and spark.executor.cores ask for "
        "less)"
    )
    assert Waiting(2, None, None).text(64.0) == (
        "Waiting for executors for 64 s: 2 registered, but none has a free core; other jobs may use them"
    )
