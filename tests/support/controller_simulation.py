"""Brokers, their partitions and a controller that fails over, in one thread with one seed.

What is real: `Controller`, `MetadataImage`, everything they decide. What is played: the quorum (a list of records
of which a part is committed; a fail-over loses the rest), the brokers (each with an image that lags, and logs of
(leader epoch, number) entries in two directories that survive a crash), replication as in Apache Kafka (high watermark
over the maximal ISR, truncation to the common prefix). Every committed record is checked against the rules, and every
leader that is elected without permission to lose anything must have all that was acknowledged.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

from kafkatools.core.broker.metadata.batches import SUPPORTED_FEATURES
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.directory_ids import is_online
from kafkatools.core.broker.metadata.image import MetadataImage, PartitionState
from kafkatools.core.errors import DuplicateBrokerRegistration, KafkaError, StaleBrokerEpoch

from .quorum_controller import CLUSTER_ID, Cluster, Log, directory, incarnation

Key = tuple[str, int]
Entry = tuple[int, int]
FEATURES = [
    SimpleNamespace(name=name, min_supported_version=low, max_supported_version=high)
    for name, (low, high) in SUPPORTED_FEATURES.items()
]


@dataclass
class Broker:
    """One broker; its logs outlive its processes."""

    broker_id: int
    is_alive: bool = False
    is_paused: bool = False
    is_stopping: bool = False
    process: int = 0
    epoch: int = -1
    clean_epoch: int = -1
    is_caught_up: bool = False
    offline: set[uuid.UUID] = field(default_factory=set)
    placed: dict[Key, uuid.UUID] = field(default_factory=dict)
    image: MetadataImage = field(default_factory=MetadataImage)
    offset: int = 0
    logs: dict[Key, list[Entry]] = field(default_factory=dict)
    fetched: dict[Key, dict[int, tuple[int, int]]] = field(default_factory=dict)
    proposed: dict[Key, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    @property
    def is_running(self) -> bool:
        return self.is_alive and not self.is_paused

    @property
    def directories(self) -> list[uuid.UUID]:
        """Its directories that have not failed."""
        return [
            each for each in (directory(self.broker_id, 0), directory(self.broker_id, 1)) if each not in self.offline
        ]

    def serves(self, key: Key) -> bool:
        """Whether it acts on the metadata, and its replica is on a disk that works."""
        placed = self.placed.get(key)
        return placed is not None and placed not in self.offline and self.is_running and self.is_caught_up

    def leads(self, key: Key) -> PartitionState | None:
        """The partition, when this broker believes that it leads it."""
        if not self.serves(key):
            return None
        topic = self.image.topics.get(key[0])
        state = None if topic is None else topic.partitions.get(key[1])
        return state if state is not None and state.leader == self.broker_id else None


class Simulation:
    """One schedule."""

    def __init__(self, seed: int, *, elr: bool, unclean: bool) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.unclean = unclean
        self.elr = elr
        settings = {"leader.imbalance.check.interval.seconds": "30", "unclean.leader.election.interval.ms": "20000"}
        self.cluster = Cluster((), settings, elr=elr)
        self.clock = self.cluster.clock
        self.log = self.cluster.log
        self.controller = self.cluster.controller
        self.committed = MetadataImage()
        self.commit_offset = 0
        self.number = 0
        self.acknowledged: dict[Key, list[Entry]] = {}
        self.leaders: dict[tuple[Key, int], int] = {}
        self.history: list[str] = []
        self.brokers = {broker_id: Broker(broker_id) for broker_id in range(1, 6)}
        for broker in self.brokers.values():
            broker.is_alive = True
            self.register(broker)
        for _ in range(2):
            self.commit(all_of_it=True)
            for broker in self.brokers.values():
                self.read(broker, all_of_it=True)
                self.heartbeat(broker)
        self.commit(all_of_it=True)
        configs = {"min.insync.replicas": "2", "unclean.leader.election.enable": str(unclean).lower()}
        self.controller.create_topics([NewTopic("a", 3, 3, (), configs), NewTopic("b", 2, 2, (), configs)])
        self.commit(all_of_it=True)

    # -- the quorum ------------------------------------------------------------------------------------------------
    def commit(self, *, all_of_it: bool = False) -> None:
        end = self.log.end_offset if all_of_it else self.random.randint(self.commit_offset, self.log.end_offset)
        while self.commit_offset < end:
            record = self.log.records[self.commit_offset]
            self.commit_offset += 1
            before = self._before(record)
            self.committed.replay(record)
            self._check(record, before)

    def fail_over(self) -> None:
        """Another node becomes the controller; what was not committed is gone."""
        records = self.log.records[: self.commit_offset]
        self.controller.deactivate()
        self.log = Log(self.log.epoch + 1)
        self.log.records = records
        self.controller = self.cluster.controller_of(1)
        self.controller.activate(self.committed, self.log, self.clock.now_ms())
        for broker in self.brokers.values():  # an answer that never comes: the leader asks again
            broker.proposed = {key: (-1, isr) for key, (_, isr) in broker.proposed.items()}

    # -- rules -----------------------------------------------------------------------------------------------------
    def _before(self, record: Any) -> PartitionState | None:
        topic = self.committed.topics_by_id.get(getattr(record, "topic_id", None))
        state = None if topic is None else topic.partitions.get(getattr(record, "partition_id", -1))
        if state is None:
            return None
        names = ("isr", "leader", "leader_epoch", "partition_epoch", "eligible_leader_replicas", "last_known_elr")
        return PartitionState(0, state.replicas, **{name: getattr(state, name) for name in names})

    def _check(self, record: Any, before: PartitionState | None) -> None:
        name = type(record).__schema__.name
        if name not in ("PartitionRecord", "PartitionChangeRecord"):
            return
        topic = self.committed.topics_by_id[record.topic_id]
        state = topic.partitions[record.partition_id]
        key = (topic.name, record.partition_id)
        where = f"seed {self.seed}: {key} {before} -> {state}"
        assert len(set(state.isr)) == len(state.isr) and set(state.isr) <= set(state.replicas), where
        assert not set(state.isr) & set(state.elr) and set(state.elr) <= set(state.replicas), where
        assert state.isr or self.elr, where
        assert state.leader == -1 or state.leader in state.isr, where
        assert len(set(state.replicas)) == len(state.replicas) == len(state.directories), where
        joined = set(state.isr) - set(before.isr if before is not None else ())
        is_active = all(self.committed.brokers[each].is_active for each in joined)
        is_taken_back = self.unclean and len(state.isr) == 1  # only who was added was in sync: the first who was there
        assert is_active or is_taken_back, where
        if before is None:
            assert (state.leader_epoch, state.partition_epoch) == (0, 0), where
        else:
            assert state.partition_epoch == before.partition_epoch + 1, where
            assert state.leader_epoch - before.leader_epoch in (0, 1), where
            assert state.leader == before.leader or state.leader_epoch > before.leader_epoch, where
            if state.leader not in (-1, before.leader):
                online = self.committed.brokers[state.leader].log_dirs
                assert is_online(state.directory(state.leader), online), where
                self._check_election(key, state, before, where)
        if state.leader >= 0:
            assert self.leaders.setdefault((key, state.leader_epoch), state.leader) == state.leader, where

    def _check_election(self, key: Key, state: PartitionState, before: PartitionState, where: str) -> None:
        is_reassigned = state.replicas != before.replicas  # who was added is in sync, as the leader that asked said
        is_clean = state.leader in (*before.isr, *before.elr) or is_reassigned
        is_last_known = not before.isr and not state.elr and before.last_known_elr == (state.leader,)
        assert is_clean or self.unclean or is_last_known, where
        assert is_clean or state.leader_recovery_state == 1, where
        if not self.unclean:
            log = self.brokers[state.leader].logs.get(key, [])
            acknowledged = self.acknowledged.get(key, [])
            assert log[: len(acknowledged)] == acknowledged, f"{where}: lost {acknowledged} has {log}"

    # -- brokers ---------------------------------------------------------------------------------------------------
    def register(self, broker: Broker) -> None:
        entity = SimpleNamespace(
            broker_id=broker.broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=incarnation(broker.broker_id, broker.process),
            listeners=[],
            features=FEATURES,
            rack=None,
            log_dirs=broker.directories,
            previous_broker_epoch=broker.clean_epoch,
        )
        try:
            broker.epoch = self.controller.register_broker(entity, self.clock.now_ms())
        except DuplicateBrokerRegistration:
            broker.epoch = -1

    def read(self, broker: Broker, *, all_of_it: bool = False) -> None:
        """A broker applies committed metadata."""
        end = self.commit_offset if all_of_it else self.random.randint(broker.offset, self.commit_offset)
        for record in self.log.records[broker.offset : end]:
            broker.image.replay(record)
        broker.offset = end
        broker.is_caught_up = broker.is_caught_up or 0 <= broker.epoch < end
        if broker.is_caught_up and (broker.image.delta.changed_topics or self.random.random() < 0.1):
            broker.image.take_delta()
            self.place(broker)
        for key, (epoch, _) in list(broker.proposed.items()):
            state = broker.leads(key)
            if state is None or (epoch >= 0 and state.partition_epoch >= epoch):
                del broker.proposed[key]

    def place(self, broker: Broker) -> None:
        """Replicas get a directory, logs of others go; the controller hears of it when it asks for it."""
        told: dict[uuid.UUID, dict[uuid.UUID, list[int]]] = {}
        for topic in broker.image.topics.values():
            for index, state in topic.partitions.items():
                key = (topic.name, index)
                if broker.broker_id not in state.replicas:
                    broker.logs.pop(key, None)
                    broker.placed.pop(key, None)
                    continue
                if key not in broker.placed and broker.directories:
                    broker.placed[key] = self.random.choice(broker.directories)
                placed = broker.placed.get(key)
                if placed is not None and state.directory(broker.broker_id) != placed:
                    told.setdefault(placed, {}).setdefault(topic.topic_id, []).append(index)
        if told and broker.epoch >= 0:
            self._tell(broker, told)

    def _tell(self, broker: Broker, told: dict[uuid.UUID, dict[uuid.UUID, list[int]]]) -> None:
        directories = [
            SimpleNamespace(
                id_=each,
                topics=[
                    SimpleNamespace(
                        topic_id=topic_id, partitions=[SimpleNamespace(partition_index=index) for index in indexes]
                    )
                    for topic_id, indexes in topics.items()
                ],
            )
            for each, topics in told.items()
        ]
        entity = SimpleNamespace(broker_id=broker.broker_id, broker_epoch=broker.epoch, directories=directories)
        with contextlib.suppress(StaleBrokerEpoch):
            self.controller.assign_directories(entity)

    def heartbeat(self, broker: Broker) -> None:
        if broker.epoch < 0:
            self.register(broker)
            return
        entity = SimpleNamespace(
            broker_id=broker.broker_id,
            broker_epoch=broker.epoch,
            current_metadata_offset=broker.offset - 1,
            want_fence=False,
            want_shut_down=broker.is_stopping,
            offline_log_dirs=list(broker.offline),
            cordoned_log_dirs=None,
        )
        try:
            answer = self.controller.heartbeat(entity, self.clock.now_ms())
        except StaleBrokerEpoch:
            broker.epoch = -1
            return
        if answer["should_shut_down"]:
            broker.clean_epoch = broker.epoch
            self.stop(broker)

    def stop(self, broker: Broker) -> None:
        """The process ends; image and fetch states go with it, logs stay."""
        broker.is_alive = broker.is_stopping = broker.is_paused = broker.is_caught_up = False
        broker.offline.clear()
        broker.image, broker.offset, broker.epoch = MetadataImage(), 0, -1
        broker.fetched, broker.proposed = {}, {}

    def start(self, broker: Broker) -> None:
        broker.is_alive = True
        broker.process += 1
        self.register(broker)
        broker.clean_epoch = -1

    # -- replication -----------------------------------------------------------------------------------------------
    def produce(self, broker: Broker, key: Key) -> None:
        state = broker.leads(key)
        if state is not None and len(state.isr) >= 2:
            self.number += 1
            broker.logs.setdefault(key, []).append((state.leader_epoch, self.number))

    def fetch(self, broker: Broker, key: Key) -> None:
        """A follower truncates to what it has in common with its leader and takes the rest."""
        topic = broker.image.topics.get(key[0])
        state = None if topic is None else topic.partitions.get(key[1])
        if state is None or broker.broker_id not in state.replicas or state.leader in (-1, broker.broker_id):
            return
        if not broker.serves(key):
            return
        leader = self.brokers[state.leader]
        seen = leader.leads(key) if leader.is_running else None
        if seen is None or seen.leader_epoch != state.leader_epoch:
            return
        mine, theirs = broker.logs.setdefault(key, []), leader.logs.setdefault(key, [])
        common = 0
        while common < min(len(mine), len(theirs)) and mine[common] == theirs[common]:
            common += 1
        fetched = leader.fetched.setdefault(key, {})
        if common < len(mine):
            del mine[common:]
        fetched[broker.broker_id] = (len(mine), broker.epoch)
        self.acknowledge(leader, key)
        mine += theirs[common : common + self.random.randint(1, 4)]

    def acknowledge(self, leader: Broker, key: Key) -> None:
        """The high watermark is where all of the maximal ISR are (KIP-497)."""
        state = leader.leads(key)
        if state is None or len(state.isr) < 2:
            return
        fetched = leader.fetched.get(key, {})
        in_sync = {*state.isr, *leader.proposed.get(key, (0, ()))[1]} - {leader.broker_id}
        log = leader.logs.get(key, [])
        mark = min([len(log), *(fetched.get(each, (0, -1))[0] for each in in_sync)])
        known = self.acknowledged.setdefault(key, [])
        if mark > len(known):
            assert self.unclean or log[: len(known)] == known, f"seed {self.seed}: {key} {known} {log}"
            self.acknowledged[key] = log[:mark]

    def change_isr(self, leader: Broker, key: Key, *, may_shrink: bool = True) -> None:
        """A leader takes in who has caught up, or drops somebody."""
        state = leader.leads(key)
        if state is None or leader.epoch < 0 or leader.proposed.get(key, (-1, ()))[0] >= 0:
            return
        fetched = leader.fetched.get(key, {})
        known = self.acknowledged.get(key, [])
        log = leader.logs.get(key, [])
        isr = list(state.isr)
        caught_up = [
            each
            for each in state.replicas
            if each not in isr
            and fetched.get(each, (-1, -1))[0] >= max(min(len(known), len(log)), self._epoch_start(log, state))
        ]
        if caught_up:
            isr += caught_up
        elif may_shrink and len(isr) > 1 and self.random.random() < 0.3:
            isr.remove(self.random.choice([each for each in isr if each != leader.broker_id]))
        elif key not in leader.proposed:
            return
        epochs = {each: fetched.get(each, (0, -1))[1] for each in isr} | {leader.broker_id: leader.epoch}
        wanted = SimpleNamespace(
            partition_index=key[1],
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            leader_recovery_state=0,
            new_isr_with_epochs=[SimpleNamespace(broker_id=each, broker_epoch=epochs[each]) for each in isr],
        )
        topic_id = leader.image.topics[key[0]].topic_id
        entity = SimpleNamespace(
            broker_id=leader.broker_id,
            broker_epoch=leader.epoch,
            topics=[SimpleNamespace(topic_id=topic_id, partitions=[wanted])],
        )
        before = leader.proposed.pop(key, (0, ()))
        try:
            answer = self.controller.alter_partitions(entity)["topics"][0]["partitions"][0]
        except KafkaError:
            leader.proposed[key] = (-1, tuple({*before[1], *isr}))
            return
        if answer["error_code"] == 0:
            leader.proposed[key] = (answer["partition_epoch"], tuple(isr))
        elif before[1]:
            leader.proposed[key] = (-1, before[1])

    @staticmethod
    def _epoch_start(log: list[Entry], state: PartitionState) -> int:
        return next((i for i, (epoch, _) in enumerate(log) if epoch == state.leader_epoch), len(log))

    # -- schedules -------------------------------------------------------------------------------------------------
    def any_key(self) -> Key:
        return self.random.choice([("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)])

    def step(self) -> None:
        broker = self.random.choice(list(self.brokers.values()))
        key = self.any_key()
        draw = self.random.random()
        if draw < 0.04:
            self.disturb(broker)
        elif draw < 0.06:
            self.administer(key)
        elif draw < 0.07:
            self.fail_over()
        elif draw < 0.2:
            self.clock.advance_ms(self.random.randint(0, 1200))
            self.controller.tick(self.clock.now_ms())
        elif draw < 0.35:
            self.commit()
        elif broker.is_running:
            self.work(broker, key, draw)

    def work(self, broker: Broker, key: Key, draw: float) -> None:
        if draw < 0.5:
            self.heartbeat(broker)
        elif draw < 0.65:
            self.read(broker)
        elif draw < 0.73:
            self.produce(broker, key)
        elif draw < 0.92:
            self.fetch(broker, key)
        else:
            self.change_isr(broker, key)

    def disturb(self, broker: Broker) -> None:
        """Kill, stop, pause or bring back a broker, or take one of its disks."""
        if not broker.is_alive:
            self.start(broker)
        elif broker.is_paused:
            broker.is_paused = False
        elif self.random.random() < 0.2:
            broker.offline.add(self.random.choice([directory(broker.broker_id, 0), directory(broker.broker_id, 1)]))
            if not broker.directories:
                self.stop(broker)
        elif self.random.random() < 0.4:
            self.stop(broker)
        elif self.random.random() < 0.5:
            broker.is_paused = True
        else:
            broker.is_stopping = True

    def administer(self, key: Key) -> None:
        """Reassign, take back, elect."""
        draw = self.random.random()
        if draw < 0.6:
            replicas = self.random.sample(sorted(self.brokers), self.random.randint(2, 4))
            self.controller.alter_reassignments([(*key, replicas)])
        elif draw < 0.75:
            self.controller.alter_reassignments([(*key, None)])
        else:
            self.controller.elect_leaders(0, None)

    def settle(self) -> None:
        """Everybody comes back and nothing happens any more but what has to."""
        for _ in range(60):
            for broker in self.brokers.values():
                broker.is_paused = False
                if broker.offline:
                    self.stop(broker)
                if not broker.is_alive:
                    self.start(broker)
            self.clock.advance_ms(3000)
            self.controller.tick(self.clock.now_ms())
            for broker in self.brokers.values():
                self.commit(all_of_it=True)
                self.read(broker, all_of_it=True)
                self.heartbeat(broker)
                for topic in self.committed.topics.values():
                    for index in topic.partitions:
                        for _ in range(2):
                            self.fetch(broker, (topic.name, index))
                        self.change_isr(broker, (topic.name, index), may_shrink=False)
            if self.is_settled():
                return

    def is_settled(self) -> bool:
        return all(
            not state.is_reassigning
            and sorted(state.isr) == sorted(state.replicas)
            and state.leader == state.replicas[0]
            for topic in self.committed.topics.values()
            for state in topic.partitions.values()
        )
