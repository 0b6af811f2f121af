"""The network client against scripted servers on loopback, its time by hand."""

import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support.frames import encode_response
from support.manual_clock import ManualClock
from support.ports import free_port
from support.scripted_broker import CLOSE, SILENCE, ScriptedBroker, partition

from kafkatools.core import config as config_tables
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    ConfigError,
    ConnectionFailed,
    Disconnected,
    IllegalState,
    KafkaError,
    NameResolutionFailed,
    NotKafka,
    UnsupportedVersion,
)
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.connection_states import ConnectionState
from kafkatools.core.net.metadata import Metadata
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import build, request_type, response_type

MAX_TURNS = 500


class Rig:
    """A client, a broker, a clock, and the crank."""

    def __init__(self, broker: ScriptedBroker, settings: dict[str, Any] | None = None, table: str = "ADMIN") -> None:
        self.broker = broker
        self.clock = ManualClock()
        self.metadata = Metadata([("127.0.0.1", broker.port)])
        config = Config(getattr(config_tables, table), settings)
        self.client = NetworkClient(config, self.clock, self.metadata, "kt")
        self.responses: list[ClientResponse] = []

    def turn(self, until: Callable[[], Any]) -> None:
        for _ in range(MAX_TURNS):
            self.responses += self.client.poll(0)
            if until():
                return
            self.broker.run_once()
        raise AssertionError("what was waited for did not happen")

    def turn_times(self, count: int) -> None:
        for _ in range(count):
            self.responses += self.client.poll(0)
            self.broker.run_once(0)

    def connect(self, node: int = -1) -> None:
        self.metadata.consider_fresh(self.clock.now_ms())
        self.turn(lambda: self.client.ready(node, self.clock.now_ms()))

    def ask(self, api_key: int = ApiKey.LIST_GROUPS, **options: Any) -> ClientRequest:
        fields = options.pop("fields", {})
        request = ClientRequest(
            options.pop("node", -1), api_key, lambda version: build(request_type(api_key, version), fields), **options
        )
        self.client.send(request)
        return request

    def close(self) -> None:
        self.client.close()
        self.broker.close()


@pytest.fixture
def make() -> Iterator[Callable[..., Rig]]:
    rigs: list[Rig] = []

    def build_rig(broker: ScriptedBroker | None = None, **options: Any) -> Rig:
        rigs.append(Rig(broker or ScriptedBroker({ApiKey.LIST_GROUPS: lambda header, request: {}}), **options))
        return rigs[-1]

    yield build_rig
    for rig in rigs:
        rig.close()


def test_request_is_answered_after_versions_were_exchanged(make: Callable[..., Rig]) -> None:
    rig = make()
    called: list[ClientResponse] = []
    rig.connect()
    request = rig.ask(callback=called.append)
    rig.turn(lambda: rig.responses)
    response = rig.responses[0]
    assert called == [response]
    assert response.request is request
    assert response.error is None
    assert response.body.groups == ()
    assert response.api_version == 5
    assert [header.api_key for header, _ in rig.broker.requests] == [ApiKey.API_VERSIONS, ApiKey.LIST_GROUPS]
    assert rig.broker.requests[0][0].client_id == "kt"
    assert rig.client.in_flight_count() == 0


def test_a_callback_that_is_interrupted_leaves_the_other_responses_to_the_next_poll(make: Callable[..., Rig]) -> None:
    headers: list[Any] = []

    def answer_both_at_once(header: Any, request: Any) -> Any:
        headers.append(header)
        if len(headers) < 2:
            return SILENCE
        response = build(response_type(header.api_key, header.api_version), {})
        return b"".join(encode_response(h.api_key, h.api_version, h.correlation_id, response) for h in headers)

    def interrupted(response: ClientResponse) -> None:
        raise KeyboardInterrupt

    rig = make(ScriptedBroker({ApiKey.LIST_GROUPS: answer_both_at_once}))
    called: list[ClientResponse] = []
    rig.connect()
    rig.ask(callback=interrupted)
    rig.ask(callback=called.append)
    with pytest.raises(KeyboardInterrupt):
        rig.turn(lambda: called)
    rig.turn(lambda: called)


