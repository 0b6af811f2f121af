"""The leader's side of replication: fetch sessions of followers, their positions and their waiting fetches (Kafka's
ReplicaManager.fetchMessages, FetchSession and DelayedFetch).

Rules:
- A session costs as much as what changes: an append marks the partition as ready in its followers' sessions. A request
  names the partitions whose position moved, a response names the ready ones. The first request after `FULL_PASS_MS`
  checks all partitions of its session, to refresh last-caught-up times and to find missed changes.
- A request carries the follower's log end offset, which may advance the high watermark and expand the ISR before any
  records are read. A wrong epoch, a diverging log or an offset outside of the log is answered and not stored.
- A fetch with nothing to send waits. It is answered after the requests at hand, with all that they appended, or when
  its max wait has passed.
- A follower may have `MAX_SESSIONS` sessions, such as one for each connection. A new one beyond that closes its oldest.
- A response has records of at most `MOST_READ` partitions and new high watermarks of at most `MOST_NEWS` others; the
  rest follows in the next one. The first response of a session names all of its partitions.
- The slow lane pauses while positions are noted, while all partitions are checked, and in the first response, which
  then has no records. Another request may close the session in a pause; the response is then an error.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct, pack

from kafkatools.core.broker.replicas.cluster import Cluster
from kafkatools.core.broker.replicas.fetch_messages import FetchRequest, Key
from kafkatools.core.broker.replicas.fetch_partition import NONE, FetchPartition
from kafkatools.core.broker.replicas.partition import EpochEnd, Partition
from kafkatools.core.broker.replicas.replica import Replica
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.broker.replicas.throttles import ReplicationThrottles
from kafkatools.core.broker.server.requests import DELAYED, FileRegion, Part, Request, Response
from kafkatools.core.broker.server.timer import TimerTask
from kafkatools.core.errors import KafkaError, KafkaStorageError, NotLeaderOrFollower, OffsetOutOfRange, UnknownTopicId
from kafkatools.core.log.partition.log_results import LogSlice
from kafkatools.core.protocol.slices import current_pause, paced, pausing
from kafkatools.core.protocol.varints import unsigned_varint

FULL_PASS_MS = 100
MAX_SESSIONS = 4
MANY_PARTITIONS = 2000
"""Sessions with more partitions are checked in the slow lane: each partition costs 1 to 2 us."""
MOST_READ = 100
"""A partition costs the leader about 15 us to read and the follower 80 us to append, 500 us for the first records."""
MOST_NEWS = 2000
INLINE_BYTES = 4096
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH = 70, 71
NOTHING_SENT = (-1, -1)
_HEAD = Struct(">ihqqq")
_NO_ABORTED_NO_REPLICA = b"\0\xff\xff\xff\xff"


@dataclass(slots=True, eq=False, repr=False)
class SessionPartition:
    """A partition in a follower's fetch session: the follower's position and the offsets last sent to it."""

    session: FollowerSession
    key: Key
    position: FetchPartition
    partition: Partition | None = field(default=None, init=False)
    error: int = field(default=NONE, init=False)
    diverging: EpochEnd | None = field(default=None, init=False)
    sent_offsets: tuple[int, int] = field(default=NOTHING_SENT, init=False)

    def note(self) -> None:
        """Mark the partition for the next response, for new records or a new role, and wake a waiting fetch."""
        session = self.session
        session.ready[self] = None
        if session.waiting is not None:
            session.woken_sessions[session] = None

    def note_news(self) -> None:
        """Include the partition's high watermark in the next response, without waking a waiting fetch."""
        self.session.news[self] = None


@dataclass(slots=True, eq=False, repr=False)
class FollowerSession:
    """The fetch session of one follower on one connection. `woken_sessions` is shared by all sessions of the broker and
    collects those whose waiting fetch must be checked."""

    broker_id: int
    broker_epoch: int
    session_id: int
    woken_sessions: dict[FollowerSession, None]
    epoch: int = field(default=1, init=False)
    is_ended: bool = field(default=False, init=False)
    partitions: dict[Key, SessionPartition] = field(default_factory=dict, init=False)
    ready: dict[SessionPartition, None] = field(default_factory=dict, init=False)
    news: dict[SessionPartition, None] = field(default_factory=dict, init=False)
    waiting: WaitingFetch | None = field(default=None, init=False)
    full_pass_ms: int = field(default=0, init=False)

    @property
    def has_id(self) -> bool:
        """Return whether later requests may name the session; a sessionless fetch has the id 0."""
        return self.session_id != 0


