"""What is asked of Apache Kafka and of the embedded broker in the traces of the admin APIs (see traces.py).

Each trace has settings for its broker and steps on a fresh one. The answers in tests/golden/broker/trace-<name>.json
were recorded from Apache Kafka 4.3.1, one node; `tests/real_kafka/test_real_broker_admin.py` asks it again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from support.traces import Step

from kafkatools.core.protocol.api_versions import ApiKey

STANDARD_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


class Trace(NamedTuple):
    """Settings of the broker, and what it is asked."""

    settings: dict[str, str]
    steps: list[Step]


def _acl(**given: Any) -> dict[str, Any]:
    fields = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    assert given.keys() <= fields.keys()
    return {**fields, **given}


def _filter(**given: Any) -> dict[str, Any]:
    fields = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    assert given.keys() <= fields.keys()
    return {**fields, **given}


def _create(label: str, *acls: dict[str, Any]) -> Step:
    return (f"create: {label}", ApiKey.CREATE_ACLS, 3, {"creations": list(acls)})


def _describe(label: str, version: int = 3, **given: Any) -> Step:
    return (f"describe: {label}", ApiKey.DESCRIBE_ACLS, version, _filter(**given))


def _delete(label: str, *filters: dict[str, Any]) -> Step:
    return (f"delete: {label}", ApiKey.DELETE_ACLS, 3, {"filters": list(filters)})


ACLS: list[Step] = [
    _create(
        "three", _acl(), _acl(resource_name="p", resource_pattern_type=4), _acl(resource_type=3, resource_name="g")
    ),
    _create("again", _acl()),
    _create("twice in a request", _acl(resource_name="dd"), _acl(resource_name="dd")),
    _create("empty name", _acl(resource_name="")),
    _create("cluster of another name", _acl(resource_type=4, resource_name="x", operation=8)),
    _create("type any", _acl(resource_type=1)),
    _create("type unknown", _acl(resource_type=0)),
    _create("type 99", _acl(resource_type=99)),
    _create("pattern any", _acl(resource_pattern_type=1)),
    _create("pattern match", _acl(resource_pattern_type=2)),
    _create("pattern 9", _acl(resource_pattern_type=9)),
    _create("operation any", _acl(operation=1)),
    _create("operation unknown", _acl(operation=0)),
    _create("operation 77", _acl(operation=77)),
    _create("operation of another resource", _acl(operation=12, resource_name="w")),
    _create("permission any", _acl(permission_type=1)),
    _create("permission unknown", _acl(permission_type=0)),
    _create("principal without a colon", _acl(principal="alice", resource_name="b1")),
    _create("empty principal", _acl(principal="", resource_name="b2")),
    _create("empty host", _acl(host="", resource_name="b3")),
    _create("a network as host", _acl(host="1.2.3.4/8", resource_name="b4")),
    _create("mixed", _acl(resource_name="ok1"), _acl(resource_name=""), _acl(resource_name="ok2", permission_type=2)),
    _describe("all"),
    _describe("topics", resource_type_filter=2),
    _describe("literal t", resource_name_filter="t", pattern_type_filter=3),
    _describe("match t", resource_name_filter="t", pattern_type_filter=2),
    _describe("match pxx", resource_name_filter="pxx", pattern_type_filter=2, resource_type_filter=2),
    _describe("prefixed p", resource_name_filter="p", pattern_type_filter=4),
    _describe("any pattern p", resource_name_filter="p"),
    _describe("another principal", principal_filter="User:bob"),
    _describe("operation unknown", operation=0),
    _describe("type unknown", resource_type_filter=0),
    _describe("type 99", resource_type_filter=99),
    _describe("operation write", operation=4),
    _describe("deny", permission_type=2),
    _describe("pattern unknown", pattern_type_filter=0),
    _describe("version 1", 1, resource_type_filter=2, resource_name_filter="t"),
    _delete("one", _filter(resource_name_filter="dd")),
    _delete("none", _filter(resource_name_filter="zz")),
    _delete("unknown", _filter(operation=0)),
    _delete(
        "filters that overlap",
        _filter(resource_name_filter="t"),
        _filter(resource_type_filter=2, resource_name_filter="t"),
        _filter(resource_name_filter="p", pattern_type_filter=4),
    ),
    _delete("no filters"),
    _create("nothing"),
    _delete("all", _filter()),
    _describe("nothing left"),
]
NO_AUTHORIZER: list[Step] = [_create("one", _acl()), _describe("all"), _delete("all", _filter())]

TRACES = {
    "acls": Trace(STANDARD_AUTHORIZER, ACLS),
    "no-authorizer": Trace({}, NO_AUTHORIZER),
}
