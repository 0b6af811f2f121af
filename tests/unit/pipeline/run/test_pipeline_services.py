"""Brokers, schema registries and object stores that do not answer while a pipeline runs: which ones are asked, and the
lines about them."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any

import pytest
from support.manual_clock import ManualClock
from support.schema_registry import Answer, serving
from support.waiting import eventually

import kafkatools
from kafkatools.core.clock import SystemClock
from kafkatools.pipeline.run import services
from kafkatools.pipeline.run.services import (
    Brokers,
    WatchedService,
    WebService,
    outage_lines,
    outage_notices,
    services_of,
)
from kafkatools.pipeline.run.spec import pipeline_from
from kafkatools.pipeline.run.wait_notices import WaitTimer
from kafkatools.pipeline.uris import Cluster


def test_an_outage_is_reported_after_ten_seconds_each_minute_and_at_its_end() -> None:
    timer, advice = WaitTimer(10_000, 60_000), "reading topic:t waits"
    reason = {"Broker b:1": "no answer"}

    def lines(unavailable: dict[str, str], now_ms: int) -> list[str]:
        return outage_lines(timer, unavailable, now_ms, now_ms, advice)

    told = {now: lines(reason, now * 1000) for now in range(0, 140, 2)}
    assert {now: found for now, found in told.items() if found} == {
        10: ["Waiting for broker b:1 for 10 s: no answer; reading topic:t waits"],
        70: ["Waiting for broker b:1 for 70 s: no answer; reading topic:t waits"],
        130: ["Waiting for broker b:1 for 130 s: no answer; reading topic:t waits"],
    }
    assert lines({}, 142_000) == ["Broker b:1 answers again, after 142 s"]
    assert lines(reason, 200_000) == [] and lines({}, 204_000) == [], "not told, so not ended either"
    assert lines(reason, 300_000) == [] and lines(reason, 310_000) != []


def test_a_service_that_hangs_is_reported_within_ten_seconds() -> None:
    """In the worst case it stops to answer right after a poll, and each request ends by its time-out."""
    timer, reason = WaitTimer(services._FIRST_MS, services._AGAIN_MS), {"Object store s": "no answer within 3 s"}
    now_ms, lines = 0, list[str]()
    while not lines:
        asked_ms = now_ms + round(services.POLL_S * 1000)
        now_ms = asked_ms + services._TIMEOUT_MS
        lines = outage_lines(timer, reason, asked_ms, now_ms, "reads wait")
    assert now_ms <= 10_000
    assert lines == ["Waiting for object store s for 8 s: no answer within 3 s; reads wait"]


@pytest.mark.slow
def test_a_broker_that_hangs_and_one_that_is_killed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_TIMEOUT_MS", 300)
    with kafkatools.EmbeddedBroker() as broker:
        brokers = Brokers(broker.bootstrap, {}, SystemClock())
        try:
            eventually(lambda: brokers.unavailable() == {})
            os.kill(broker.pid, signal.SIGSTOP)
            assert brokers.unavailable().keys() == {f"Broker {broker.bootstrap}"}
            os.kill(broker.pid, signal.SIGCONT)
            eventually(lambda: brokers.unavailable() == {})
            broker.kill()
            assert brokers.unavailable().keys() == {f"Broker {broker.bootstrap}"}
            broker.start()
            eventually(lambda: brokers.unavailable() == {})
        finally:
            brokers.close()


def test_a_web_service_answers_with_any_response_and_not_by_its_port_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda request: Answer(401, "{}")) as server:
        assert WebService("Schema registry", server.url).unavailable() == {}
    refused = WebService("Schema registry", server.url)
    assert refused.unavailable() == {f"Schema registry {server.url}": "Connection refused"}
    monkeypatch.setattr(services, "_TIMEOUT_MS", 100)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert WebService("Object store", url).unavailable() == {f"Object store {url}": "no answer within 0.1 s"}


def test_lines_are_printed_within_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "POLL_S", 0.01)
    clock = ManualClock()

    class Unavailable:
        is_closed = False

        def unavailable(self) -> dict[str, str]:
            clock.advance_ms(4000)
            return {"Broker b:1": "gone"}

        def interrupt(self) -> None:
            pass

        def close(self) -> None:
            self.is_closed = True

    service, lines = Unavailable(), list[str]()
    with outage_notices([WatchedService(service, "advice")], lines.append, clock):
        eventually(lambda: len(lines) == 2)
    assert lines[0] == "Waiting for broker b:1 for 8 s: gone; advice", "since the first request without an answer"
    assert service.is_closed


def test_a_service_that_hangs_does_not_delay_the_report_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "POLL_S", 0.01)
    clock, over = ManualClock(), threading.Event()

    class Hanging:
        def unavailable(self) -> dict[str, str]:
            over.wait()
            return {}

        def interrupt(self) -> None:
            over.set()

        def close(self) -> None:
            pass

    class Refusing(Hanging):
        def unavailable(self) -> dict[str, str]:
            clock.advance_ms(4000)
            return {"Broker b:1": "gone"}

    lines: list[str] = []
    with outage_notices([WatchedService(Hanging(), ""), WatchedService(Refusing(), "advice")], lines.append, clock):
        eventually(lambda: bool(lines), 20)


def test_the_services_of_a_pipeline() -> None:
    def names(values: dict[str, Any], **clusters: Cluster) -> dict[str, str]:
        pipeline = pipeline_from(values, {name.replace("sink", ""): cluster for name, cluster in clusters.items()})
        hadoop = {"fs.s3a.endpoint": "store:9000", "fs.s3a.bucket.own.endpoint": "http://own"}.get
        watched = services_of(pipeline, hadoop, {"AWS_ENDPOINT_URL": "http://aws"})
        found = {}
        for service, advice in watched:
            name = service._bootstrap if isinstance(service, Brokers) else service._name  # type: ignore[attr-defined]
            found[name] = advice
            service.close()
        return found

    topics = {"from": "topic:a", "to": "topic:b", "to-option": {"kafka.delivery.timeout.ms": "5000"}}
    assert names(topics, input=Cluster("h:1"), sink=Cluster("h:1")) == {
        "h:1": "reading topic:a waits at most 120 s (kafkaConsumer.pollTimeoutMs), writing topic:b waits at most 5 s "
        "(kafka.delivery.timeout.ms)"
    }
    assert names(topics, input=Cluster("h:1"), sink=Cluster("h:2")).keys() == {"h:1", "h:2"}
    decoded = {"from": "topic:a", "to": "console:", "value": "avro", "schema-registry": "http://user:word@r:81/x"}
    assert names(decoded, input=Cluster("h:1")).keys() == {"h:1", "Schema registry http://r:81/x"}
    stores = {"from": "log:s3://x/y", "to": "parquet:s3a://own/z", "manifest": "s3://x/m"}
    assert names(stores).keys() == {"Object store http://own", "Object store http://aws"}
    stream = {"from": "parquet:s3a://in/z", "to": "parquet:/out", "stream": True, "checkpoint": "s3a://own/c"}
    assert names(stream).keys() == {"Object store https://store:9000", "Object store http://own"}
    assert names({"from": "log:/x", "to": "parquet:/out"}) == {}