def test_broker_that_lacks_the_newest_api_versions_is_asked_again_in_version_0(make: Callable[..., Rig]) -> None:
    def refuse(header: Any, request: Any) -> Any:
        if header.api_version:
            return b"\x00\x00\x00\x0a" + header.correlation_id.to_bytes(4, "big") + b"\x00\x23\x00\x00\x00\x00"
        return {"api_keys": [{"api_key": 16, "min_version": 0, "max_version": 2}]}

    rig = make(ScriptedBroker({ApiKey.API_VERSIONS: refuse, ApiKey.LIST_GROUPS: lambda header, request: {}}))
    rig.connect()
    assert [header.api_version for header, _ in rig.broker.requests] == [4, 0]
    rig.ask()
    rig.turn(lambda: rig.responses)
    assert rig.responses[0].api_version == 2


def test_refusal_that_names_a_range_is_followed(make: Callable[..., Rig]) -> None:
    def refuse(header: Any, request: Any) -> Any:
        if header.api_version == 4:
            body = b"\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x03"
            return b"\x00\x00\x00\x10" + header.correlation_id.to_bytes(4, "big") + body
        return {"api_keys": [{"api_key": 16, "min_version": 0, "max_version": 5}]}

    rig = make(ScriptedBroker({ApiKey.API_VERSIONS: refuse}))
    rig.connect()
    assert [header.api_version for header, _ in rig.broker.requests] == [4, 3]


