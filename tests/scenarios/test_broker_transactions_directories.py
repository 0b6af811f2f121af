"""Transactions outlive their broker: kill -9 and restart, and Apache Kafka on the same directory, both ways."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.transaction_teller import Teller

SETTINGS = {"transaction_state_log_num_partitions": "4", "offsets_topic_num_partitions": "4"}
T = "story.t"


TellOn = Callable[..., Teller]


@pytest.fixture
def tell_on() -> Iterator[TellOn]:
    """tell_on(bootstrap, before=None): a teller who knows the producers of the one before."""
    with contextlib.ExitStack() as stack:

        def make(bootstrap: str, before: Teller | None = None) -> Teller:
            told = Teller(bootstrap, "story")
            stack.enter_context(told.client)
            if before is not None:
                told.producers_met = before.producers_met
            told.find_coordinator("story.any")
            told.find_coordinator("story.g", kind=0)
            return told

        yield make


def begin(s: Teller) -> dict[str, tuple[int, int]]:
    """One transaction of each kind: finished, open, open by an old client, and an id that is only known."""
    s.topic(2)
    who = {name: s.init(f"story.{name}") for name in ("done", "open", "old", "idle")}
    s.produce("story.done", who["done"], (T, 0), 0, version=12, values=[b"done"])
    who["done"] = s.end("story.done", who["done"], commit=True, version=5)
    s.produce("story.open", who["open"], (T, 0), 0, version=12, values=[b"open"])
    s.commit_offset("story.open", who["open"], "story.g", (T, 0, 5), version=5)
    s.add("story.old", who["old"], [(T, 1)])
    s.produce("story.old", who["old"], (T, 1), 0, values=[b"old"])
    return who


def look(s: Teller) -> list[Any]:
    """What is to be the same after any restart."""
    s.answers.clear()
    for name in ("done", "open", "old", "idle"):
        s.describe(f"story.{name}")
    s.list()
    s.read((T, 0))
    s.read((T, 1), committed=False)
    s.offset("story.g", (T, 0))
    s.offset("story.g", (T, 0), stable=False)
    s.producers((T, 0))
    return list(s.answers)


def go_on(s: Teller, who: dict[str, tuple[int, int]], *, sequence: int = 1) -> list[Any]:
    """End what is open, and begin anew."""
    s.answers.clear()
    s.produce("story.open", who["open"], (T, 0), sequence, version=12, values=[b"more"])
    who["open"] = s.end("story.open", who["open"], commit=True, version=5)
    s.end("story.old", who["old"], commit=False)
    s.read((T, 0))
    s.read((T, 1))
    s.offset("story.g", (T, 0))
    s.produce("story.done", who["done"], (T, 1), 0, version=12, values=[b"again"])
    return list(s.answers)


WHAT_GOES_ON = [
    ["produce", "OK", 3, None],
    ["end", "OK", "P1", 1],
    ["end", "OK", "nobody", -1],
    [
        "read",
        "OK",
        5,
        5,
        [],
        [
            [0, "data", "P0", 0, 0, ["done"]],
            [1, "control", "P0", 1, -1, None],
            [2, "data", "P1", 0, 0, ["open"]],
            [3, "data", "P1", 0, 1, ["more"]],
            [4, "control", "P1", 1, -1, None],
        ],
    ],
    ["read", "OK", 2, 2, [["P2", 0]], [[0, "data", "P2", 0, 0, ["old"]], [1, "control", "P2", 0, -1, None]]],
    ["offset", "OK", 5],
    ["produce", "OK", 2, None],
]


def without_coordinator_epochs(answers: list[Any]) -> list[Any]:
    """Markers hold the epoch of the coordinator, which rises with every unclean start."""
    plain = json.loads(json.dumps(answers))
    for answer in plain:
        if answer[0] == "read":
            for batch in answer[5]:
                batch[5] = None if batch[1] == "control" else batch[5]
        if answer[0] == "producers":
            for each in answer[2:]:
                each[3] = None
    return list(plain)


@pytest.mark.parametrize("is_killed", [True, False])
def test_transactions_go_on_after_a_restart(make_broker: Any, tell_on: TellOn, is_killed: bool) -> None:
    broker = make_broker()
    broker.start(**SETTINGS)
    s = tell_on(broker.bootstrap)
    who = begin(s)
    before = look(s)
    broker.kill() if is_killed else broker.stop()
    broker.start(**SETTINGS)
    s = tell_on(broker.bootstrap, s)
    assert look(s) == before
    assert without_coordinator_epochs(go_on(s, who)) == WHAT_GOES_ON
    fresh = s.init("story.fresh")
    assert fresh[0] not in {producer_id for producer_id, _ in who.values()}


@pytest.mark.real_kafka
def test_apache_kafka_and_this_broker_take_turns_with_open_transactions(
    make_broker: Any, new_kafka: Any, tell_on: TellOn
) -> None:
    broker = make_broker()
    broker.start(**SETTINGS)
    s = tell_on(broker.bootstrap)
    who = begin(s)
    before = look(s)
    broker.kill()
    kafka = new_kafka()
    kafka.log_dir().parent.mkdir(parents=True)
    shutil.copytree(broker.directory, kafka.log_dir())
    kafka.start(format_first=False)
    s = tell_on(kafka.bootstrap, s)
    for name in ("done", "open", "old", "idle"):
        s.settle(f"story.{name}")
    assert without_coordinator_epochs(look(s)) == without_coordinator_epochs(before)
    assert without_coordinator_epochs(go_on(s, who)) == WHAT_GOES_ON
    who["theirs"] = s.init("story.theirs")
    assert who["theirs"][0] not in {who[name][0] for name in ("done", "open", "old", "idle")}
    s.produce("story.theirs", who["theirs"], (T, 0), 0, version=12, values=[b"theirs"])
    s.commit_offset("story.theirs", who["theirs"], "story.g", (T, 0, 6), version=5)
    before = look(s)
    kafka.kill()
    shutil.rmtree(broker.directory)
    shutil.copytree(kafka.log_dir(), broker.directory)
    broker.start(**SETTINGS)
    s = tell_on(broker.bootstrap, s)
    assert without_coordinator_epochs(look(s)) == without_coordinator_epochs(before)
    s.answers.clear()
    s.end("story.theirs", who["theirs"], commit=True, version=5)
    s.offset("story.g", (T, 0))
    s.end("story.done", who["done"], commit=False, version=5)
    s.read((T, 1), 2)
    fresh = s.init("story.fresh")
    assert without_coordinator_epochs(s.answers) == [
        ["end", "OK", "P4", 1],
        ["offset", "OK", 6],
        ["end", "OK", "P0", 2],
        ["read", "OK", 4, 4, [["P0", 2]], [[2, "data", "P0", 1, 0, ["again"]], [3, "control", "P0", 2, -1, None]]],
        ["init", "OK", "P5", 0],
    ]
    assert fresh[0] not in {producer_id for producer_id, _ in who.values()}
