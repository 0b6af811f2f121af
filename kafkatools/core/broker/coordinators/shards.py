"""Which partitions of the internal topics this node coordinates (Kafka's CoordinatorRuntime and the election callbacks
of its coordinators).

Rules:
- Coordination goes with leadership. A partition that this node begins to lead is loaded, a slice at a time between the
  node's other work, one partition after the other; meanwhile its keys answer COORDINATOR_LOAD_IN_PROGRESS. One that it
  ceases to lead is unloaded at once, and who waits is told NOT_COORDINATOR when the change of the metadata is applied.
- What is written counts at once for whoever asks next, but nobody is told of it before it is replicated: an answer
  waits until all that was written of its partition by then lies below the high watermark (`when_committed`). Only
  OffsetFetch without stable offsets reads the replicated state instead, and does not wait. A node that loses the
  partition forgets what it had of it, so what was never replicated was never told.
- A node on its own leads everything, loads at start and waits for nothing here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
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
CodeAnswer = Callable[[int], None]


class ShardState(Enum):
    """A partition that this node leads."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class Shard:
    """One partition of a coordinator's topic."""

    __slots__ = ("partition", "partition_count", "state", "steps", "waiting")

    def __init__(self, partition: Partition, partition_count: int, steps: Iterator[None]) -> None:
        self.partition = partition
        self.partition_count = partition_count
        self.steps = steps
        self.state = ShardState.LOADING
        self.waiting: dict[_Commit, None] = {}


class _Commit(DelayedOperation):
    """An answer that waits for what its shard has written."""

    __slots__ = ("_code", "_done", "_end_offset", "_shard")

    def __init__(self, delay_ms: int, shard: Shard, done: CodeAnswer) -> None:
        super().__init__(delay_ms)
        self._shard = shard
        self._end_offset = shard.partition.log.log_end_offset
        self._done = done
        self._code = CoordinatorNotAvailable.code

    def try_complete(self) -> bool:
        partition = self._shard.partition
        if partition.is_deleted or partition.log.failure is not None:
            return self.end(NotCoordinator.code)
        return partition.is_replicated_to(self._end_offset) and self.end(NONE)

    def end(self, code: int) -> bool:
        """Answer with this code."""
        self._code = code
        return self.force_complete()

    def on_complete(self) -> None:
        self._shard.waiting.pop(self, None)
        self._done(self._code)


