"""What followers fetch from this broker: sessions, their positions, and the fetches that wait (the leader's side of
ReplicaManager.fetchMessages, FetchSession and DelayedFetch).

Rules:
- A follower's session costs by what changes: an append marks the partition as ready in the sessions that follow it, a
  request names the partitions whose position moved, a response the ones that are ready. All partitions of a session
  are looked at every `FULL_PASS_MS`: when each was last caught up, and what was missed.
- A request tells how far the follower is: that moves the high watermark and may bring it into the ISR, before anything
  is read for it. A wrong epoch, a diverging log, an offset outside of the log are answers, not positions.
- A fetch with nothing to send waits; it is answered after the requests at hand, once for all that they appended.
- A follower has one session for each of its connections; beyond `MAX_SESSIONS` the oldest is forgotten.
- A response has records of at most `MOST_READ` partitions, and news of at most `MOST_NEWS` others; the rest comes with
  the next one. Only the first response of a session names all of its partitions.
- In the slow lane there are pauses while positions are taken, while all partitions are looked at, and in the first
  response, which has no records then. Another request may end the session in a pause: the response is an error then.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable
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
from kafkatools.core.errors import (
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownTopicId,
)
from kafkatools.core.log.partition.log_results import LogSlice
from kafkatools.core.protocol.slices import current_pause, paced, pausing
from kafkatools.core.protocol.varints import unsigned_varint

FULL_PASS_MS = 100
MAX_SESSIONS = 4
MANY_PARTITIONS = 2000
"""A look at all partitions of a session with more of them is taken in the slow lane: it costs 1 to 2 us for each."""
MOST_READ = 100
"""Reading a partition costs the leader about 15 us, appending its records the follower 80 us, the first ones 500 us."""
MOST_NEWS = 2000
INLINE_BYTES = 4096
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH = 70, 71
NOTHING_TOLD = (-1, -1)
_HEAD = Struct(">ihqqq")
_NO_ABORTED_NO_REPLICA = b"\0\xff\xff\xff\xff"


class SessionPartition:
    """A partition of a session: where the follower is, and what it was last told."""

    __slots__ = (
        "diverging",
        "error",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "max_bytes",
        "partition",
        "session",
        "start_offset",
        "told",
    )

    def __init__(self, session: FollowerSession, key: Key) -> None:
        self.session = session
        self.key = key
        self.partition: Partition | None = None
        self.fetch_offset = self.start_offset = 0
        self.leader_epoch = self.last_fetched_epoch = -1
        self.max_bytes = 0
        self.error = NONE
        self.diverging: EpochEnd | None = None
        self.told = NOTHING_TOLD

    def take(self, wanted: FetchPartition) -> None:
        """Where the follower is now."""
        self.fetch_offset, self.start_offset = wanted.fetch_offset, wanted.log_start_offset
        self.leader_epoch, self.last_fetched_epoch = wanted.current_leader_epoch, wanted.last_fetched_epoch
        self.max_bytes = wanted.max_bytes

    def note(self) -> None:
        """Something of this partition has to be said, records or that it is not what it was."""
        session = self.session
        session.ready[self] = None
        if session.waiting is not None:
            session.woken[session] = None

    def note_news(self) -> None:
        """The high watermark moved: the next answers tell it, nobody is woken for it."""
        self.session.news[self] = None


class FollowerSession:
    """What one follower fetches over one connection. `woken` holds the sessions whose waiting fetch has to be looked
    at."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "epoch",
        "full_pass_ms",
        "is_ended",
        "is_kept",
        "news",
        "partitions",
        "ready",
        "session_id",
        "waiting",
        "woken",
    )

    def __init__(self, broker_id: int, broker_epoch: int, session_id: int, woken: dict[FollowerSession, None]) -> None:
        self.woken = woken
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.session_id = session_id
        self.epoch = 1
        self.is_kept = session_id != 0
        self.is_ended = False
        self.partitions: dict[Key, SessionPartition] = {}
        self.ready: dict[SessionPartition, None] = {}
        self.news: dict[SessionPartition, None] = {}
        self.waiting: WaitingFetch | None = None
        self.full_pass_ms = 0


class WaitingFetch:
    """A fetch that waits for records."""

    __slots__ = ("data", "request", "task")

    def __init__(self, request: Request, data: FetchRequest) -> None:
        self.request = request
        self.data = data
        self.task: TimerTask | None = None


class _Found:
    """What a response says of one partition."""

    __slots__ = ("each", "error", "records", "size_bytes")

    def __init__(self, each: SessionPartition, error: int, records: LogSlice | None) -> None:
        self.each = each
        self.error = error
        self.records = records
        self.size_bytes = 0 if records is None else records.size_bytes


