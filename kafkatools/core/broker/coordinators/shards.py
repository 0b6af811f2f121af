"""The partitions of an internal topic that this broker coordinates (Kafka's CoordinatorRuntime).

Rules:
- A broker coordinates the partitions that it leads. After an election the partition is loaded in slices between other
  work, one partition after the other. Meanwhile its keys get COORDINATOR_LOAD_IN_PROGRESS.
- After a resignation the partition is unloaded at once. Waiting requests get NOT_COORDINATOR once the metadata change
  is applied.
- A write is visible to the next request at once, but it is reported only after it is replicated. `when_committed`
  therefore waits until everything written to the partition so far is below the high watermark. OffsetFetch without
  stable offsets, ListGroups and the requests that describe groups read the replicated state instead, without waiting. A
  broker that loses the partition forgets its state, so a write that was never replicated was never reported.
- A broker without a cluster leads every partition, loads at start and never waits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, unique
from functools import partial

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.internal_topic import partition_for
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.server.purgatory import DelayedOperation
from kafkatools.core.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from kafkatools.core.protocol.slices import paced, pausing

SLICE_PAUSE_MS = 1
NONE = 0
CodeCallback = Callable[[int], None]


@unique
class ShardState(Enum):
    """The load state of a partition that this broker leads."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class Shard:
    """An internal topic's partition on its coordinator, with its load state and requests that wait for commits."""

    __slots__ = ("partition", "partition_count", "state", "steps", "waiting")

    def __init__(self, partition: Partition, partition_count: int, steps: Iterator[None]) -> None:
        self.partition = partition
        self.partition_count = partition_count
        self.steps = steps
        self.state = ShardState.LOADING
        self.waiting: dict[_Commit, None] = {}


class _Commit(DelayedOperation):
    """A request that waits until everything written to its shard so far is below the high watermark."""

    __slots__ = ("_code", "_end_offset", "_on_end", "_shard")

    def __init__(self, delay_ms: int, shard: Shard, on_end: CodeCallback) -> None:
        super().__init__(delay_ms)
        self._shard = shard
        self._end_offset = shard.partition.log.log_end_offset
        self._on_end = on_end
        self._code = CoordinatorNotAvailable.code

    def try_complete(self) -> bool:
        partition = self._shard.partition
        if partition.is_deleted or partition.log.failure is not None:
            return self.end(NotCoordinator.code)
        # After a resignation the shard ends the request. Until then this replica may follow the new leader already,
        # whose high watermark says nothing about records that this log has lost.
        return partition.is_leader and partition.is_replicated_to(self._end_offset) and self.end(NONE)

    def end(self, code: int) -> bool:
        self._code = code
        return self.force_complete()

    def on_complete(self) -> None:
        self._shard.waiting.pop(self, None)
        self._on_end(self._code)


