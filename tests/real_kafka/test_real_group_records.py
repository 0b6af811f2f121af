"""Groups that one broker wrote and the other reads: Apache Kafka on a directory of the embedded broker that was killed,
and the embedded broker on one of Apache Kafka's."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import group_scenarios
from support.ports import free_port
from support.raw_client import RawClient

from kafkatools.core.protocol.api_versions import ApiKey

pytestmark = pytest.mark.real_kafka
GROUPS = ("plain", "static", "pattern", "mixed", "classic")
LONG_MS = 600_000
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.session.timeout.ms": str(LONG_MS),
    "group.consumer.session.timeout.ms": str(LONG_MS),
    "offsets.topic.num.partitions": "2",
}
OLD_CLIENT = group_scenarios.subscription(["words"])
RUN = """
import sys
from kafkatools.core.broker.node import single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock
settings = dict(word.split("=", 1) for word in sys.argv[3:])
setup = NodeSetup(single_node_config(sys.argv[1], "127.0.0.1", int(sys.argv[2]), settings), SystemClock())
node = start_node(setup, format_if_needed=True)
print("up", flush=True)
node.run()
"""


class Embedded:
    """The embedded broker in a process that is killed."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.bootstrap = f"127.0.0.1:{free_port()}"
        words = [f"{name}={value}" for name, value in SETTINGS.items()]
        command = [sys.executable, "-c", RUN, str(directory), self.bootstrap.rsplit(":", 1)[1], *words]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ))
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"up\n"

    def kill(self) -> None:
        """As the machine's memory shortage would."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def embedded() -> Iterator[Callable[[pathlib.Path], Embedded]]:
    made: list[Embedded] = []

    def start(directory: pathlib.Path) -> Embedded:
        made.append(Embedded(directory))
        return made[-1]

    yield start
    for broker in made:
        broker.kill()


def beat(client: RawClient, group: str, member: str, epoch: int = 0, **changes: Any) -> Any:
    request: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch, **changes}
    if epoch == 0:
        request = {"rebalance_timeout": LONG_MS, "topic_partitions": [], **request}
        if "subscribed_topic_regex" not in changes:
            request.setdefault("subscribed_topic_names", ["words"])
    while True:
        answer = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        if int(answer.error_code) not in (14, 15, 16):
            assert int(answer.error_code) == 0, answer
            return answer


def join_classic(client: RawClient, group: str) -> str:
    """A member of the classic protocol; its id."""
    request: dict[str, Any] = {
        "group_id": group,
        "session_timeout": LONG_MS,
        "rebalance_timeout": LONG_MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": OLD_CLIENT}],
    }
    member_id = str(client.call(ApiKey.JOIN_GROUP, 9, request).member_id)
    joined = client.call(ApiKey.JOIN_GROUP, 9, {**request, "member_id": member_id})
    assert int(joined.error_code) == 0, joined
    place = {"group_id": group, "generation_id": joined.generation_id, "member_id": member_id}
    synced = client.call(
        ApiKey.SYNC_GROUP,
        5,
        {
            **place,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": member_id, "assignment": group_scenarios.assignment("words", [0, 1, 2, 3])}],
        },
    )
    assert int(synced.error_code) == 0, synced
    return member_id


def fill(bootstrap: str) -> None:
    """Groups of every kind."""
    with RawClient(bootstrap) as client:
        client.call(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["plain"]})
        client.create_topic("words", 4)
        client.create_topic("settled")  # Apache Kafka's coordinator hears of a topic before the next one is described
        beat(client, "plain", "a", rack_id="r", server_assignor="range")
        beat(client, "plain", "b")
        beat(client, "plain", "a", 2)
        beat(client, "static", "a", instance_id="i1")
        beat(client, "static", "b", instance_id="i2")
        beat(client, "static", "a", -2, instance_id="i1")
        answer = beat(client, "pattern", "a", subscribed_topic_regex="wor.*")
        while not (answer.assignment and answer.assignment.topic_partitions):  # the pattern is resolved in between
            answer = beat(client, "pattern", "a", int(answer.member_epoch))
        join_classic(client, "mixed")
        beat(client, "mixed", "new")
        join_classic(client, "classic")
        for group in GROUPS:
            member = {"generation_id_or_member_epoch": -1, "member_id": ""}
            if group == "plain":
                member = {"generation_id_or_member_epoch": 2, "member_id": "a"}
            partitions = [{"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1}]
            topics = [{"name": "words", "partitions": [{**each, "committed_metadata": "m"} for each in partitions]}]
            client.call(ApiKey.OFFSET_COMMIT, 9, {"group_id": group, **member, "topics": topics})


def told(bootstrap: str) -> dict[str, Any]:
    """Everything that can be asked of the groups."""
    with RawClient(bootstrap) as client:
        while True:
            request = {"group_ids": list(GROUPS), "include_authorized_operations": False}
            described = client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request)
            if all(int(group.error_code) not in (14, 15, 16) for group in described.groups):
                break
            client.call(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": list(GROUPS)})
            time.sleep(0.1)
        classic = client.call(ApiKey.DESCRIBE_GROUPS, 6, {"groups": list(GROUPS)})
        fetched = client.call(
            ApiKey.OFFSET_FETCH, 9, {"groups": [{"group_id": group, "topics": None} for group in GROUPS]}
        )
        listed = client.call(ApiKey.LIST_GROUPS, 5, {"states_filter": [], "types_filter": []})
    answers = {"consumer": described, "classic": classic, "offsets": fetched, "listed": listed}
    found = {name: group_scenarios.plain(answer) for name, answer in answers.items()}
    for answer in found.values():
        answer["groups"].sort(key=lambda group: str(group["group_id"]))
    for group in found["consumer"]["groups"]:
        group["members"].sort(key=lambda member: str(member["member_id"]))
    return found


def test_apache_kafka_goes_on_with_groups_of_a_killed_embedded_broker(
    new_kafka: Callable[..., Any], embedded: Callable[[pathlib.Path], Embedded]
) -> None:
    kafka = new_kafka(settings=SETTINGS)
    broker = embedded(kafka.log_dir())
    fill(broker.bootstrap)
    before = told(broker.bootstrap)
    broker.kill()
    kafka.start(format_first=False)
    assert told(kafka.bootstrap) == before
    with RawClient(kafka.bootstrap) as client:
        answer = beat(client, "plain", "a", 2, topic_partitions=[])
        assert answer.member_epoch == 3


def test_the_embedded_broker_goes_on_with_groups_of_apache_kafka(
    new_kafka: Callable[..., Any], embedded: Callable[[pathlib.Path], Embedded]
) -> None:
    kafka = new_kafka(settings=SETTINGS)
    kafka.start()
    fill(kafka.bootstrap)
    before = told(kafka.bootstrap)
    kafka.kill()
    broker = embedded(kafka.log_dir())
    assert told(broker.bootstrap) == before
    with RawClient(broker.bootstrap) as client:
        answer = beat(client, "plain", "a", 2, topic_partitions=[])
        assert answer.member_epoch == 3
    broker.kill()
    assert told(embedded(kafka.log_dir()).bootstrap)["classic"] == before["classic"]
