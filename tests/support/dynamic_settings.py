"""Alterations of settings that are only validated, and what a broker answers: for comparing two brokers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from kafkatools.core.config import BROKER, TOPIC, Setting, Table, to_text
from kafkatools.core.config.resources import CLIENT_METRICS, GROUP
from kafkatools.core.config.setting import LIST, READ_ONLY
from kafkatools.core.protocol.api_versions import ApiKey

from .raw_client import RawClient

TOPIC_KIND, BROKER_KIND, METRICS_KIND, GROUP_KIND = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_NAME = "dynamic-settings"
SAMPLES = {"BOOLEAN": "true", "DOUBLE": "0.5", "STRING": "x", "LIST": "a,b", "CLASS": "no.such.Class", "PASSWORD": "pw"}
NUMBERS = ("0", "1", "3", "-7", "100000", "999999999999")
# Kafka changes these of a running broker, or looks for a Java class; this broker refuses them with other words.
DIFFERENT = frozenset(("listeners", "listener.security.protocol.map", "principal.builder.class"))
# Kafka fails on an APPEND to these with UNKNOWN_SERVER_ERROR.
APPEND_FAILS = frozenset(("process.roles", "controller.listener.names"))
TOGETHER = (
    {"log.retention.bytes": "10", "log.local.retention.bytes": "20"},
    {"log.retention.bytes": "10", "log.local.retention.bytes": "-1"},
    {"log.cleaner.dedupe.buffer.size": "2097152", "log.cleaner.threads": "2"},
    {"log.cleaner.dedupe.buffer.size": "2097154", "log.cleaner.threads": "2"},
    {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "5"},
    {"ssl.keystore.location": "x", "node.id": "5"},
    {"node.id": "5", "an.unknown.name": "5"},
    *({"max.connections.per.ip.overrides": text} for text in ("127.0.0.1:zz", "127.0.0.1:0", "127.0.0.1", "x:1,")),
    *({"listener.name.plaintext.num.network.threads": str(number)} for number in (0, 3, 6, 7)),
    *({"listener.name.plaintext.max.connections": text} for text in ("0", "-1", "5", "zz")),
    *({"listener.name.other.max.connections": text} for text in ("0", "zz")),
    *({"listener.name.plaintext.max.connection.creation.rate": text} for text in ("0", "7")),
    *({f"listener.name.{name}.plain.connections.max.reauth.ms": "zz"} for name in ("plaintext", "other")),
    *(
        {f"{name}.replication.throttled.rate": text}
        for name in ("leader", "follower")
        for text in ("-1", "zz", "", "9")
    ),
    {"group.consumer.assignment.interval.ms": "16000"},
    {"group.share.assignment.interval.ms": "16000"},
    {"group.streams.assignment.interval.ms": "16000"},
    {"super.users": "User:x"},
)


class Alteration(NamedTuple):
    """One resource of IncrementalAlterConfigs: its type and name, and (setting, operation, value) of each change."""

    kind: int
    name: str
    changes: tuple[tuple[str, int, str | None], ...]


Answer = tuple[int, str | None]


def alterations() -> Iterator[Alteration]:
    """Each setting with valid and invalid values and removed, and settings that depend on each other."""
    for kind, table, name in (
        (TOPIC_KIND, TOPIC, TOPIC_NAME),
        (GROUP_KIND, GROUP, "g"),
        (METRICS_KIND, CLIENT_METRICS, "m"),
    ):
        yield from (Alteration(kind, name, (change,)) for change in _changes_of(table))
        yield from (Alteration(kind, name, (("an.unknown.name", *rest),)) for rest in ((SET, "1"), (DELETE, None)))
        yield Alteration(kind, "", (("an.unknown.name", SET, "1"),))
    for name in ("1", ""):
        yield from (Alteration(BROKER_KIND, name, (change,)) for change in _changes_of(BROKER))
        yield from (Alteration(BROKER_KIND, name, (change,)) for change in _of_listener())
        for values in TOGETHER:
            yield Alteration(BROKER_KIND, name, tuple((key, SET, value) for key, value in values.items()))


def _changes_of(table: Table) -> Iterator[tuple[str, int, str | None]]:
    for setting in table:
        if setting.is_ours or setting.name in DIFFERENT:
            continue
        for value in dict.fromkeys(_values(setting, fixed=table is BROKER and setting.update_mode == READ_ONLY)):
            yield setting.name, SET, value
        yield setting.name, DELETE, None
        if setting.type == LIST and setting.name not in APPEND_FAILS:
            yield from ((setting.name, operation, "q") for operation in (APPEND, SUBTRACT))


def _values(setting: Setting, *, fixed: bool) -> Iterator[str]:
    default = to_text(setting.default)
    if default is not None:
        yield default
    if not fixed:
        yield from (SAMPLES.get(setting.type, "3"), "zz")
        if setting.type in ("INT", "SHORT", "LONG", "DOUBLE"):
            yield from NUMBERS


def _of_listener() -> Iterator[tuple[str, int, str | None]]:
    for setting in BROKER:
        default = to_text(setting.default)
        if not setting.is_ours and default is not None:
            yield f"listener.name.plaintext.{setting.name}", SET, default


def answers(bootstrap: str, asked: list[Alteration]) -> list[Answer]:
    """What a broker answers to each alteration, none of which is made. Alterations of different resources share a
    request."""
    queues: dict[tuple[int, str], list[int]] = {}
    for index, alteration in enumerate(asked):
        queues.setdefault(alteration[:2], []).append(index)
    found: dict[int, Answer] = {}
    with RawClient(bootstrap) as client:
        for row in itertools.zip_longest(*queues.values()):
            indexes = [index for index in row if index is not None]
            resources = [_resource(asked[index]) for index in indexes]
            fields = {"resources": resources, "validate_only": True}
            responses = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, fields).responses
            by_resource = {
                (int(r.resource_type), r.resource_name): (int(r.error_code), r.error_message) for r in responses
            }
            for index in indexes:
                found[index] = by_resource[asked[index][:2]]
    return [found[index] for index in range(len(asked))]


def _resource(alteration: Alteration) -> dict[str, object]:
    configs = [
        {"name": name, "config_operation": operation, "value": value} for name, operation, value in alteration.changes
    ]
    return {"resource_type": alteration.kind, "resource_name": alteration.name, "configs": configs}
