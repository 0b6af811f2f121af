"""A change of one partition's replicas, ISR, eligible leader replicas and leader.

Source: PartitionChangeBuilder and PartitionReassignmentReplicas of Apache Kafka 4.3; KIP-966 for eligible leader
replicas. Rules: a reassignment completes with the change that brings its new replicas into the ISR. A leader stays
while it may lead, except in a preferred election. A new leader is the first replica in the ISR that may lead, or with
an empty ISR the first such eligible leader replica. Unclean elections happen if the election type allows them, or for
the last known leader of a partition without other candidates. `build` changes nothing but the builder: it returns the
record, or None when nothing changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Any

from kafkatools.core.broker.metadata.feature_levels import METADATA_LEVELS
from kafkatools.core.broker.metadata.image import NO_LEADER, NO_LEADER_CHANGE, PartitionState
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import int_hash
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.schemas.metadata import PartitionChangeRecord

RECOVERED, RECOVERING = 0, 1
DIRECTORIES_SINCE = METADATA_LEVELS["3.7-IV2"]
ELR_RECORDS_SINCE = METADATA_LEVELS["4.0-IV1"]
NO_EPOCH_BUMP_ON_SHRINK_SINCE = METADATA_LEVELS["3.6-IV0"]


@unique
class Election(Enum):
    """The electable replicas: the preferred one first, those that keep the partition online, or any live one."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


def record_version(metadata_level: int) -> int:
    """Return the version of PartitionRecord and PartitionChangeRecord for a metadata version level."""
    if metadata_level >= ELR_RECORDS_SINCE:
        return 2
    return 1 if metadata_level >= DIRECTORIES_SINCE else 0


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """The cluster's state that decides a partition's change; `min_isr` is at most the replication factor."""

    metadata_level: int
    min_isr: int
    elr_enabled: bool
    is_acceptable_leader: Callable[[int], bool]
    default_directory: Callable[[int], uuid.UUID | None]

    @property
    def record_version(self) -> int:
        """The version of PartitionRecord and PartitionChangeRecord."""
        return record_version(self.metadata_level)