@dataclass(eq=False, repr=False)
class Shards:
    """The partitions of one coordinator's topic.

    `load` reads a partition, a slice with each step; at the end what was read is taken over. `unload` forgets the keys
    that its argument names; answers to who waits for them are kept for `tell`, which sends them when the node is done
    with the change that took the partition.
    """

    host: Host
    topic: str
    commit_timeout_ms: int
    load: Callable[[Partition], Iterator[None]]
    unload: Callable[[Callable[[str], bool]], None]
    tell: Callable[[], None] = lambda: None
    _shards: dict[int, Shard] = field(default_factory=dict, init=False)
    _queue: deque[Shard] = field(default_factory=deque, init=False)
    _when_loaded: list[Callable[[], None]] = field(default_factory=list, init=False)

    @property
    def is_clustered(self) -> bool:
        """Whether partitions may be led by other nodes."""
        return self.host.is_clustered

    # -- elections -------------------------------------------------------------------------------------------------
    def on_elected(self, partition: Partition) -> None:
        """This node leads the partition, or leads it on in a new epoch."""
        known = self._shards.get(partition.index)
        if known is not None and known.partition is partition and known.state is not ShardState.FAILED:
            return
        if known is not None:
            self._end(known)
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
        """Another node leads the partition, or none, or it is deleted."""
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

        def tell(_now_ms: int) -> None:
            for waiting in list(shard.waiting):
                waiting.end(NotCoordinator.code)
            host.produce_purgatory.check_and_complete(shard.partition.key)
            self.tell()

        host.schedule(SLICE_PAUSE_MS, tell)

    def _schedule(self) -> None:
        self.host.schedule(SLICE_PAUSE_MS, self._load_on)

    def _load_on(self, _now_ms: int) -> None:
        """The next slice of what is being loaded."""
        if self._queue and not self._step(self._queue[0]):
            self._queue.popleft()
        if self._queue:
            self._schedule()
            return
        acts, self._when_loaded = self._when_loaded, []
        for act in acts:
            act()

    def when_loaded(self, act: Callable[[], None]) -> None:
        """Do this when what is being loaded is known, once, if anything is."""
        if self._queue:
            self._when_loaded.append(act)

    def _step(self, shard: Shard) -> bool:
        """Whether there is more to load."""
        try:
            next(shard.steps)
        except StopIteration:
            shard.state = ShardState.ACTIVE
        except Exception as error:  # noqa: BLE001 - boundary: the partitions behind it are read all the same
            shard.state = ShardState.FAILED
            self.host.note_failure(error)
        return shard.state is ShardState.LOADING

    # -- questions -------------------------------------------------------------------------------------------------
    @property
    def is_loading(self) -> bool:
        """Whether keys are coordinated here that are not known yet."""
        return any(shard.state is ShardState.LOADING for shard in self._shards.values())

    def ensure_active(self, key: str) -> None:
        """This node coordinates the key; raises NotCoordinator, also when nobody does, as Apache Kafka's coordinators,
        or CoordinatorLoadInProgress."""
        if not self.is_clustered:
            return
        topic = self.host.image.topics.get(self.topic)
        if topic is None:
            raise NotCoordinator()
        self.ensure_partition_active(partition_for(key, len(topic.partitions)))

    def ensure_partition_active(self, index: int) -> None:
        """The same of a whole partition."""
        if not self.is_clustered:
            return
        shard = self._shards.get(index)
        if shard is None or shard.state is ShardState.FAILED:
            raise NotCoordinator()
        if shard.state is ShardState.LOADING:
            raise CoordinatorLoadInProgress()

    # -- what was written ------------------------------------------------------------------------------------------
    def when_committed(self, key: str, done: CodeAnswer) -> None:
        """Call back with 0 when all that was written of the key's partition by now is replicated, at once where it is;
        else with NotCoordinator when the partition goes, CoordinatorNotAvailable when the time is over."""
        topic = self.host.image.topics.get(self.topic) if self.is_clustered else None
        if topic is None:
            done(NONE)
            return
        self._when_partition_committed(partition_for(key, len(topic.partitions)), done)

    def _when_partition_committed(self, index: int, done: CodeAnswer) -> None:
        shard = self._shards.get(index)
        if shard is None or shard.state is not ShardState.ACTIVE:
            done(NotCoordinator.code)
            return
        partition = shard.partition
        if partition.is_replicated_to(partition.log.log_end_offset):
            done(NONE)
            return
        waiting = _Commit(self.commit_timeout_ms, shard, done)
        shard.waiting[waiting] = None
        host = self.host
        host.produce_purgatory.try_complete_else_watch(waiting, [partition.key], host.clock.now_ms())

    def when_all_committed(self, keys: Iterable[str], done: Callable[[dict[str, int]], None]) -> None:
        """The same of several keys: call back with the error codes of those that failed."""
        topic = self.host.image.topics.get(self.topic) if self.is_clustered else None
        waiting: dict[int, list[str]] = {}
        if topic is not None:
            for key in paced(keys):
                waiting.setdefault(partition_for(key, len(topic.partitions)), []).append(key)
        if not waiting:
            done({})
            return
        codes: dict[int, int] = {}

        def note(index: int, code: int) -> None:
            codes[index] = code
            if len(codes) == len(waiting):
                done({key: code for index, code in codes.items() if code for key in waiting[index]})

        with pausing(None):
            for index in waiting:
                self._when_partition_committed(index, partial(note, index))
