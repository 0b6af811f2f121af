"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (AbstractCoordinator), without I/O.

Rules:

- `next_step` names the next step, which ClassicRebalance performs on the application's thread. The heartbeat thread may
  request and answer heartbeats. ClassicRebalance's lock guards every method.
- Heartbeats are sent in the states COMPLETING_REBALANCE and STABLE only.
- Every request carries its generation. A response that reports the loss of an outdated generation is ignored
  (KAFKA-10793).
- After a lost generation, partitions may belong to other members. PREPARE then precedes the next JOIN, and
  ClassicRebalance reports the partitions as lost.
- A fatal error becomes the `failure`, which ClassicRebalance raises. Then the member joins again, unless it is fenced:
  FencedInstanceId is raised until it leaves.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.config import Config
from kafkatools.core.errors import (
    NONE,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    RetriableError,
    UnknownMemberId,
    error_for_code,
    with_group,
)
from kafkatools.core.group.coordinator import CoordinatorLookup
from kafkatools.core.group.heartbeat_timers import Heartbeat
from kafkatools.core.group.metadata import NO_GENERATION, NO_MEMBER_ID, ConsumerGroupMetadata
from kafkatools.core.group.requests import GroupMember, GroupRequest, ignore_outcome
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity


PROTOCOL_TYPE = "consumer"
# JoinGroup is answered when all members have joined, for which the coordinator waits up to the rebalance timeout.
JOIN_TIMEOUT_LAPSE_MS = 5000
_FIRST_JOIN_WITH_INSTANCES = 5
_FIRST_JOIN_WITH_REASON = 8
_FIRST_WITH_INSTANCES = 3
_FIRST_SYNC_WITH_PROTOCOL = 5
_FIRST_LEAVE_WITH_MEMBERS = 3
_FIRST_LEAVE_WITH_REASON = 5
_MAX_REASON = 255


@enum.unique
class MemberState(enum.Enum):
    """The member states of Kafka's AbstractCoordinator."""

    UNJOINED = "UNJOINED"
    PREPARING_REBALANCE = "PREPARING_REBALANCE"
    COMPLETING_REBALANCE = "COMPLETING_REBALANCE"
    STABLE = "STABLE"


class Generation(NamedTuple):
    """A generation of the group, with this member's id and the chosen assignor."""

    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    protocol_name: str | None = None


@enum.unique
class Step(enum.Enum):
    """The steps of a rebalance that ClassicRebalance performs."""

    NOTHING = "nothing"
    WAIT = "wait"
    PREPARE = "prepare"
    JOIN = "join"
    ASSIGN = "assign"
    SYNC = "sync"
    COMPLETE = "complete"


class JoinedGroup(NamedTuple):
    """A JoinGroup response. `members` has each member's id, instance id and subscription in response order; it is empty
    unless this member is the leader. With `skips_assignment` the leader assigns nothing (KIP-814)."""

    protocol_name: str
    members: tuple[tuple[str, str | None, bytes], ...]
    skips_assignment: bool = False


