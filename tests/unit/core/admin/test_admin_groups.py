"""Groups of both protocols described by scripted brokers: fallbacks, old versions, groups that are something else."""

import struct
from typing import Any

from support.scripted_broker import ScriptedBroker
from support.unit_admin import coordinator_of_all, fast_admin

from kafkatools.core import errors
from kafkatools.core.admin import groups
from kafkatools.core.protocol.api_versions import ApiKey

ASSIGNMENT = struct.pack(">hih3sii", 0, 1, 3, b"pay", 1, 4) + b"\xff\xff\xff\xff"


def _classic(name: str, **fields: Any) -> dict[str, Any]:
    member = {"member_id": "m", "client_id": "c", "client_host": "/h", "member_assignment": ASSIGNMENT}
    return {
        "group_id": name,
        "error_code": 0,
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "range",
        "members": [member],
        **fields,
    }


def _describe_classic(header: Any, request: Any) -> dict[str, Any]:
    special = {
        "gone": {"error_code": 69, "error_message": "Group gone not found.", "group_state": "Dead", "members": []},
        "dead": {"group_state": "Dead", "members": []},
        "connect": {"protocol_type": "connect"},
        "odd": {"members": [{"member_id": "m", "client_id": "c", "client_host": "h", "member_assignment": b"\x00"}]},
        "left": {"protocol_data": "", "group_state": "Empty", "members": []},
        "simple": {"protocol_type": "", "protocol_data": "", "group_state": "Empty", "members": []},
    }
    known = {} if header.api_version >= 6 else {"error_message"}
    described = [_classic(name, **special.get(name, {})) for name in request.groups]
    return {"groups": [{key: one[key] for key in one if key not in known} for one in described]}


def _no_consumer_groups(header: Any, request: Any) -> dict[str, Any]:
    return {"groups": [_consumer(name) for name in request.group_ids]}


def _consumer(name: str) -> dict[str, Any]:
    if name != "new":
        return {"group_id": name, "error_code": 69, "error_message": f"Group {name} is not a consumer group."}
    partitions = {"topic_partitions": [{"topic_id": None, "topic_name": "pay", "partitions": (0, 1)}]}
    member = {
        "member_id": "m",
        "instance_id": "i",
        "client_id": "c",
        "client_host": "/h",
        "member_epoch": 3,
        "assignment": partitions,
        "target_assignment": {"topic_partitions": []},
        "member_type": 1,
    }
    return {
        "group_id": name,
        "error_code": 0,
        "group_state": "Reconciling",
        "group_epoch": 4,
        "assignment_epoch": 3,
        "assignor_name": "uniform",
        "members": [member],
    }


def _broker(**versions: tuple[int, int]) -> ScriptedBroker:
    answers = {
        ApiKey.FIND_COORDINATOR: coordinator_of_all,
        ApiKey.DESCRIBE_GROUPS: _describe_classic,
        ApiKey.CONSUMER_GROUP_DESCRIBE: _no_consumer_groups,
    }
    return ScriptedBroker(answers, {ApiKey[name]: each for name, each in versions.items()})


def test_groups_of_both_protocols_are_described_alike() -> None:
    broker = _broker()
    with broker.in_background(), fast_admin(broker) as client:
        found = groups.describe_groups(client, ["new", "old", "simple"])
    new, old = found["new"], found["old"]
    assert (new.type, new.state, new.assignor, new.group_epoch, new.target_assignment_epoch) == (
        "Consumer", "Reconciling", "uniform", 4, 3
    )  # fmt: skip
    member = new.members[0]
    assert (member.group_instance_id, member.assignment, member.target_assignment, member.member_epoch) == (
        "i", (("pay", 0), ("pay", 1)), (), 3
    )  # fmt: skip
    assert member.is_upgraded is True
    assert (old.type, old.assignor, old.group_epoch, old.members[0].assignment) == (
        "Classic", "range", None, (("pay", 4),)
    )  # fmt: skip
    assert (old.coordinator.node, old.coordinator.port) == (1, broker.port)
    assert found["simple"].is_simple
    assert not old.is_simple
    assert not new.is_simple
    requested = [request.groups for header, request in broker.requests if header.api_key == ApiKey.DESCRIBE_GROUPS]
    assert requested == [("old", "simple")]


