"""Decisions of the StandardAuthorizer: deny before allow, patterns, what an operation implies, what no ACL covers.

Expected decisions follow the documentation of Apache Kafka's authorization and were compared with its broker by the
traces of the ACL matrix.
"""

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kafkatools.core import config as tables
from kafkatools.core.broker.metadata.controller.acls import (
    ALL,
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    CREATE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    Acl,
    Acls,
)
from kafkatools.core.broker.server.authorizer import STANDARD_AUTHORIZER, StandardAuthorizer, open_authorizer
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError

ME, HOST = "User:me", "10.0.0.1"


def acls_of(*rows: Acl) -> Acls:
    acls = Acls()
    for row in rows:
        acls.add(SimpleNamespace(id=uuid.uuid4(), **row._asdict()))
    return acls


def acl(name: str, operation: int, *, permission: int = ALLOW, pattern: int = LITERAL, **given: Any) -> Acl:
    return Acl(TOPIC, name, pattern, given.get("principal", ME), given.get("host", "*"), operation, permission)


def decide(rows: list[Acl], operation: int, name: str = "t", *, allow_if_no_acl: bool = False) -> bool:
    authorizer = StandardAuthorizer(acls_of(*rows), ["User:root"], allow_if_no_acl=allow_if_no_acl)
    return authorizer.authorize(ME, HOST, operation, TOPIC, name)


@pytest.mark.parametrize(
    ("rows", "operation", "expected"),
    [
        ([], READ, False),
        ([acl("t", READ)], READ, True),
        ([acl("t", READ)], WRITE, False),
        ([acl("other", READ)], READ, False),
        ([acl("*", READ)], READ, True),
        ([acl("t", READ, principal="User:*")], READ, True),
        ([acl("t", READ, principal="User:you")], READ, False),
        ([acl("t", READ, host=HOST)], READ, True),
        ([acl("t", READ, host="10.0.0.2")], READ, False),
        ([acl("t", ALL)], CREATE, True),
        ([acl("t", READ), acl("t", READ, permission=DENY)], READ, False),
        ([acl("t", READ), acl("*", ALL, permission=DENY)], READ, False),
        ([acl("t", READ), acl("t", READ, permission=DENY, host="10.0.0.2")], READ, True),
        ([acl("t", READ)], DESCRIBE, True),
        ([acl("t", ALTER)], DESCRIBE, True),
        ([acl("t", CREATE)], DESCRIBE, False),
        ([acl("t", ALTER_CONFIGS)], DESCRIBE_CONFIGS, True),
        ([acl("t", ALTER)], DESCRIBE_CONFIGS, False),
        ([acl("t", DESCRIBE), acl("t", READ, permission=DENY)], DESCRIBE, True),
        ([acl("t", READ), acl("t", DESCRIBE, permission=DENY)], DESCRIBE, False),
        ([acl("t", READ), acl("t", DESCRIBE, permission=DENY)], READ, True),
    ],
)
def test_decisions(rows: list[Acl], operation: int, expected: bool) -> None:
    assert decide(rows, operation) is expected


def test_prefixes_cover_every_name_that_begins_with_them() -> None:
    rows = [acl("team-", READ, pattern=PREFIXED), acl("team-secret-", READ, pattern=PREFIXED, permission=DENY)]
    assert decide(rows, READ, "team-a")
    assert decide(rows, READ, "team-")
    assert not decide(rows, READ, "team")
    assert not decide(rows, READ, "team-secret-a")
    assert decide(rows, READ, "team-secret")


def test_everybody_may_use_what_no_acl_covers_only_when_told_so() -> None:
    rows = [acl("t", READ, principal="User:you")]
    assert decide(rows, READ, "free", allow_if_no_acl=True)
    assert not decide(rows, READ, "t", allow_if_no_acl=True)
    assert not decide(rows, READ, "free")


def test_a_super_user_is_not_denied() -> None:
    authorizer = StandardAuthorizer(acls_of(acl("*", ALL, permission=DENY)), [ME], allow_if_no_acl=False)
    assert authorizer.authorize(ME, HOST, READ, TOPIC, "t")


def test_an_acl_that_is_removed_decides_nothing_any_more() -> None:
    acls = acls_of(acl("team-", READ, pattern=PREFIXED), acl("t", READ))
    authorizer = StandardAuthorizer(acls, [], allow_if_no_acl=False)
    assert authorizer.authorize(ME, HOST, READ, TOPIC, "team-a")
    for acl_id in list(acls.by_id):
        acls.remove(SimpleNamespace(id=acl_id))
    assert not authorizer.authorize(ME, HOST, READ, TOPIC, "team-a")
    assert not authorizer.authorize(ME, HOST, READ, TOPIC, "t")
    assert not acls.by_resource
    assert list(acls.records()) == []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], False),
        ([acl("t", WRITE)], True),
        ([acl("t", READ)], False),
        ([acl("t", WRITE), acl("*", WRITE, permission=DENY)], False),
        ([acl("t", WRITE), acl("t", WRITE, permission=DENY)], False),
        ([acl("t", WRITE), acl("u", WRITE), acl("t", WRITE, permission=DENY)], True),
        ([acl("team-a", WRITE), acl("team-", WRITE, permission=DENY, pattern=PREFIXED)], False),
        ([acl("te", WRITE, pattern=PREFIXED), acl("team-", WRITE, permission=DENY, pattern=PREFIXED)], True),
        ([acl("*", WRITE), acl("team-", WRITE, permission=DENY, pattern=PREFIXED)], True),
    ],
)
def test_whether_any_topic_may_be_written(rows: list[Acl], expected: bool) -> None:
    authorizer = StandardAuthorizer(acls_of(*rows), [], allow_if_no_acl=False)
    assert authorizer.authorize_any(ME, HOST, WRITE, TOPIC) is expected
    assert not authorizer.authorize_any(ME, HOST, WRITE, GROUP)


def test_settings_name_the_authorizer_and_its_super_users() -> None:
    def settings(**given: str) -> Config:
        return Config(tables.BROKER, {name.replace("_", "."): value for name, value in given.items()})

    assert open_authorizer(settings(), Acls()) is None
    opened = open_authorizer(
        settings(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:a; User:CN=b,O=c"), Acls()
    )
    assert opened is not None
    assert opened.super_users == {"User:a", "User:CN=b,O=c"}
    assert not opened.allow_if_no_acl
    with pytest.raises(
        ConfigError, match="but kt supports only org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    ):
        open_authorizer(settings(authorizer_class_name="com.example.Mine"), Acls())
    with pytest.raises(ConfigError, match="principalType:principalName"):
        open_authorizer(settings(authorizer_class_name=STANDARD_AUTHORIZER, super_users="alice"), Acls())
