"""One topic, group or broker in full, for the web page: its part of the latest view, and data requested from brokers.

The requests have a connection of their own, so a broker that hangs delays neither the snapshots nor the page. Data that
a broker refuses is missing, with the reason among `problems`. Values of sensitive settings never leave
this module. Names outside of the view do not exist here, so --topic and --group limit details too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import BROKER, DEFAULT_CONFIG, TOPIC, ConfigEntry, describe_configs
from kafkatools.core.admin.groups import SHARE, STREAMS, GroupDescription, describe_groups, describe_share_groups
from kafkatools.core.admin.offsets import EARLIEST, list_offsets
from kafkatools.core.errors import KafkaError
from kafkatools.tools.monitor import json_form
from kafkatools.tools.monitor.assessment import partition_notes
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.view import ClusterView, GroupView, PartitionView, TopicView

PATIENCE_MS = 5_000
"""The time limit of brokers for each part of a detail."""
CLIENT_LIMITS = {"request.timeout.ms": str(PATIENCE_MS), "default.api.timeout.ms": str(PATIENCE_MS)}
"""Settings of the client that requests details, beside those of the connection."""
MOST_PARTITIONS = 10_000
_MOST_MEMBERS = 2_000
_MOST_STARTS = 2_000
_BUSY_S = 2 * PATIENCE_MS / 1000


class UnknownName(Exception):
    """The topic, group or broker is not in the latest view; the text is a sentence."""


class Busy(Exception):
    """Other requests for details have not ended in time; the text is a sentence."""


class Details:
    """Answers requests for details, one at a time; for any thread. `connect` makes the client for the first one."""

    def __init__(self, board: Board, connect: Callable[[], AdminClient]) -> None:
        self._board = board
        self._connect = connect
        self._lock = threading.Lock()  # guards the client
        self._admin: AdminClient | None = None
        self._is_closed = False

    def close(self) -> None:
        """Close the connections, unless a broker is still being asked: the end of the process closes them then. A
        request that waits for its turn raises Busy."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            with suppress(Exception):  # the command ends anyway
                if self._admin is not None:
                    self._admin.close()
            self._lock.release()

    def describe(self, kind: str, name: str) -> dict[str, object]:
        """Return the JSON object of a "topic", a "group" or a "broker" (by its id). Raises UnknownName, Busy."""
        view, _ = self._board.last
        if view is None:
            raise UnknownName("There is no view yet")
        if not self._lock.acquire(timeout=_BUSY_S):
            raise Busy("The brokers have not answered earlier requests for details: try again in a few seconds")
        try:
            if self._is_closed:
                raise Busy("kt monitor ends")
            if self._admin is None:
                self._admin = self._connect()
            return {"time": view.time_ms, **_DESCRIBE[kind](_Question(self._admin), view, name)}
        finally:
            self._lock.release()


class _Question:
    """The requests of one detail; their errors become `problems`."""

    def __init__(self, admin: AdminClient) -> None:
        self.admin = admin
        self.problems: list[dict[str, str]] = []

    def complain(self, what: str, error: KafkaError) -> None:
        """Add a problem."""
        self.problems.append({"what": what, "error": str(error)})

    def configs(self, kind: int, name: str) -> list[dict[str, object]] | None:
        """Return the settings of a topic or broker: its own, inherited ones, defaults; None if not reported."""
        try:
            found = describe_configs(self.admin, [(kind, name)])[kind, name]
        except KafkaError as error:
            self.complain("settings", error)
            return None
        if found.error is not None:
            self.complain("settings", found.error)
            return None
        return [_config_json(entry) for entry in sorted(found.entries, key=_by_source)]

    def starts(self, topic: TopicView) -> dict[int, int]:
        """Return the log start offsets of the topic's partitions that have a leader."""
        led = [part.partition for part in topic.partitions if not part.is_offline]
        if len(led) > _MOST_STARTS:
            self.problems.append({"what": "log start offsets", "error": f"only asked for {_MOST_STARTS} partitions"})
        requested = {(topic.name, number): EARLIEST for number in led[:_MOST_STARTS]}
        try:
            found = list_offsets(self.admin, requested, timeout_ms=PATIENCE_MS, leaderless_ms=0)
        except KafkaError as error:
            self.complain("log start offsets", error)
            return {}
        for failed in {str(at.error): at.error for at in found.values() if at.error is not None}.values():
            self.complain("log start offsets", failed)
        return {number: at.offset for (_, number), at in found.items() if at.error is None and at.offset >= 0}

    def group(self, group: GroupView) -> GroupDescription | None:
        """Return the description of a group, None if its coordinator did not describe it."""
        if group.type == STREAMS:
            self.problems.append({"what": "members", "error": "members of Kafka Streams groups are not described"})
            return None
        describe = describe_share_groups if group.type == SHARE else describe_groups
        try:
            found = describe(self.admin, [group.group_id], timeout_ms=PATIENCE_MS)[group.group_id]
        except KafkaError as error:
            self.complain("members", error)
            return None
        if found.error is not None:
            self.complain("members", found.error)
            return None
        return found


def _by_source(entry: ConfigEntry) -> tuple[bool, bool, str]:
    return entry.source == DEFAULT_CONFIG, entry.is_default, entry.name


def _config_json(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "source": entry.source_name,
        "default": entry.source == DEFAULT_CONFIG,
        "sensitive": entry.is_sensitive,
        "read_only": entry.is_read_only,
    }


