"""Client quotas: the arithmetic of Kafka's rates, which quota is a client's, and what a throttled client sees.

A produce request of 20,107 bytes against a producer_byte_rate of 1500 is throttled for 3405 ms by Apache Kafka 4.3.1.
"""

import pathlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.broker_client import BrokerClient, batch
from support.cluster_nodes import ClusterNodes

from kafkatools.core.broker.metadata.controller.client_quotas import ClientQuotas
from kafkatools.core.broker.server.mutation_quotas import TokenBucket
from kafkatools.core.broker.server.quotas import ClientQuotaManager, QuotaLimits, Rate
from kafkatools.core.clock import SystemClock

PRODUCE, FETCH, METADATA, API_VERSIONS, ALTER_QUOTAS = 0, 1, 3, 18, 49
WINDOW_MS, WINDOWS = 1000, 11


def rate() -> Rate:
    return Rate(WINDOW_MS, WINDOWS)


def quota_records(*rows: tuple[dict[str, str | None], float]) -> ClientQuotas:
    quotas = ClientQuotas()
    for names, value in rows:
        entity = [SimpleNamespace(entity_type=kind, entity_name=name) for kind, name in names.items()]
        quotas.replay(SimpleNamespace(entity=entity, key="producer_byte_rate", value=value, remove=False))
    return quotas


def test_a_burst_counts_over_ten_seconds_and_waits_until_the_rate_is_back() -> None:
    used = rate()
    used.record(20_107, 0)
    assert used.per_second(0) == pytest.approx(2010.7)
    assert used.throttle_ms(1500, 0) == 3405
    assert used.throttle_ms(2011, 0) == 0


@pytest.mark.parametrize("bound", [1.0, 1e-310])
def test_no_wait_is_longer_than_a_response_can_tell(bound: float) -> None:
    used = rate()
    used.record(30 << 20, 0)
    assert used.throttle_ms(bound, 0) == 2**31 - 1
    bucket = TokenBucket(10, bound, 0)
    bucket.take(30 << 20, bound, 0)
    assert bucket.throttle_ms(bound, 0) == 2**31 - 1


def test_what_is_older_than_the_windows_is_forgotten() -> None:
    used = rate()
    for second in range(20):
        used.record(100, second * 1000)
    assert used.per_second(19_000) == pytest.approx(110)  # eleven samples in ten seconds
    assert used.per_second(60_000) == 0


def test_bytes_that_were_not_sent_are_taken_back() -> None:
    manager = ClientQuotaManager(quota_records(({"user": None}, 100.0)), "producer_byte_rate", rate)
    assert manager.record(("ANONYMOUS", "c"), 2000, 0) == 10_000
    manager.take_back(("ANONYMOUS", "c"), 2000, 0)
    assert manager.record(("ANONYMOUS", "c"), 1000, 0) == 0


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([({"client-id": None}, 1.0)], 1.0),
        ([({"client-id": None}, 1.0), ({"client-id": "c"}, 2.0)], 2.0),
        ([({"client-id": "c"}, 2.0), ({"user": None}, 3.0)], 3.0),
        ([({"user": None}, 3.0), ({"user": None, "client-id": None}, 4.0)], 4.0),
        ([({"user": None, "client-id": None}, 4.0), ({"user": None, "client-id": "c"}, 5.0)], 5.0),
        ([({"user": None, "client-id": "c"}, 5.0), ({"user": "ANONYMOUS"}, 6.0)], 6.0),
        ([({"user": "ANONYMOUS"}, 6.0), ({"user": "ANONYMOUS", "client-id": None}, 7.0)], 7.0),
        ([({"user": "ANONYMOUS", "client-id": None}, 7.0), ({"user": "ANONYMOUS", "client-id": "c"}, 8.0)], 8.0),
    ],
)
def test_the_most_exact_entity_gives_the_quota(rows: list[Any], expected: float) -> None:
    limits = QuotaLimits(quota_records(*rows), "producer_byte_rate")
    limit = limits.of(("ANONYMOUS", "c"))
    assert limit is not None
    assert limit[0] == expected


def test_clients_share_the_quota_of_their_user_and_not_that_of_every_client() -> None:
    shared = ClientQuotaManager(quota_records(({"user": "ANONYMOUS"}, 100.0)), "producer_byte_rate", rate)
    assert shared.record(("ANONYMOUS", "a"), 1000, 0) == 0
    assert shared.record(("ANONYMOUS", "b"), 1000, 0) == 10_000
    apart = ClientQuotaManager(quota_records(({"client-id": None}, 100.0)), "producer_byte_rate", rate)
    assert apart.record(("ANONYMOUS", "a"), 1000, 0) == 0
    assert apart.record(("ANONYMOUS", "b"), 1000, 0) == 0
    assert apart.record(("ANONYMOUS", "a"), 1000, 0) == 10_000


