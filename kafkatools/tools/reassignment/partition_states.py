"""The progress of a plan's partitions (findPartitionReassignmentStates of ReassignPartitionsCommand).

The controller reports active reassignments, a broker the present replicas, and that broker may be slightly behind. So a
partition without a reassignment, which still has old replicas or is out of sync, is described again for _BEHIND_MS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.reassignments import PartitionReassignment, TopicPartition
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.errors import UnknownTopicOrPartition
from kafkatools.tools.reassignment.listings import ids

_BEHIND_MS = 2000
_PAUSE_MS = 50


class PartitionState(NamedTuple):
    """A partition's present and target replicas, whether it is being reassigned, and the replicas out of sync.
    `replicas` is empty if the partition does not exist."""

    replicas: tuple[int, ...]
    target: tuple[int, ...]
    is_moving: bool
    out_of_sync: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The state for --json: in_progress, missing, different, out_of_sync or completed."""
        if self.is_moving:
            return "in_progress"
        if not self.replicas:
            return "missing"
        if self.replicas != self.target:
            return "different"
        return "out_of_sync" if self.out_of_sync else "completed"

    def describe(self, part: TopicPartition) -> str:
        """Kafka's line for the state, in which replicas out of sync count as completed."""
        name = f"{part[0]}-{part[1]}"
        if self.is_moving:
            return f"Reassignment of partition {name} is still in progress."
        if self.replicas == self.target:
            return f"Reassignment of partition {name} is completed."
        return (
            f"There is no active reassignment of partition {name}, but replica set is {ids(self.replicas)} rather than "
            f"{ids(self.target)}."
        )


def partition_states(
    admin: AdminClient,
    targets: Mapping[TopicPartition, tuple[int, ...]],
    active: Mapping[TopicPartition, PartitionReassignment],
) -> dict[TopicPartition, PartitionState]:
    """The state of each partition, in order of topic and partition. Waits up to 2 s for partitions that may be behind
    the controller or are out of sync. Raises KafkaError."""
    at_rest = {part: target for part, target in targets.items() if part not in active}
    deadline_ms = admin.clock.now_ms() + _BEHIND_MS
    states = _present(admin, at_rest)
    while any(_may_be_behind(state) for state in states.values()) and admin.clock.now_ms() < deadline_ms:
        admin.clock.sleep_ms(_PAUSE_MS)
        states = _present(admin, at_rest)
    for part in targets.keys() & active.keys():
        states[part] = PartitionState(active[part].replicas, targets[part], is_moving=True)
    return dict(sorted(states.items()))


def _may_be_behind(state: PartitionState) -> bool:
    if state.replicas == state.target:
        return bool(state.out_of_sync)
    return bool(state.target) and set(state.target) <= set(state.replicas)


def _present(
    admin: AdminClient, targets: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, PartitionState]:
    topics = list(dict.fromkeys(topic for topic, _ in targets))
    partitions = {}
    for name, topic in (describe_topics(admin, names=topics) if topics else {}).items():
        if topic.error is not None and not isinstance(topic.error, UnknownTopicOrPartition):
            raise topic.error
        partitions.update({(name, part.partition): part for part in topic.partitions})
    states = {}
    for part, target in targets.items():
        present = partitions.get(part)
        replicas = () if present is None else tuple(present.replicas)
        out_of_sync = () if present is None else tuple(broker for broker in replicas if broker not in present.isr)
        states[part] = PartitionState(replicas, target, is_moving=False, out_of_sync=out_of_sync)
    return states