# -- topics --


def _topic(question: _Question, view: ClusterView, name: str) -> dict[str, object]:
    topic = next((topic for topic in view.topics if topic.name == name), None)
    if topic is None:
        raise UnknownName(f"Topic '{name}' is not in the latest view")
    configs = question.configs(TOPIC, name)
    starts = question.starts(topic)
    rates = dict(zip((part.partition for part in topic.partitions), topic.rates, strict=False))
    return {
        "topic": name,
        "summary": json_form.topic_json(topic),
        "configs": configs,
        "partitions": [
            {**_partition(part, rates.get(part.partition)), "start_offset": starts.get(part.partition)}
            for part in topic.partitions[:MOST_PARTITIONS]
        ],
        "partition_count": len(topic.partitions),
        "groups": list(_groups_of(view, name)),
        "problems": question.problems,
    }


def _partition(part: PartitionView, rate: float | None) -> dict[str, object]:
    return {
        **json_form.partition_json(part),
        "notes": partition_notes(part),
        "messages_per_second": None if rate is None else round(rate, 3),
    }


def _groups_of(view: ClusterView, topic: str) -> Iterable[dict[str, object]]:
    for group in view.groups:
        lags = [part.lag for part in group.partitions or () if part.topic == topic]
        if lags:
            known = [lag for lag in lags if lag is not None]
            yield {
                "group": group.group_id,
                "state": group.state,
                "members": group.members,
                "lag": sum(known) if len(known) == len(lags) else None,
                "lag_at_least": sum(known),
                "consumed_per_second": (group.consumed_by_topic or {}).get(topic),
            }


# -- groups --


def _group(question: _Question, view: ClusterView, name: str) -> dict[str, object]:
    group = next((group for group in view.groups if group.group_id == name), None)
    if group is None:
        raise UnknownName(f"Group '{name}' is not in the latest view")
    described = question.group(group)
    owners = _owners(described)
    partitions = None
    if group.partitions is not None:
        partitions = [
            {
                **part._asdict(),
                "end_offset": _end(view, part.topic, part.partition),
                "owner": owners.get((part.topic, part.partition)),
            }
            for part in group.partitions[:MOST_PARTITIONS]
        ]
    broker = next((broker for broker in view.brokers if broker.id == group.coordinator), None)
    return {
        "group": name,
        "summary": json_form.group_json(group),
        "coordinator": {
            "id": group.coordinator,
            "host": None if broker is None else broker.host,
            "port": None if broker is None else broker.port,
        },
        "assignor": None if described is None else described.assignor or None,
        "group_epoch": None if described is None else described.group_epoch,
        "members": None if described is None else _members(described),
        "member_count": group.members if described is None else len(described.members),
        "partitions": partitions,
        "partition_count": len(group.partitions or ()),
        "problems": question.problems,
    }


def _end(view: ClusterView, topic: str, partition: int) -> int | None:
    part = view.by_partition.get((topic, partition))
    return None if part is None else part.end_offset


def _owners(described: GroupDescription | None) -> Mapping[tuple[str, int], str]:
    members = () if described is None else described.members
    return {key: member.member_id for member in members for key in member.assignment}


def _members(described: GroupDescription) -> list[dict[str, object]]:
    return [
        {
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.host,
            "rack": member.rack_id,
            "epoch": member.member_epoch,
            "assignment": _assignment(member.assignment),
        }
        for member in described.members[:_MOST_MEMBERS]
    ]


def _assignment(partitions: Iterable[tuple[str, int]]) -> list[dict[str, object]]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return [{"topic": topic, "partitions": sorted(numbers)} for topic, numbers in sorted(by_topic.items())]


# -- brokers --


def _broker(question: _Question, view: ClusterView, name: str) -> dict[str, object]:
    summary = next((row for row in json_form.brokers_json(view) if str(row["id"]) == name), None)
    if summary is None:
        raise UnknownName(f"Broker '{name}' is not in the latest view")
    id = int(name)
    configs = None
    if summary["answering"]:
        configs = question.configs(BROKER, name)
    else:
        question.problems.append({"what": "settings", "error": "the broker does not respond"})
    led = []
    for topic in view.topics:
        rates = dict(zip((part.partition for part in topic.partitions), topic.rates, strict=False))
        led += [_partition(part, rates.get(part.partition)) for part in topic.partitions if part.leader == id]
    behind = [part for part in view.partitions if id in part.replicas and id not in part.isr]
    return {
        "broker": id,
        "summary": summary,
        "configs": configs,
        "listeners": _listeners(configs),
        "partitions": led[:MOST_PARTITIONS],
        "partition_count": len(led),
        "not_in_sync": [[part.topic, part.partition] for part in behind[:MOST_PARTITIONS]],
        "not_in_sync_count": len(behind),
        "problems": question.problems,
    }


def _listeners(configs: Iterable[Mapping[str, object]] | None) -> dict[str, object] | None:
    """Return the settings of the broker's addresses."""
    if configs is None:
        return None
    names = ("listeners", "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name")
    values = {str(entry["name"]): entry["value"] for entry in configs}
    return {name: values[name] for name in names if values.get(name)}


_DESCRIBE: Mapping[str, Callable[[_Question, ClusterView, str], dict[str, object]]] = {
    "topic": _topic,
    "group": _group,
    "broker": _broker,
}
KINDS = tuple(_DESCRIBE)
"""The kinds of things with details."""
