"""The record of cuts in the directory of a migration: the ids of the topics that went on in the target.

After a cut the target topics have no mark any more. Without the record a repeated command would find topics with
records and advise to delete them, although clients use them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.json_texts import parse_json
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.store import Store, read_object
from kafkatools.tools.backup.targets import Target

_NAME = "cuts.json"
_VERSION = 1


def write_cut(store: Store, targets: Iterable[Target]) -> None:
    """Add target topics to the record, before their marks are removed. Raises CommandError."""
    ids = _read_ids(store) | {target.topic_id for target in targets if target.topic_id is not None}
    store.put(_NAME, json.dumps({"v": _VERSION, "topic_ids": sorted(ids)}).encode())


def ensure_not_cut(store: Store, admin: AdminClient, names: Iterable[str]) -> None:
    """Raise CommandError if one of these topics of the target went on there after a cut, or if the record is damaged;
    KafkaError. A topic that was created again is another one."""
    ids = _read_ids(store)
    if not ids:
        return
    described = describe_topics(admin, list(names))
    cut = sorted(name for name, topic in described.items() if topic.error is None and topic.topic_id in ids)
    if cut:
        others = f" and {len(cut) - 1} more" if len(cut) > 1 else ""
        raise CommandError(
            f"Topic {cut[0]}{others} was cut over: clients may already write to the target",
            hint="Records that the source got since then are not copied. To migrate other topics, name them with "
            "--topic; to migrate again, use another --through and --rename.",
            kind="ALREADY_CUT",
        )


def _read_ids(store: Store) -> set[str]:
    """The recorded topic ids; empty without a record. Raises CommandError."""
    if _NAME not in store.sizes(""):
        return set()
    try:
        found = parse_json(read_object(store, _NAME))
        return set(map(str, found["topic_ids"]))
    except (ValueError, KeyError, TypeError):
        raise CommandError(
            f"{_NAME} in {store.url}, the record of topics that went on in the target, is damaged",
            hint="Migrate through another directory (--through), or remove the file if clients use none of the topics "
            "in the target yet.",
            kind="DAMAGED",
        ) from None
