"""The topics that records are sent back to, and what each of them would refuse.

If the broker refused a record, it would end the whole transaction. So the description and the configs of each topic,
which are read once, decide before a record is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.errors import KafkaError
from kafkatools.core.records.compression import CompressionType, compress
from kafkatools.core.records.kernel import varint
from kafkatools.core.records.layout import HEADER_SIZE
from kafkatools.core.topic_names import is_topic_name
from kafkatools.tools.copying.client_cluster import topic_configs
from kafkatools.tools.rights import TOPIC, Right, missing_topic_rights, naming

_MOST_SHOWN = 60
_MISSING = "UNKNOWN_TOPIC_OR_PARTITION"
_GROWTH_BYTES = 1024
_FIXED_FIELDS = b"\0\0\0"
_LIMIT = "max.message.bytes"
_CLEANUP = "cleanup.policy"
_TIMESTAMP_TYPE = "message.timestamp.type"
_BEFORE = "message.timestamp.before.max.ms"
_AFTER = "message.timestamp.after.max.ms"
_CONFIGS = (_LIMIT, _CLEANUP, _TIMESTAMP_TYPE, _BEFORE, _AFTER)


class Reason(NamedTuple):
    """Why a record stays: a word for --json, and a text for people."""

    word: str
    text: str


NO_ORIGIN = Reason("no_origin", "no header names the original topic; see --to, --origin-header and --from-suffix")
IS_DEAD_LETTER_TOPIC = Reason("target_is_dlq", "the target is the dead-letter topic itself")
TOO_MANY_ATTEMPTS = Reason("too_many_attempts", "sent back --max-attempts times already")
UNREADABLE_ATTEMPTS = Reason("unreadable_attempts", "the header kt-redrive-attempts is not a number")
NO_PARTITION = Reason("no_partition", "no header has the original partition")


class Target(NamedTuple):
    """A topic to send to: its partition count, and its configs as far as they could be read. `problem`: why nothing
    can be sent to it."""

    name: str
    partition_count: int = 0
    configs: Mapping[str, str] = {}
    problem: Reason | None = None

    def refusal(self, record: bytes, key_length: int, timestamp_ms: int, now_ms: int, codec: int) -> Reason | None:
        """Return why the topic would refuse a record, None if nothing is known against it. `record`: as `record_body`
        returns it."""
        limit = self._number(_LIMIT)
        if limit is not None and _may_exceed(limit, record) and batch_size(record, codec) > limit:
            return Reason("too_large", f"larger than {_LIMIT}={limit} of {self.name}")
        if key_length < 0 and "compact" in self.configs.get(_CLEANUP, ""):
            return Reason("no_key", f"without a key, and {self.name} is compacted")
        if self.configs.get(_TIMESTAMP_TYPE) == "LogAppendTime":
            return None
        before, after = self._number(_BEFORE), self._number(_AFTER)
        if before is not None and now_ms - timestamp_ms > before:
            return Reason("timestamp", f"older than {_BEFORE}={before} of {self.name}; see --timestamp")
        if after is not None and timestamp_ms - now_ms > after:
            return Reason("timestamp", f"newer than {_AFTER}={after} of {self.name}; see --timestamp")
        return None

    def _number(self, name: str) -> int | None:
        value = self.configs.get(name)
        return None if value is None else int(value)


def record_body(key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    """Return a record as it stands in a batch of its own. `headers`: encoded."""
    cells = [varint(-1) if cell is None else varint(len(cell)) + cell for cell in (key, value)]
    body = b"".join((_FIXED_FIELDS, *cells, headers))
    return varint(len(body)) + body


def _may_exceed(limit: int, record: bytes) -> bool:
    """Return whether the record could be too large even if a codec makes it a little larger; compressing costs."""
    size = HEADER_SIZE + len(record)
    return size + size // 64 + _GROWTH_BYTES > limit


def batch_size(record: bytes, codec: int) -> int:
    """Return the size in bytes of a batch with only this record."""
    return HEADER_SIZE + (len(record) if codec == CompressionType.NONE else len(compress(codec, record)))


class Targets:
    """The topics of a cluster, looked up when they are first asked for. `dead_letter_topic` is never a target. `note`:
    called with a line about limits that could not be read."""

    def __init__(self, admin: AdminClient, dead_letter_topic: str, note: Callable[[str], None]) -> None:
        self._admin = admin
        self._note = note
        self._dead_letter_topic = dead_letter_topic
        self._known: dict[str, Target] = {}

    def __getitem__(self, name: str) -> Target:
        """Return a topic. Raises KafkaError if no broker answers."""
        target = self._known.get(name)
        if target is None:
            self._known[name] = target = self._look_up(name)
        return target

    def _look_up(self, name: str) -> Target:
        if name == self._dead_letter_topic:
            return Target(name, problem=IS_DEAD_LETTER_TOPIC)
        if not is_topic_name(name):
            shown = name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}..."
            return Target(name, problem=Reason("unusable_target", f"no topic can have the name '{shown}'"))
        topic = describe_topics(self._admin, [name])[name]
        if topic.error is not None:
            if topic.error.name == _MISSING:
                return Target(name, problem=Reason("missing_target", f"topic {name} does not exist"))
            error = naming(topic.error, Right("DESCRIBE", TOPIC, name))
            return Target(name, problem=Reason("unusable_target", f"topic {name}: {error}"))
        if topic.is_internal:
            return Target(name, problem=Reason("unusable_target", f"topic {name} is internal"))
        lost = [part.partition for part in topic.partitions if part.leader < 0]
        if lost:
            reason = f"topic {name}: partition {lost[0]} has no leader; send its records again when its broker is back"
            return Target(name, problem=Reason("unusable_target", reason))
        missing = next(missing_topic_rights(self._admin, [name], ["WRITE"]), None)
        if missing is not None:
            return Target(name, problem=Reason("unusable_target", f"topic {name}: {missing}"))
        return Target(name, len(topic.partitions), self._configs(name))

    def _configs(self, name: str) -> dict[str, str]:
        """Return the configs that limit records. Without the permission to read them, return none and say so."""
        try:
            entries = topic_configs(self._admin, name, _CONFIGS)
        except KafkaError as error:
            self._note(f"The limits of topic {name} are unknown: {error}. A record that it refuses ends the run.")
            return {}
        return {entry.name: entry.value for entry in entries if entry.value is not None}
