"""ACLs through Admin and below it: each for itself, filters as KIP-290 says, no authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.scripted_broker import ScriptedBroker
from support.unit_admin import fast_admin

import kafkatools
from kafkatools import Acl, AclFilter, errors
from kafkatools.core.admin import acls
from kafkatools.core.protocol.api_versions import ApiKey

READ = Acl("TOPIC", "orders", "User:alice", "READ")
ALL_SHOPS = Acl("TOPIC", "shop-", "User:bob", "WRITE", pattern_type="PREFIXED")
NOT_EVE = Acl("TOPIC", "*", "User:eve", "ALL", "DENY", "10.9.9.9")


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafkatools.Admin]:
    directory = tmp_path_factory.mktemp("admin-acls") / "data"
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with (
        embedded_broker(directory, authorizer_class_name=authorizer, super_users="User:ANONYMOUS") as address,
        kafkatools.Admin(bootstrap_servers=address) as made,
    ):
        yield made


def test_acls_are_made_found_by_filters_and_removed(admin: kafkatools.Admin) -> None:
    admin.create_acls([READ, ALL_SHOPS, NOT_EVE])
    admin.create_acls(READ)  # it is there already
    assert sorted(admin.describe_acls()) == sorted([READ, ALL_SHOPS, NOT_EVE])
    assert sorted(admin.describe_acls(AclFilter("TOPIC", "shop-7", pattern_type="MATCH"))) == [NOT_EVE, ALL_SHOPS]
    assert admin.describe_acls(AclFilter(resource_name="shop-7")) == []
    assert admin.describe_acls(AclFilter(permission="DENY")) == [NOT_EVE]
    assert admin.delete_acls(READ) == [READ]
    assert sorted(admin.delete_acls([AclFilter(host="10.9.9.9"), AclFilter(principal="User:bob"), READ])) == [
        NOT_EVE,
        ALL_SHOPS,
    ]
    assert admin.describe_acls() == []


def test_acl_that_is_refused_does_not_keep_the_others_from_being_made(admin: kafkatools.Admin) -> None:
    wrong = Acl("CLUSTER", "mine", "User:alice", "ALTER")
    with pytest.raises(errors.PartialFailure) as failure:
        admin.create_acls([wrong, READ])
    assert str(failure.value.errors[wrong]) == "The only valid name for the CLUSTER resource is kafka-cluster"
    assert admin.delete_acls(READ) == [READ]
    with pytest.raises(errors.InvalidRequest):
        admin.create_acls(wrong)


def test_names_that_kafka_does_not_have_are_refused_before_anything_is_sent(admin: kafkatools.Admin) -> None:
    with pytest.raises(ValueError, match="Unknown value 'Read': expected one of ANY, ALL, READ"):
        admin.create_acls(Acl("TOPIC", "orders", "User:alice", "Read"))
    assert admin.describe_acls() == []


def test_acls_that_could_not_be_removed_are_told_with_those_that_were() -> None:
    def answer(header: Any, request: Any) -> dict[str, Any]:
        places = {"resource_type": 2, "resource_name": "t", "pattern_type": 3, "host": "*", "permission_type": 3}
        matching = [
            {"error_code": code, "error_message": None, "principal": f"User:{code}", "operation": 3, **places}
            for code in (0, 7)
        ]
        return {"filter_results": [{"error_code": 0, "error_message": None, "matching_acls": matching}]}

    broker = ScriptedBroker({ApiKey.DELETE_ACLS: answer})
    with broker.in_background(), fast_admin(broker) as client:
        (found,) = acls.delete_acls(client, [AclFilter("TOPIC", "t")]).values()
    assert [acl.principal for acl in found.acls] == ["User:0"]
    assert {acl.principal: error.name for acl, error in found.errors.items()} == {"User:7": "REQUEST_TIMED_OUT"}


def test_operation_of_a_newer_broker_is_unknown() -> None:
    resource = {"resource_type": 2, "resource_name": "t", "pattern_type": 3}
    acl = {"principal": "User:a", "host": "*", "operation": 99, "permission_type": 3}
    broker = ScriptedBroker(
        {ApiKey.DESCRIBE_ACLS: lambda header, request: {"resources": [{**resource, "acls": [acl]}]}}
    )
    with broker.in_background(), fast_admin(broker) as client:
        assert acls.describe_acls(client) == [Acl("TOPIC", "t", "User:a", "UNKNOWN")]