@dataclass(eq=False, repr=False)
class Shards:
    """The partitions of one internal topic that this broker leads and coordinates. `load` reads a partition in slices
    and installs the state with its last step. `unload` forgets the keys for which its argument is true.
    `send_responses` is called after an unload, once the metadata change is applied, to send the responses that `unload`
    has queued."""

    host: Host
    topic: str
    commit_timeout_ms: int
    load: Callable[[Partition], Iterator[None]]
    unload: Callable[[Callable[[str], bool]], None]
    send_responses: Callable[[], None] = lambda: None
    _shards: dict[int, Shard] = field(default_factory=dict, init=False)
    _queue: deque[Shard] = field(default_factory=deque, init=False)
    _when_loaded: list[Callable[[], None]] = field(default_factory=list, init=False)

    # -- elections -------------------------------------------------------------------------------------------------
    def on_elected(self, partition: Partition) -> None:
        """Start loading a partition that this broker now leads; an empty one is loaded at once. Does nothing if the
        partition is loaded or loading. One whose loading failed is loaded again."""
        shard_before = self._shards.get(partition.index)
        if (
            shard_before is not None
            and shard_before.partition is partition
            and shard_before.state is not ShardState.FAILED
        ):
            return
        if shard_before is not None:
            self._end(shard_before)
        topic = self.host.image.topics[self.topic]
        shard = Shard(partition, len(topic.partitions), self.load(partition))
        self._shards[partition.index] = shard
        if partition.log.log_start_offset == partition.log.log_end_offset:
            while self._step(shard):
                pass
            return
        self._queue.append(shard)
        if len(self._queue) == 1:
            self._schedule()

    def on_resigned(self, partition: Partition) -> None:
        """Unload a partition that this broker no longer leads, or that was deleted."""
        shard = self._shards.get(partition.index)
        if shard is not None and shard.partition.topic_id == partition.topic_id:
            self._end(shard)

    def _end(self, shard: Shard) -> None:
        index, count = shard.partition.index, shard.partition_count
        del self._shards[index]
        if shard in self._queue:
            self._queue.remove(shard)
        if shard.state is ShardState.ACTIVE:
            self.unload(lambda key: partition_for(key, count) == index)
        host = self.host

        def complete_requests(_now_ms: int) -> None:
            for commit in list(shard.waiting):
                commit.end(NotCoordinator.code)
            host.produce_purgatory.check_and_complete(shard.partition.key)
            self.send_responses()

        host.schedule(SLICE_PAUSE_MS, complete_requests)

    def _schedule(self) -> None:
        self.host.schedule(SLICE_PAUSE_MS, self._load_on)

    def _load_on(self, _now_ms: int) -> None:
        if self._queue and not self._step(self._queue[0]):
            self._queue.popleft()
        if self._queue:
            self._schedule()
            return
        actions, self._when_loaded = self._when_loaded, []
        for action in actions:
            action()

    def when_loaded(self, action: Callable[[], None]) -> None:
        """Call `action` once when no partition is left to load, whether loading succeeded or failed. Drops `action` if
        no partition is loading now."""
        if self._queue:
            self._when_loaded.append(action)

    def _step(self, shard: Shard) -> bool:
        """Load the next slice of a shard. Returns whether there is more to load."""
        try:
            next(shard.steps)
        except StopIteration:
            shard.state = ShardState.ACTIVE
        except Exception as error:  # noqa: BLE001 - boundary: the partitions behind it are read all the same
            shard.state = ShardState.FAILED
            self.host.note_failure(error)
        return shard.state is ShardState.LOADING

    # -- load state ------------------------------------------------------------------------------------------------
    @property
    def is_loading(self) -> bool:
        """Return whether a partition that this broker coordinates is still loading."""
        return any(shard.state is ShardState.LOADING for shard in self._shards.values())

    def ensure_active(self, key: str) -> None:
        """Check that this broker coordinates a key. Raises NotCoordinator if another broker does, or none, or if
        loading failed; CoordinatorLoadInProgress while the key's partition is loading. Does nothing on a broker without
        a cluster."""
        if not self.host.is_clustered:
            return
        topic = self.host.image.topics.get(self.topic)
        if topic is None:
            raise NotCoordinator()
        self.ensure_partition_active(partition_for(key, len(topic.partitions)))

    def ensure_partition_active(self, index: int) -> None:
        """Check that this broker coordinates a partition. Raises NotCoordinator, also if loading failed, or
        CoordinatorLoadInProgress. Does nothing on a broker without a cluster."""
        if not self.host.is_clustered:
            return
        shard = self._shards.get(index)
        if shard is None or shard.state is ShardState.FAILED:
            raise NotCoordinator()
        if shard.state is ShardState.LOADING:
            raise CoordinatorLoadInProgress()

    # -- commits ---------------------------------------------------------------------------------------------------
    def when_committed(self, key: str, on_committed: CodeCallback) -> None:
        """Call `on_committed` with 0 when everything written to the key's partition so far is below the high watermark.
        Passes the code of NotCoordinator if this broker does not coordinate the partition or loses it, of
        CoordinatorNotAvailable after `commit_timeout_ms`. Passes 0 at once on a broker without a cluster
        or before the topic exists."""
        topic = self.host.image.topics.get(self.topic) if self.host.is_clustered else None
        if topic is None:
            on_committed(NONE)
            return
        self._when_partition_committed(partition_for(key, len(topic.partitions)), on_committed)

    def _when_partition_committed(self, index: int, on_committed: CodeCallback) -> None:
        shard = self._shards.get(index)
        if shard is None or shard.state is not ShardState.ACTIVE:
            on_committed(NotCoordinator.code)
            return
        partition = shard.partition
        if partition.is_replicated_to(partition.log.log_end_offset):
            on_committed(NONE)
            return
        commit = _Commit(self.commit_timeout_ms, shard, on_committed)
        shard.waiting[commit] = None
        host = self.host
        host.produce_purgatory.try_complete_else_watch(commit, [partition.key], host.clock.now_ms())

    def when_all_committed(self, keys: Iterable[str], on_committed: Callable[[dict[str, int]], None]) -> None:
        """Call `on_committed` when everything written so far to the partitions of these keys is below the high
        watermark, has failed or timed out. `on_committed` gets error codes by key, only of the keys that failed. On a
        broker without a cluster it gets {} at once."""
        topic = self.host.image.topics.get(self.topic) if self.host.is_clustered else None
        keys_by_partition: dict[int, list[str]] = {}
        if topic is not None:
            for key in paced(keys):
                keys_by_partition.setdefault(partition_for(key, len(topic.partitions)), []).append(key)
        if not keys_by_partition:
            on_committed({})
            return
        codes: dict[int, int] = {}

        def note(index: int, code: int) -> None:
            codes[index] = code
            if len(codes) == len(keys_by_partition):
                on_committed({key: code for index, code in codes.items() if code for key in keys_by_partition[index]})

        with pausing(None):
            for index in keys_by_partition:
                self._when_partition_committed(index, partial(note, index))
