"""A member of a KIP-848 consumer group, without I/O (ConsumerMembershipManager, HeartbeatState).

Rules:

- The member talks to the coordinator in heartbeats only. Responses carry the member epoch and a changed target
  assignment. ConsumerRebalance reconciles on the application's thread and calls `acknowledge`;
  the next heartbeat reports it.
- A heartbeat contains the fields changed since the last one; all fields when joining and after any failure.
- One heartbeat is in flight at a time. JOINING and ACKNOWLEDGING do not wait for the interval, except for the back-off
  after a failure.
- A fenced member has lost its partitions. ConsumerRebalance reports that, then `rejoin` starts again with epoch 0.
- A member that stops polling leaves, becomes STALE, and joins again with the next poll.
- Responses to heartbeats sent before the last leave, fencing or rejoin are ignored.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafkatools.core.config import Config
from kafkatools.core.errors import (
    NONE,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    KafkaError,
    NotCoordinator,
    RetriableError,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnsupportedVersion,
    error_for_code,
    with_group,
)
from kafkatools.core.group.coordinator import CoordinatorLookup
from kafkatools.core.group.heartbeat_timers import Heartbeat
from kafkatools.core.group.metadata import ConsumerGroupMetadata
from kafkatools.core.group.requests import GroupMember, GroupRequest, ignore_outcome
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.uuids import random_uuid, uuid_text

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity


JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
FIRST_VERSION_WITH_REGEX = 1
NOT_SUPPORTED = (
    "The cluster does not support the new CONSUMER group protocol. Set group.protocol=classic on the consumer configs "
    "to revert to the CLASSIC protocol until the cluster is upgraded."
)

Assigned = Mapping[uuid.UUID, tuple[int, ...]]


@enum.unique
class MemberState(enum.Enum):
    """The member states of Kafka's asynchronous consumer."""

    UNSUBSCRIBED = "UNSUBSCRIBED"
    JOINING = "JOINING"
    RECONCILING = "RECONCILING"
    ACKNOWLEDGING = "ACKNOWLEDGING"
    STABLE = "STABLE"
    FENCED = "FENCED"
    LEAVING = "LEAVING"
    STALE = "STALE"
    FATAL = "FATAL"


_IN_GROUP = (MemberState.JOINING, MemberState.RECONCILING, MemberState.ACKNOWLEDGING, MemberState.STABLE)
_AT_ONCE = (MemberState.JOINING, MemberState.ACKNOWLEDGING)


