"""A member of a share group, without I/O (ShareMembershipManager, ShareHeartbeatRequestManager; KIP-932).

Rules:

- The member talks to the group coordinator in heartbeats only. Responses carry the member epoch and, when it changed,
  the assignment, which counts at once: partitions of a share group are shared, so nothing is revoked first.
- The first heartbeat has epoch 0 and all fields, later ones what changed. One heartbeat is in flight at a time.
- A fenced member has no partitions and joins again with epoch 0 and the same member id.
- A member that stops polling for max.poll.interval.ms leaves, and joins again with the next poll.
- Responses to heartbeats sent before the last leave, fencing or rejoin are ignored.
"""

from __future__ import annotations

import uuid
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
from kafkatools.core.group.consumer_membership import JOIN_EPOCH, LEAVE_EPOCH, MemberState
from kafkatools.core.group.coordinator import CoordinatorLookup
from kafkatools.core.group.heartbeat_timers import Heartbeat
from kafkatools.core.group.requests import GroupMember, GroupRequest, ignore_outcome
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.uuids import random_uuid, uuid_text

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity


NOT_SUPPORTED = (
    "The cluster does not support the share group protocol. To use share groups, the cluster must have the share group "
    "protocol enabled."
)
_IN_GROUP = (MemberState.JOINING, MemberState.STABLE)

Assigned = dict[uuid.UUID, tuple[int, ...]]


class ShareMembership(GroupMember):
    """The state machine of a share group member: it builds heartbeats and processes their responses."""

    def __init__(self, settings: Config, lookup: CoordinatorLookup, heartbeat: Heartbeat) -> None:
        super().__init__(settings, lookup, heartbeat)
        self.state = MemberState.UNSUBSCRIBED
        self.member_id = uuid_text(random_uuid())
        self.member_epoch = JOIN_EPOCH
        self.assignment: Assigned = {}
        self.life = 0
        self._topics: frozenset[str] = frozenset()
        self._sent_topics: frozenset[str] | None = None

    @property
    def is_in_group(self) -> bool:
        """Return whether the member sends heartbeats: state JOINING or STABLE."""
        return self.state in _IN_GROUP

    @property
    def has_ended(self) -> bool:
        """Return whether a fatal error has ended the membership: state FATAL."""
        return self.state is MemberState.FATAL

    def subscribe(self, topics: frozenset[str]) -> None:
        """Set the subscribed topics; joins the group when outside of it, else a change makes a heartbeat due."""
        if topics != self._topics:
            self._topics = topics
            self.heartbeat.send_now()
        if self.state is MemberState.UNSUBSCRIBED:
            self._join()

    def maybe_rejoin(self) -> None:
        """Join again after the member was fenced, or left because it did not poll."""
        if self.state in (MemberState.FENCED, MemberState.STALE):
            self._join()

    def _join(self) -> None:
        self.life += 1
        self.state = MemberState.JOINING
        self.member_epoch = JOIN_EPOCH
        self.assignment = {}
        self._sent_topics = None
        self.heartbeat.forget_request()
        self.heartbeat.send_now()

    # --- heartbeats

    def heartbeat_request(self, now_ms: int) -> GroupRequest | None:
        """Return a heartbeat request when one is due; None if not, outside the group, without a coordinator, or with a
        heartbeat in flight."""
        if not self.is_in_group or not self.lookup.is_known or not self.heartbeat.is_due(now_ms):
            return None
        fields: dict[str, object] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.member_epoch,
        }
        if self._sent_topics is None:
            fields["rack_id"] = self.settings.client_rack or None
        if self._sent_topics != self._topics:
            fields["subscribed_topic_names"] = sorted(self._topics)
        self._sent_topics = self._topics
        self.heartbeat.note_sent(now_ms)
        return self._request(fields, partial(self._handle_heartbeat, self.life), partial(self._failed, self.life))

    def _request(
        self,
        fields: dict[str, object],
        answered: partial[None],
        failed: partial[None],
    ) -> GroupRequest:
        return GroupRequest(ApiKey.SHARE_GROUP_HEARTBEAT, fields, answered, failed, is_background=True)

    def _handle_heartbeat(self, life: int, entity: Entity, now_ms: int) -> None:
        if life != self.life:
            return
        code = int(entity.error_code)
        if code != NONE:
            self._handle_error(error_for_code(code)(entity.error_message or None), now_ms)
            return
        self.lookup.note_success()
        self.heartbeat.note_received(now_ms)
        self.heartbeat.change_interval(int(entity.heartbeat_interval), now_ms)
        if not self.is_in_group:
            return
        self.state = MemberState.STABLE
        self.member_epoch = int(entity.member_epoch)
        if entity.assignment is not None:
            self.assignment = {
                topic.topic_id: tuple(sorted(int(index) for index in topic.partitions))
                for topic in entity.assignment.topic_partitions
            }

    def _handle_error(self, error: KafkaError, now_ms: int) -> None:
        self._sent_topics = None
        self.heartbeat.note_failed(now_ms)
        if isinstance(error, (NotCoordinator, CoordinatorNotAvailable)):
            self.lookup.mark_unknown(error)
            self.heartbeat.send_now()
        elif isinstance(error, (FencedMemberEpoch, UnknownMemberId)):
            self._log.info("The member %s of %s is fenced: %s", self.member_id, self.group_id, error)
            self.state = MemberState.FENCED
            self.assignment = {}
            self.life += 1
        elif isinstance(error, TopicAuthorizationFailed):
            self.failure = error
        elif not isinstance(error, (CoordinatorLoadInProgress, RetriableError)):
            self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        self.state = MemberState.FATAL
        self.assignment = {}
        self.failure = with_group(error, self.group_id)

    def _failed(self, life: int, error: KafkaError, now_ms: int) -> None:
        if life != self.life:
            return
        self._sent_topics = None
        self.heartbeat.note_failed(now_ms)
        if error.retriable:
            self.lookup.mark_unknown()
        elif isinstance(error, UnsupportedVersion):
            self._fail(UnsupportedVersion(NOT_SUPPORTED))
        else:
            self._fail(error)

    # --- leaving

    def leave_request(self) -> GroupRequest | None:
        """Reset the membership to UNSUBSCRIBED and return the leaving heartbeat, with epoch -1; None when the member is
        not in the group or the coordinator is unknown."""
        was_member = self.is_in_group and self.lookup.is_known
        self.life += 1
        self.state = MemberState.UNSUBSCRIBED
        self.assignment = {}
        self._topics, self._sent_topics, self.failure = frozenset(), None, None
        self.heartbeat.forget_request()
        if not was_member:
            return None
        fields: dict[str, object] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": LEAVE_EPOCH,
        }
        return self._request(fields, partial(ignore_outcome), partial(ignore_outcome))

    def poll_expired(self) -> GroupRequest | None:
        """Leave the group because max.poll.interval.ms passed without a poll; the next poll joins again."""
        self.warn_of_missed_polls()
        topics = self._topics
        request = self.leave_request()
        self._topics, self.state = topics, MemberState.STALE
        return request
