"""A `Controller` without a quorum: what it writes is a list, time is by hand, brokers are requests."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from support.manual_clock import ManualClock

from kafkatools.core import config as tables
from kafkatools.core.broker.metadata.batches import SUPPORTED_FEATURES
from kafkatools.core.broker.metadata.controller.controller import Controller
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.feature_levels import LATEST_RELEASE, METADATA_LEVELS, default_levels
from kafkatools.core.broker.metadata.image import MetadataImage, PartitionState
from kafkatools.core.config import Config
from kafkatools.core.errors import NotController
from kafkatools.core.java.random import JavaRandom
from kafkatools.core.protocol import messages

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
NEWEST = {62: 4, 63: 2, 56: 3, 73: 0, 70: 0}


class Log:
    """A `RecordWriter`: everything is written, and `is_leader` says whether more may be."""

    commits_at_once = False
    kraft_version = 0

    def __init__(self, epoch: int = 1, first_offset: int = 0) -> None:
        self.epoch = epoch
        self.records: list[Any] = []
        self.batches: list[int] = []
        self.is_leader = True
        self.failure: Exception | None = None
        self._first_offset = first_offset

    @property
    def end_offset(self) -> int:
        return self._first_offset + len(self.records)

    def append(self, records: list[Any], wall_ms: int) -> int:
        if not self.is_leader:
            raise NotController()
        if self.failure is not None:
            raise self.failure
        first = self.end_offset
        self.records += records
        self.batches.append(len(records))
        return first

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        """Nothing to write here."""

    def names(self, since: int = 0) -> list[str]:
        """The types of the records from an offset on."""
        return [type(record).__schema__.name for record in self.records[since - self._first_offset :]]


def request(api_key: int, fields: Mapping[str, Any]) -> Any:
    """The entity of a request in its newest version here."""
    return messages.build(messages.request_type(api_key, NEWEST[api_key]), fields)


@cache
def directory(broker_id: int, number: int = 0) -> uuid.UUID:
    """The id of a broker's directory."""
    return uuid.UUID(int=(broker_id + 1) << 64 | number + 1)


def incarnation(broker_id: int, number: int = 0) -> uuid.UUID:
    """The id of a broker's process."""
    return uuid.UUID(int=(broker_id + 1) << 80 | number + 1)


def bootstrap_records(*, elr: bool = True, release: str = LATEST_RELEASE) -> list[Any]:
    """What a formatted directory begins a cluster with."""
    from kafkatools.core.protocol.schemas.metadata import FeatureLevelRecord

    level = METADATA_LEVELS[release]
    levels = {"metadata.version": level, **default_levels(level), "kraft.version": 0}
    if not elr:
        levels["eligible.leader.replicas.version"] = 0
    return [FeatureLevelRecord(name=name, feature_level=each) for name, each in levels.items() if each > 0]


class Cluster:
    """An active controller and the brokers that ask it."""

    def __init__(
        self,
        brokers: Sequence[int] = (),
        settings: Mapping[str, object] | None = None,
        *,
        elr: bool = True,
        release: str = LATEST_RELEASE,
        racks: Mapping[int, str] | None = None,
    ) -> None:
        given = {"node.id": "1", "metadata.max.idle.interval.ms": "0", **(settings or {})}
        self.config = Config(tables.BROKER, given)
        self.clock = ManualClock()
        self.log = Log()
        self.reports: list[str] = []
        self.racks = dict(racks or {})
        self.epochs: dict[int, int] = {}
        first = bootstrap_records(elr=elr, release=release)
        self.controller = self.controller_of(1, first)
        self.controller.activate(MetadataImage(), self.log, self.now_ms)
        for broker_id in brokers:
            self.register(broker_id)
            self.unfence(broker_id)

    def controller_of(self, node_id: int, first: Sequence[Any] = ()) -> Controller:
        made = Controller(self.config, node_id, self.clock, CLUSTER_ID, lambda: first, self.reports.append)
        made.random = JavaRandom(7)
        return made

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def registration(self, broker_id: int, number: int = 0, **changes: Any) -> Any:
        fields = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": incarnation(broker_id, number),
            "listeners": [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9092, "security_protocol": 0}],
            "features": [
                {"name": name, "min_supported_version": low, "max_supported_version": high}
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            "rack": self.racks.get(broker_id),
            "is_migrating_zk_broker": False,
            "log_dirs": [directory(broker_id)],
            "previous_broker_epoch": -1,
        }
        return request(62, {**fields, **changes})

    def register(self, broker_id: int, number: int = 0, **changes: Any) -> int:
        """A broker registers; gives its epoch."""
        self.epochs[broker_id] = self.controller.register_broker(
            self.registration(broker_id, number, **changes), self.now_ms
        )
        return self.epochs[broker_id]

    def heartbeat(self, broker_id: int, offset: int | None = None, **wants: Any) -> dict[str, Any]:
        """A heartbeat of a broker that has read everything, or up to an offset."""
        fields = {
            "broker_id": broker_id,
            "broker_epoch": self.epochs[broker_id],
            "current_metadata_offset": self.log.end_offset - 1 if offset is None else offset,
            "want_fence": False,
            "want_shut_down": False,
            "offline_log_dirs": [],
            "cordoned_log_dirs": None,
        }
        return self.controller.heartbeat(request(63, {**fields, **wants}), self.now_ms)

    def unfence(self, broker_id: int) -> None:
        """A broker that has read everything is ready."""
        assert not self.heartbeat(broker_id)["is_fenced"]

    def pass_time(self, ms: int, *, alive: Sequence[int] = ()) -> None:
        """Time passes; those who are alive send heartbeats, then what is due is done."""
        self.clock.advance_ms(ms)
        for broker_id in alive:
            self.heartbeat(broker_id)
        self.controller.tick(self.now_ms)

    def kill(self, broker_id: int) -> None:
        """A broker is not heard of until it is fenced; the others are."""
        others = [each.broker_id for each in self.image.brokers.values() if not each.is_fenced]
        for _ in range(10):
            self.pass_time(1000, alive=[each for each in others if each != broker_id])
        assert self.image.brokers[broker_id].is_fenced

    def create(self, name: str, *assignments: Sequence[int], **configs: str) -> None:
        """A topic with these replicas; settings with _ for dots."""
        lists = tuple((index, tuple(replicas)) for index, replicas in enumerate(assignments))
        values = {key.replace("_", "."): value for key, value in configs.items()}
        made = self.controller.create_topics([NewTopic(name, -1, -1, lists, values)])[name]
        assert not isinstance(made, Exception), made

    def partition(self, name: str, index: int = 0) -> PartitionState:
        return self.image.topics[name].partitions[index]

    def alter_isr(self, name: str, isr: Sequence[int], index: int = 0, **changes: Any) -> dict[str, Any]:
        """The leader of a partition changes its ISR; gives the answer for the partition."""
        state = self.partition(name, index)
        leader = changes.pop("broker_id", state.leader)
        wanted = {
            "partition_index": index,
            "leader_epoch": state.leader_epoch,
            "new_isr_with_epochs": [{"broker_id": each, "broker_epoch": self.epochs.get(each, -1)} for each in isr],
            "leader_recovery_state": state.leader_recovery_state,
            "partition_epoch": state.partition_epoch,
            **changes,
        }
        topic = {"topic_id": self.image.topics[name].topic_id, "partitions": [wanted]}
        entity = request(56, {"broker_id": leader, "broker_epoch": self.epochs[leader], "topics": [topic]})
        answer = self.controller.alter_partitions(entity)
        return answer["topics"][0]["partitions"][0]  # type: ignore[no-any-return]
