"""Tasks of streams groups (KIP-1071): a task is a partition of a subtopology, written `0-1`.

Values are immutable and have no empty subtopologies, so that equal tasks compare equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.protocol.entities import Entity, Fields

Task = tuple[str, int]
TaskSet = Mapping[str, frozenset[int]]
"""Partitions by subtopology id."""
TasksWithEpochs = Mapping[str, Mapping[int, int]]
"""The epoch in which a member got each task, by subtopology id and partition."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """The target tasks of a member, or those that a member reports to own (Kafka's TasksTuple)."""

    active: TaskSet = field(default_factory=dict)
    standby: TaskSet = field(default_factory=dict)
    warmup: TaskSet = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return whether there is no task."""
        return not (self.active or self.standby or self.warmup)

    def has_any_of(self, other: OwnedTasks) -> bool:
        """Return whether a task of `other` is among these, of the same kind."""
        return (
            _overlap(self.active, other.active)
            or _overlap(self.standby, other.standby)
            or _overlap(self.warmup, other.warmup)
        )


@dataclass(frozen=True, slots=True)
class OwnedTasks:
    """The tasks of a member, active ones with epochs (Kafka's TasksTupleWithEpochs)."""

    active: TasksWithEpochs = field(default_factory=dict)
    standby: TaskSet = field(default_factory=dict)
    warmup: TaskSet = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return whether there is no task."""
        return not (self.active or self.standby or self.warmup)

    def merged(self, other: OwnedTasks) -> OwnedTasks:
        """These tasks and those of `other`."""
        active = {subtopology: dict(epochs) for subtopology, epochs in self.active.items()}
        for subtopology, epochs in other.active.items():
            active.setdefault(subtopology, {}).update(epochs)
        return OwnedTasks(active, _union(self.standby, other.standby), _union(self.warmup, other.warmup))

    def epoch_of(self, subtopology: str, partition: int) -> int | None:
        """The epoch in which the member got an active task; None if it does not have it."""
        return self.active.get(subtopology, {}).get(partition)


NO_TASKS = Tasks()
OWNS_NOTHING = OwnedTasks()


def _overlap(tasks: TaskSet, others: TaskSet | TasksWithEpochs) -> bool:
    return any(partition in others.get(subtopology, ()) for subtopology, partition in tasks_in(tasks))


def _union(tasks: TaskSet, others: TaskSet) -> TaskSet:
    result = dict(tasks)
    for subtopology, partitions in others.items():
        result[subtopology] = result.get(subtopology, frozenset()) | partitions
    return result


def tasks_in(tasks: TaskSet | TasksWithEpochs) -> Iterator[Task]:
    """Each task."""
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition


def task_set(tasks: Iterable[Task]) -> TaskSet:
    """Tasks by subtopology."""
    found: dict[str, set[int]] = {}
    for subtopology, partition in tasks:
        found.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(partitions) for subtopology, partitions in found.items()}


# -- the wire and the log ----------------------------------------------------------------------------------------------
def read_tasks(entities: Iterable[Entity]) -> TaskSet:
    """The tasks of a list of TaskIds."""
    return task_set((entity.subtopology_id, partition) for entity in entities for partition in entity.partitions)


def read_tasks_with_epochs(entities: Iterable[Entity], member_epoch: int) -> TasksWithEpochs:
    """The active tasks of a record. Tasks without an epoch, as Apache Kafka 4.1 wrote them, have the member's."""
    found: dict[str, dict[int, int]] = {}
    for entity in entities:
        epochs = entity.assignment_epochs
        if epochs is None or len(epochs) != len(entity.partitions):
            epochs = [member_epoch] * len(entity.partitions)
        found[entity.subtopology_id] = dict(zip(entity.partitions, epochs, strict=True))
    return found


def task_ids(tasks: TaskSet | TasksWithEpochs) -> list[Fields]:
    """Tasks as the fields of TaskIds, sorted by subtopology."""
    return [{"subtopology_id": key, "partitions": sorted(tasks[key])} for key in sorted(tasks)]


def task_ids_with_epochs(tasks: TasksWithEpochs) -> list[Fields]:
    """Active tasks as the fields of TaskIds with epochs, sorted by subtopology."""
    return [
        {
            "subtopology_id": key,
            "partitions": sorted(tasks[key]),
            "assignment_epochs": [tasks[key][partition] for partition in sorted(tasks[key])],
        }
        for key in sorted(tasks)
    ]


def task_ids_as_listed(tasks: TaskSet | TasksWithEpochs) -> list[Fields]:
    """Tasks as the fields of TaskIds, in the order of Java's hash maps, as a heartbeat's response has them."""
    return [{"subtopology_id": key, "partitions": sorted(tasks[key])} for key in hash_order(tasks)]
