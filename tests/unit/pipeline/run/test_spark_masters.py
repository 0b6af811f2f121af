"""A Spark master that does not answer is an error within seconds; jobs that wait for executors are told."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.masters import ensure_reachable, master_addresses
from kafkatools.pipeline.run.wait_notices import WaitTimer
from kafkatools.pipeline.run.waiting import Losses, Waiting


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


SPARK_REPLY = b"\0\0\0\0\0\0\0\x4b\x08\0\0\0\x11/files/kafkatools\0\0\0\x29Stream '/files/kafkatools' was not found."
"""What a standalone master of Spark 4.3.0 answers."""
BOOLEAN_REPLY = (
    b"\0\0\0\0\0\0\0\x44\x04\0\0\0\0\0\0\0\0\0\0\0\x2f\xac\xed\0\x05sr\0\x11java.lang.Boolean"
    b"\xcd r\x80\xd5\x9c\xfa\xee\x02\0\x01Z\0\x05valuexp"
)
"""What a standalone master and a worker of Spark 4.3.0 answer to the question whether they have the endpoint of a
master, without the last byte: 1 or 0."""
FAILURE_REPLY = b"\0\0\0\0\0\0\0\x19\x05\0\0\0\0\0\0\0\0\0\0\0\x04java"
"""The answer of a Spark that does not understand the question."""
HTTP2_REPLY = b"\0\0\x06\x04\0\0\0\0\0\0\x03\x7f\xff\xff\xff"
"""What a Connect server of Spark 4.3.0 answers: SETTINGS."""


@contextlib.contextmanager
def peer(*replies: bytes | None) -> Iterator[int]:
    """A port that answers each connection with the same bytes, one part a request, and closes it; None: it accepts and
    stays silent."""
    connections = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                connections.append(connection)
                if None in replies:
                    continue
                for reply in replies:
                    if connection.recv(1000):
                        connection.sendall(reply or b"")
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)
    for connection in connections:
        connection.close()


def test_a_master_that_answers_is_reached_at_any_of_its_addresses() -> None:
    with peer(SPARK_REPLY, BOOLEAN_REPLY + b"\1") as port:
        ensure_reachable(f"spark://127.0.0.1:{port}")
        ensure_reachable(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with peer(HTTP2_REPLY) as port:
        ensure_reachable(f"sc://127.0.0.1:{port}/;user_id=me")


def test_a_worker_or_driver_in_place_of_the_master_is_told() -> None:
    with peer(SPARK_REPLY, BOOLEAN_REPLY + b"\0") as port:
        with pytest.raises(
            PipelineError, match=f":{port}: a Spark worker or driver listens there, not a master, whose usual"
        ):
            ensure_reachable(f"spark://127.0.0.1:{port}")
        ensure_reachable(f"spark://127.0.0.1:{port}", {"spark.authenticate": "true"})


@pytest.mark.parametrize("reply", [FAILURE_REPLY, b""])
def test_a_spark_that_does_not_say_what_it_is_counts_as_a_master(reply: bytes) -> None:
    with peer(SPARK_REPLY, reply) as port:
        ensure_reachable(f"spark://127.0.0.1:{port}")


def test_a_master_that_refuses_is_told_at_once_with_each_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    started = time.monotonic()
    with pytest.raises(PipelineError) as refused:
        ensure_reachable(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    assert time.monotonic() - started < 5
    assert str(refused.value) == (
        f"The Spark master spark://127.0.0.1:1,127.0.0.1:{port} cannot be reached (127.0.0.1:1: Connection refused; "
        f"127.0.0.1:{port}: Connection refused): check its address and that it runs"
    )


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"])
@pytest.mark.parametrize(("scheme", "name"), [("spark", "a Spark master"), ("sc", "a Spark Connect server")])
def test_another_program_on_the_port_is_told(scheme: str, name: str, reply: bytes) -> None:
    with peer(reply) as port, pytest.raises(PipelineError, match=f"what listens there is not {name} without TLS"):
        ensure_reachable(f"{scheme}://127.0.0.1:{port}")


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_port_that_accepts_and_stays_silent_is_told_after_the_timeout(scheme: str) -> None:
    with peer(None) as port, pytest.raises(PipelineError, match="no answer within 0.1 s"):
        ensure_reachable(f"{scheme}://127.0.0.1:{port}", timeout_s=0.1)


def test_a_master_with_tls_only_has_to_accept() -> None:
    with peer(None) as port:
        ensure_reachable(f"spark://127.0.0.1:{port}", {"spark.ssl.rpc.enabled": "true"})
        ensure_reachable(f"sc://127.0.0.1:{port}/;token=x")


def test_waiting_is_told_after_four_seconds_and_each_minute() -> None:
    timer = WaitTimer(4000, 60_000)
    told = [now for now in range(130) if timer.notices(["executors"], 1000 * now).ongoing]
    assert told == [4, 64, 124]
    assert timer.notices([], 130_000) == ({}, {"executors": 130_000})
    assert [now for now in range(131, 140) if timer.notices(["executors"], 1000 * now).ongoing] == [135]
    assert timer.notices(["brokers"], 141_000) == ({}, {"executors": 10_000}), "waits have their own times"
    assert timer.notices(["brokers"], 145_000) == ({"brokers": 4000}, {})


def test_the_reason_names_what_the_application_asks_for() -> None:
    assert Waiting(0, None, "64g").text(4.2) == (
        "Waiting for executors for 4 s: none has registered; no worker of the cluster may have 64g of memory and at "
        "least 1 free core(s), or other applications hold them (spark.executor.memory and spark.executor.cores ask for "
        "less)"
    )
    assert Waiting(2, None, None).text(64.0) == (
        "Waiting for executors for 64 s: 2 registered, but none has a free core; other jobs may use them"
    )


def test_lost_executors_and_failed_tasks_are_told_once() -> None:
    losses, both = Losses(), frozenset(("a:1", "b:2"))
    assert losses.lines(both, {7: 0}, [7]) == []
    assert losses.lines(frozenset(("a:1",)), {7: 1}, [7]) == [
        "Lost executor b:2: Spark repeats its tasks on another",
        "A task failed: Spark repeats it",
    ]
    assert losses.lines(both, {7: 1}, [7]) == [] and losses.stages == [7]
    assert losses.lines(both, {7: 3}, []) == ["2 tasks failed: Spark repeats them"], "also of a stage that has ended"
    assert losses.stages == []
    assert losses.lines(frozenset(), {}, []) == [], "executors leave when the work is done"