class ConsumerMembership(GroupMember):
    """The state machine of a KIP-848 group member: it builds heartbeats and processes their responses."""

    def __init__(self, settings: Config, lookup: CoordinatorLookup, heartbeat: Heartbeat) -> None:
        super().__init__(settings, lookup, heartbeat)
        self.state = MemberState.UNSUBSCRIBED
        self.member_id = uuid_text(random_uuid())
        self.member_epoch = JOIN_EPOCH
        self._last_epoch = JOIN_EPOCH
        self.target: Assigned | None = None
        self.current: Assigned | None = None
        self.life = 0
        self._topics: frozenset[str] = frozenset()
        self._pattern: str | None = None
        self._sent_fields: dict[str, object] = {}

    # --- state

    @property
    def is_in_group(self) -> bool:
        """Return whether the member sends heartbeats: state JOINING, RECONCILING, ACKNOWLEDGING or STABLE."""
        return self.state in _IN_GROUP

    @property
    def has_ended(self) -> bool:
        """Return whether a fatal error has ended the membership: state FATAL."""
        return self.state is MemberState.FATAL

    @property
    def has_epoch(self) -> bool:
        """Return whether the member has joined and has an epoch above 0."""
        return self.is_in_group and self.member_epoch > JOIN_EPOCH

    @property
    def is_reconciled(self) -> bool:
        """Return whether the current assignment equals the target assignment; also true when the member has neither."""
        return self.target == self.current

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group id, member epoch, member id and instance id; before the first epoch only group id and
        instance id. A fenced member keeps its last epoch until it has joined again
        (AsyncKafkaConsumer.updateGroupMetadata). Otherwise transactional offsets without a member would be accepted."""
        instance = self.settings.group_instance_id
        if self._last_epoch == JOIN_EPOCH:
            return ConsumerGroupMetadata(self.group_id, group_instance_id=instance)
        return ConsumerGroupMetadata(self.group_id, self._last_epoch, self.member_id, instance)

    # --- subscription and reconciliation

    def subscribe(self, topics: frozenset[str], pattern: str | None) -> None:
        """Set topics and pattern; a change makes the next heartbeat due at once."""
        if (topics, pattern) != (self._topics, self._pattern):
            self._topics, self._pattern = topics, pattern
            self.heartbeat.send_now()

    def rejoin(self) -> None:
        """Join (again) with epoch 0 and without partitions."""
        self.life += 1
        self.state = MemberState.JOINING
        self.member_epoch = JOIN_EPOCH
        self.target = self.current = None
        self._sent_fields = {}
        self.heartbeat.forget_request()
        self.heartbeat.send_now()

    def acknowledge(self, assigned: Assigned) -> None:
        """Set the current assignment after ConsumerRebalance reconciled it; the next heartbeat reports it."""
        self.current = dict(assigned)
        self.state = MemberState.ACKNOWLEDGING

    # --- heartbeats

    def heartbeat_request(self, now_ms: int) -> GroupRequest | None:
        """Return a heartbeat request when one is due; None if not, outside the group, without a coordinator, or with a
        heartbeat in flight. In state ACKNOWLEDGING the request reports the assignment, and the state becomes STABLE or
        RECONCILING."""
        if not self.is_in_group or not self.lookup.is_known or self.heartbeat.is_in_flight:
            return None
        is_retry = self.heartbeat.has_failed
        if not self.heartbeat.is_due(now_ms) and (is_retry or self.state not in _AT_ONCE):
            return None
        fields = self._changed_fields()
        self.heartbeat.note_sent(now_ms)
        if self.state is MemberState.ACKNOWLEDGING:
            self.state = MemberState.STABLE if self.is_reconciled else MemberState.RECONCILING
        return GroupRequest(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            fields,
            partial(self._handle_heartbeat, self.life),
            partial(self._handle_failure, self.life),
            min_version=FIRST_VERSION_WITH_REGEX if self._pattern is not None else 0,
            is_background=True,
        )

    def _changed_fields(self) -> dict[str, object]:
        """Return the mandatory heartbeat fields and those changed since they were last sent; all fields when
        joining."""
        settings = self.settings
        values: dict[str, object] = {
            "rebalance_timeout": settings.max_poll_interval_ms,
            "rack_id": settings.client_rack or None,
            "server_assignor": settings.group_remote_assignor,
            "topic_partitions": _topic_partitions(self.current or {}),
        }
        if self._pattern is None:
            values["subscribed_topic_names"] = sorted(self._topics)
        if self._pattern is not None or "subscribed_topic_regex" in self._sent_fields:
            values["subscribed_topic_regex"] = self._pattern or ""
        is_joining = self.state is MemberState.JOINING
        fields = {
            name: value
            for name, value in values.items()
            if is_joining or name not in self._sent_fields or self._sent_fields[name] != value
        }
        self._sent_fields |= values
        return {
            "group_id": settings.group_id,
            "member_id": self.member_id,
            "member_epoch": self.member_epoch,
            "instance_id": settings.group_instance_id,
            **fields,
        }

    def _handle_heartbeat(self, life: int, entity: Entity, now_ms: int) -> None:
        if life != self.life:
            return
        code = int(entity.error_code)
        if code != NONE:
            self._handle_error(error_for_code(code)(entity.error_message or None), now_ms)
            return
        interval_ms = entity.heartbeat_interval
        self.lookup.note_success()
        self.heartbeat.note_received(now_ms)
        self.heartbeat.change_interval(interval_ms, now_ms)
        if not self.is_in_group:
            return
        if entity.member_id:
            self.member_id = entity.member_id
        self.member_epoch = int(entity.member_epoch)
        self._last_epoch = max(self.member_epoch, JOIN_EPOCH) or self._last_epoch
        if entity.assignment is not None:
            self._take_target(entity.assignment)
        elif self.state is MemberState.JOINING:
            self.target = {}
            self.state = MemberState.RECONCILING

    def _take_target(self, assignment: Entity) -> None:
        self.target = {
            topic.topic_id: tuple(sorted(int(index) for index in topic.partitions))
            for topic in assignment.topic_partitions
        }
        if not self.is_reconciled:
            self.state = MemberState.RECONCILING
        elif self.state in (MemberState.RECONCILING, MemberState.JOINING):
            self.state = MemberState.STABLE

    def _handle_error(self, error: KafkaError, now_ms: int) -> None:
        self._sent_fields = {}
        self.heartbeat.note_failed(now_ms)
        if isinstance(error, (NotCoordinator, CoordinatorNotAvailable)):
            self.lookup.mark_unknown(error)
            self.heartbeat.send_now()
        elif isinstance(error, (FencedMemberEpoch, UnknownMemberId)):
            self._log.info("The member %s of %s is fenced: %s", self.member_id, self.group_id, error)
            if self.is_in_group:
                self.state = MemberState.FENCED
                self.life += 1
        elif isinstance(error, TopicAuthorizationFailed):
            self.failure = error
        elif not isinstance(error, (CoordinatorLoadInProgress, RetriableError)):
            self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        self.state = MemberState.FATAL
        self.failure = with_group(error, self.group_id)

    def _handle_failure(self, life: int, error: KafkaError, now_ms: int) -> None:
        if life != self.life:
            return
        self._sent_fields = {}
        self.heartbeat.note_failed(now_ms)
        if error.retriable:
            self.lookup.mark_unknown()
        elif isinstance(error, UnsupportedVersion):
            self._fail(UnsupportedVersion(NOT_SUPPORTED if self._pattern is None else str(error)))
        else:
            self._fail(error)

    # --- leaving

    def leave_request(self, leaves: bool | None = None) -> GroupRequest | None:
        """Reset the membership to UNSUBSCRIBED and return the leaving heartbeat, with epoch -1, or -2 for a static
        member. None when the member is not in the group or the coordinator is unknown. `leaves` (KIP-1092): True means
        epoch -1 for a static member too, False None for a dynamic one, which the broker then removes by time-out."""
        was_member = self.is_in_group and self.lookup.is_known
        static = self.settings.group_instance_id
        fields = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": LEAVE_EPOCH if static is None or leaves else LEAVE_STATIC_EPOCH,
            "instance_id": static,
        }
        self.life += 1
        self.state = MemberState.UNSUBSCRIBED
        self.member_epoch = LEAVE_EPOCH
        self._last_epoch = JOIN_EPOCH
        self.target = self.current = self.failure = None
        self._sent_fields = {}
        self.heartbeat.forget_request()
        if not was_member or (leaves is False and static is None):
            return None
        return GroupRequest(ApiKey.CONSUMER_GROUP_HEARTBEAT, fields, ignore_outcome, ignore_outcome, is_background=True)

    def poll_expired(self) -> GroupRequest | None:
        """Leave the group because max.poll.interval.ms passed without a poll; the state becomes STALE. Returns the
        leaving heartbeat or None, as `leave_request`."""
        self.warn_of_missed_polls()
        last_epoch = self._last_epoch
        request = self.leave_request()
        self.state, self._last_epoch = MemberState.STALE, last_epoch
        return request


def _topic_partitions(assigned: Assigned) -> list[dict[str, object]]:
    return [{"topic_id": topic, "partitions": list(indexes)} for topic, indexes in sorted(assigned.items())]
