"""The table of the controller's listener is what its handlers serve."""

from __future__ import annotations

import pytest

from kafkatools.core.broker.server.apis import BROKER_APIS, CONTROLLER_APIS, FORWARDED, TABLE
from kafkatools.core.protocol.api_versions import ApiKey, is_flexible, versions_of

# Of ControllerApis in Apache Kafka 4.3, those for (de)registration of streams apart.
OF_APACHE_KAFKA = {
    1, 17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 52, 53, 54, 55, 56, 57, 58, 59,
    60, 62, 63, 64, 67, 70, 73, 80, 81, 82,
}  # fmt: skip


def test_the_apis_are_those_of_apache_kafka() -> None:
    assert set(CONTROLLER_APIS) == OF_APACHE_KAFKA


@pytest.mark.parametrize("key", sorted(CONTROLLER_APIS))
def test_versions(key: int) -> None:
    api = CONTROLLER_APIS[key]
    known = versions_of(ApiKey(key))
    assert known[0] <= api.lowest <= api.highest <= known[-1]
    for version in range(api.lowest, api.highest + 1):
        assert (version >= api.flexible_since) is is_flexible(key, version), version
    assert callable(api.load())


def test_apis_between_nodes_are_served_on_the_controller_s_listener_only() -> None:
    between_nodes = {api.key for api in TABLE if api.key.is_between_nodes}
    assert between_nodes == set(CONTROLLER_APIS) - set(BROKER_APIS)


def test_what_is_forwarded_is_served_to_clients_of_brokers_too() -> None:
    forwarded = {api.key for api in TABLE if api.served_by in FORWARDED}
    assert set(BROKER_APIS) & set(CONTROLLER_APIS) >= forwarded
