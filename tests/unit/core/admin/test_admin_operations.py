"""What Admin has for those who run a cluster, against the embedded broker, and against scripted ones where one broker
is not enough."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.live_groups import visit_share_group
from support.scripted_broker import ScriptedBroker
from support.scripted_cluster import ScriptedCluster

import kafkatools
from kafkatools import errors
from kafkatools.core.admin.reassignments import Replica
from kafkatools.core.protocol.api_versions import ApiKey

_MEMBER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("admin-operations") / "data"


@pytest.fixture(scope="module")
def bootstrap(directory: pathlib.Path) -> Iterator[str]:
    with embedded_broker(directory) as address:
        yield address


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[kafkatools.Admin]:
    with kafkatools.Admin({"bootstrap.servers": bootstrap}) as made:
        yield made


@pytest.fixture
def three() -> Iterator[tuple[ScriptedCluster, kafkatools.Admin]]:
    cluster = ScriptedCluster({1: "a", 2: "a", 3: "b"}, {"orders": [[1, 2], [2, 1]]})
    cluster.steps = 99
    with cluster.running(), kafkatools.Admin(bootstrap_servers=cluster.bootstrap) as made:
        yield cluster, made


def test_a_move_is_begun_shown_and_stopped(three: tuple[ScriptedCluster, kafkatools.Admin]) -> None:
    cluster, admin = three
    admin.alter_reassignments({("orders", 0): [3, 2]})
    assert cluster.alterations == [{("orders", 0): [3, 2]}]
    (moving,) = admin.list_reassignments().items()
    assert moving[0] == kafkatools.TopicPartition("orders", 0)
    assert (moving[1].adding_replicas, moving[1].removing_replicas) == ((3,), (1,))
    assert admin.list_reassignments([("orders", 1)]) == {}
    admin.alter_reassignments({("orders", 0): None})
    assert admin.list_reassignments() == {}


def test_moves_that_are_refused_are_told_with_those_that_began(three: tuple[ScriptedCluster, kafkatools.Admin]) -> None:
    cluster, admin = three
    cluster.refused["orders", 1] = (39, "No.")
    with pytest.raises(errors.PartialFailure) as failure:
        admin.alter_reassignments({("orders", 0): [3, 2], ("orders", 1): [3, 1]})
    assert list(failure.value.results) == [("orders", 0)]
    assert isinstance(failure.value.errors["orders", 1], errors.InvalidReplicaAssignment)


def test_elections(admin: kafkatools.Admin) -> None:
    admin.create_topics("elected")
    assert admin.elect_leaders() == []
    assert admin.elect_leaders([("elected", 0)]) == []
    with pytest.raises(errors.UnknownTopicOrPartition):
        admin.elect_leaders([("ghost", 0)], "unclean")
    with pytest.raises(ValueError, match="Unknown kind of election 'any'"):
        admin.elect_leaders(election_type="any")


def test_an_election_that_was_held_is_returned() -> None:
    results = [{"topic": "t", "partition_result": [{"partition_id": 1, "error_code": 0, "error_message": None}]}]
    broker = ScriptedBroker({ApiKey.ELECT_LEADERS: lambda *_: {"replica_election_results": results}})
    with broker.in_background(), kafkatools.Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert admin.elect_leaders() == [("t", 1)]


def test_directories(admin: kafkatools.Admin, directory: pathlib.Path) -> None:
    admin.create_topics("placed")
    (log_dir,) = admin.describe_log_dirs()[1]
    assert log_dir.path == str(directory)
    assert ("placed", 0) in {replica[:2] for replica in log_dir.replicas}
    assert admin.describe_replica_log_dirs([("placed", 0, 1)])["placed", 0, 1].current == str(directory)
    with pytest.raises(errors.LogDirNotFound):
        admin.alter_replica_log_dirs({("placed", 0, 1): "/nowhere"})
    with pytest.raises(errors.BrokerNotAvailable):
        admin.alter_replica_log_dirs({Replica("placed", 0, 9): str(directory)})
    with pytest.raises(errors.BrokerIdNotRegistered):
        admin.unregister_broker(9)


def test_offsets_of_share_groups(admin: kafkatools.Admin, bootstrap: str) -> None:
    admin.create_topics("jobs")
    visit_share_group(bootstrap, "workers", _MEMBER_ID, "jobs")
    admin.alter_share_group_offsets("workers", {("jobs", 0): 0})
    assert admin.share_group_offsets("workers")["jobs", 0].start_offset == 0
    admin.alter_share_group_offsets("workers", {("jobs", 0): None})
    assert admin.share_group_offsets("workers")["jobs", 0].start_offset is None
    admin.delete_share_group_offsets("workers", "jobs")
    assert admin.share_group_offsets("workers") == {}
    with pytest.raises(errors.UnknownTopicOrPartition):
        admin.alter_share_group_offsets("workers", {("ghost", 0): 0})
    assert admin.share_group_offsets("nobody") == {}


def test_quotas(admin: kafkatools.Admin) -> None:
    alice = {"user": "alice", "client-id": None}
    admin.alter_client_quotas(alice, {"producer_byte_rate": 1024}, validate_only=True)
    assert admin.describe_client_quotas() == []
    admin.alter_client_quotas(alice, {"producer_byte_rate": 1024, "request_percentage": 12.5})
    admin.alter_client_quotas({"ip": "127.0.0.9"}, {"connection_creation_rate": 3})
    (found,) = admin.describe_client_quotas(alice)
    assert dict(found.entity) == alice
    assert found.values == {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    assert admin.describe_client_quotas({"user": "alice"}) == []
    assert len(admin.describe_client_quotas()) == 2
    admin.alter_client_quotas(alice, dict.fromkeys(found.values))
    admin.alter_client_quotas({"ip": "127.0.0.9"}, {"connection_creation_rate": None})
    assert admin.describe_client_quotas() == []
    with pytest.raises(errors.InvalidRequest):
        admin.alter_client_quotas(alice, {"no_such_rate": 1})


def test_scram_credentials(admin: kafkatools.Admin) -> None:
    admin.alter_scram_credentials("bob", {"SCRAM-SHA-256": "one", "SCRAM-SHA-512": "two"}, iterations=8192)
    assert admin.describe_scram_credentials("bob") == {"bob": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 8192}}
    admin.alter_scram_credentials("bob", {"SCRAM-SHA-512": None})
    assert admin.describe_scram_credentials() == {"bob": {"SCRAM-SHA-256": 8192}}
    assert admin.describe_scram_credentials(["carol"]) == {}
    with pytest.raises(errors.ResourceNotFound):
        admin.alter_scram_credentials("bob", {"SCRAM-SHA-512": None})
    with pytest.raises(ValueError, match="Unknown mechanism 'PLAIN'"):
        admin.alter_scram_credentials("bob", {"PLAIN": "x"})


def test_features(admin: kafkatools.Admin) -> None:
    levels = admin.describe_features().levels["metadata.version"]
    assert levels.min_level < levels.finalized_level <= levels.max_level
    lower = {"metadata.version": levels.finalized_level - 1}
    with pytest.raises(errors.InvalidUpdateVersion):
        admin.update_features(lower)
    admin.update_features({"metadata.version": levels.finalized_level}, validate_only=True)


def test_delegation_tokens() -> None:
    token = {
        "token_id": "t",
        "hmac": b"s3cret",
        "principal_type": "User",
        "principal_name": "alice",
        "token_requester_principal_type": "User",
        "token_requester_principal_name": "alice",
    }
    times = {"issue_timestamp": 1000, "expiry_timestamp": 2000, "max_timestamp": 3000}
    requested: list[bytes] = []

    def later(header: Any, request: Any) -> dict[str, Any]:
        requested.append(bytes(request.hmac))
        return {"expiry_timestamp": 5}

    broker = ScriptedBroker(
        {
            ApiKey.CREATE_DELEGATION_TOKEN: lambda *_: {**token, **times},
            ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda *_: {"tokens": [{**token, **times, "renewers": []}]},
            ApiKey.RENEW_DELEGATION_TOKEN: later,
            ApiKey.EXPIRE_DELEGATION_TOKEN: later,
        }
    )
    with broker.in_background(), kafkatools.Admin(bootstrap_servers=broker.bootstrap) as admin:
        made = admin.create_delegation_token(["User:bob"])
        assert (made.owner, made.renewers, made.max_timestamp) == ("User:alice", ("User:bob",), 3000)
        assert [one.token_id for one in admin.describe_delegation_tokens()] == ["t"]
        assert admin.renew_delegation_token(made) == 5
        assert admin.expire_delegation_token(b"other") == 5
    assert requested == [b"s3cret", b"other"]
    assert "s3cret" not in repr(made)


def test_tokens_are_for_authenticated_users(admin: kafkatools.Admin) -> None:
    with pytest.raises((errors.DelegationTokenAuthDisabled, errors.DelegationTokenRequestNotAllowed)):
        admin.create_delegation_token()


def test_new_topic_refuses_arguments_of_other_types() -> None:
    with pytest.raises(TypeError, match="^The replica assignments of topic t are broker ids by partition, such as "):
        kafkatools.NewTopic("t", 2, 1, {"retention.ms": "1"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="^The number of partitions of topic t is an int, not '3'$"):
        kafkatools.NewTopic("t", "3")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^The configs of topic t are a mapping, not \['a=b'\]$"):
        kafkatools.NewTopic("t", configs=["a=b"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^The name of a new topic is a str, not 7$"):
        kafkatools.NewTopic(7)  # type: ignore[arg-type]
    assert kafkatools.NewTopic("t", replicas_assignments={0: [1, 2]})._replace(name="u").name == "u"