def set_quota(client: BrokerClient, key: str, value: float) -> None:
    entry = {
        "entity": [{"entity_type": "user", "entity_name": None}],
        "ops": [{"key": key, "value": value, "remove": False}],
    }
    assert client.call(ALTER_QUOTAS, 1, entries=[entry], validate_only=False).entries[0].error_code == 0


def milliseconds(answer: Any) -> int:
    return answer.throttle_time


def test_a_throttled_producer_is_answered_at_once_and_read_later(run_node: Callable[..., Any]) -> None:
    client = run_node().connect()
    client.produce("t", batch([b"x"]))  # creates nothing, but the next request is not the first
    client.call(METADATA, 12, topics=[{"topic_id": None, "name": "t"}], allow_auto_topic_creation=True)
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch([b"x" * 20_000])}]}]
    fields = {"transactional_id": None, "acks": -1, "timeout": 5000, "topic_data": data}
    frame = client.frame(PRODUCE, 9, fields)
    bound = round((len(frame) - 4) / 10 / 1.02)
    set_quota(client, "producer_byte_rate", bound)
    clock = SystemClock()
    started_ms = clock.now_ms()
    client.socket.sendall(frame)
    answer = client.receive(PRODUCE, 9)
    throttle_ms = milliseconds(answer)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert throttle_ms == round(((len(frame) - 4) / 10 - bound) / bound * 10_000) > 100
    assert clock.now_ms() - started_ms < throttle_ms
    client.call(METADATA, 12, topics=[], allow_auto_topic_creation=False)
    assert clock.now_ms() - started_ms >= throttle_ms


def fetch_fields(**fields: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": 0,
        "topics": [{"topic": "t", "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
        **fields,
    }


def test_a_fetch_gets_no_more_than_its_quota_can_let_through(run_node: Callable[..., Any]) -> None:
    client = run_node().connect()
    client.call(METADATA, 12, topics=[{"topic_id": None, "name": "t"}], allow_auto_topic_creation=True)
    for _ in range(3):
        client.produce("t", batch([b"x" * 8000]))
    set_quota(client, "consumer_byte_rate", 1000)  # in 10 full windows of a second
    fields = fetch_fields(session_epoch=-1, max_wait=1000, min_bytes=20_000)
    answer = client.call(FETCH, 12, **fields)
    while milliseconds(answer):
        assert milliseconds(answer) < 500, "the time by which the rest of the response is above the quota"
        answer = client.call(FETCH, 12, **fields)
    assert 8000 < len(answer.responses[0].partitions[0].records) <= 10_000


def test_a_throttled_fetch_has_no_records_and_keeps_its_session(run_node: Callable[..., Any]) -> None:
    client = run_node().connect()
    client.call(METADATA, 12, topics=[{"topic_id": None, "name": "t"}], allow_auto_topic_creation=True)
    client.produce("t", batch([b"x" * 20_000]))
    fields = fetch_fields()
    set_quota(client, "consumer_byte_rate", 1990)
    answer = client.call(FETCH, 12, **fields)
    assert milliseconds(answer) > 0
    assert list(answer.responses) == []
    assert answer.session_id != 0
    set_quota(client, "consumer_byte_rate", 1_000_000)
    answer = client.call(FETCH, 12, **{**fields, "session_id": answer.session_id, "session_epoch": 1, "topics": []})
    assert milliseconds(answer) == 0
    assert len(answer.responses[0].partitions[0].records) > 20_000


def test_time_is_a_quota_too_and_waits_a_window_at_most(run_node: Callable[..., Any]) -> None:
    running = run_node({"quota.window.size.seconds": "1"})
    client = running.connect()
    set_quota(client, "request_percentage", 1e-6)
    assert milliseconds(client.call(METADATA, 12, topics=None, allow_auto_topic_creation=False)) == 1000
    other = running.connect()
    assert milliseconds(other.call(METADATA, 12, topics=None, allow_auto_topic_creation=False)) == 1000


def test_requests_of_other_nodes_have_no_quota(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterNodes(tmp_path).start()
    try:
        cluster.create_topic("t")
        entity = [{"entity_type": "user", "entity_name": None}]
        operations = [{"key": "request_percentage", "value": 1.0, "remove": False}]
        entries = [{"entity": entity, "ops": operations}]
        cluster.ask(1, ALTER_QUOTAS, 1, entries=entries, validate_only=False)
        cluster.run_until(lambda: all(node.quotas.is_active for node in cluster.nodes.values()))
        measured = []
        for node in cluster.nodes.values():
            monkeypatch.setattr(node.quotas, "note_request", lambda request: measured.append(request.api_key))
        data = [{"name": "t", "partition_data": [{"index": 0, "records": batch([b"v"])}]}]
        fields = {"transactional_id": None, "acks": -1, "timeout": 5000, "topic_data": data}
        answer = cluster.ask(cluster.leader("t"), PRODUCE, 9, **fields)
        assert answer.responses[0].partition_responses[0].error_code == 0
        cluster.run_for(1000)
        assert {PRODUCE} <= set(measured) <= {PRODUCE, API_VERSIONS}  # a new connection asks for the versions
    finally:
        cluster.close()
