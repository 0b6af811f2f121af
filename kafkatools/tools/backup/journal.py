"""The mark of an unfinished restore: a consumer group in the target cluster for each topic.

The committed offset of a partition is its end offset before the restore. The metadata has the topic's id, whether the
restore created it, and what is restored, so that another restore does not continue it. The group is deleted when the
topic is complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import alter_offsets, fetch_offsets
from kafkatools.core.admin.groups import delete_groups
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.json_texts import parse_json
from kafkatools.exit_status import CommandError
from kafkatools.tools.rights import GROUP, TOPIC, Right, is_missing_right, naming

_VERSION = 1
GROUP_PREFIX = "kt-restore-"


class RestoreMark(NamedTuple):
    """The content of a mark: the source cluster, topic and its id, the generation, and the time of the cut."""

    cluster_id: str
    topic: str
    topic_id: str | None
    generation: int
    until_ms: int | None

    def group_id(self, target: str) -> str:
        """Return the group of a target topic."""
        return f"{GROUP_PREFIX}{self.cluster_id}-to-{target}"

    def text(self, target_id: str | None, *, is_new: bool) -> str:
        """Return the metadata of a committed offset. `is_new`: the restore created the target topic."""
        fields = {"v": _VERSION, "target": target_id, "new": is_new, **self._asdict()}
        return json.dumps(fields, separators=(",", ":"), sort_keys=True)


class Unfinished(NamedTuple):
    """A restore that did not end: the first offset of each partition, and whether it created the topic."""

    starts: Mapping[int, int]
    is_new: bool


def read_unfinished(admin: AdminClient, mark: RestoreMark, target: str, target_id: str | None) -> Unfinished | None:
    """Return the restore of a topic that did not end; None without one, or when the topic was created again. Raises
    CommandError when something else is being restored into the topic, KafkaError."""
    group_id = mark.group_id(target)
    group = fetch_offsets(admin, [group_id])[group_id]
    error = group.error or next(iter(group.errors.values()), None)
    if error is not None:
        raise _of_group(group_id, naming(error, Right("DESCRIBE", GROUP, group_id)))
    stored = {partition: item for (topic, partition), item in group.offsets.items() if topic == target}
    if not stored:
        return None
    try:
        found = parse_json(next(iter(stored.values())).metadata)
    except ValueError:
        found = {}
    if found.get("target") != target_id:
        return None
    is_new = found.setdefault("new", True)
    if found != parse_json(mark.text(target_id, is_new=is_new)):
        raise CommandError(
            f"Topic {target} has an unfinished restore of generation {found.get('generation')} of topic "
            f"{found.get('topic')}" + (f" until {found['until_ms']}" if found.get("until_ms") is not None else ""),
            hint=f"Go on with --generation {found.get('generation')} and the same --until, or delete the topic.",
        )
    return Unfinished({partition: item.offset for partition, item in stored.items()}, is_new)


def mark_unfinished(
    admin: AdminClient, mark: RestoreMark, target: str, target_id: str | None, unfinished: Unfinished
) -> None:
    """Mark a topic before its first record is written. Raises KafkaError."""
    group_id = mark.group_id(target)
    text = mark.text(target_id, is_new=unfinished.is_new)
    offsets = {(target, number): OffsetAndMetadata(start, metadata=text) for number, start in unfinished.starts.items()}
    altered = alter_offsets(admin, {group_id: offsets})[group_id]
    error = altered.error or next(iter(altered.errors.values()), None)
    if error is not None:
        raise _of_group(group_id, naming(error, Right("READ", GROUP, group_id), Right("READ", TOPIC, target)))


def _of_group(group_id: str, error: KafkaError) -> KafkaError:
    """Return an error with the group in its message, if that does not name it."""
    return error if is_missing_right(error) else type(error)(f"Group {group_id}, which marks the restore: {error}")


def forget(admin: AdminClient, mark: RestoreMark, target: str) -> None:
    """Delete the mark of a topic that is complete. A failure is no error: a complete topic is not continued."""
    delete_groups(admin, [mark.group_id(target)])