def test_group_that_its_members_left_is_not_simple() -> None:
    broker = _broker()
    with broker.in_background(), fast_admin(broker) as client:
        found = groups.describe_groups(client, ["left", "simple"])
    assert (found["left"].state, found["left"].assignor) == (found["simple"].state, found["simple"].assignor)
    assert [found[name].is_simple for name in ("left", "simple")] == [False, True]


def test_groups_that_cannot_be_described_have_their_errors() -> None:
    broker = _broker()
    with broker.in_background(), fast_admin(broker) as client:
        found = groups.describe_groups(client, ["gone", "connect", "odd", "old"])
    assert str(found["gone"].error) == "Group gone not found."
    assert str(found["connect"].error) == "GroupId connect is not a consumer group (connect)."
    assert isinstance(found["odd"].error, errors.DecodeError)
    assert found["old"].error is None


def test_brokers_without_the_consumer_protocol() -> None:
    broker = _broker(CONSUMER_GROUP_DESCRIBE=(1, 0), DESCRIBE_GROUPS=(0, 4))
    with broker.in_background(), fast_admin(broker) as client:
        found = groups.describe_groups(client, ["old", "dead"])
    assert (found["old"].type, found["old"].error) == ("Classic", None)
    assert str(found["dead"].error) == "Group dead not found."


def test_a_list_names_brokers_that_cannot_say() -> None:
    codes = iter((15, 14, 31))
    second = ScriptedBroker({ApiKey.LIST_GROUPS: lambda header, request: {"error_code": next(codes), "groups": []}})

    def listed(header: Any, request: Any) -> dict[str, Any]:
        kinds = {"a": "classic", "s": "share", "b": "consumer"}
        return {
            "error_code": 0,
            "groups": [
                {"group_id": name, "protocol_type": "consumer", "group_state": "Stable", "group_type": kind}
                for name, kind in kinds.items()
            ],
        }

    first = ScriptedBroker({ApiKey.LIST_GROUPS: listed})
    first.nodes = second.nodes = {1: first.port, 2: second.port}
    with first.in_background(), second.in_background(), fast_admin(first) as client:
        found = groups.list_groups(client, types=["classic", "consumer"])
    assert [(one.group_id, one.type) for one in found.groups] == [("a", "Classic"), ("b", "Consumer")]
    assert {node: type(error) for node, error in found.errors.items()} == {2: errors.ClusterAuthorizationFailed}


def test_old_brokers_have_classic_groups_only() -> None:
    def listed(header: Any, request: Any) -> dict[str, Any]:
        return {"error_code": 0, "groups": [{"group_id": "a", "protocol_type": "consumer"}]}

    broker = ScriptedBroker({ApiKey.LIST_GROUPS: listed}, {ApiKey.LIST_GROUPS: (0, 3)})
    with broker.in_background(), fast_admin(broker) as client:
        assert [one.group_id for one in groups.list_groups(client, types=["classic"]).groups] == ["a"]
        assert groups.list_groups(client, types=["consumer"]).groups == []
        by_state = groups.list_groups(client, states=["Stable"])
    assert {node: type(error) for node, error in by_state.errors.items()} == {1: errors.UnsupportedVersion}


def test_share_groups() -> None:
    def described(header: Any, request: Any) -> dict[str, Any]:
        gone = {"group_id": "gone", "error_code": 69, "error_message": "Group gone not found."}
        member = {
            "member_id": "m",
            "client_id": "c",
            "client_host": "/h",
            "member_epoch": 2,
            "assignment": {"topic_partitions": [{"topic_id": None, "topic_name": "pay", "partitions": (0,)}]},
        }
        here = {
            "group_id": "here",
            "error_code": 0,
            "group_state": "Stable",
            "group_epoch": 2,
            "assignment_epoch": 2,
            "assignor_name": "simple",
            "members": [member],
        }
        return {"groups": [here, gone]}

    broker = ScriptedBroker({ApiKey.FIND_COORDINATOR: coordinator_of_all, ApiKey.SHARE_GROUP_DESCRIBE: described})
    with broker.in_background(), fast_admin(broker) as client:
        found = groups.describe_share_groups(client, ["here", "gone"])
    here = found["here"]
    assert (here.type, here.state, here.assignor, here.group_epoch) == ("Share", "Stable", "simple", 2)
    assert (here.members[0].assignment, here.members[0].member_epoch) == ((("pay", 0),), 2)
    assert isinstance(found["gone"].error, errors.GroupIdNotFound)
