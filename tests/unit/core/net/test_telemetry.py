"""When a client asks for its telemetry subscription and pushes, with a scripted broker and a manual clock: the rules of
Kafka's ClientTelemetryReporter."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import cast

import pytest
from support.manual_clock import ManualClock

from kafkatools.core import config as tables
from kafkatools.core.broker.telemetry.otlp import decode_metrics
from kafkatools.core.config import Config
from kafkatools.core.errors import Disconnected, KafkaError, UnsupportedVersion
from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import sums
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.connection_states import FOREVER_MS
from kafkatools.core.net.metadata_updater import Nodes
from kafkatools.core.net.telemetry import DEFAULT_INTERVAL_MS, LAST_PUSH_MS, TelemetrySender
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import decode, request_type
from kafkatools.core.records.compression import CompressionType, decompress

INSTANCE = uuid.UUID(int=77)
GET, PUSH = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY
INTERVAL_MS = 1000
JITTER = 0.6


class Broker:
    """The network client of a test: it records the requests and completes them when told to."""

    def __init__(self, clock: ManualClock) -> None:
        self.metadata = SimpleNamespace(cluster=SimpleNamespace(nodes={1: None, 2: None}))
        self.connected: set[int] = {1, 2}
        self.connects: list[int] = []
        self.requests: list[ClientRequest] = []
        self.refusal: KafkaError | None = None
        self._clock = clock

    def can_send(self, node: int, now_ms: int) -> bool:
        return node in self.connected

    def least_loaded_node(self, now_ms: int) -> int | None:
        return 1

    def ready(self, node: int, now_ms: int) -> bool:
        self.connects.append(node)
        return node in self.connected

    def send_internal(self, request: ClientRequest, now_ms: int) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)

    def complete(self, body: object, error: KafkaError | None = None, *, disconnected: bool = False) -> None:
        request = self.requests[-1]
        assert request.callback is not None
        request.callback(ClientResponse(request, 0, body, None, error, disconnected, 0))

    def subscribe(
        self, *metrics: str, codecs: tuple[int, ...] = (0,), is_delta: bool = True, interval_ms: int = INTERVAL_MS
    ) -> None:
        self.complete(
            SimpleNamespace(
                error_code=0,
                client_instance_id=INSTANCE,
                subscription_id=5,
                accepted_compression_types=list(codecs),
                push_interval=interval_ms,
                delta_temporality=is_delta,
                requested_metrics=list(metrics),
            )
        )

    def refuse(self, code: int) -> None:
        self.complete(SimpleNamespace(error_code=code))

    def accept(self) -> None:
        self.complete(SimpleNamespace(error_code=0))

    @property
    def sent(self) -> list[int]:
        return [request.api_key for request in self.requests]

    def last(self) -> object:
        request = self.requests[-1]
        body = request.build(0)
        assert isinstance(body, list)
        return decode(request_type(request.api_key, 0), memoryview(b"".join(body)))[0]


class Client:
    def __init__(self, **settings: object) -> None:
        self.clock = ManualClock()
        self.broker = Broker(self.clock)
        config = Config(tables.PRODUCER, {"client.id": "app", **settings})
        self.registry = MetricsRegistry.of(config, self.clock)
        self.sends = self.registry.sensor("producer-metrics", sums("record-send"))
        nodes = cast(Nodes, self.broker)
        self.telemetry = TelemetrySender(nodes, config, self.registry, self.clock, jitter=lambda: JITTER)

    def turn(self, after_ms: int = 0) -> int:
        self.clock.advance_ms(after_ms)
        return self.telemetry.maybe_update(self.clock.now_ms())


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def pushing(client: Client) -> Client:
    """A client whose first push is in flight."""
    client.turn()
    client.broker.subscribe("*")
    client.turn(int(JITTER * INTERVAL_MS))
    assert client.broker.sent == [GET, PUSH]
    return client


def value_of(client: Client, name: str) -> tuple[str, object]:
    request = client.broker.last()
    _, metrics = decode_metrics(decompress(request.compression_type, request.metrics))  # type: ignore[attr-defined]
    (found,) = [metric for metric in metrics if metric["name"] == name]
    return found["type"], found["value"]


def test_first_request_waits_for_a_connection_and_makes_none(client: Client) -> None:
    client.broker.connected.clear()
    assert client.turn() == FOREVER_MS
    assert (client.broker.sent, client.broker.connects) == ([], [])
    client.broker.connected.add(2)
    client.turn()
    assert [(request.node, request.api_key) for request in client.broker.requests] == [(2, GET)]
    assert client.turn(10 * INTERVAL_MS) > 10 * DEFAULT_INTERVAL_MS  # in flight
    assert len(client.broker.requests) == 1


def test_broker_without_the_api_ends_telemetry(client: Client) -> None:
    client.broker.refusal = UnsupportedVersion("no such API")
    client.turn()
    client.broker.refusal = None
    assert client.turn(10 * DEFAULT_INTERVAL_MS) > 0
    assert client.broker.sent == []
    assert client.telemetry.is_ended
    assert not client.telemetry.has_last_push(client.clock.now_ms())


def test_without_requested_metrics_the_client_asks_again_after_the_interval(client: Client) -> None:
    client.turn()
    client.broker.subscribe()
    assert client.turn() == INTERVAL_MS
    client.turn(INTERVAL_MS - 1)
    assert client.broker.sent == [GET]
    client.turn(1)
    assert client.broker.sent == [GET, GET]
    assert client.broker.last().client_instance_id == INSTANCE  # type: ignore[attr-defined]
    assert not client.telemetry.has_last_push(client.clock.now_ms())


def test_first_push_comes_after_the_jitter_and_later_ones_after_the_interval(pushing: Client) -> None:
    pushing.broker.accept()
    assert pushing.turn() == INTERVAL_MS
    pushing.turn(INTERVAL_MS)
    assert pushing.broker.sent == [GET, PUSH, PUSH]


@pytest.mark.parametrize(
    ("code", "delay_ms"),
    [
        pytest.param(117, 0, id="UNKNOWN_SUBSCRIPTION_ID"),
        pytest.param(76, 0, id="UNSUPPORTED_COMPRESSION_TYPE"),
        pytest.param(118, INTERVAL_MS, id="TELEMETRY_TOO_LARGE"),
        pytest.param(89, INTERVAL_MS, id="THROTTLING_QUOTA_EXCEEDED"),
    ],
)
def test_after_a_refused_push_the_client_asks_for_the_subscription(pushing: Client, code: int, delay_ms: int) -> None:
    pushing.broker.refuse(code)
    pushing.turn(delay_ms)
    assert pushing.broker.sent == [GET, PUSH, GET]


@pytest.mark.parametrize("code", [42, 87, 35, 31])
def test_errors_that_a_retry_cannot_mend_end_telemetry(pushing: Client, code: int) -> None:
    pushing.broker.refuse(code)
    pushing.turn(10 * DEFAULT_INTERVAL_MS)
    assert pushing.broker.sent == [GET, PUSH]
    assert pushing.telemetry.is_ended


def test_lost_connection_is_tried_again_after_five_minutes(pushing: Client) -> None:
    pushing.broker.complete(None, Disconnected("gone"), disconnected=True)
    pushing.turn(DEFAULT_INTERVAL_MS - 1)
    assert pushing.broker.sent == [GET, PUSH]
    pushing.turn(1)
    assert pushing.broker.sent == [GET, PUSH, GET]


def test_requests_stay_with_one_broker_and_a_push_makes_a_connection(pushing: Client) -> None:
    pushing.broker.accept()
    pushing.broker.connected = {2}
    pushing.turn(INTERVAL_MS)
    assert [request.node for request in pushing.broker.requests] == [1, 1, 2]
    pushing.broker.accept()
    pushing.broker.connected = set()
    assert pushing.turn(INTERVAL_MS) < INTERVAL_MS
    assert pushing.broker.connects == [1]


def test_delta_sums_begin_anew_when_the_temporality_changes(client: Client) -> None:
    name = "org.apache.kafka.producer.record.send.total"
    client.turn()
    client.broker.subscribe("*")
    client.sends.record(5, client.clock.now_ms())
    client.turn(INTERVAL_MS)
    assert value_of(client, name) == ("sum (delta)", 5.0)
    client.broker.accept()
    client.sends.record(2, client.clock.now_ms())
    client.turn(INTERVAL_MS)
    assert value_of(client, name) == ("sum (delta)", 2.0)
    client.broker.refuse(117)
    client.turn()
    client.broker.subscribe("*", is_delta=False)
    client.turn(INTERVAL_MS)
    assert value_of(client, name) == ("sum", 7.0)
    client.broker.refuse(117)
    client.turn()
    client.broker.subscribe("*")
    client.turn(INTERVAL_MS)
    assert value_of(client, name) == ("sum (delta)", 7.0)


@pytest.mark.parametrize(
    ("accepted", "codec"),
    [
        ((4, 3), CompressionType.ZSTD),
        ((1,), CompressionType.GZIP),
        ((9, 2), CompressionType.SNAPPY),
        ((), 0),
        ((9,), 0),
    ],
)
def test_push_has_the_first_known_compression_of_the_brokers_list(
    client: Client, accepted: tuple[int, ...], codec: int
) -> None:
    client.turn()
    client.broker.subscribe("org.apache.kafka.producer", codecs=accepted)
    client.turn(INTERVAL_MS)
    assert client.broker.last().compression_type == codec  # type: ignore[attr-defined]
    assert value_of(client, "org.apache.kafka.producer.record.send.rate")[0] == "gauge"


def test_invalid_interval_is_five_minutes(client: Client) -> None:
    client.turn()
    client.broker.subscribe(interval_ms=0)
    assert client.turn() == DEFAULT_INTERVAL_MS


def test_response_without_an_instance_id_ends_telemetry(client: Client) -> None:
    client.turn()
    client.broker.complete(SimpleNamespace(error_code=0, client_instance_id=uuid.UUID(int=0)))
    assert client.telemetry.is_ended
    assert client.telemetry.instance_id is None


def test_closing_client_pushes_once_more_also_while_a_push_is_in_flight(pushing: Client) -> None:
    now_ms = pushing.clock.now_ms()
    first = pushing.broker.requests[-1]
    assert pushing.telemetry.has_last_push(now_ms)
    pushing.turn()
    assert pushing.broker.last().terminating  # type: ignore[attr-defined]
    assert first.callback is not None
    first.callback(ClientResponse(first, 0, SimpleNamespace(error_code=0), None, None, False, 0))
    assert pushing.telemetry.has_last_push(now_ms)
    pushing.broker.accept()
    assert not pushing.telemetry.has_last_push(now_ms)
    pushing.turn(10 * INTERVAL_MS)
    assert pushing.broker.sent == [GET, PUSH, PUSH]


def test_closing_client_waits_a_second_for_a_silent_broker(pushing: Client) -> None:
    start_ms = pushing.clock.now_ms()
    assert pushing.telemetry.has_last_push(start_ms)
    pushing.turn()
    assert pushing.telemetry.has_last_push(start_ms + LAST_PUSH_MS - 1)
    assert not pushing.telemetry.has_last_push(start_ms + LAST_PUSH_MS)


def test_caller_learns_that_an_id_is_there_or_will_not_come(client: Client) -> None:
    told: list[str | None] = []
    client.telemetry.call_when_settled(lambda: told.append(client.telemetry.instance_id))
    client.turn()
    assert told == []
    client.broker.subscribe()
    assert told == ["AAAAAAAAAAAAAAAAAAAATQ"]
    client.telemetry.call_when_settled(lambda: told.append("again"))
    assert told[1:] == ["again"]


def test_failure_to_collect_metrics_waits_an_interval_and_raises_nothing(client: Client) -> None:
    def broken() -> str:
        raise RuntimeError("no member id")

    client.telemetry._member_id = broken
    client.turn()
    client.broker.subscribe("*")
    assert client.turn(INTERVAL_MS) == INTERVAL_MS
    client.telemetry._member_id = str
    client.turn(INTERVAL_MS)
    assert client.broker.sent == [GET, PUSH]


def test_sums_of_a_failed_collection_are_in_the_next_push_once(pushing: Client) -> None:
    name = "org.apache.kafka.producer.record.send.total"
    reads = iter([1.0, RuntimeError("the source is gone"), 1.0])

    def read(now_ms: int) -> float:
        value = next(reads)
        if isinstance(value, Exception):
            raise value
        return value

    pushing.broker.accept()
    pushing.registry.gauge("producer-metrics", "faulty", read)
    pushing.sends.record(100, pushing.clock.now_ms())
    pushing.turn(INTERVAL_MS)
    assert value_of(pushing, name) == ("sum (delta)", 100.0)
    pushing.broker.accept()
    pushing.sends.record(5, pushing.clock.now_ms())
    pushing.turn(INTERVAL_MS)
    assert pushing.broker.sent == [GET, PUSH, PUSH]  # nothing was pushed
    pushing.sends.record(2, pushing.clock.now_ms())
    pushing.turn(INTERVAL_MS)
    assert value_of(pushing, name) == ("sum (delta)", 7.0)


def test_faulty_member_id_does_not_fail_a_close(pushing: Client) -> None:
    def broken() -> str:
        raise RuntimeError("no member id")

    pushing.telemetry._member_id = broken
    pushing.telemetry.note_member()
    pushing.telemetry._member_id = str
    assert pushing.telemetry.has_last_push(pushing.clock.now_ms())
    pushing.turn()
    assert pushing.broker.last().terminating  # type: ignore[attr-defined]


def test_push_is_uncompressed_if_the_compression_fails(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(codec: int, data: bytes) -> bytes:
        raise ImportError("the package of the codec is broken")

    monkeypatch.setattr("kafkatools.core.records.compression.compress", broken)
    client.turn()
    client.broker.subscribe("*", codecs=(CompressionType.ZSTD,))
    client.turn(INTERVAL_MS)
    assert client.broker.last().compression_type == CompressionType.NONE  # type: ignore[attr-defined]
    assert value_of(client, "org.apache.kafka.producer.record.send.rate")[0] == "gauge"


def test_sums_that_a_subscription_left_out_are_not_counted_twice(client: Client) -> None:
    name = "org.apache.kafka.producer.record.send.total"
    client.turn()
    for metrics, count in (("*", 100), ("other", 0), ("*", 50)):
        client.broker.subscribe(metrics)
        client.sends.record(count, client.clock.now_ms())
        client.turn(INTERVAL_MS)
        if metrics == "*":
            assert value_of(client, name) == ("sum (delta)", float(count))
        client.broker.refuse(117)
        client.turn()


def test_last_push_ends_with_the_time_of_close(pushing: Client) -> None:
    now_ms = pushing.clock.now_ms()
    assert not pushing.telemetry.has_last_push(now_ms, now_ms)
    assert pushing.telemetry.has_last_push(now_ms, now_ms + 200)
    assert not pushing.telemetry.has_last_push(now_ms + 200, now_ms + 200)
