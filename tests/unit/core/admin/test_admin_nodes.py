"""Questions to a broker that the client's view of the cluster does not name: it was fenced when the view was taken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.scripted_cluster import ScriptedCluster

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import Timeout
from kafkatools.core.net.requests import BrokerRequest
from kafkatools.core.protocol.api_versions import ApiKey

FIELDS = {"include_cluster_authorized_operations": False, "endpoint_type": 1}
ASK_2 = BrokerRequest(2, ApiKey.DESCRIBE_CLUSTER, FIELDS, max_version=1)


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster({1: None, 2: None}, {}).running() as running:
        running.away = {2}
        yield running


@pytest.fixture
def admin(cluster: ScriptedCluster) -> Iterator[AdminClient]:
    settings = {"retry.backoff.ms": "1", "retry.backoff.max.ms": "2"}
    with AdminClient(cluster.bootstrap.split(",")[0], settings, SystemClock()) as made:
        assert made.brokers() == [1]
        yield made


def test_a_broker_that_is_back_answers(cluster: ScriptedCluster, admin: AdminClient) -> None:
    cluster.away.clear()
    answer = admin.send_all([ASK_2], admin.deadline_ms(30_000))[0]
    assert (answer.node, answer.error) == (2, None)
    assert admin.brokers() == [1, 2]


def test_a_broker_that_stays_away_does_not_answer(admin: AdminClient) -> None:
    answer = admin.send_all([ASK_2], admin.deadline_ms(200))[0]
    assert isinstance(answer.error, Timeout)
    assert admin.brokers() == [1]


def test_a_broker_that_has_registered_since_is_listed(cluster: ScriptedCluster, admin: AdminClient) -> None:
    cluster.away.clear()
    assert admin.brokers() == [1, 2]
