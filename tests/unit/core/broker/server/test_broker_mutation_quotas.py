"""The quota controller_mutation_rate (KIP-599): the bucket of tokens, strict and permissive requests, one
controller for all brokers. tests/real_kafka compares the same story with Apache Kafka."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.cluster_nodes import ClusterNodes, has_response
from support.manual_clock import ManualClock
from support.mutation_story import Step, tell

from kafkatools.core.broker.server.mutation_quotas import MutationQuota, TokenBucket
from kafkatools.core.errors import ThrottlingQuotaExceeded

CREATE_TOPICS, ALTER_QUOTAS = 19, 49
EXCEEDED = 89


def test_a_bucket_is_full_at_first_and_refills_to_its_burst() -> None:
    bucket = TokenBucket(11, 2.0, 0)
    bucket.take(25, 2.0, 0)
    assert bucket.throttle_ms(2.0, 0) == 1500
    assert bucket.throttle_ms(2.0, 1000) == 500
    assert bucket.throttle_ms(2.0, 100_000) == 0
    bucket.take(22, 2.0, 100_000)
    assert bucket.throttle_ms(2.0, 100_000) == 0


def test_a_strict_quota_refuses_and_a_permissive_one_only_throttles() -> None:
    clock = ManualClock()
    bucket = TokenBucket(1, 1.0, clock.now_ms())
    strict, permissive = (MutationQuota(bucket, 1.0, clock, is_strict=is_strict) for is_strict in (True, False))
    strict.charge(3)
    assert strict.throttle_ms == 0
    with pytest.raises(ThrottlingQuotaExceeded):
        strict.charge(1)
    assert strict.throttle_ms == 2000
    permissive.charge(1)
    assert permissive.throttle_ms == 3000
    clock.advance_ms(500)
    assert permissive.throttle_ms == 2500


def test_changes_are_refused_until_the_rate_is_back(run_node: Callable[..., Any]) -> None:
    done, exceeded = (0, None), (EXCEEDED, None)
    created, refused, grown, checked, deleted, permitted = tell(run_node().node.bootstrap, "")
    assert created == Step((done,), is_throttled=False)
    assert refused == Step((exceeded, exceeded), is_throttled=True)
    assert grown == Step((exceeded,), is_throttled=True) or grown == Step((done,), is_throttled=False)
    assert checked.errors in ((done,), (exceeded,))
    assert deleted.errors in ((done,), (exceeded,))
    assert permitted == Step((done,), is_throttled=True)


@pytest.mark.slow
def test_a_broker_throttles_the_client_whose_request_the_controller_refused(tmp_path: pathlib.Path) -> None:
    cluster = ClusterNodes(tmp_path).start()
    try:
        leader = cluster.nodes[1].controller_id
        client = cluster.client(next(number for number in cluster.ids if number != leader))
        alter_quota(cluster, client)
        assert create(cluster, client, "a", 13) == ([0], 0)
        codes, throttle_ms = create(cluster, client, "b", 1)
        assert codes == [EXCEEDED]
        assert 0 < throttle_ms <= 2000
        begun_ms = cluster.clock.now_ms()
        assert create(cluster, client, "b", 1)[0] == [0]
        assert cluster.clock.now_ms() - begun_ms >= throttle_ms
    finally:
        cluster.close()


def alter_quota(cluster: ClusterNodes, client: BrokerClient) -> None:
    entity = [{"entity_type": "client-id", "entity_name": "test"}]
    operation = {"key": "controller_mutation_rate", "value": 1.0, "remove": False}
    fields = {"entries": [{"entity": entity, "ops": [operation]}], "validate_only": False}
    client.socket.sendall(client.frame(ALTER_QUOTAS, 1, fields))
    cluster.run_until(lambda: has_response(client))
    assert int(client.receive(ALTER_QUOTAS, 1).entries[0].error_code) == 0
    cluster.run_until(lambda: all(node.quotas.is_active for node in cluster.nodes.values()))


def create(cluster: ClusterNodes, client: BrokerClient, name: str, partitions: int) -> tuple[list[int], int]:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
    fields = {"topics": [topic], "timeout": 20_000, "validate_only": False}
    client.socket.sendall(client.frame(CREATE_TOPICS, 7, fields))
    cluster.run_until(lambda: has_response(client))
    answer = client.receive(CREATE_TOPICS, 7)
    return [int(each.error_code) for each in answer.topics], int(answer.throttle_time)