NoteFetch = Callable[[Partition, Replica, tuple[int, int], int, int, int], None]
"""Partition, replica, (fetch offset, log start offset), the leader's end offset, broker epoch, time in ms; raises
NotLeaderOrFollower for an earlier life of the follower's broker."""


class FollowerSessions:
    """The sessions of all followers of this broker."""

    def __init__(
        self, replicas: ReplicaManager, cluster: Cluster, throttles: ReplicationThrottles, note_fetch: NoteFetch
    ) -> None:
        self._replicas = replicas
        self._clock = cluster.clock
        self._schedule = cluster.schedule
        self._throttles = throttles
        self._note_fetch = note_fetch
        self._sessions: dict[int, FollowerSession] = {}
        self._woken: dict[FollowerSession, None] = {}

    # -- events ----------------------------------------------------------------------------------------------------
    @property
    def has_woken(self) -> bool:
        """Whether a fetch that waits has to be looked at."""
        return bool(self._woken)

    # -- requests --------------------------------------------------------------------------------------------------
    def looks_at_many(self, session_id: int) -> bool:
        """Whether the next request of this session looks at all of its partitions, and there are many."""
        session = self._sessions.get(session_id)
        return (
            session is not None
            and len(session.partitions) > MANY_PARTITIONS
            and self._clock.now_ms() - session.full_pass_ms >= FULL_PASS_MS
        )

    def fetch(self, request: Request, data: FetchRequest) -> Response:
        """Answer a follower now, or when there is something."""
        now_ms = self._clock.now_ms()
        session, error_code, is_new = self._session(data)
        if session is None:
            return self._respond(request, None, (), error_code)
        session.broker_epoch = data.replica_epoch
        self._take_positions(session, data, now_ms)
        if is_new or now_ms - session.full_pass_ms >= FULL_PASS_MS:
            self._look_at_all(session, now_ms)
        if is_new and session.is_kept and current_pause() is not None:
            response = self._answer(request, session, [])
            return self._respond(request, None, (), SESSION_ID_NOT_FOUND) if session.is_ended else response
        with pausing(None):
            return self._answer_or_wait(request, session, data, is_new=is_new)

    def _take_positions(self, session: FollowerSession, data: FetchRequest, now_ms: int) -> None:
        """Forget the partitions that the follower names as forgotten, and note where it is in the others."""
        for key in paced(data.forgotten):
            self._forget(session, key)
        for wanted in paced(data.wanted):
            if session.is_ended:
                return
            self._take(session, wanted, now_ms)

    def _answer_or_wait(
        self, request: Request, session: FollowerSession, data: FetchRequest, *, is_new: bool
    ) -> Response:
        if session.is_ended:
            return self._respond(request, None, (), SESSION_ID_NOT_FOUND)
        found = self._read(session, data)
        if found or is_new or data.max_wait_ms <= 0 or len(session.news) >= MOST_NEWS:
            return self._answer(request, session, found)
        self._wait(session, request, data)
        return DELAYED

    def _session(self, data: FetchRequest) -> tuple[FollowerSession | None, int, bool]:
        """The session of a request, an error, and whether it begins (FetchManager.newContext)."""
        if data.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            old = self._sessions.get(data.session_id)
            if old is not None:
                self._end(old)
            session_id = 0 if data.session_epoch == FINAL_EPOCH else self._new_id(data.replica_id)
            session = FollowerSession(data.replica_id, data.replica_epoch, session_id, self._woken)
            if session.is_kept:
                self._sessions[session_id] = session
            return session, NONE, True
        found = self._sessions.get(data.session_id)
        if found is None or found.broker_id != data.replica_id:
            return None, SESSION_ID_NOT_FOUND, False
        if found.epoch != data.session_epoch:
            return None, INVALID_SESSION_EPOCH, False
        found.epoch = 1 if found.epoch == 2**31 - 1 else found.epoch + 1
        self._stop_waiting(found)
        return found, NONE, False

    def _new_id(self, broker_id: int) -> int:
        mine = [session for session in self._sessions.values() if session.broker_id == broker_id]
        for session in mine[: len(mine) + 1 - MAX_SESSIONS]:
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
        each = session.partitions.pop(key, None)
        if each is not None:
            session.ready.pop(each, None)
            session.news.pop(each, None)
            if each.partition is not None:
                each.partition.sessions.pop(each, None)

    # -- positions -------------------------------------------------------------------------------------------------
    def _take(self, session: FollowerSession, wanted: FetchPartition, now_ms: int) -> None:
        topic_id = wanted.topic_id
        assert topic_id is not None
        key = (topic_id, wanted.index)
        each = session.partitions.get(key)
        if each is None:
            each = session.partitions[key] = SessionPartition(session, key)
            session.news[each] = None
        each.take(wanted)
        self._place(each, now_ms)

    def _place(self, each: SessionPartition, now_ms: int) -> None:
        """Check where the follower says it is, and note it; what has to be said is ready afterwards."""
        each.error, each.diverging = NONE, None
        session = each.session
        try:
            partition = self._find(each)
            partition.ensure_leader()
            partition.check_leader_epoch(each.leader_epoch)
            replica = partition.follower(session.broker_id, each.leader_epoch)
            log = partition.log
            if log.failure is not None:
                raise log.failure
            end = log.log_end_offset
            if not log.log_start_offset <= each.fetch_offset:
                raise OffsetOutOfRange()
            each.diverging = partition.diverging_epoch(each.last_fetched_epoch, each.fetch_offset)
            if each.diverging is None:
                if each.fetch_offset > end:
                    raise OffsetOutOfRange()
                offsets = (each.fetch_offset, each.start_offset)
                self._note_fetch(partition, replica, offsets, end, session.broker_epoch, now_ms)
                if each.fetch_offset == end:
                    session.ready.pop(each, None)
                    return
        except KafkaError as error:
            each.error = error.code
        except OSError:
            each.error = KafkaStorageError.code
        session.ready[each] = None

    def _find(self, each: SessionPartition) -> Partition:
        partition = each.partition
        if partition is not None and not partition.is_deleted:
            return partition
        topic_id, index = each.key
        found = self._replicas.partitions_by_id.get(topic_id, {}).get(index)
        each.partition = found
        if found is None:
            if self._replicas.topic_name(topic_id) is None:
                raise UnknownTopicId()
            raise NotLeaderOrFollower()
        if each.session.is_kept:
            found.sessions[each] = None
        return found

    def _look_at_all(self, session: FollowerSession, now_ms: int) -> None:
        session.full_pass_ms = now_ms
        for each in paced(list(session.partitions.values())):
            if session.is_ended:
                return
            if each in session.ready:
                continue
            if not self._is_still_there(each, now_ms):
                self._place(each, now_ms)
            partition = each.partition
            if partition is not None and each.told != (partition.log.high_watermark, partition.log.log_start_offset):
                session.news[each] = None

    @staticmethod
    def _is_still_there(each: SessionPartition, now_ms: int) -> bool:
        """Whether a follower in sync has the end of the log, as when it last said so: it is caught up now."""
        partition, session = each.partition, each.session
        if partition is None or not partition.is_leader or partition.leader_epoch != each.leader_epoch:
            return False
        replica = partition.followers.get(session.broker_id)
        end = partition.log.log_end_offset
        if (
            partition.log.failure is not None
            or replica is None
            or replica.log_end_offset != end
            or each.fetch_offset != end
        ):
            return False
        if session.broker_id not in partition.isr or replica.broker_epoch != session.broker_epoch:
            return False
        replica.last_caught_up_ms = replica.last_fetch_ms = now_ms
        return True

    # -- reading ---------------------------------------------------------------------------------------------------
    def _read(self, session: FollowerSession, data: FetchRequest) -> list[_Found]:
        """What is ready of at most MOST_READ partitions, up to the request's limits; the first one with records gives
        one batch at least."""
        found = []
        limit, has_records = data.max_bytes, False
        for each in list(session.ready):
            if limit <= 0 and has_records and each.error == NONE and each.diverging is None:
                continue
            result = self._read_one(each, min(limit, each.max_bytes), min_one=not has_records)
            if result is None:
                continue
            del session.ready[each]
            found.append(result)
            has_records = has_records or result.size_bytes > 0
            limit -= result.size_bytes
            if len(found) >= MOST_READ:
                break
        return found

    def _read_one(self, each: SessionPartition, limit: int, *, min_one: bool) -> _Found | None:
        partition = each.partition
        if each.error or each.diverging is not None:
            return _Found(each, each.error, None)
        try:
            partition = self._find(each)
            partition.ensure_leader()
            partition.check_leader_epoch(each.leader_epoch)
            if self._throttles.is_sending_throttled(partition, each.session.broker_id):
                return None
            records = partition.log.read(each.fetch_offset, limit, min_one_message=min_one)
        except KafkaError as error:
            return _Found(each, error.code, None)
        except OSError:
            return _Found(each, KafkaStorageError.code, None)
        if not records.size_bytes or records.first_entry_incomplete:
            return None
        return _Found(each, NONE, records)

    # -- waiting ---------------------------------------------------------------------------------------------------
    def _wait(self, session: FollowerSession, request: Request, data: FetchRequest) -> None:
        waiting = WaitingFetch(request, data)
        session.waiting = waiting

        def expire(_now_ms: int) -> None:
            if session.waiting is waiting:
                waiting.task = None
                self._finish(session, waiting, self._read(session, data))

        waiting.task = self._schedule(data.max_wait_ms, expire)

    def _stop_waiting(self, session: FollowerSession) -> None:
        waiting, session.waiting = session.waiting, None
        self._woken.pop(session, None)
        if waiting is not None and waiting.task is not None:
            waiting.task.cancel()

    def complete(self) -> None:
        """Answer the fetches that were woken."""
        woken = list(self._woken)
        self._woken.clear()
        for session in woken:
            waiting = session.waiting
            if waiting is None:
                continue
            found = self._read(session, waiting.data)
            size = sum(each.size_bytes for each in found)
            if not found or (size < waiting.data.min_bytes and all(each.size_bytes for each in found)):
                for each in found:
                    session.ready[each.each] = None
                continue
            self._finish(session, waiting, found)

    def _finish(self, session: FollowerSession, waiting: WaitingFetch, found: list[_Found]) -> None:
        self._stop_waiting(session)
        waiting.request.complete(self._answer(waiting.request, session, found))

    # -- answers ---------------------------------------------------------------------------------------------------
    def _answer(self, request: Request, session: FollowerSession, found: list[_Found]) -> list[Part]:
        """The response: what was found, and the news of the others."""
        named = {each.each for each in found}
        for each in found:
            if each.size_bytes and each.each.partition is not None:
                self._throttles.note_sent(each.each.partition, each.size_bytes)
        said = found + [_Found(each, each.error, None) for each in paced(_take_news(session)) if each not in named]
        if not session.is_kept:
            for key in list(session.partitions):
                self._forget(session, key)
        return self._respond(request, session, said, NONE)

    def _respond(
        self, request: Request, session: FollowerSession | None, found: Iterable[_Found], error_code: int
    ) -> list[Part]:
        session_id = 0 if session is None else session.session_id
        writer = _Writer(pack(">ihi", request.throttle_ms, error_code, session_id))
        by_topic: dict[uuid.UUID, list[_Found]] = {}
        for each in paced(found):
            by_topic.setdefault(each.each.key[0], []).append(each)
        writer.out += unsigned_varint(len(by_topic) + 1)
        for topic_id, results in by_topic.items():
            writer.out += topic_id.bytes + unsigned_varint(len(results) + 1)
            for result in paced(results):
                self._write(writer, result)
            writer.out.append(0)
        writer.out.append(0)
        return writer.finish(request)

    def _write(self, writer: _Writer, result: _Found) -> None:
        each = result.each
        index, partition = each.key[1], each.partition
        if result.error or partition is None:
            writer.out += _HEAD.pack(index, result.error, -1, -1, -1) + _NO_ABORTED_NO_REPLICA
        else:
            log = partition.log
            told = (log.high_watermark, log.log_start_offset)
            each.told = told if each.diverging is None else NOTHING_TOLD  # who has to truncate takes nothing else
            writer.out += _HEAD.pack(index, NONE, told[0], told[0], told[1]) + _NO_ABORTED_NO_REPLICA
        writer.records(result.records)
        if result.error == NONE and each.diverging is not None:
            end = each.diverging
            writer.out += b"\1\0\x0d" + pack(">iq", end.leader_epoch, end.end_offset) + b"\0"
        else:
            writer.out.append(0)


