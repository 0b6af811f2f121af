"""A coordinator on a manual clock, with members that only talk to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.broker.coordinators.groups.coordinator import GroupCoordinator
from kafkatools.core.broker.coordinators.groups.loading import LoadedGroups
from kafkatools.core.broker.coordinators.groups.offsets_topic import decoded
from kafkatools.core.broker.coordinators.groups.requests import Client, JoinRequest, SyncRequest
from kafkatools.core.broker.coordinators.internal_topic import Record
from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.server.timer import Timer
from kafkatools.core.config import BROKER, Config
from kafkatools.core.errors import KafkaError

RANGE = (("range", b"subscription"),)


class MemoryStore:
    """Keeps the last value of each key; fails when told."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.batches: list[list[Record]] = []
        self.failure: KafkaError | None = None
        self.noted: list[Exception] = []

    def append(self, _group_id: str, records: Sequence[Record]) -> None:
        if self.failure is not None:
            raise self.failure
        self.batches.append(list(records))
        for key, value in records:
            self.values.pop(key, None)
            if value is not None:
                self.values[key] = value

    def append_change(self, group_id: str, records: Sequence[Record]) -> None:
        self.append(group_id, records)

    def note_failure(self, error: Exception) -> None:
        self.noted.append(error)


class Answers(list[dict[str, Any]]):
    """What a member was told; callable as an answer."""

    def __call__(self, fields: dict[str, Any]) -> None:
        self.append(fields)

    @property
    def last_code(self) -> int:
        return int(self[-1]["error_code"])


class Harness:
    """Drives a coordinator."""

    def __init__(self, max_size: int = 100) -> None:
        self.clock = ManualClock()
        self.timer = Timer(self.clock.now_ms())
        self.store = MemoryStore()
        self.config = Config(BROKER, {"group.max.size": max_size})
        self.groups = GroupCoordinator(self.config, self.store, self.timer, self.clock, image=MetadataImage())

    def restart(self) -> None:
        """Another coordinator that reads what this one wrote."""
        self.timer = Timer(self.clock.now_ms())
        self.groups = GroupCoordinator(self.config, self.store, self.timer, self.clock, image=MetadataImage())
        self.load()

    def load(self) -> None:
        """Take over the groups in the store."""
        loaded = LoadedGroups(self.clock.wall_ms())
        for key, value in decoded(self.store.values):
            loaded.take(key, value)
        self.groups.take_over(loaded)

    def advance(self, duration_ms: int) -> None:
        self.clock.advance_ms(duration_ms)
        self.timer.advance_to(self.clock.now_ms())

    def join(self, member_id: str = "", *, answers: Answers | None = None, **changes: Any) -> Answers:
        fields: dict[str, Any] = {
            "group_id": "g",
            "member_id": member_id,
            "instance_id": None,
            "client": Client("client", "/127.0.0.1"),
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
            **changes,
        }
        answers = Answers() if answers is None else answers
        self.groups.join(JoinRequest(**fields), answers)
        self.groups.send_responses()
        return answers

    def sync(self, joined: dict[str, Any], assignments: Sequence[tuple[str, bytes]] = (), **changes: Any) -> Answers:
        answers = Answers()
        fields: dict[str, Any] = {
            "group_id": "g",
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
            "assignments": assignments,
            **changes,
        }
        self.groups.sync(SyncRequest(**fields), answers)
        return answers

    def beat(self, joined: dict[str, Any], **changes: Any) -> int:
        fields: dict[str, Any] = {
            "group_id": "g",
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
            "instance_id": None,
            **changes,
        }
        return self.groups.heartbeat(**fields)

    def stable(self, count: int = 1, **changes: Any) -> list[dict[str, Any]]:
        """A group of so many members, each with its number as assignment; what their joins answered."""
        waiting = [self.join(**changes) for _ in range(count)]
        self.advance(3000)
        if count > 1:
            self.advance(3000)
        joined = [answers[0] for answers in waiting]
        leader = next(each for each in joined if each["leader"] == each["member_id"])
        assignments = [(each["member_id"], b"%d" % index) for index, each in enumerate(joined)]
        for each in joined:
            if each is not leader:
                assert self.sync(each) == []
        assert self.sync(leader, assignments).last_code == 0
        return joined

    @property
    def state(self) -> str:
        return self.groups.groups["g"].state.value


@pytest.fixture
def harness() -> Harness:
    """A coordinator without groups."""
    return Harness()


@pytest.fixture
def make_harness() -> Callable[..., Harness]:
    """Coordinators with settings of a test's own."""
    return Harness