@dataclass(slots=True, eq=False, repr=False)
class WaitingFetch:
    """A follower's fetch request that waits for records, with the timer of its max wait."""

    request: Request
    data: FetchRequest
    task: TimerTask | None = field(default=None, init=False)


@dataclass(slots=True, eq=False, repr=False)
class _Result:
    """One partition of a fetch response: an error code, or records (None: only offsets)."""

    place: SessionPartition
    error: int
    records: LogSlice | None

    @property
    def size_bytes(self) -> int:
        return 0 if self.records is None else self.records.size_bytes


NoteFetch = Callable[[Partition, Replica, tuple[int, int], int, int, int], None]
"""Partition, replica, (fetch offset, log start offset), the leader's end offset, broker epoch, time in ms; raises
NotLeaderOrFollower for an earlier incarnation of the follower's broker."""


@dataclass(eq=False, repr=False)
class FollowerSessions:
    """The fetch sessions of all followers of this broker."""

    replicas: ReplicaManager
    cluster: Cluster
    throttles: ReplicationThrottles
    note_fetch: NoteFetch
    _sessions: dict[int, FollowerSession] = field(default_factory=dict, init=False)
    _woken_sessions: dict[FollowerSession, None] = field(default_factory=dict, init=False)

    @property
    def has_woken(self) -> bool:
        """Return whether a waiting fetch must be checked by `complete`."""
        return bool(self._woken_sessions)

    def requested_by(self, session_id: int) -> list[FetchPartition]:
        """The followers' positions in the partitions of a session, none for an unknown one."""
        session = self._sessions.get(session_id)
        return [] if session is None else [partition.position for partition in session.partitions.values()]

    # -- requests ------------------------------------------------------------------------------------------------------
    def looks_at_many(self, session_id: int) -> bool:
        """Return whether the session's next request will check all of its partitions and has more than
        `MANY_PARTITIONS`."""
        session = self._sessions.get(session_id)
        return (
            session is not None
            and len(session.partitions) > MANY_PARTITIONS
            and self.cluster.clock.now_ms() - session.full_pass_ms >= FULL_PASS_MS
        )

    def fetch(self, request: Request, data: FetchRequest) -> Response:
        """Store the positions of a follower's Fetch request and answer it. Returns the response, which may be a session
        error, or DELAYED if the fetch waits for records."""
        now_ms = self.cluster.clock.now_ms()
        session, error_code, is_new = self._session(data)
        if session is None:
            return self._respond(request, None, (), error_code)
        session.broker_epoch = data.replica_epoch
        self._take_positions(session, data, now_ms)
        if is_new or now_ms - session.full_pass_ms >= FULL_PASS_MS:
            self._check_all(session, now_ms)
        if is_new and session.has_id and current_pause() is not None:
            response = self._response(request, session, [])
            return self._respond(request, None, (), SESSION_ID_NOT_FOUND) if session.is_ended else response
        with pausing(None):
            return self._answer_or_wait(request, session, data, is_new=is_new)

    def _take_positions(self, session: FollowerSession, data: FetchRequest, now_ms: int) -> None:
        """Remove the partitions that the request forgets and apply the follower's position in those that it names.
        Stops when the session is closed in a pause."""
        for key in paced(data.forgotten):
            self._forget(session, key)
        for position in paced(data.partitions):
            if session.is_ended:
                return
            self._take(session, position, now_ms)

    def _answer_or_wait(
        self, request: Request, session: FollowerSession, data: FetchRequest, *, is_new: bool
    ) -> Response:
        if session.is_ended:
            return self._respond(request, None, (), SESSION_ID_NOT_FOUND)
        results = self._read(session, data)
        if results or is_new or data.max_wait_ms <= 0 or len(session.news) >= MOST_NEWS:
            return self._response(request, session, results)
        self._wait(session, request, data)
        return DELAYED

    def _session(self, data: FetchRequest) -> tuple[FollowerSession | None, int, bool]:
        """Open the request's session (epoch 0), or one for this request alone (-1), or advance it; an earlier fetch
        that waits in it gets no response. Returns the session, an error code, and whether it is new
        (FetchManager.newContext). The session is None when there is an error."""
        if data.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            old = self._sessions.get(data.session_id)
            if old is not None:
                self._end(old)
            session_id = 0 if data.session_epoch == FINAL_EPOCH else self._new_id(data.replica_id)
            session = FollowerSession(data.replica_id, data.replica_epoch, session_id, self._woken_sessions)
            if session.has_id:
                self._sessions[session_id] = session
            return session, NONE, True
        current = self._sessions.get(data.session_id)
        if current is None or current.broker_id != data.replica_id:
            return None, SESSION_ID_NOT_FOUND, False
        if current.epoch != data.session_epoch:
            return None, INVALID_SESSION_EPOCH, False
        current.epoch = 1 if current.epoch == 2**31 - 1 else current.epoch + 1
        self._stop_waiting(current)
        return current, NONE, False

    def _new_id(self, broker_id: int) -> int:
        broker_sessions = [session for session in self._sessions.values() if session.broker_id == broker_id]
        for session in broker_sessions[: len(broker_sessions) + 1 - MAX_SESSIONS]:
            self._end(session)
        session_id = random.randint(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = random.randint(1, 2**31 - 1)
        return session_id

    def _end(self, session: FollowerSession) -> None:
        session.is_ended = True
        self._sessions.pop(session.session_id, None)
        self._stop_waiting(session)
        for key in list(session.partitions):
            self._forget(session, key)

    def _forget(self, session: FollowerSession, key: Key) -> None:
        place = session.partitions.pop(key, None)
        if place is not None:
            session.ready.pop(place, None)
            session.news.pop(place, None)
            if place.partition is not None:
                place.partition.sessions.pop(place, None)

    # -- positions -----------------------------------------------------------------------------------------------------
    def _take(self, session: FollowerSession, position: FetchPartition, now_ms: int) -> None:
        topic_id = position.topic_id
        assert topic_id is not None
        key = (topic_id, position.index)
        place = session.partitions.get(key)
        if place is None:
            place = session.partitions[key] = SessionPartition(session, key, position)
            session.news[place] = None
        place.position = position
        self._apply_position(place, now_ms)

    def _apply_position(self, place: SessionPartition, now_ms: int) -> None:
        """Validate and apply the follower's position. The partition is marked for the next response if it has an error
        or a diverging epoch, or if the position is below the log end; else the mark is removed."""
        place.error, place.diverging = NONE, None
        session = place.session
        try:
            partition = self._find(place)
            partition.ensure_leader()
            partition.check_leader_epoch(place.position.current_leader_epoch)
            replica = partition.follower(session.broker_id, place.position.current_leader_epoch)
            log = partition.log
            if log.failure is not None:
                raise log.failure
            end = log.log_end_offset
            if not log.log_start_offset <= place.position.fetch_offset:
                raise OffsetOutOfRange()
            place.diverging = partition.diverging_epoch(place.position.last_fetched_epoch, place.position.fetch_offset)
            if place.diverging is None:
                if place.position.fetch_offset > end:
                    raise OffsetOutOfRange()
                offsets = (place.position.fetch_offset, place.position.log_start_offset)
                self.note_fetch(partition, replica, offsets, end, session.broker_epoch, now_ms)
                if place.position.fetch_offset == end:
                    session.ready.pop(place, None)
                    return
        except KafkaError as error:
            place.error = error.code
        except OSError:
            place.error = KafkaStorageError.code
        session.ready[place] = None

    def _find(self, place: SessionPartition) -> Partition:
        partition = place.partition
        if partition is not None and not partition.is_deleted:
            return partition
        topic_id, index = place.key
        partition = self.replicas.partitions_by_id.get(topic_id, {}).get(index)
        place.partition = partition
        if partition is None:
            if self.replicas.topic_name(topic_id) is None:
                raise UnknownTopicId()
            raise NotLeaderOrFollower()
        if place.session.has_id:
            partition.sessions[place] = None
        return partition

    def _check_all(self, session: FollowerSession, now_ms: int) -> None:
        session.full_pass_ms = now_ms
        for place in paced(list(session.partitions.values())):
            if session.is_ended:
                return
            if place in session.ready:
                continue
            if not self._is_still_there(place, now_ms):
                self._apply_position(place, now_ms)
            partition = place.partition
            if partition is not None and place.sent_offsets != _offsets(partition):
                session.news[place] = None

    @staticmethod
    def _is_still_there(place: SessionPartition, now_ms: int) -> bool:
        """Return whether an in-sync follower still is at the log end, as in its last request. If so, this also records
        it as caught up now."""
        partition, session = place.partition, place.session
        if (
            partition is None
            or not partition.is_leader
            or partition.leader_epoch != place.position.current_leader_epoch
        ):
            return False
        replica = partition.followers.get(session.broker_id)
        end = partition.log.log_end_offset
        if partition.log.failure is not None or replica is None or place.position.fetch_offset != end:
            return False
        if (
            replica.log_end_offset != end
            or session.broker_id not in partition.isr
            or replica.broker_epoch != session.broker_epoch
        ):
            return False
        replica.last_caught_up_ms = replica.last_fetch_ms = now_ms
        return True

    # -- reading -------------------------------------------------------------------------------------------------------
    def _read(self, session: FollowerSession, data: FetchRequest) -> list[_Result]:
        """Read at most MOST_READ ready partitions within the byte limits, and unmark those with a result: records, an
        error or a diverging epoch. The first one with records returns at least one batch, whatever the limits."""
        results = []
        limit, has_records = data.max_bytes, False
        for place in list(session.ready):
            if limit <= 0 and has_records and place.error == NONE and place.diverging is None:
                continue
            result = self._read_one(place, min(limit, place.position.max_bytes), min_one=not has_records)
            if result is None:
                continue
            del session.ready[place]
            results.append(result)
            has_records = has_records or result.size_bytes > 0
            limit -= result.size_bytes
            if len(results) >= MOST_READ:
                break
        return results

    def _read_one(self, place: SessionPartition, limit: int, *, min_one: bool) -> _Result | None:
        if place.error or place.diverging is not None:
            return _Result(place, place.error, None)
        try:
            partition = self._find(place)
            partition.ensure_leader()
            partition.check_leader_epoch(place.position.current_leader_epoch)
            if self.throttles.is_sending_throttled(partition, place.session.broker_id):
                return None
            records = partition.log.read(place.position.fetch_offset, limit, min_one_message=min_one)
        except KafkaError as error:
            return _Result(place, error.code, None)
        except OSError:
            return _Result(place, KafkaStorageError.code, None)
        if not records.size_bytes or records.first_entry_incomplete:
            return None
        return _Result(place, NONE, records)

    # -- waiting -------------------------------------------------------------------------------------------------------
    def _wait(self, session: FollowerSession, request: Request, data: FetchRequest) -> None:
        waiting = WaitingFetch(request, data)
        session.waiting = waiting

        def expire(_now_ms: int) -> None:
            if session.waiting is waiting:
                waiting.task = None
                self._finish(session, waiting, self._read(session, data))

        waiting.task = self.cluster.schedule(data.max_wait_ms, expire)

    def _stop_waiting(self, session: FollowerSession) -> None:
        waiting, session.waiting = session.waiting, None
        self._woken_sessions.pop(session, None)
        if waiting is not None and waiting.task is not None:
            waiting.task.cancel()

    def complete(self) -> None:
        """Answer the woken fetches that have `min_bytes` of records, an error or a diverging epoch to send."""
        sessions = list(self._woken_sessions)
        self._woken_sessions.clear()
        for session in sessions:
            waiting = session.waiting
            if waiting is None:
                continue
            results = self._read(session, waiting.data)
            size = sum(result.size_bytes for result in results)
            if not results or (size < waiting.data.min_bytes and all(result.size_bytes for result in results)):
                for result in results:
                    session.ready[result.place] = None
                continue
            self._finish(session, waiting, results)

    def _finish(self, session: FollowerSession, waiting: WaitingFetch, results: list[_Result]) -> None:
        self._stop_waiting(session)
        waiting.request.complete(self._response(waiting.request, session, results))

    # -- answers -------------------------------------------------------------------------------------------------------
    def _response(self, request: Request, session: FollowerSession, results: list[_Result]) -> list[Part]:
        """Build the response from the read partitions and from those with a new high watermark or log start offset.
        Counts the records for the replication throttle, and removes the partitions of a session that ends with this
        response."""
        result_places = {result.place for result in results}
        for result in results:
            if result.size_bytes and result.place.partition is not None:
                self.throttles.note_sent(result.place.partition, result.size_bytes)
        news = [_Result(place, place.error, None) for place in paced(_take_news(session)) if place not in result_places]
        if not session.has_id:
            for key in list(session.partitions):
                self._forget(session, key)
        return self._respond(request, session, results + news, NONE)

    def _respond(
        self, request: Request, session: FollowerSession | None, results: Iterable[_Result], error_code: int
    ) -> list[Part]:
        session_id = 0 if session is None else session.session_id
        writer = _Writer(pack(">ihi", request.throttle_ms, error_code, session_id))
        by_topic: dict[uuid.UUID, list[_Result]] = {}
        for result in paced(results):
            by_topic.setdefault(result.place.key[0], []).append(result)
        writer.out += unsigned_varint(len(by_topic) + 1)
        for topic_id, of_topic in by_topic.items():
            writer.out += topic_id.bytes + unsigned_varint(len(of_topic) + 1)
            for result in paced(of_topic):
                _write(writer, result)
            writer.out.append(0)
        writer.out.append(0)
        return writer.finish(request)


def _offsets(partition: Partition) -> tuple[int, int]:
    return partition.log.high_watermark, partition.log.log_start_offset


def _write(writer: _Writer, result: _Result) -> None:
    place = result.place
    index, partition = place.key[1], place.partition
    if result.error or partition is None:
        writer.out += _HEAD.pack(index, result.error, -1, -1, -1) + _NO_ABORTED_NO_REPLICA
    else:
        offsets = _offsets(partition)
        place.sent_offsets = offsets if place.diverging is None else NOTHING_SENT  # a truncating follower ignores them
        writer.out += _HEAD.pack(index, NONE, offsets[0], offsets[0], offsets[1]) + _NO_ABORTED_NO_REPLICA
    writer.records(result.records)
    if result.error == NONE and place.diverging is not None:
        end = place.diverging
        writer.out += b"\1\0\x0d" + pack(">iq", end.leader_epoch, end.end_offset) + b"\0"
    else:
        writer.out.append(0)


def _take_news(session: FollowerSession) -> list[SessionPartition]:
    """Remove and return the partitions whose high watermark the next response carries: all in a session's first
    response, then at most MOST_NEWS."""
    news = session.news
    if session.epoch == INITIAL_EPOCH + 1 or len(news) <= MOST_NEWS:
        session.news = {}
        return list(news)
    places = list(islice(news, MOST_NEWS))
    for place in places:
        del news[place]
    return places


class _Writer:
    """Writes a Fetch response of version 13 to 18. Records above INLINE_BYTES are sent from the file to the socket."""

    __slots__ = ("_file_bytes", "_parts", "out")

    def __init__(self, begin: bytes) -> None:
        self.out = bytearray(begin)
        self._parts: list[Part] = []
        self._file_bytes = 0

    def records(self, log_slice: LogSlice | None) -> None:
        """Write the records field of a partition; None becomes null."""
        if log_slice is None:
            self.out.append(1)
            return
        self.out += unsigned_varint(log_slice.size_bytes + 1)
        if log_slice.size_bytes <= INLINE_BYTES:
            self.out += log_slice.read()
            return
        self._parts += [self.out, FileRegion(log_slice.file, log_slice.position, log_slice.size_bytes)]
        self._file_bytes += log_slice.size_bytes
        self.out = bytearray()

    def finish(self, request: Request) -> list[Part]:
        """Return all parts of the response, the first one with the frame's header in front."""
        parts = [*self._parts, self.out]
        first = parts[0]
        assert isinstance(first, bytearray)
        following = self._file_bytes + sum(len(part) for part in parts[1:] if isinstance(part, bytearray))
        parts[0] = request.frame_response(first, following)
        return parts
