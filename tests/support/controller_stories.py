"""What administrators ask of a cluster whose brokers die and come back, and what Apache Kafka made of it.

Four brokers, the first of them the controller; the others are killed, stopped and started again. A story is a list of
steps: a request with the answer, brokers that go and come, and the state of all partitions when nothing changes any
more. `python tests/support/controller_stories.py HOME` records it from Apache Kafka 4.3.1 into
tests/golden/controller/story.json; `Player` plays it against a `Controller` with brokers that do what brokers do:
send heartbeats, and take into the ISR whoever is alive.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from support.whole_messages import decode_all

from kafkatools.core import config as tables
from kafkatools.core.broker.metadata.controller.client_quotas import ClientQuotas
from kafkatools.core.broker.server.mutation_quotas import MutationQuotas
from kafkatools.core.config import Config
from kafkatools.core.protocol.entities import Entity

STORY = pathlib.Path(__file__).parent.parent / "golden" / "controller" / "story.json"
SETTINGS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300", "num.partitions": "1"}
Step = tuple[str, Any]


def _topic(name: str, *assignments: Sequence[int], count: int = -1, factor: int = -1, **configs: str) -> dict[str, Any]:
    lists = [{"partition_index": index, "broker_ids": list(each)} for index, each in enumerate(assignments)]
    values = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {
        "name": name,
        "num_partitions": count,
        "replication_factor": factor,
        "assignments": lists,
        "configs": values,
    }


def _create(*topics: Mapping[str, Any], validate_only: bool = False) -> Step:
    return "CREATE_TOPICS", (5, {"topics": list(topics), "timeout": 30000, "validate_only": validate_only})


def _grow(name: str, count: int, *assignments: Sequence[int]) -> Step:
    lists = [{"broker_ids": list(each)} for each in assignments] or None
    topic = {"name": name, "count": count, "assignments": lists}
    return "CREATE_PARTITIONS", (3, {"topics": [topic], "timeout": 30000, "validate_only": False})


def _reassign(name: str, index: int, replicas: Sequence[int] | None, *, may_change_factor: bool = True) -> Step:
    partition = {"partition_index": index, "replicas": None if replicas is None else list(replicas)}
    fields = {
        "timeout": 30000,
        "allow_replication_factor_change": may_change_factor,
        "topics": [{"name": name, "partitions": [partition]}],
    }
    return "ALTER_PARTITION_REASSIGNMENTS", (1, fields)


def _list(*wanted: tuple[str, Sequence[int]]) -> Step:
    topics = [{"name": name, "partition_indexes": list(indexes)} for name, indexes in wanted] or None
    return "LIST_PARTITION_REASSIGNMENTS", (0, {"timeout": 30000, "topics": topics})


def _elect(election_type: int, *wanted: tuple[str, Sequence[int]]) -> Step:
    topics = [{"topic": name, "partitions": list(indexes)} for name, indexes in wanted] or None
    return "ELECT_LEADERS", (2, {"election_type": election_type, "topic_partitions": topics, "timeout": 30000})


def _set(name: str, key: str, value: str) -> Step:
    config = {"name": key, "config_operation": 0, "value": value}
    resource = {"resource_type": 2, "resource_name": name, "configs": [config]}
    return "INCREMENTAL_ALTER_CONFIGS", (1, {"resources": [resource], "validate_only": False})


def _unregister(broker_id: int) -> Step:
    return "UNREGISTER_BROKER", (0, {"broker_id": broker_id})


def _kill(broker_id: int) -> Step:
    return "kill", broker_id


def _stop(broker_id: int) -> Step:
    return "stop", broker_id


def _start(broker_id: int) -> Step:
    return "start", broker_id


STATE: Step = ("state", None)
PREFERRED, UNCLEAN = 0, 1
STEPS: list[Step] = [
    # new topics
    _create(_topic("a", [1, 2, 3], [2, 3, 1]), _topic("b", count=2, factor=3)),
    _create(
        _topic("many", count=1, factor=5),
        _topic("none", count=1, factor=0),
        _topic("empty", count=0, factor=1),
        _topic("uneven", [1, 2], [1]),
        _topic("unknown", [1, 9]),
        _topic("twice", [1, 1]),
        _topic("nobody", []),
        _topic("a", count=1, factor=1),
        _topic("both", [1], factor=1),
        _topic("counted", [1], count=1),
    ),
    _create(_topic("v", count=3, factor=2), validate_only=True),
    _grow("a", 3, [3, 1]),
    _grow("a", 3, [3, 1, 9]),
    _grow("a", 4, [3, 1, 2]),
    _grow("a", 2),
    _grow("a", 1),
    _grow("nowhere", 2),
    _grow("a", 3, [3, 1, 2]),
    STATE,
    # reassignments among brokers that live
    _reassign("nowhere", 0, [1]),
    _reassign("a", 7, [1]),
    _reassign("a", 0, []),
    _reassign("a", 0, [1, 9]),
    _reassign("a", 0, [1, 1]),
    _reassign("a", 0, [1, 2], may_change_factor=False),
    _reassign("a", 0, None),
    _reassign("a", 0, [3, 2, 1]),
    STATE,
    _reassign("a", 1, [2, 3]),
    STATE,
    _reassign("a", 0, [4, 3, 2]),
    STATE,
    _list(),
    _list(("a", [0, 7]), ("nowhere", [0])),
    # elections
    _elect(PREFERRED, ("a", [0, 1, 9]), ("nowhere", [0])),
    _elect(UNCLEAN, ("a", [1])),
    _elect(7, ("a", [1])),
    # a broker is away
    _create(_topic("r", [1, 2]), _topic("e", [2, 3], min_insync_replicas="2"), _topic("f", [3, 4])),
    _set("f", "min.insync.replicas", "2"),
    _kill(3),
    STATE,
    _create(_topic("alone", [3]), _topic("with", [3, 1])),
    _create(_topic("wide", count=1, factor=4)),
    _reassign("r", 0, [1, 3]),
    _list(),
    STATE,
    _reassign("r", 0, [4, 3]),
    _list(("r", [0])),
    _reassign("r", 0, None),
    _list(),
    STATE,
    _reassign("r", 0, [1, 3]),
    _elect(PREFERRED, ("a", [2]), ("f", [0])),
    # the last one that was in sync goes, too
    _kill(2),
    STATE,
    _elect(PREFERRED, ("e", [0])),
    _elect(UNCLEAN, ("e", [0])),
    _start(3),
    STATE,
    _start(2),
    STATE,
    _list(),
    # clean stops leave eligible leaders
    _stop(3),
    STATE,
    _kill(4),
    STATE,
    _start(3),
    STATE,
    _start(4),
    STATE,
    _elect(PREFERRED),
    STATE,
    # an election that loses records
    _create(_topic("u", [4, 2], unclean_leader_election_enable="true")),
    _kill(2),
    STATE,
    _kill(4),
    _start(2),
    STATE,
    _start(4),
    STATE,
    # for good
    _unregister(9),
    _kill(4),
    _unregister(4),
    STATE,
    _create(_topic("gone", [4, 1])),
    _reassign("u", 0, [2, 1]),
    STATE,
]


# -- recording -----------------------------------------------------------------------------------------------------
class Recorder:
    """Plays the story with Apache Kafka."""

    def __init__(self, home: pathlib.Path) -> None:
        from support.apache_kafka import ApacheKafka
        from support.raw_client import RawClient

        self.kafka = ApacheKafka(home, 4, SETTINGS, controllers=1)
        self.kafka.start()
        self.client = RawClient(self.kafka.bootstrap)

    def play(self) -> list[dict[str, Any]]:
        from kafkatools.core.protocol.api_versions import ApiKey

        self._wait_for(4)
        told = []
        for what, details in STEPS:
            if what == "state":
                told.append({"state": self._settled()})
            elif what in ("kill", "stop", "start"):
                getattr(self, f"_{what}")(details)
                told.append({what: details})
            else:
                version, fields = details
                answer = plain(self.client.call(ApiKey[what], version, fields))
                told.append({"api": what, "version": version, "request": fields, "answer": answer})
                time.sleep(0.5)
            print(json.dumps(told[-1])[:200], flush=True)
        return told

    def _kill(self, broker_id: int) -> None:
        self.kafka.kill(broker_id)
        self._wait_for(len(self.kafka.processes))

    def _stop(self, broker_id: int) -> None:
        self.kafka.stop_node(broker_id)
        self._wait_for(len(self.kafka.processes))

    def _start(self, broker_id: int) -> None:
        self.kafka.start_node(broker_id)
        self._wait_for(len(self.kafka.processes))

    def _wait_for(self, brokers: int) -> None:
        from kafkatools.core.protocol.api_versions import ApiKey

        while len(self.client.call(ApiKey.DESCRIBE_CLUSTER, 0, {}).brokers) != brokers:
            time.sleep(0.2)

    def _settled(self) -> dict[str, Any]:
        """The state when it has been the same for two seconds."""
        state, since = self._state(), time.monotonic()
        while time.monotonic() < since + 2:
            time.sleep(0.2)
            now = self._state()
            if now != state:
                state, since = now, time.monotonic()
        return state

    def _state(self) -> dict[str, Any]:
        from kafkatools.core.protocol.api_versions import ApiKey

        names = [each.name for each in self.client.call(ApiKey.METADATA, 9, {"topics": None}).topics]
        fields = {"topics": [{"name": name} for name in sorted(names)]}
        described = self.client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, fields)
        return {
            f"{topic.name}-{part.partition_index}": [
                int(part.leader_id),
                list(map(int, part.replica_nodes)),
                sorted(map(int, part.isr_nodes)),
                sorted(map(int, part.eligible_leader_replicas or ())),
                list(map(int, part.last_known_elr or ())),
            ]
            for topic in described.topics
            for part in topic.partitions
        }


def plain(value: Any) -> Any:
    """An answer as JSON, without ids and settings."""
    if isinstance(value, Entity):
        names = [name for name in value.__layout__.names if name not in ("throttle_time", "configs", "topic_id")]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


# -- playing -------------------------------------------------------------------------------------------------------
class Player:
    """Plays the story with a `Controller`; brokers send heartbeats and take in whoever is alive."""

    def __init__(self) -> None:
        from support.quorum_controller import Cluster

        settings = {"broker.session.timeout.ms": "2000", "auto.leader.rebalance.enable": "false"}
        self.cluster = Cluster([1, 2, 3, 4], settings)
        self.alive = {1, 2, 3, 4}
        self.processes = dict.fromkeys(self.alive, 0)
        self.controller = self.cluster.controller
        self.clock = self.cluster.clock
        self.mutation_quotas = MutationQuotas(ClientQuotas(), Config(tables.BROKER), self.clock)

    @staticmethod
    def authorize(*wanted: Any) -> bool:
        return True

    @staticmethod
    def authorize_or_raise(*wanted: Any) -> None:
        """Everybody may do everything."""

    def play(self, told: Mapping[str, Any]) -> Any:
        """Do a step; gives what there is to compare with what is told of it, or None."""
        if "state" in told:
            self._settle()
            return self._state()
        for what in ("kill", "stop", "start"):
            if what in told:
                getattr(self, f"_{what}")(told[what])
                return None
        return self._ask(told["api"], told["version"], told["request"])

    def _ask(self, api: str, version: int, fields: Mapping[str, Any]) -> Any:
        from kafkatools.core.broker.server.apis import BROKER_APIS
        from kafkatools.core.broker.server.requests import Request
        from kafkatools.core.protocol import messages
        from kafkatools.core.protocol.api_versions import ApiKey

        key = int(ApiKey[api])
        entity = messages.build(messages.request_type(key, version), fields)
        request = Request(None, memoryview(bytearray(messages.encode(entity))), (key, version, 1))  # type: ignore[arg-type]
        request.is_flexible = version >= BROKER_APIS[key].flexible_since
        (part,) = BROKER_APIS[key].load()(self, request)  # type: ignore[arg-type]
        at = 9 if request.is_flexible else 8
        return plain(decode_all(messages.response_type(key, version), part, at))

    def _kill(self, broker_id: int) -> None:
        self._settle()
        self.alive.discard(broker_id)
        while not self.cluster.image.brokers[broker_id].is_fenced:
            self.cluster.pass_time(300, alive=sorted(self.alive))

    def _stop(self, broker_id: int) -> None:
        self._settle()
        while not self.cluster.heartbeat(broker_id, want_shut_down=True)["should_shut_down"]:
            for other in self.alive - {broker_id}:
                self.cluster.heartbeat(other)
        self.alive.discard(broker_id)
        self.processes[broker_id] |= 1 << 10  # it will know its epoch

    def _start(self, broker_id: int) -> None:
        self.cluster.pass_time(2000, alive=sorted(self.alive))
        self.cluster.pass_time(1000, alive=sorted(self.alive))
        number = self.processes[broker_id]
        known = self.cluster.epochs[broker_id] if number >> 10 else -1
        self.processes[broker_id] = (number & 1023) + 1
        self.cluster.register(broker_id, self.processes[broker_id], previous_broker_epoch=known)
        self.cluster.unfence(broker_id)
        self.alive.add(broker_id)

    def _settle(self) -> None:
        """Leaders take every replica that is alive into their ISRs, until nothing changes any more."""
        is_changing = True
        while is_changing:
            is_changing = False
            for name, topic in list(self.cluster.image.topics.items()):
                for index, state in topic.partitions.items():
                    isr = [each for each in state.replicas if each in self.alive]
                    if state.leader >= 0 and (set(isr) != set(state.isr) or state.leader_recovery_state):
                        self.cluster.alter_isr(name, isr, index, leader_recovery_state=0)
                        is_changing = True

    def _state(self) -> dict[str, Any]:
        return {
            f"{name}-{index}": [
                state.leader,
                list(state.replicas),
                sorted(state.isr),
                sorted(state.elr),
                list(state.last_known_elr or ()),
            ]
            for name, topic in sorted(self.cluster.image.topics.items())
            for index, state in topic.partitions.items()
        }


def main(home: str) -> None:
    """Record the story."""
    recorder = Recorder(pathlib.Path(home))
    try:
        told = recorder.play()
    finally:
        recorder.kafka.stop()
    lines = ",\n".join(json.dumps(each) for each in told)
    STORY.write_text(f'{{"origin": "recorded from Apache Kafka 4.3.1",\n"steps": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
    main(sys.argv[1])
