"""Look the subject of `kt why` up: the part of the cluster that a snapshot has to cover, or the error that it does not
exist, with the names that are similar."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.groups import SHARE, STREAMS, describe_groups, describe_share_groups, list_groups
from kafkatools.core.admin.share_groups import list_share_group_offsets
from kafkatools.core.admin.topics import describe_topics, list_topics
from kafkatools.core.admin.transactions import describe_transactions, list_transactions
from kafkatools.core.errors import (
    GroupIdNotFound,
    KafkaError,
    RetriableError,
    TransactionalIdNotFound,
    UnsupportedVersion,
)
from kafkatools.core.topic_partition import partitions_text
from kafkatools.exit_status import CommandError
from kafkatools.tools.diagnosis.observations import BROKER, GROUP, PARTITION, TOPIC, TRANSACTION, Subject
from kafkatools.tools.monitor.collector import Scope

_NO_TOPICS = ("__consumer_offsets",)
_MAX_SIMILAR = 3


def missing(kind: str, name: str, others: Iterable[str], noun: str = "") -> CommandError:
    """Return the error for a name that does not exist, with up to three similar names in the same line. `noun` is what
    the sentence calls it, by default its kind."""
    similar = difflib.get_close_matches(name, sorted(others), _MAX_SIMILAR, 0.6)
    hint = f". Similar names: {', '.join(similar)}" if similar else ""
    return CommandError(
        f"{(noun or kind).capitalize()} '{name}' does not exist{hint}", kind=f"{kind.upper()}_NOT_FOUND"
    )


class Subjects:
    """Looks subjects up within `timeout_ms`; `report` gets a line for what could not be seen."""

    def __init__(self, admin: AdminClient, timeout_ms: int, report: Callable[[str], None]) -> None:
        self._admin = admin
        self._timeout_ms = timeout_ms
        self._report = report

    def scope(self, subject: Subject) -> Scope:
        """Return what snapshots of the subject cover. Raises CommandError if it does not exist, KafkaError."""
        no_groups = {"takes_group": lambda name: False}
        if subject.kind == GROUP:
            names = (subject.name,)
            return Scope(self._group_topics(subject.name) or _NO_TOPICS, takes_group=names.__contains__,
                         with_starts=True, group_names=names)  # fmt: skip
        if subject.kind in (TOPIC, PARTITION):
            self._ensure_topic(subject)
            return Scope((subject.name,), with_starts=True, **no_groups)  # type: ignore[arg-type]
        if subject.kind == TRANSACTION:
            topics = self._transaction_topics(subject.name)
            return Scope(topics or _NO_TOPICS, **no_groups)  # type: ignore[arg-type]
        if subject.kind == BROKER:
            return Scope(**no_groups)  # type: ignore[arg-type]
        return Scope(with_starts=True)

    def _group_topics(self, name: str) -> tuple[str, ...]:
        """Return the topics that a group has committed offsets or assignments in. Raises CommandError."""
        description = describe_groups(self._admin, [name], self._timeout_ms)[name]
        if isinstance(description.error, (GroupIdNotFound, UnsupportedVersion)):
            description = describe_share_groups(self._admin, [name], self._timeout_ms)[name]
        if isinstance(description.error, (GroupIdNotFound, UnsupportedVersion)):
            listings = list_groups(self._admin)
            types = {group.group_id: group.type for group in listings.groups}
            if name not in types and not listings.errors:
                raise missing(GROUP, name, types)
            if types.get(name) == STREAMS:
                description = description._replace(error=None)
                self._report(f"members of {name}: kt why does not examine those of Kafka Streams groups")
        if isinstance(description.error, KafkaError):
            self._report(f"group {name}: {description.error}")
        if isinstance(description.error, RetriableError):
            return ()  # its coordinator did not respond in time: a further request would wait as long
        if description.type == SHARE:
            keys = {topic for topic, _ in list_share_group_offsets(self._admin, [name], self._timeout_ms)[name].offsets}
        else:
            offsets = fetch_offsets(self._admin, [name], timeout_ms=self._timeout_ms)[name]
            keys = {topic for topic, _ in offsets.offsets}
        keys |= {topic for member in description.members for topic, _ in member.assignment}
        return tuple(sorted(keys))

    def _ensure_topic(self, subject: Subject) -> None:
        """Raise CommandError unless the topic, and the partition if it is one, exists."""
        description = describe_topics(self._admin, [subject.name])[subject.name]
        if description.error is not None:
            if description.error.name != "UNKNOWN_TOPIC_OR_PARTITION":
                raise description.error
            raise missing(TOPIC, subject.name, [topic.name for topic in list_topics(self._admin)])
        numbers = {part.partition for part in description.partitions}
        if subject.kind == PARTITION and subject.partition not in numbers:
            raise CommandError(
                f"Topic {subject.name} has no partition {subject.partition}: {partitions_text(numbers)}",
                kind="UNKNOWN_TOPIC_OR_PARTITION",
            )

    def _transaction_topics(self, name: str) -> tuple[str, ...]:
        """Return the topics of an id's transaction. Raises CommandError for an unknown id."""
        description = describe_transactions(self._admin, [name])[name]
        if isinstance(description, TransactionalIdNotFound):
            listings = list_transactions(self._admin)
            names = [listing.transactional_id for listing in listings.transactions]
            raise missing(TRANSACTION, name, names, "transactional id")
        if isinstance(description, KafkaError):
            self._report(f"transaction {name}: {description}")
            return ()
        return tuple(sorted({topic for topic, _ in description.partitions}))