def completed(
    replicas: Sequence[int], isr: Sequence[int], removing: Collection[int], adding: Collection[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the replicas and ISR after a reassignment, None while it is not complete (maybeCompleteReassignment). It
    is complete when all added replicas and one remaining replica are in the ISR; with a smaller replication factor, all
    remaining ones."""
    if not removing and not adding:
        return None
    new_replicas = tuple(replica for replica in replicas if replica not in removing)
    new_isr = tuple(replica for replica in isr if replica not in removing)
    if not new_replicas or (removing and not new_isr):
        return None
    needed = new_replicas if len(adding) < len(removing) else adding
    if not set(new_isr).issuperset((*adding, *needed)):
        return None
    return new_replicas, new_isr


@dataclass(slots=True)
class PartitionChangeBuilder:
    """Builds the change of a partition from target values; a target that is not set stays as it is."""

    topic_id: uuid.UUID
    partition: PartitionState
    rules: ClusterRules
    election: Election = Election.ONLINE
    unclean_shutdown_replicas: Collection[int] = ()
    directories: dict[int, uuid.UUID | None] = field(default_factory=dict)
    target_isr: tuple[int, ...] = field(init=False)
    target_replicas: tuple[int, ...] = field(init=False)
    target_removing: tuple[int, ...] = field(init=False)
    target_adding: tuple[int, ...] = field(init=False)
    target_recovery_state: int = field(init=False)
    is_unclean: bool = field(init=False, default=False)
    _elr: tuple[int, ...] = field(init=False)
    _changes: Fields = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        partition = self.partition
        self.target_isr, self.target_replicas = partition.isr, partition.replicas
        self.target_removing, self.target_adding = partition.removing_replicas, partition.adding_replicas
        self.target_recovery_state = partition.leader_recovery_state
        self._elr = partition.elr

    def build(self) -> Any | None:
        """Return the PartitionChangeRecord, None without changes. Sets `is_unclean` if records may be lost, and adjusts
        the targets when a reassignment completes or the ISR changes."""
        self._changes = {}
        completion = completed(self.target_replicas, self.target_isr, self.target_removing, self.target_adding)
        if completion is not None:
            self.target_replicas, self.target_isr = completion
            self.target_removing = self.target_adding = ()
        self._find_eligible_replicas()
        self._elect()
        self._bump_leader_epoch_when_replicas_go()
        self._note_isr_and_elr()
        self._note_assignment()
        if self.target_recovery_state != self.partition.leader_recovery_state:
            self._changes["leader_recovery_state"] = self.target_recovery_state
        if not self._changes:
            return None
        return PartitionChangeRecord(
            version=self.rules.record_version,
            partition_id=self.partition.partition_id,
            topic_id=self.topic_id,
            **self._changes,
        )

    def _find_eligible_replicas(self) -> None:
        """Compute the eligible leader replicas: those that left an ISR smaller than min.insync.replicas
        (maybePopulateTargetElr). The high watermark does not move then, so they have all acknowledged records unless
        they stopped uncleanly. A removed replica is not eligible; Apache Kafka keeps it, and would elect it when it is
        added again, empty."""
        if not self.rules.elr_enabled:
            return
        if len(self.target_isr) >= self.rules.min_isr:
            self._elr = ()
            return
        candidates = hash_order((*self._elr, *self.partition.isr), int_hash)
        ineligible = {*self.target_isr, *self.unclean_shutdown_replicas}
        self._elr = tuple(
            replica for replica in candidates if replica in self.target_replicas and replica not in ineligible
        )

    def _note_isr_and_elr(self) -> None:
        partition, changes = self.partition, self._changes
        if "isr" in changes or not self.rules.elr_enabled:  # an unclean election, or the feature is off
            self._elr = ()
        if self._elr != partition.elr:
            changes["eligible_leader_replicas"] = self._elr
        may_be_empty = self.rules.elr_enabled
        if "isr" not in changes and (self.target_isr or may_be_empty) and self.target_isr != partition.isr:
            changes["isr"] = self.target_isr
        is_shrinking = "isr" in changes and not set(changes["isr"]).issuperset(partition.isr)
        if is_shrinking and "leader" not in changes and self.rules.metadata_level < NO_EPOCH_BUMP_ON_SHRINK_SINCE:
            changes["leader"] = partition.leader
        self._note_last_known_leader()

    def _note_last_known_leader(self) -> None:
        """Keep the last leader while the partition has none (maybeUpdateLastKnownLeader)."""
        if not self.rules.elr_enabled:
            return
        last_leaders = self.partition.last_known_elr or ()
        leader = self._changes.get("leader", NO_LEADER_CHANGE)
        if leader == NO_LEADER != self.partition.leader and not last_leaders:
            self._changes["last_known_elr"] = (self.partition.leader,)
        elif leader >= 0 and last_leaders:
            self._changes["last_known_elr"] = ()

    def _may_lead(self, replica: int) -> bool:
        """Return whether a live replica is in the ISR, or, if that is empty, an eligible leader replica."""
        is_candidate = replica in (self.target_isr or self._elr)
        return is_candidate and self.rules.is_acceptable_leader(replica)

    def elected_leader(self) -> tuple[int, bool]:
        """Return (leader id or -1, whether the election is unclean) (electLeader)."""
        replicas = self.target_replicas
        if self.election is Election.PREFERRED and self._may_lead(replicas[0]):
            return replicas[0], False
        if self._may_lead(self.partition.leader):
            return self.partition.leader, False
        for replica in replicas:
            if self._may_lead(replica):
                return replica, False
        if self._may_elect_last_known_leader():
            assert self.partition.last_known_elr is not None
            return self.partition.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for replica in replicas:
                if self.rules.is_acceptable_leader(replica):
                    return replica, True
        return NO_LEADER, False

    def _may_elect_last_known_leader(self) -> bool:
        """Return whether the last known leader may lead a partition with neither ISR nor eligible leader replicas."""
        last_leaders = self.partition.last_known_elr or ()
        if not self.rules.elr_enabled or self._elr or self.target_isr or len(last_leaders) != 1:
            return False
        return self.rules.is_acceptable_leader(last_leaders[0])

    def _elect(self) -> None:
        leader, self.is_unclean = self.elected_leader()
        if leader == self.partition.leader:
            self.is_unclean = False
            return
        if leader in self._elr:
            self.target_isr = (leader,)
            self._elr = tuple(replica for replica in self._elr if replica != leader)
        self._changes["leader"] = leader
        if self.is_unclean:
            self._changes["isr"] = (leader,)
            if self.partition.leader_recovery_state != RECOVERING:
                self._changes["leader_recovery_state"] = RECOVERING

    def _bump_leader_epoch_when_replicas_go(self) -> None:
        if "leader" not in self._changes and not set(self.target_replicas).issuperset(self.partition.replicas):
            self._changes["leader"] = self.partition.leader

    def _note_assignment(self) -> None:
        partition, changes = self.partition, self._changes
        if self.target_replicas:
            self._note_directories()
            if self.target_replicas != partition.replicas:
                changes["replicas"] = self.target_replicas
        if self.target_removing != partition.removing_replicas:
            changes["removing_replicas"] = self.target_removing
        if self.target_adding != partition.adding_replicas:
            changes["adding_replicas"] = self.target_adding

    def _note_directories(self) -> None:
        if self.rules.metadata_level < DIRECTORIES_SINCE:
            return
        partition = self.partition
        previous_directories = partition.directories or (None,) * len(partition.replicas)
        by_replica = {**dict(zip(partition.replicas, previous_directories, strict=False)), **self.directories}
        directories = tuple(
            by_replica[replica] if replica in by_replica else self.rules.default_directory(replica)
            for replica in self.target_replicas
        )
        if directories != previous_directories:
            self._changes["directories"] = directories