class ClassicMembership(GroupMember):
    """The state machine of a classic group member: it builds the requests and processes their responses."""

    def __init__(self, settings: Config, lookup: CoordinatorLookup, heartbeat: Heartbeat) -> None:
        super().__init__(settings, lookup, heartbeat)
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.joined: JoinedGroup | None = None
        self.assignment: bytes | None = None
        self._needs_rejoin = True
        self._needs_prepare = True
        self._is_waiting = False
        self._reason = ""
        self._retry_ms = 0
        self._attempts = 0

    # --- state

    @property
    def member_id(self) -> str:
        """The member id, empty before the coordinator assigned one."""
        return self.generation.member_id

    @property
    def has_generation(self) -> bool:
        """Return whether the member has a generation id and member id from the coordinator."""
        return self.generation.generation_id != NO_GENERATION and bool(self.generation.member_id)

    @property
    def is_rebalancing(self) -> bool:
        """Return whether JoinGroup or SyncGroup is in progress."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def has_ended(self) -> bool:
        """Return whether another member has taken over the group instance id; joining again would fence that one."""
        return isinstance(self.failure, FencedInstanceId)

    @property
    def rejoin_needed_or_pending(self) -> bool:
        """Return whether a rebalance is needed or in progress, or its assignment is not yet applied."""
        return self._needs_rejoin or self._is_waiting or self.joined is not None or self.assignment is not None

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group id, generation, member id and instance id."""
        generation = self.generation
        instance = self.settings.group_instance_id
        return ConsumerGroupMetadata(self.group_id, generation.generation_id, generation.member_id, instance)

    # --- steps

    def request_rejoin(self, reason: str) -> None:
        """Make the next steps join the group again; `reason`, at most 255 characters of it, is sent in JoinGroup."""
        self._needs_rejoin = True
        self._reason = reason[:_MAX_REASON]

    def next_step(self, now_ms: int) -> Step:
        """Return the step to perform now.

        PREPARE and JOIN begin a rebalance. After JoinGroup, ASSIGN is for the leader and SYNC for other members.
        COMPLETE follows SyncGroup. WAIT: a response, the coordinator or the back-off is awaited. NOTHING: no rebalance
        is needed.
        """
        if self._is_waiting:
            return Step.WAIT
        if self.assignment is not None:
            return Step.COMPLETE
        if self.joined is not None and self.lookup.is_known:
            return Step.ASSIGN if self.joined.members and not self.joined.skips_assignment else Step.SYNC
        if not self._needs_rejoin:
            return Step.NOTHING
        if not self.lookup.is_known or now_ms < self._retry_ms:
            return Step.WAIT
        return Step.PREPARE if self._needs_prepare else Step.JOIN

    def prepared(self) -> None:
        """Record that partitions were revoked as needed, so that `next_step` returns JOIN rather than PREPARE."""
        self._needs_prepare = False

    def abandon_join(self, reason: str) -> None:
        """Drop the joined generation and rejoin, because the leader could not assign partitions."""
        self.joined = None
        self.state = MemberState.UNJOINED
        self.request_rejoin(reason)

    def completed(self) -> None:
        """Clear the assignment, because ClassicRebalance has applied it."""
        self.assignment = None

    def postpone(self, assignment: bytes, generation: Generation) -> None:
        """Store the assignment of this generation again, because an interrupt came before it was applied."""
        if self.generation == generation and self.state is MemberState.STABLE:
            self.assignment = assignment

    # --- JoinGroup

    def join_request(self, protocols: Sequence[tuple[str, bytes]], now_ms: int) -> GroupRequest:
        """Return a JoinGroup request with these (assignor name, subscription) pairs, preferred first. The state becomes
        PREPARING_REBALANCE."""
        self.state = MemberState.PREPARING_REBALANCE
        self._is_waiting = True
        settings, generation = self.settings, self.generation
        fields = {
            "group_id": settings.group_id,
            "session_timeout": settings.session_timeout_ms,
            "rebalance_timeout": settings.max_poll_interval_ms,
            "member_id": generation.member_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
        }
        instance = settings.group_instance_id
        # A static member's id is in every version: encoding fails in those without static members.
        fields_of = _by_version(
            fields,
            ("group_instance_id", instance, _FIRST_JOIN_WITH_INSTANCES if instance is None else 0),
            ("reason", self._reason, _FIRST_JOIN_WITH_REASON),
        )
        timeout_ms = max(settings.request_timeout_ms, settings.max_poll_interval_ms + JOIN_TIMEOUT_LAPSE_MS)
        return GroupRequest(
            ApiKey.JOIN_GROUP,
            fields_of,
            partial(self._handle_join, generation),
            self._handle_join_failure,
            timeout_ms,
            2,
        )

    def _handle_join(self, sent_generation: Generation, entity: Entity, now_ms: int) -> None:
        self._is_waiting = False
        code = int(entity.error_code)
        if self.state is not MemberState.PREPARING_REBALANCE:
            return  # the member left or was fenced since the request
        if code != NONE:
            self._handle_join_error(sent_generation, error_for_code(code)(), entity, now_ms)
            return
        protocol_type = getattr(entity, "protocol_type", None)
        if protocol_type not in (None, "", PROTOCOL_TYPE):
            self._fail(InconsistentGroupProtocol(f"The group is of the type {protocol_type}, not {PROTOCOL_TYPE}."))
            return
        name = entity.protocol_name or ""
        self.state = MemberState.COMPLETING_REBALANCE
        self.generation = Generation(int(entity.generation_id), entity.member_id, name)
        is_leader = entity.leader == entity.member_id
        members = tuple(
            (member.member_id, getattr(member, "group_instance_id", None), bytes(member.metadata))
            for member in entity.members
        )
        skips = bool(getattr(entity, "skip_assignment", False))
        self.joined = JoinedGroup(name, members if is_leader else (), skips)
        self.heartbeat.reset(now_ms)  # as in Kafka, the first heartbeat is due after the interval
        self.heartbeat.forget_request()

    def _handle_join_error(self, sent_generation: Generation, error: KafkaError, entity: Entity, now_ms: int) -> None:
        self._log.info("JoinGroup of %s failed: %s", self.group_id, error)
        if isinstance(error, MemberIdRequired):
            self.state = MemberState.UNJOINED
            self.generation = Generation(NO_GENERATION, entity.member_id)
            return
        if isinstance(error, UnknownMemberId):
            if self.generation == sent_generation:
                self._reset_and_rejoin("the member id is unknown to the coordinator", keeps_member_id=False)
            self.state = MemberState.UNJOINED
            return
        self.state = MemberState.UNJOINED
        if isinstance(error, (NotCoordinator, CoordinatorNotAvailable)):
            self.lookup.mark_unknown(error)
        elif isinstance(error, (CoordinatorLoadInProgress, RebalanceInProgress)):
            self._back_off(now_ms)
        else:
            self._fail(self._fatal_error(error))

    def _handle_join_failure(self, error: KafkaError, now_ms: int) -> None:
        self._is_waiting = False
        if self.state is MemberState.PREPARING_REBALANCE:
            self.state = MemberState.UNJOINED
        self._request_failed(error, now_ms)

    # --- SyncGroup

    def sync_request(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupRequest:
        """Return a SyncGroup request and clear `joined`. `assignments` holds all members' assignments from the leader;
        it is empty from other members."""
        self.joined = None
        self._is_waiting = True
        generation = self.generation
        assigned = [{"member_id": member, "assignment": data} for member, data in assignments.items()]
        fields_of = _by_version(
            {**self._identity(), "assignments": assigned},
            ("group_instance_id", self.settings.group_instance_id, _FIRST_WITH_INSTANCES),
            ("protocol_type", PROTOCOL_TYPE, _FIRST_SYNC_WITH_PROTOCOL),
            ("protocol_name", generation.protocol_name, _FIRST_SYNC_WITH_PROTOCOL),
        )
        return GroupRequest(
            ApiKey.SYNC_GROUP, fields_of, partial(self._handle_sync, generation), self._handle_sync_failure, None, 0
        )

    def _handle_sync(self, sent_generation: Generation, entity: Entity, now_ms: int) -> None:
        self._is_waiting = False
        code = int(entity.error_code)
        if code != NONE:
            self._handle_sync_error(sent_generation, error_for_code(code)(), now_ms)
            return
        if self.generation != sent_generation or self.state is not MemberState.COMPLETING_REBALANCE:
            self._log.info("Ignored a late SyncGroup response of generation %s", sent_generation.generation_id)
            self.request_rejoin("the generation changed before SyncGroup was answered")
            return
        self.state = MemberState.STABLE
        self.lookup.note_success()
        self._needs_rejoin = False
        self._needs_prepare = True
        self._attempts, self._retry_ms, self._reason = 0, 0, ""
        self.assignment = bytes(entity.assignment)
        self.heartbeat.reset_session(now_ms)

    def _handle_sync_error(self, sent_generation: Generation, error: KafkaError, now_ms: int) -> None:
        self._log.info("SyncGroup of %s failed: %s", self.group_id, error)
        self.request_rejoin(f"SyncGroup failed: {error.name}")
        if isinstance(error, (UnknownMemberId, IllegalGeneration)):
            if self.generation == sent_generation:
                self._reset_and_rejoin(f"SyncGroup failed: {error.name}", isinstance(error, IllegalGeneration))
        elif isinstance(error, (NotCoordinator, CoordinatorNotAvailable)):
            self.lookup.mark_unknown(error)
        elif isinstance(error, CoordinatorLoadInProgress):
            self._back_off(now_ms)
        elif not isinstance(error, RebalanceInProgress):
            self._fail(self._fatal_error(error))
        if self.state is MemberState.COMPLETING_REBALANCE:
            self.state = MemberState.PREPARING_REBALANCE

    def _handle_sync_failure(self, error: KafkaError, now_ms: int) -> None:
        self._is_waiting = False
        self.request_rejoin("SyncGroup was not answered")
        self._request_failed(error, now_ms)

    # --- Heartbeat

    def heartbeat_request(self, now_ms: int) -> GroupRequest | None:
        """Return a Heartbeat request when one is due; None if not, outside the group, or without a coordinator. After
        session.timeout.ms without a response it returns None and the coordinator is looked up again."""
        if not self.is_in_group or not self.lookup.is_known:
            return None
        if self.heartbeat.session_expired(now_ms):
            self._log.info("The coordinator of %s was silent for session.timeout.ms", self.group_id)
            self.heartbeat.reset_session(now_ms)
            self.lookup.mark_unknown()
            return None
        if not self.heartbeat.is_due(now_ms):
            return None
        self.heartbeat.note_sent(now_ms)
        generation = self.generation
        instance = ("group_instance_id", self.settings.group_instance_id, _FIRST_WITH_INSTANCES)
        return GroupRequest(
            ApiKey.HEARTBEAT,
            _by_version(self._identity(), instance),
            partial(self._handle_heartbeat, generation),
            self._handle_heartbeat_failure,
            is_background=True,
        )

    def _identity(self) -> dict[str, object]:
        generation = self.generation
        return {"group_id": self.group_id, "generation_id": generation.generation_id, "member_id": generation.member_id}

    def _handle_heartbeat(self, sent_generation: Generation, entity: Entity, now_ms: int) -> None:
        code = int(entity.error_code)
        if code == NONE:
            self.heartbeat.note_received(now_ms)
            return
        error = error_for_code(code)()
        if isinstance(error, RebalanceInProgress):
            self.heartbeat.note_received(now_ms)
            if self.state is MemberState.STABLE:
                self.request_rejoin("group is already rebalancing")
            return
        self.heartbeat.note_failed(now_ms)
        self._log.info("Heartbeat of %s failed: %s", self.group_id, error)
        if isinstance(error, (NotCoordinator, CoordinatorNotAvailable)):
            self.lookup.mark_unknown(error)
        elif isinstance(error, (IllegalGeneration, UnknownMemberId)):
            if self.generation == sent_generation:
                self._reset_and_rejoin(f"Heartbeat failed: {error.name}", isinstance(error, IllegalGeneration))
        elif isinstance(error, FencedInstanceId):
            if self.generation == sent_generation:
                self._fence(error)
        elif not isinstance(error, RetriableError):
            self._fail(self._fatal_error(error))
            self.request_rejoin(f"Heartbeat failed: {error.name}")
            self._needs_prepare = True

    def _handle_heartbeat_failure(self, error: KafkaError, now_ms: int) -> None:
        self.heartbeat.note_failed(now_ms)
        self.lookup.mark_unknown()

    def poll_expired(self) -> GroupRequest | None:
        """Reset the membership because max.poll.interval.ms passed without a poll. Return a LeaveGroup request, None
        for a static member, one that has not joined, or without a coordinator."""
        self.warn_of_missed_polls()
        return self.leave_request("consumer poll timeout has expired.")

    @property
    def is_in_group(self) -> bool:
        """Return whether the member sends heartbeats: state COMPLETING_REBALANCE or STABLE."""
        return self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    # --- LeaveGroup

    def leave_request(self, reason: str, leaves: bool | None = None) -> GroupRequest | None:
        """Reset the membership and return a LeaveGroup request. None when the member is not joined or joining, has no
        member id, or the coordinator is unknown. `leaves` (KIP-1092): False sends none, True also for a static member;
        None only for a dynamic one."""
        is_wanted = self.settings.group_instance_id is None if leaves is None else leaves
        generation, settings = self.generation, self.settings
        is_member = self.state is not MemberState.UNJOINED and bool(generation.member_id)
        self._reset(keeps_member_id=False)
        self.request_rejoin(reason)
        self._needs_prepare = True
        self.joined = self.assignment = self.failure = None
        if not is_member or not self.lookup.is_known or not is_wanted:
            return None
        member: dict[str, object] = {"member_id": generation.member_id, "group_instance_id": settings.group_instance_id}

        def fields_of(version: int) -> Mapping[str, object]:
            if version < _FIRST_LEAVE_WITH_MEMBERS:
                return {"group_id": settings.group_id, "member_id": generation.member_id}
            extra = {"reason": reason[:_MAX_REASON]} if version >= _FIRST_LEAVE_WITH_REASON else {}
            return {"group_id": settings.group_id, "members": [{**member, **extra}]}

        return GroupRequest(ApiKey.LEAVE_GROUP, fields_of, ignore_outcome, ignore_outcome, is_background=True)

    # --- errors of commits

    def note_commit_error(self, sent_generation: Generation, error: KafkaError) -> None:
        """Act on a refused OffsetCommit, unless the generation has changed since. RebalanceInProgress makes a stable
        member rejoin. UnknownMemberId and IllegalGeneration also reset the generation. FencedInstanceId ends the
        membership. Other errors change nothing."""
        if self.generation != sent_generation:
            return
        if isinstance(error, RebalanceInProgress):
            if self.state is MemberState.STABLE:
                self.request_rejoin("offset commit failed since group is already rebalancing")
        elif isinstance(error, (UnknownMemberId, IllegalGeneration)):
            self._reset_and_rejoin(f"OffsetCommit failed: {error.name}", isinstance(error, IllegalGeneration))
        elif isinstance(error, FencedInstanceId):
            self._fence(error)

    # --- errors

    def _request_failed(self, error: KafkaError, now_ms: int) -> None:
        if error.retriable:
            self.lookup.mark_unknown()
            self._back_off(now_ms)
        else:
            self._fail(error)

    def _back_off(self, now_ms: int) -> None:
        self._retry_ms = now_ms + self._backoff.backoff_ms(self._attempts)
        self._attempts += 1

    def _fail(self, error: KafkaError) -> None:
        self.state = MemberState.UNJOINED
        self.joined = None
        self.failure = error

    def _fence(self, error: KafkaError) -> None:
        self._reset(keeps_member_id=False)
        self._needs_prepare = True
        self._fail(error)

    def _fatal_error(self, error: KafkaError) -> KafkaError:
        if isinstance(error, FencedInstanceId):
            self._reset(keeps_member_id=False)
        return with_group(error, self.group_id)

    def _reset_and_rejoin(self, reason: str, keeps_member_id: bool) -> None:
        self._log.info("The member of %s resets its generation: %s", self.group_id, reason)
        self._reset(keeps_member_id)
        self.request_rejoin(reason)
        self._needs_prepare = True
        self.joined, self.assignment = None, None

    def _reset(self, keeps_member_id: bool) -> None:
        self.state = MemberState.UNJOINED
        self.generation = Generation(NO_GENERATION, self.generation.member_id if keeps_member_id else NO_MEMBER_ID)
        self.heartbeat.forget_request()


def _by_version(fields: Mapping[str, object], *more: tuple[str, object, int]) -> Callable[[int], Mapping[str, object]]:
    """Return a function from an API version to the fields of a request; `more`: name, value and first version."""
    return lambda version: {**fields, **{name: value for name, value, first in more if version >= first}}
