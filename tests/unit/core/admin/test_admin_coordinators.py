"""Keys and their coordinators: together where brokers can, one by one where they cannot, followed when they move."""

from typing import Any

import pytest
from support.scripted_broker import ScriptedBroker
from support.skipping_clock import SkippingClock
from support.unit_admin import coordinator, coordinator_of_all, fast_admin

from kafkatools.core import errors
from kafkatools.core.admin import groups, transactions
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.protocol.api_versions import ApiKey


def _deleted(header: Any, request: Any) -> dict[str, Any]:
    return {"results": [{"group_id": name, "error_code": 0} for name in request.groups_names]}


def _no_offsets(header: Any, request: Any) -> dict[str, Any]:
    if header.api_version < 8:
        return {"topics": [], "error_code": 0}
    return {"groups": [{"group_id": group.group_id, "topics": [], "error_code": 0} for group in request.groups]}


def test_many_keys_take_one_lookup_and_one_request() -> None:
    broker = ScriptedBroker({ApiKey.FIND_COORDINATOR: coordinator_of_all, ApiKey.OFFSET_FETCH: _no_offsets})
    names = [f"g{number}" for number in range(300)]
    with broker.in_background(), fast_admin(broker) as client:
        found = fetch_offsets(client, names)
    assert list(found) == names
    assert all(one.error is None for one in found.values())
    assert (broker.count(ApiKey.FIND_COORDINATOR), broker.count(ApiKey.OFFSET_FETCH)) == (1, 1)


def test_old_brokers_are_asked_key_by_key() -> None:
    broker = ScriptedBroker(
        {ApiKey.FIND_COORDINATOR: coordinator_of_all, ApiKey.OFFSET_FETCH: _no_offsets},
        {ApiKey.FIND_COORDINATOR: (0, 3), ApiKey.OFFSET_FETCH: (1, 7)},
    )
    with broker.in_background(), fast_admin(broker) as client:
        found = fetch_offsets(client, ["a", "b"])
    assert [one.error for one in found.values()] == [None, None]
    keys = [request.key for header, request in broker.requests if header.api_key == ApiKey.FIND_COORDINATOR]
    requested = [request.group_id for header, request in broker.requests if header.api_key == ApiKey.OFFSET_FETCH]
    assert (keys, requested) == (["a", "b"], ["a", "b"])


def test_coordinators_that_moved_are_looked_up_anew() -> None:
    second = ScriptedBroker({ApiKey.DELETE_GROUPS: _deleted})
    homes = {"stays": [1, 1], "moved": [1, 2]}

    def find(header: Any, request: Any) -> dict[str, Any]:
        return {"coordinators": [coordinator(key, homes[key].pop(0)) for key in request.coordinator_keys]}

    def delete(header: Any, request: Any) -> dict[str, Any]:
        codes = {"stays": 0, "moved": 16}
        return {"results": [{"group_id": name, "error_code": codes[name]} for name in request.groups_names]}

    first = ScriptedBroker({ApiKey.FIND_COORDINATOR: find, ApiKey.DELETE_GROUPS: delete})
    first.nodes = second.nodes = {1: first.port, 2: second.port}
    second.answers[ApiKey.FIND_COORDINATOR] = find
    with first.in_background(), second.in_background(), fast_admin(first) as client:
        assert groups.delete_groups(client, ["stays", "moved"]) == {"stays": None, "moved": None}
    assert second.count(ApiKey.DELETE_GROUPS) == 1
    assert homes == {"stays": [1], "moved": []}


def test_a_key_without_coordinator_does_not_hold_up_the_others() -> None:
    def find(header: Any, request: Any) -> dict[str, Any]:
        codes = {"denied": 30}
        return {"coordinators": [coordinator(key, 1, codes.get(key, 0)) for key in request.coordinator_keys]}

    broker = ScriptedBroker({ApiKey.FIND_COORDINATOR: find, ApiKey.DELETE_GROUPS: _deleted})
    with broker.in_background(), fast_admin(broker) as client:
        found = groups.delete_groups(client, ["a", "denied", ""])
    assert found["a"] is None
    assert isinstance(found["denied"], errors.GroupAuthorizationFailed)
    assert isinstance(found[""], errors.InvalidGroupId)


def test_a_coordinator_that_loads_is_waited_for() -> None:
    codes = [14, 14, 0]

    def delete(header: Any, request: Any) -> dict[str, Any]:
        code = codes.pop(0)
        return {"results": [{"group_id": name, "error_code": code} for name in request.groups_names]}

    broker = ScriptedBroker({ApiKey.FIND_COORDINATOR: coordinator_of_all, ApiKey.DELETE_GROUPS: delete})
    with broker.in_background(), fast_admin(broker) as client:
        assert groups.delete_groups(client, ["a"]) == {"a": None}


def test_loading_for_ever_ends_with_the_time_and_says_so() -> None:
    clock = SkippingClock()

    def delete(header: Any, request: Any) -> dict[str, Any]:
        codes = {"ready": 0, "loads": 14}
        if broker.count(ApiKey.DELETE_GROUPS) > 2:
            clock.skip_ms(10 * 60_000)
        return {"results": [{"group_id": name, "error_code": codes[name]} for name in request.groups_names]}

    broker = ScriptedBroker({ApiKey.FIND_COORDINATOR: coordinator_of_all, ApiKey.DELETE_GROUPS: delete})
    with broker.in_background(), fast_admin(broker, clock) as client:
        assert groups.delete_groups(client, ["ready"]) == {"ready": None}
        found = groups.delete_groups(client, ["loads"])
    assert isinstance(found["loads"], errors.CoordinatorLoadInProgress)


@pytest.mark.parametrize(("code", "fenced"), [(0, 1), (105, 0), (14, 0), (53, 1)])
def test_producer_is_fenced_only_if_its_id_may_exist(code: int, fenced: int) -> None:
    described = {
        "error_code": code, "transactional_id": "id", "transaction_state": "Empty", "transaction_timeout": 1,
        "transaction_start_time": -1, "producer_id": 1, "producer_epoch": 0, "topics": [],
    }  # fmt: skip
    broker = ScriptedBroker(
        {
            ApiKey.FIND_COORDINATOR: coordinator_of_all,
            ApiKey.DESCRIBE_TRANSACTIONS: lambda header, request: {"transaction_states": [described]},
            ApiKey.INIT_PRODUCER_ID: lambda header, request: {"error_code": 0, "producer_id": 1, "producer_epoch": 1},
        }
    )
    with broker.in_background(), fast_admin(broker, default_api_timeout_ms="200") as client:
        error = transactions.force_terminate(client, "id")
    assert broker.count(ApiKey.INIT_PRODUCER_ID) == fenced
    assert (error is None) == bool(fenced)