def test_api_the_broker_lacks_is_an_error_of_the_request_alone(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.versions[ApiKey.LIST_GROUPS] = (99, 100)
    rig.connect()
    rig.ask()
    rig.turn(lambda: rig.responses)
    assert isinstance(rig.responses[0].error, UnsupportedVersion)
    assert not rig.responses[0].disconnected
    assert rig.client.is_ready(-1, rig.clock.now_ms())


def test_sending_to_a_node_that_is_not_ready_is_refused(make: Callable[..., Rig]) -> None:
    rig = make()
    with pytest.raises(IllegalState, match="not ready"):
        rig.ask()


def test_request_without_an_answer_is_complete_when_it_is_sent(make: Callable[..., Rig]) -> None:
    rig = make(ScriptedBroker({ApiKey.LIST_GROUPS: lambda header, request: SILENCE}))
    rig.connect()
    rig.ask(expect_response=False)
    rig.turn(lambda: rig.responses)
    assert (rig.responses[0].body, rig.responses[0].error) == (None, None)
    rig.turn(lambda: rig.broker.count(ApiKey.LIST_GROUPS) == 1)


def test_request_behind_one_without_an_answer_gets_its_own_answer(make: Callable[..., Rig]) -> None:
    def answer_the_third(header: Any, request: Any) -> Any:
        return {} if rig.broker.count(ApiKey.LIST_GROUPS) == 3 else SILENCE

    rig = make(ScriptedBroker({ApiKey.LIST_GROUPS: answer_the_third}))
    rig.connect()
    silent = [rig.ask(expect_response=False), rig.ask(expect_response=False)]
    last = rig.ask()
    rig.turn(lambda: len(rig.responses) == 3)
    assert [response.request for response in rig.responses] == [*silent, last]
    assert [response.error for response in rig.responses] == [None, None, None]
    assert rig.responses[2].body is not None


def test_large_body_goes_out_in_parts_and_comes_back_raw(make: Callable[..., Rig]) -> None:
    big = bytes(range(256)) * 40_000

    def echo(header: Any, request: Any) -> Any:
        return {"auth_bytes": request.auth_bytes}

    rig = make(ScriptedBroker({ApiKey.SASL_AUTHENTICATE: echo}), settings={"send.buffer.bytes": 65536})
    rig.connect()
    head = (len(big)).to_bytes(4, "big")
    with rig.broker.in_background():
        rig.client.send(
            ClientRequest(
                -1, ApiKey.SASL_AUTHENTICATE, lambda version: [head, memoryview(big)], decode=False, max_version=0
            )
        )
        assert rig.client.in_flight_count() == 1
        parts = 0
        while not rig.responses:
            rig.responses += rig.client.poll(1000)
            if not rig.responses and rig.client.is_receiving:
                parts += 1
                assert not rig.client.had_events  # an event loop needs no further turn, and wakes no task
    assert parts
    assert rig.client.had_events
    body = rig.responses[0].body
    assert isinstance(body, memoryview)
    assert bytes(body[8:]) == big
    assert rig.responses[0].raw is body


def test_requests_that_are_sent_together_go_out_in_one_write_and_come_back_in_order(
    make: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make(ScriptedBroker({ApiKey.SASL_AUTHENTICATE: lambda header, request: {"auth_bytes": request.auth_bytes}}))
    rig.connect()
    channel = rig.client.channel(-1)
    assert channel is not None
    send, writes = channel.transport.sendmsg, []

    def sendmsg(buffers: Sequence[bytes]) -> int:
        writes.append(len(buffers))
        return send(buffers)

    monkeypatch.setattr(channel.transport, "sendmsg", sendmsg)

    def request(text: bytes) -> ClientRequest:
        body = len(text).to_bytes(4, "big") + text
        return ClientRequest(-1, ApiKey.SASL_AUTHENTICATE, lambda version: [body], decode=False, max_version=0)

    with rig.broker.in_background():
        rig.client.send_together([request(b"a"), request(b"bc")], rig.clock.now_ms())
        assert (len(writes), rig.client.in_flight_count()) == (1, 2)
        while len(rig.responses) < 2:
            rig.responses += rig.client.poll(1000)
    assert [bytes(response.body)[8:] for response in rig.responses] == [b"a", b"bc"]


def test_no_more_requests_than_max_in_flight(make: Callable[..., Rig]) -> None:
    broker = ScriptedBroker({ApiKey.LIST_GROUPS: lambda header, request: SILENCE})
    settings = {"max.in.flight.requests.per.connection": 2, "bootstrap.servers": "x:1"}
    rig = make(broker, settings=settings, table="PRODUCER")
    rig.connect()
    rig.ask()
    assert rig.client.is_ready(-1, rig.clock.now_ms())
    rig.ask()
    assert not rig.client.is_ready(-1, rig.clock.now_ms())
    assert rig.client.in_flight_count(-1) == 2
    assert rig.client.poll_delay_ms(-1, rig.clock.now_ms()) > 60_000  # its answers end poll, no time does


def test_answers_out_of_order_end_the_connection(make: Callable[..., Rig]) -> None:
    def wrong(header: Any, request: Any) -> bytes:
        return b"\x00\x00\x00\x05" + (header.correlation_id + 7).to_bytes(4, "big") + b"\x00"

    rig = make(ScriptedBroker({ApiKey.LIST_GROUPS: wrong}))
    rig.connect()
    rig.ask()
    rig.turn(lambda: rig.responses)
    response = rig.responses[0]
    assert response.disconnected
    assert isinstance(response.error, NotKafka)
    assert "correlation id 8 instead of 1 (ListGroups v5)" in str(response.error)


def test_request_time_out_closes_the_connection(make: Callable[..., Rig]) -> None:
    rig = make(ScriptedBroker({ApiKey.LIST_GROUPS: lambda header, request: SILENCE}))
    rig.connect()
    rig.ask()
    rig.ask(timeout_ms=5000)
    rig.clock.advance_ms(5000)
    rig.turn_times(3)
    assert rig.responses == []
    rig.clock.advance_ms(1)
    rig.turn(lambda: rig.responses)
    assert len(rig.responses) == 2
    assert all(response.disconnected and isinstance(response.error, Disconnected) for response in rig.responses)
    assert "request.timeout.ms" in str(rig.responses[0].error)
    assert rig.client.connection_states.state(-1) is ConnectionState.DISCONNECTED


def test_lost_connection_fails_what_is_in_flight_and_backs_off(make: Callable[..., Rig]) -> None:
    rig = make(ScriptedBroker({ApiKey.LIST_GROUPS: lambda header, request: CLOSE}))
    rig.connect()
    rig.ask()
    rig.turn(lambda: rig.responses)
    assert rig.responses[0].disconnected
    now = rig.clock.now_ms()
    assert rig.client.connection_failed(-1)
    assert not rig.client.ready(-1, now)
    assert 40 <= rig.client.poll_delay_ms(-1, now) <= 60
    assert rig.metadata.update_requested
    rig.clock.advance_ms(60)
    rig.connect()


def test_idle_connection_is_closed(make: Callable[..., Rig]) -> None:
    rig = make(settings={"connections.max.idle.ms": 1000})
    rig.connect()
    rig.clock.advance_ms(1000)
    rig.turn_times(2)
    assert rig.client.is_ready(-1, rig.clock.now_ms())
    rig.clock.advance_ms(1)
    rig.turn_times(2)
    assert rig.client.connection_states.state(-1) is ConnectionState.DISCONNECTED
    assert "idle" in str(rig.client.connection_error(-1))


def test_throttled_node_is_left_alone_for_that_long(make: Callable[..., Rig]) -> None:
    rig = make(ScriptedBroker({ApiKey.LIST_GROUPS: lambda header, request: {"throttle_time": 300}}))
    rig.connect()
    rig.ask()
    rig.turn(lambda: rig.responses)
    assert not rig.client.is_ready(-1, rig.clock.now_ms())
    assert rig.client.poll_delay_ms(-1, rig.clock.now_ms()) == 300
    rig.clock.advance_ms(300)
    assert rig.client.is_ready(-1, rig.clock.now_ms())


def test_metadata_is_fetched_from_within_poll(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.topics = [{"name": "a", "partitions": [partition(0), partition(1)]}]
    rig.metadata.set_topics(["a"])
    rig.turn(lambda: rig.metadata.update_version == 1)
    assert rig.metadata.cluster.nodes[1].port == rig.broker.port
    assert rig.metadata.cluster.partition_count("a") == 2
    assert rig.client.least_loaded_node(rig.clock.now_ms()) == 1
    asked = [entity for header, entity in rig.broker.requests if header.api_key == ApiKey.METADATA][0]
    assert [topic.name for topic in asked.topics] == ["a"]
    assert asked.allow_auto_topic_creation is False
    rig.turn_times(5)
    assert rig.broker.count(ApiKey.METADATA) == 1
    rig.clock.advance_ms(300_000)
    rig.turn(lambda: rig.metadata.update_version == 2)


def test_all_brokers_gone_leads_back_to_the_bootstrap_servers(make: Callable[..., Rig]) -> None:
    rig = make()
    port = free_port()
    rig.broker.nodes = {7: port}
    rig.turn(lambda: rig.metadata.update_version == 1)
    assert list(rig.metadata.cluster.nodes) == [7]
    rig.broker.nodes = {1: rig.broker.port}
    for _ in range(20):
        rig.metadata.request_update()
        rig.clock.advance_ms(100)
        rig.turn_times(3)
        if rig.metadata.cluster.nodes.keys() == {1}:
            return
    raise AssertionError("the client did not go back to the bootstrap servers")


def test_brokers_that_hang_lead_back_to_the_bootstrap_servers_in_time(make: Callable[..., Rig]) -> None:
    rig = make()
    silent = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    rig.broker.nodes = {5 + number: one.getsockname()[1] for number, one in enumerate(silent)}
    rig.turn(lambda: rig.metadata.update_version == 1)
    rig.client.disconnect(-1)
    rig.broker.nodes = {1: rig.broker.port}
    started_ms = rig.clock.now_ms()
    while 1 not in rig.metadata.cluster.nodes:
        rig.clock.advance_ms(100)
        rig.turn_times(1)
        assert rig.clock.now_ms() - started_ms < 400_000, "the client did not go back to the bootstrap servers"
    assert rig.clock.now_ms() - started_ms >= 300_000  # metadata.recovery.rebootstrap.trigger.ms
    for one in silent:
        one.close()


def test_refused_connection_names_the_address(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.listener.close()
    rig.client.ready(-1, rig.clock.now_ms())
    rig.responses += rig.client.poll(10)
    error = rig.client.connection_error(-1)
    assert isinstance(error, ConnectionFailed)
    assert str(error) == f"Connection to 127.0.0.1:{rig.broker.port} failed: Connection refused"


def test_connection_that_is_not_made_in_time_is_given_up() -> None:
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    port = full.getsockname()[1]
    fillers = []
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(("127.0.0.1", port))
        fillers.append(filler)
    clock = ManualClock()
    client = NetworkClient(Config(config_tables.ADMIN), clock, Metadata([("127.0.0.1", port)]), "kt")
    client.ready(-1, clock.now_ms())
    client.poll(0)
    assert client.connection_states.state(-1) is ConnectionState.CONNECTING
    clock.advance_ms(13_000)
    client.poll(0)
    assert client.connection_states.state(-1) is ConnectionState.DISCONNECTED
    assert "socket.connection.setup.timeout.ms" in str(client.connection_error(-1))
    client.close()
    for sock in (full, *fillers):
        sock.close()


def test_node_that_hangs_does_not_keep_requests_from_the_others() -> None:
    silent = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    clock = ManualClock()
    addresses = [("127.0.0.1", one.getsockname()[1]) for one in silent]
    client = NetworkClient(Config(config_tables.ADMIN), clock, Metadata(addresses), "kt")
    first = client.least_loaded_node(clock.now_ms())
    assert first is not None
    client.ready(first, clock.now_ms())
    client.poll(0)
    clock.advance_ms(999)
    assert client.least_loaded_node(clock.now_ms()) == first
    clock.advance_ms(1)
    other = client.least_loaded_node(clock.now_ms())
    assert other is not None and {first, other} == set(client.metadata.cluster.nodes)
    client.ready(other, clock.now_ms())
    clock.advance_ms(1000)
    assert client.least_loaded_node(clock.now_ms()) in (first, other), "there is nobody else"
    client.close()
    for one in silent:
        one.close()


@pytest.mark.parametrize("settings", [{}, {"request.timeout.ms": 1000}])
def test_server_that_accepts_and_says_nothing_is_given_up(make: Callable[..., Rig], settings: dict[str, Any]) -> None:
    rig = make(ScriptedBroker({ApiKey.API_VERSIONS: lambda header, request: SILENCE}), settings=settings)
    rig.client.ready(-1, rig.clock.now_ms())
    rig.turn(lambda: rig.broker.requests)
    rig.turn_times(3)
    assert rig.client.connection_error(-1) is None
    # 10 s, give or take a fifth
    rig.clock.advance_ms(1001 if settings else 12_001)
    rig.turn(lambda: rig.client.connection_failed(-1))
    error = rig.client.connection_error(-1)
    assert isinstance(error, ConnectionFailed)
    assert str(error) == (
        f"Connected to 127.0.0.1:{rig.broker.port}, but it did not answer ApiVersions within "
        f"{'1.0' if settings else '12.0'} s: is it a Kafka broker, and a port without TLS?"
    )
    assert rig.client.in_flight_count() == 0


def test_ready_connection_is_held_to_no_setup_time(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.connect()
    rig.clock.advance_ms(60_000)
    rig.turn_times(2)
    assert rig.client.connection_states.state(-1) is ConnectionState.READY


def test_name_without_an_address_is_an_error_of_its_own() -> None:
    clock = ManualClock()
    client = NetworkClient(Config(config_tables.ADMIN), clock, Metadata([("no such host", 9092)]), "kt")
    assert not client.ready(-1, clock.now_ms())
    error = client.connection_error(-1)
    assert isinstance(error, NameResolutionFailed)
    assert str(error).startswith("The host name no such host of no such host:9092 has no address")
    client.close()


def test_secure_protocol_is_never_replaced_by_plain_tcp() -> None:
    config = Config(config_tables.ADMIN, {"security.protocol": "SASL_SSL"})
    with pytest.raises(ConfigError, match="SASL GSSAPI: sasl.kerberos.service.name is not set"):
        NetworkClient(config, ManualClock(), Metadata([("127.0.0.1", 9092)]), "kt")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it is an HTTP server, not a Kafka broker"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "it speaks TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the first bytes of its answer are 'SSH-'"),
        (b"\xff\xfb\x01\x00hello", "the first bytes of its answer"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "correlation id 99 instead of 0"),
    ],
)
def test_server_that_is_not_kafka_is_named_in_one_sentence(
    make: Callable[..., Rig], answer: bytes, message: str
) -> None:
    rig = make(ScriptedBroker({ApiKey.API_VERSIONS: lambda header, request: answer}))
    rig.client.ready(-1, rig.clock.now_ms())
    rig.turn(lambda: rig.client.connection_error(-1) is not None)
    error = rig.client.connection_error(-1)
    assert isinstance(error, NotKafka)
    assert str(error).startswith(f"127.0.0.1:{rig.broker.port} does not speak Kafka's protocol: ")
    assert message in str(error)


def test_server_that_closes_at_once_says_what_it_may_be(make: Callable[..., Rig]) -> None:
    rig = make(ScriptedBroker({ApiKey.API_VERSIONS: lambda header, request: CLOSE}))
    rig.client.ready(-1, rig.clock.now_ms())
    rig.turn(lambda: rig.client.connection_error(-1) is not None)
    assert "closed the connection before it answered" in str(rig.client.connection_error(-1))


def test_undecodable_answer_is_an_error_and_ends_the_connection(make: Callable[..., Rig]) -> None:
    def garbage(header: Any, request: Any) -> bytes:
        return b"\x00\x00\x00\x08" + header.correlation_id.to_bytes(4, "big") + b"\x00\xff\xff\xff"

    rig = make(ScriptedBroker({ApiKey.LIST_GROUPS: garbage}))
    rig.connect()
    rig.ask()
    rig.turn(lambda: rig.responses)
    assert isinstance(rig.responses[0].error, KafkaError)
    rig.turn(lambda: rig.client.connection_failed(-1))


def test_wakeup_ends_a_poll_that_would_wait(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.metadata.consider_fresh(rig.clock.now_ms())
    rig.client.wakeup()
    assert rig.client.poll(60_000) == []  # without the wakeup this waits a minute: the test would time out
