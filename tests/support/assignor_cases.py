"""Groups for assignors: made at random, answered by Apache Kafka's own assignors or by ours."""

from __future__ import annotations

import base64
import json
import pathlib
import random
import struct
import subprocess
from typing import Any

from support import apache_kafka
from support.waiting import PATIENCE_S

from kafkatools.core.consumer.assignors.assignor import MemberSubscription, PartitionInfo
from kafkatools.core.consumer.assignors.by_name import assignor_for_name
from kafkatools.core.consumer.assignors.sticky import write_sticky_user_data
from kafkatools.core.consumer.subscription import TopicPartition

ASSIGNORS = ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor")
_SOURCE = pathlib.Path(__file__).with_name("Assignments.java")
_NAMES = ("orders", "t0", "t1", "t2", "a.b", "payments-eu-2", "Zeta", "audit_log", "clicks", "ümlaut")

Case = dict[str, Any]


def ask_kafka(cases: list[Case]) -> list[dict[str, Any]]:
    """What Apache Kafka's assignors answer."""
    command = [apache_kafka.java_executable(), "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    done = subprocess.run(
        [*command, "-cp", apache_kafka.jars(), str(_SOURCE)],
        input="".join(json.dumps(case) + "\n" for case in cases).encode(),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr.decode(errors="replace")[-2000:])
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def ask_ours(case: Case) -> dict[str, Any]:
    """What our assignor answers to the same."""
    assignor = assignor_for_name(case["assignor"])
    if "remember" in case:
        assignor.on_assignment([TopicPartition(*part) for part in case["remember"]], case["generation"])
        return {"user_data": base64.b64encode(assignor.subscription_user_data(()) or b"").decode()}
    topics = {
        name: [PartitionInfo(name, index, tuple(racks)) for index, racks in enumerate(partitions)]
        for name, partitions in case["topics"].items()
    }
    given = assignor.assign(topics, {member["id"]: _subscription(member) for member in case["members"]})
    return {member: [list(part) for part in partitions] for member, partitions in given.items()}


def _subscription(member: dict[str, Any]) -> MemberSubscription:
    data = member["user_data"]
    return MemberSubscription(
        member["topics"],
        [TopicPartition(*part) for part in member["owned"]],
        None if data is None else base64.b64decode(data),
        member["generation"],
        member["instance"],
        member["rack"],
    )


def make_case(seed: int) -> Case:
    """A group that may have a past: members join and leave, change their topics, and tell more or less of the truth."""
    chance = random.Random(seed)
    assignor = ASSIGNORS[seed % len(ASSIGNORS)]
    racks = chance.choice(((), (), ("a", "b", "c"), ("a", "b")))
    topics = _topics(chance, racks)
    members = _members(chance, topics, racks)
    case: Case = {"assignor": assignor, "topics": topics, "members": members}
    for generation in range(1, chance.randrange(4) + 1):
        _tell(chance, case, ask_ours(case), generation)
        _change(chance, case, racks)
    return case


def _topics(chance: random.Random, racks: tuple[str, ...]) -> dict[str, Any]:
    same = chance.randint(1, 6)
    factor = chance.randint(1, 3)
    made = {}
    for name in chance.sample(_NAMES, chance.randint(1, 6)):
        count = same if chance.random() < 0.5 else chance.randint(1, 9)
        made[name] = [_replicas(chance, racks, factor) for _ in range(count)]
    return made


def _replicas(chance: random.Random, racks: tuple[str, ...], factor: int) -> list[str | None]:
    if not racks:
        return [None]
    return chance.sample((*racks, None) if chance.random() < 0.1 else racks, min(factor, len(racks)))


def _members(chance: random.Random, topics: dict[str, Any], racks: tuple[str, ...]) -> list[dict[str, Any]]:
    is_equal = chance.random() < 0.5
    everything = [*topics, "missing"] if chance.random() < 0.1 else list(topics)
    return [
        _member(chance, everything, racks, is_equal) for _ in range(chance.choice((chance.randint(1, 9),) * 15 + (30,)))
    ]


def _member(chance: random.Random, topics: list[str], racks: tuple[str, ...], is_equal: bool = False) -> dict[str, Any]:
    wanted = topics if is_equal else chance.sample(topics, chance.randint(1, len(topics)))
    return {
        "id": f"consumer-{chance.randint(1, 3)}-{chance.getrandbits(48):012x}",
        "topics": list(wanted),
        "owned": [],
        "user_data": None,
        "generation": -1,
        "instance": f"static-{chance.getrandbits(16)}" if chance.random() < 0.15 else None,
        "rack": chance.choice((*racks, "z", None)) if racks and chance.random() < 0.9 else None,
    }


def _tell(chance: random.Random, case: Case, given: dict[str, Any], generation: int) -> None:
    """Members say what they were given: in the way of their assignor and its versions, some of them late or wrong."""
    for member in case["members"]:
        if generation > 1 and chance.random() < 0.15:
            continue  # it missed this generation
        owned = given[member["id"]]
        member["owned"], member["generation"], member["user_data"] = owned, generation, None
        if case["assignor"] == "StickyAssignor":
            member["owned"] = []
            data = write_sticky_user_data([TopicPartition(*part) for part in owned], generation)
            data = chance.choice((data, data, data, data[:-4], data[:9]))
            member["user_data"] = base64.b64encode(data).decode()
        elif chance.random() < 0.3:
            member["generation"] = -1
            member["user_data"] = chance.choice(
                (None, base64.b64encode(struct.pack(">i", generation)).decode(), "AAA=")
            )


def _change(chance: random.Random, case: Case, racks: tuple[str, ...]) -> None:
    members, topics = case["members"], case["topics"]
    what = chance.randrange(6)
    if what == 0 and len(members) > 1:
        del members[chance.randrange(len(members))]
    elif what == 1:
        members.append(_member(chance, list(topics), racks, is_equal=chance.random() < 0.7))
    elif what == 2:
        chance.choice(members)["topics"] = chance.sample(list(topics), chance.randint(1, len(topics)))
    elif what == 3:
        name = chance.choice(list(topics))
        topics[name].append(_replicas(chance, racks, 2))
    elif what == 4 and len(topics) > 1:
        del topics[chance.choice(list(topics))]
    elif what == 5 and len(members) > 1 and members[0]["owned"]:
        members[-1]["owned"] = members[-1]["owned"] + members[0]["owned"][:1]
    chance.shuffle(members)
