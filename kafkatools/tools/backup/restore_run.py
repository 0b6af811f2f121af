"""Write the records of a backup to prepared topics, a number of partitions at a time.

Rules: each acknowledged batch must have the expected base offset; another one means that somebody else writes to the
topic, and the restore ends. The first failure ends it, too. What is in the topics then stays, and the next run goes on
behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from kafkatools.core.errors import KafkaError, MessageTooLarge, RecordTooLarge
from kafkatools.core.producer.batch_producer import BatchProducer
from kafkatools.core.producer.futures import RowsRun
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.partition_restore import Cut, PartitionRestore
from kafkatools.tools.backup.restored_batches import RestoredBatch
from kafkatools.tools.backup.store import Store
from kafkatools.tools.backup.targets import Target
from kafkatools.tools.rights import ADVICE, CLUSTER, TOPIC, Right, is_missing_right, naming

_AT_A_TIME = 16
_BATCHES_A_TURN = 16

Batches = Iterator[tuple[int, RestoredBatch]]


class BatchWriter:
    """Writes the batches of partitions by a producer. `acknowledged_bytes` grows while it writes. `mixed_topics`: those
    in which a batch got another offset than the expected one."""

    def __init__(self) -> None:
        self.acknowledged_bytes = 0
        self.mixed_topics: set[str] = set()
        self._failure: CommandError | None = None

    def write(self, producer: BatchProducer, sources: Mapping[TopicPartition, Batches]) -> None:
        """Write all batches, each with its expected offset, and wait for their responses. Raises CommandError,
        KafkaError; what was acknowledged stays."""
        waiting = deque(sources.items())
        active: deque[tuple[TopicPartition, Batches]] = deque()
        while waiting or active:
            while waiting and len(active) < _AT_A_TIME:
                active.append(waiting.popleft())
            name, batches = active.popleft()
            if self._send_some(producer, name, batches):
                active.append((name, batches))
        producer.flush()
        self._raise_failure()

    def _send_some(self, producer: BatchProducer, name: TopicPartition, batches: Batches) -> bool:
        """Send the next batches of a partition. Returns False at its end."""
        for _ in range(_BATCHES_A_TURN):
            self._raise_failure()
            found = next(batches, None)
            if found is None:
                return False
            offset, batch = found
            producer.send_batch(*name, batch.data, partial(self._acknowledged, name, offset, len(batch.data)))
        return True

    def _acknowledged(self, name: TopicPartition, offset: int, size: int, run: RowsRun) -> None:
        """Check the outcome of a batch, on the producer's thread. The base offset is -1 when the broker only said that
        it has the batch already."""
        expected = offset + run.rows[0]
        if run.error is not None:
            self._failure = self._failure or _failure(name, run.error)
        elif run.base_offset not in (-1, expected):
            self.mixed_topics.add(name.topic)
            self._failure = self._failure or CommandError(
                f"{name}: a batch was written at offset {run.base_offset}, and {expected} was expected: somebody else "
                "writes to the topic",
                hint="Stop the other producers, delete the topic and restore again.",
            )
        else:
            self.acknowledged_bytes += size

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _failure(name: TopicPartition, failure: Exception) -> CommandError:
    if not isinstance(failure, KafkaError):
        return CommandError(f"{name}: {failure}", hint=_hint(name, failure))
    error = naming(failure, Right("WRITE", TOPIC, name.topic), Right("IDEMPOTENT_WRITE", CLUSTER))
    return CommandError(f"{name}: {error}", hint=_hint(name, error), kind=error.name)


def _hint(name: TopicPartition, error: Exception) -> str:
    again = "un the same command again: it goes on behind the records that are there."
    if isinstance(error, (MessageTooLarge, RecordTooLarge)):
        return f"Raise max.message.bytes of topic {name.topic} and r{again}"
    return f"{ADVICE} Then r{again}" if is_missing_right(error) else f"R{again}"


class RestoreRun:
    """A restore of topics. `cuts`: by source partition. `group_offsets`: source offsets to map, by source
    partition."""

    def __init__(
        self,
        store: Store,
        targets: Sequence[Target],
        cuts: Mapping[TopicPartition, Cut],
        group_offsets: Mapping[TopicPartition, Collection[int]],
    ) -> None:
        self.partitions: dict[TopicPartition, PartitionRestore] = {}
        self._writer = BatchWriter()
        self._names: dict[TopicPartition, TopicPartition] = {}
        self._targets = targets
        for target in targets:
            for number, backup in enumerate(target.backup.partitions):
                key = TopicPartition(target.source, number)
                self.partitions[key] = PartitionRestore(store, backup, cuts[key], group_offsets.get(key, ()))
                self._names[key] = TopicPartition(target.name, number)

    def begin(self) -> None:
        """Note where each target begins, once all of them exist."""
        for target in self._targets:
            for number in range(len(target.backup.partitions)):
                item = self.partitions[TopicPartition(target.source, number)]
                item.target_start = target.starts[number]
                item.present = target.ends[number] - target.starts[number]

    @property
    def mixed_topics(self) -> set[str]:
        """The target topics in which a batch got another offset than the expected one."""
        return self._writer.mixed_topics

    @property
    def acknowledged_bytes(self) -> int:
        """The bytes that brokers have acknowledged so far."""
        return self._writer.acknowledged_bytes

    def target_offset(self, key: TopicPartition, offset: int) -> int | None:
        """Return the target offset of a source offset that was to be mapped, None for another partition."""
        return self.partitions[key].mapped[offset] if key in self.partitions else None

    def run(self, make_producer: Callable[[], BatchProducer]) -> None:
        """Write all records. Raises CommandError or KafkaError; what was acknowledged stays."""
        with make_producer() as producer:
            self._writer.write(producer, {self._names[key]: item.batches() for key, item in self.partitions.items()})
        self._ensure_complete()

    def _ensure_complete(self) -> None:
        """Raise CommandError for a partition that had more records than the backup."""
        for key, item in self.partitions.items():
            if item.present > item.records:
                raise CommandError(
                    f"{self._names[key]} has {item.present} records since the restore began, and the backup has "
                    f"{item.records}: somebody else wrote to the topic",
                    hint="Delete the topic and restore again.",
                )
