"""A deterministic course of a broker: topics, idempotent and transactional records, commits, deletions, retention,
compaction, snapshots of the metadata, clean restarts. Every promise that it gets is noted in `Facts` at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from support.crash.broker import WALL_MS, Broker
from support.crash.disk import PowerDisk
from support.crash.facts import Facts, Register, Sent, Topic, Transaction
from support.manual_clock import ManualClock

from kafkatools.core.records.builder import BatchBuilder

PRODUCE, METADATA, OFFSET_COMMIT, FIND_COORDINATOR, CREATE_TOPICS, DELETE_TOPICS = 0, 3, 8, 10, 19, 20
DELETE_RECORDS, INIT_PRODUCER_ID, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT, ALTER_CONFIGS = 21, 22, 25, 26, 28, 44
LOADING = (14, 15, 16, 51)
NOT_THERE = (3, 5, 6)
GROUP, TRANSACTIONAL_ID = "g", "tx"
KEYS = 4


class Course:
    """Runs on a disk, restarts included; `facts` is always what is known at that moment."""

    def __init__(self, seed: str, durability: str, directory: str) -> None:
        self.rng = Random(seed)
        self.disk = PowerDisk()
        self.disk.make_directory(directory)
        self.clock = ManualClock(wall_ms=WALL_MS)
        self.facts = Facts()
        self.directory = directory
        self.durability = durability
        self._orders = 0
        self._sequences: dict[tuple[int, int, str, int], int] = {}
        self._producer: tuple[int, int] = (-1, -1)
        self._transactional: tuple[int, int] = (-1, -1)
        self.broker = self._start()

    def _start(self) -> Broker:
        return Broker(self.disk, self.directory, self.durability, self.rng, self.clock)

    def run(self, steps: int, on_operation: Callable[[str, str], None]) -> None:
        """So many steps, after the format of the directory, which is taken for durable."""
        self._make_durable("/")
        self.disk.on_operation = on_operation
        self._create("plain", 2, is_compacted=False)
        self._create("compacted", 1, is_compacted=True)
        self._init_producer()
        actions = (
            *[self._produce] * 8,
            *[self._transact] * 4,
            *[self._commit] * 2,
            self._recreate,
            self._delete_records,
            self._retention,
            self._compact,
            self._configure,
            self._wait,
            self._restart,
            self._init_producer,
        )
        order = list(actions)
        for number in range(steps):
            if number % len(order) == 0:
                self.rng.shuffle(order)
            order[number % len(order)]()
            self.broker.turn()

    def _make_durable(self, path: str) -> None:
        for entry in self.disk.list_directory(path):
            name = f"{path.rstrip('/')}/{entry.name}"
            if entry.is_directory:
                self._make_durable(name)
            else:
                self.disk.open(name).flush()
        self.disk.fsync_directory(path)

    # topics

    def _create(self, name: str, partitions: int, *, is_compacted: bool) -> None:
        topic = Topic(name, partitions, is_compacted)
        topic.records = {index: [] for index in range(partitions)}
        topic.start = dict.fromkeys(range(partitions), 0)
        self.facts.topics.append(topic)
        configs = {"internal.segment.bytes": "1200", "index.interval.bytes": "200", "file.delete.delay.ms": "500"}
        if is_compacted:
            configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        fields = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        answer = self.broker.ask(CREATE_TOPICS, 7, topics=[fields], timeout=1000).topics[0]
        assert int(answer.error_code) == 0, answer
        topic.topic_id = answer.topic_id

    def _recreate(self) -> None:
        name = "coming-and-going"
        lives = self.facts.of(name)
        if lives and lives[-1].deletion is None:
            lives[-1].deletion = "sent"
            fields = {"topics": [{"name": name, "topic_id": None}], "timeout": 1000}
            answer = self.broker.ask(DELETE_TOPICS, 6, **fields).responses[0]
            assert int(answer.error_code) == 0, answer
            lives[-1].deletion = "acknowledged"
        if not lives or self.rng.random() < 0.7:
            self._create(name, 1, is_compacted=False)

    def _living(self) -> list[Topic]:
        return [topic for topic in self.facts.topics if topic.deletion is None and topic.topic_id is not None]

    def _configure(self) -> None:
        topic = self.rng.choice(self._living())
        value = str(10_000_000 + len(topic.retention.attempts))
        topic.retention.begin(value)
        change = {"name": "retention.ms", "config_operation": 0, "value": value}
        resource = {"resource_type": 2, "resource_name": topic.name, "configs": [change]}
        answer = self.broker.ask(ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses[0]
        assert int(answer.error_code) == 0, answer
        topic.retention.acknowledge()

    # records

    def _init_producer(self) -> None:
        answer = self.broker.ask(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=60_000)
        assert int(answer.error_code) == 0 and answer.producer_id not in self.facts.producer_ids, answer
        self._producer = (answer.producer_id, answer.producer_epoch)
        self.facts.producer_ids.add(answer.producer_id)

    def _produce(self) -> None:
        topic = self.rng.choice(self._living())
        self._send(topic, self.rng.randrange(topic.partitions), self._producer, None)

    def _send(self, topic: Topic, index: int, producer: tuple[int, int], transaction: Transaction | None) -> None:
        count = self.rng.randint(1, 3)
        place = (*producer, str(topic.topic_id), index)
        sequence = self._sequences.get(place, 0)
        builder = BatchBuilder(
            1 << 16,
            self.rng.choice((0, 0, 4)),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=transaction is not None,
        )
        sent = []
        for _ in range(count):
            self._orders += 1
            key = b"k%d" % self.rng.randrange(KEYS) if topic.is_compacted else None
            value = b"%06d" % self._orders + bytes(self.rng.randrange(60))
            sent.append(Sent(self._orders, key, value, transaction=transaction))
            builder.append(self.clock.wall_ms(), key, value)
        topic.records[index] += sent
        data = {"name": topic.name, "partition_data": [{"index": index, "records": bytes(builder.close())}]}
        name = None if transaction is None else TRANSACTIONAL_ID
        fields = {"transactional_id": name, "acks": -1, "timeout": 1000, "topic_data": [data]}

        def code(answer: Any) -> Any:
            return answer.responses[0].partition_responses[0].error_code

        answer = self.broker.ask_again(PRODUCE, 12, fields, code, (*NOT_THERE, *LOADING))
        assert int(code(answer)) == 0, answer
        self._sequences[place] = sequence + count
        first = answer.responses[0].partition_responses[0].base_offset
        for number, each in enumerate(sent):
            each.offset = first + number

    def _transact(self) -> None:
        if self._transactional[0] < 0:
            self._begin_transactions()
        transaction = Transaction(len(self.facts.transactions))
        self.facts.transactions.append(transaction)
        for topic in self.rng.sample(self._living(), self.rng.randint(1, 2)):
            for index in self.rng.sample(range(topic.partitions), self.rng.randint(1, topic.partitions)):
                self._send(topic, index, self._transactional, transaction)
        if self.rng.random() < 0.5:
            self._commit_in(transaction)
        if self.rng.random() < 0.15:  # the next one fences this one, which is aborted
            self._transactional = (-1, -1)
            transaction.outcome = "abort"
            return
        transaction.outcome = "commit" if self.rng.random() < 0.7 else "abort"
        producer_id, epoch = self._transactional
        fields = {
            "transactional_id": TRANSACTIONAL_ID,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "committed": transaction.outcome == "commit",
        }
        answer = self.broker.ask_again(END_TXN, 5, fields, lambda each: each.error_code, LOADING)
        assert int(answer.error_code) == 0, answer
        transaction.is_acknowledged = True
        self._transactional = (answer.producer_id, answer.producer_epoch)

    def _begin_transactions(self) -> None:
        self.broker.ask(FIND_COORDINATOR, 4, key_type=1, coordinator_keys=(TRANSACTIONAL_ID,))
        fields = {"transactional_id": TRANSACTIONAL_ID, "transaction_timeout": 60_000}
        answer = self.broker.ask_again(INIT_PRODUCER_ID, 4, fields, lambda each: each.error_code, LOADING)
        assert int(answer.error_code) == 0, answer
        self._transactional = (answer.producer_id, answer.producer_epoch)
        self.facts.producer_ids.add(answer.producer_id)

    # commits

    def _register(self, place: tuple[str, int]) -> Register:
        return self.facts.offsets.setdefault(place, Register())

    def _commit(self) -> None:
        place = ("plain", self.rng.randrange(2))
        register = self._register(place)
        offset = 1 + len(register.attempts)
        register.begin(offset)
        entry = {"partition_index": place[1], "committed_offset": offset, "committed_leader_epoch": -1}
        fields = {
            "group_id": GROUP,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": place[0], "partitions": [entry]}],
        }
        self.broker.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=(GROUP,))

        def code(answer: Any) -> Any:
            return answer.topics[0].partitions[0].error_code

        answer = self.broker.ask_again(OFFSET_COMMIT, 8, fields, code, LOADING)
        assert int(code(answer)) == 0, answer
        register.acknowledge()

    def _commit_in(self, transaction: Transaction) -> None:
        producer_id, epoch = self._transactional
        place = ("plain", 0)
        register = self._register(place)
        offset = 1 + len(register.attempts)
        register.begin(offset, transaction)
        self.broker.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=(GROUP,))
        entry = {"partition_index": place[1], "committed_offset": offset, "committed_leader_epoch": -1}
        fields = {
            "transactional_id": TRANSACTIONAL_ID,
            "group_id": GROUP,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "generation_id": -1,
            "member_id": "",
            "topics": [{"name": place[0], "partitions": [entry]}],
        }

        def code(answer: Any) -> Any:
            return answer.topics[0].partitions[0].error_code

        answer = self.broker.ask_again(TXN_OFFSET_COMMIT, 5, fields, code, LOADING)
        assert int(code(answer)) == 0, answer

    # what takes records away

    def _delete_records(self) -> None:
        topic = self.facts.of("plain")[0]
        index = self.rng.randrange(topic.partitions)
        log = self.broker.node.replicas.get(topic.name, index).log
        offset = self.rng.randint(log.log_start_offset, log.high_watermark)
        topic.start[index] = max(topic.start[index], offset)
        partition = {"partition_index": index, "offset": offset}
        topics = [{"name": topic.name, "partitions": [partition]}]
        answer = self.broker.ask(DELETE_RECORDS, 2, topics=topics, timeout=1000).topics[0].partitions[0]
        assert int(answer.error_code) == 0, answer

    def _retention(self) -> None:
        topic = self.facts.of("plain")[0]
        index = self.rng.randrange(topic.partitions)
        log = self.broker.node.replicas.get(topic.name, index).log
        if len(log.segments) < 3:
            return
        bound = sorted(segment.base_offset for segment in log.segments)[-2]
        topic.start[index] = max(topic.start[index], bound)
        log.update_config(replace(log.config, retention_bytes=3000))
        log.delete_retention_segments(self.clock.wall_ms())

    def _compact(self) -> None:
        self.broker.compact("compacted")

    def _wait(self) -> None:
        self.broker.settle(self.rng.choice((100, 2_000, 8_000)))
        self.broker.node.logs.tasks.run_due(self.clock.wall_ms())

    def _restart(self) -> None:
        self.broker.stop()
        self.clock.advance_ms(1000)
        self.broker = self._start()