def _take_news(session: FollowerSession) -> list[SessionPartition]:
    """The partitions of which the next response tells the high watermark: in the first one of a session all."""
    news = session.news
    if session.epoch == INITIAL_EPOCH + 1 or len(news) <= MOST_NEWS:
        session.news = {}
        return list(news)
    chosen = list(islice(news, MOST_NEWS))
    for each in chosen:
        del news[each]
    return chosen


class _Writer:
    """Frames a response of version 13 to 18; records that are not small go from the file to the socket."""

    __slots__ = ("_file_bytes", "_parts", "out")

    def __init__(self, begin: bytes) -> None:
        self.out = bytearray(begin)
        self._parts: list[Part] = []
        self._file_bytes = 0

    def records(self, found: LogSlice | None) -> None:
        """The records of a partition, maybe none."""
        if found is None:
            self.out.append(1)
            return
        self.out += unsigned_varint(found.size_bytes + 1)
        if found.size_bytes <= INLINE_BYTES:
            self.out += found.read()
            return
        self._parts += [self.out, FileRegion(found.file, found.position, found.size_bytes)]
        self._file_bytes += found.size_bytes
        self.out = bytearray()

    def finish(self, request: Request) -> list[Part]:
        """All parts, with the frame's header in front."""
        parts = [*self._parts, self.out]
        first = parts[0]
        assert isinstance(first, bytearray)
        following = self._file_bytes + sum(len(part) for part in parts[1:] if isinstance(part, bytearray))
        parts[0] = request.frame_response(first, following)
        return parts
