"""The recordings of Apache Kafka's tools that need three brokers, or controllers, replayed on three nodes of Apache
Kafka with the topics that the recordings had. What kt prints has addresses, directories and ids put back to the names
that stand for them there.

Runs that name a broker which cannot be reached, and wrong words, are replayed on the embedded broker.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping

import pytest
from support.apache_kafka import CLUSTER_ID
from support.kt import Ran, run_kt
from support.three_nodes import BROKERS, ThreeNodes
from support.waiting import eventually

from kafkatools.core.admin.acls import delete_acls, describe_acls, filter_of
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.elections import PREFERRED, elect_leaders
from kafkatools.core.admin.log_dirs import describe_log_dirs
from kafkatools.core.admin.reassignments import active_reassignments, alter_reassignments
from kafkatools.core.admin.topics import describe_topics, list_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import ExitStatus

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))

import admin_tools  # noqa: E402
import test_cli_acls as acls  # noqa: E402
import test_cli_cluster as cluster  # noqa: E402
import test_cli_configs as configs  # noqa: E402
import test_cli_features as features  # noqa: E402
import test_cli_leader_election as leader_election  # noqa: E402
import test_cli_log_dirs as log_dirs  # noqa: E402
import test_cli_metadata_quorum as metadata_quorum  # noqa: E402
import test_cli_topics as topics  # noqa: E402
import transcripts  # noqa: E402
from transcripts import Adapt, Case, Difference, Expected  # noqa: E402

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

_RECORDED_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_PATIENCE_S = 60
_READS = ("--list", "-list", "--describe", "describe", "list-endpoints")
_LAYOUT = {"orders": [[1, 2], [2, 3], [3, 1]], "pay": [[2]], "solo3": [[3]]}


class Replay:
    """Runs the recordings of one tool in their order. A case that only reads is asked again while it differs: brokers
    take over what was decided one after the other."""

    def __init__(
        self,
        nodes: ThreeNodes,
        tool: str,
        differences: Mapping[str, Difference],
        needed: Collection[str],
        adapt: Adapt | None = None,
        shown: Callable[[str], str] = lambda text: text,
    ) -> None:
        self.nodes, self.tool, self._needed = nodes, tool, needed
        self._differences, self._adapt, self._shown = differences, adapt, shown
        self._is_settled = False
        self._names = {
            "BOOTSTRAP": nodes.address(1),
            "BROKER2": nodes.address(2),
            "BROKER3": nodes.address(3),
            "CONTROLLER": nodes.controller,
        }

    def failures(
        self,
        directory: pathlib.Path,
        wanted: Callable[[Case], bool] = lambda case: True,
        before: Callable[[Case], Case] = lambda case: case,
    ) -> list[str]:
        """The complaints of the cases that are wanted; `before` prepares one, and may change it."""
        found = []
        cases = [case for case in transcripts.load(self.tool) if "UNREACHABLE" not in case.args and wanted(case)]
        assert set(self._needed) <= {case.number for case in cases}, "what one embedded broker cannot replay"
        for case in cases:
            if not self._is_settled:
                self.nodes.settle()
            found += self._complaints(before(case), directory)
        return found

    def _complaints(self, case: Case, directory: pathlib.Path) -> list[str]:
        is_reading = not set(_READS).isdisjoint(case.args)
        self._is_settled = is_reading or case.exit != 0
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            found = transcripts.replay([case], lambda case: self._run(case, directory), self._differences, self._expect)
            if not found or not is_reading or time.monotonic() > deadline:
                return found

    def _run(self, case: Case, directory: pathlib.Path) -> Ran:
        transcripts.write_files(case, directory)
        words = list(case.args)
        for name, address in self._names.items():
            words = [re.sub(rf"(?<!-)\b{name}\b", address, word) for word in words]
        ran = run_kt(self.tool, *words, stdin=case.stdin.encode(), cwd=directory)
        return ran._replace(stdout=self._shown(self._recorded(ran.out)).encode())

    def _recorded(self, text: str) -> str:
        text = text.replace(CLUSTER_ID, _RECORDED_CLUSTER_ID)
        for name, address in self._names.items():
            text = re.sub(rf"{re.escape(address)}\b", name, text)
        text = text.replace("/tmp/kafka-logs", "DEFAULT_LOG_DIR")
        for node in BROKERS:
            text = text.replace(str(self.nodes.log_dir(node)), f"LOGDIR{node}")
        return text

    def _expect(self, case: Case, wanted: Expected) -> Expected:
        if self._adapt is not None:
            wanted = self._adapt(case, wanted)
        return wanted._replace(stdout=self._shown(wanted.stdout))


@pytest.fixture
def recorded_topics(empty_three_nodes: ThreeNodes) -> ThreeNodes:
    """orders, pay and solo3 with a record of 70 bytes in orders-0, orders-1, pay-0 and solo3-0."""
    nodes = empty_three_nodes
    nodes.make_topics(_LAYOUT)
    for topic, partitions in (("orders", (0, 1)), ("pay", (0,)), ("solo3", (0,))):
        admin_tools.fill(nodes.bootstrap, topic, [(each, admin_tools.START) for each in partitions], "ab")

    def is_replicated(client: AdminClient) -> bool:
        found = describe_log_dirs(client, BROKERS).values()
        paths = [path for told in found if not isinstance(told, KafkaError) for path in told]
        return sum(part.size_bytes for path in paths for part in path.replicas) == 6 * 70

    with AdminClient(nodes.bootstrap, {}, SystemClock()) as admin:
        eventually(lambda: is_replicated(admin))
    return nodes


# -- what the brokers and controllers are --


def test_brokers_and_controllers_are_described_as_recorded(recorded_topics: ThreeNodes, tmp_path: pathlib.Path) -> None:
    nodes = recorded_topics
    needed = cluster.CLUSTER_NOT_HERE
    endpoints = Replay(nodes, "cluster", cluster.CLUSTER_DIFFERENCES, needed, cluster.expect, _without_ports)
    failures = endpoints.failures(tmp_path, lambda case: case.number <= "007")
    api_versions = Replay(
        nodes, "broker-api-versions", cluster.API_DIFFERENCES, cluster.API_NOT_HERE, shown=_sorted_blocks
    )
    failures += api_versions.failures(tmp_path, lambda case: bool(case.stdout))
    needed = features.NOT_HERE
    levels = Replay(nodes, "features", features.DIFFERENCES, needed, features.expect, _without_epoch)
    failures += levels.failures(tmp_path, lambda case: case.number <= "017")
    adapt, needed = metadata_quorum.expect_error, metadata_quorum.NOT_HERE
    quorum = Replay(nodes, "metadata-quorum", metadata_quorum.DIFFERENCES, needed, adapt, _quorum)
    failures += quorum.failures(tmp_path, lambda case: case.number <= "019")
    assert not failures, "\n".join(failures)


def _without_ports(text: str) -> str:
    return re.sub(r"(?<=127\.0\.0\.1 )\d{5}", "PORT ", text)


def _sorted_blocks(text: str) -> str:
    return "".join(sorted(re.findall(r"^\w.*?^\)\n", text, re.MULTILINE | re.DOTALL)) or [text])


def _without_epoch(text: str) -> str:
    return re.sub(r"Epoch: \d+", "Epoch: N", text)


def _quorum(text: str) -> str:
    """The observers in the order of their ids, with what differs from run to run masked."""
    text = metadata_quorum.masked(re.sub(r'("directoryId": |(?<=\t))"?[\w-]{22}"?(?=\}|\t)', r"\1ID", text))
    lines = text.splitlines(keepends=True)
    rows = sorted(line for line in lines if "\tObserver" in line)
    text = "".join([line for line in lines if line not in rows] + rows)
    return re.sub(r"(?<=CurrentObservers: {6} \[).*(?=\]\n)", lambda found: ", ".join(_observers(found[0])), text)


def _observers(text: str) -> list[str]:
    return sorted(re.findall(r"\{.*?\}", text))


# -- log directories --


def test_log_directories_are_described_as_recorded(recorded_topics: ThreeNodes, tmp_path: pathlib.Path) -> None:
    replay = Replay(recorded_topics, "log-dirs", log_dirs.DIFFERENCES, log_dirs.NOT_HERE, shown=_sorted_directories)
    failures = replay.failures(tmp_path, lambda case: case.number not in ("009", "010", "011", "018", "019"))
    assert not failures, "\n".join(failures)


def _sorted_directories(text: str) -> str:
    """Brokers and partitions in a fixed order."""
    head, found, line = text.partition('{"brokers"')
    if not found:
        return text
    described = json.loads(found + line)
    described["brokers"].sort(key=lambda broker: broker["broker"])
    for broker in described["brokers"]:
        for each in broker["logDirs"]:
            each["partitions"].sort(key=lambda one: one["partition"])
    return head + json.dumps(described)


# -- settings of brokers --

_BROKER_CASES = ("033", *map("{:03}".format, (*range(36, 44), *range(45, 55))), "105")
# The recorded broker logged by way of other libraries than the test's: another of its loggers stands for it.
_LOGGER = ("kafka.server.ReplicaManager", "org.apache.kafka.server.logger.LoggingController")


def test_settings_of_brokers_are_described_as_recorded(three_nodes: ThreeNodes, tmp_path: pathlib.Path) -> None:
    is_given = _given_settings(three_nodes)

    def shown(text: str) -> str:
        return _settings(text.replace(*_LOGGER), is_given)

    def before(case: Case) -> Case:
        return case._replace(args=tuple(word.replace(*_LOGGER) for word in case.args))

    def expect(case: Case, wanted: Expected) -> Expected:
        wanted = configs.expect(case, wanted)
        return wanted if case.number != "053" else wanted._replace(error=_LOUD.format(_LOGGER[1]))

    replay = Replay(three_nodes, "configs", configs.DIFFERENCES, configs.NOT_HERE, expect, shown)
    try:
        failures = replay.failures(tmp_path, lambda case: case.number in _BROKER_CASES, before)
    finally:
        words = ("configs", "--bootstrap-controller", three_nodes.controller, "--alter", "--entity-type", "brokers")
        rates = "leader.replication.throttled.rate,follower.replication.throttled.rate,no.such"
        ran = run_kt(*words, "--entity-name", "1", "--delete-config", rates)
    assert ran.status == ExitStatus.OK, ran.err
    assert not failures, "\n".join(failures)


_LOUD = (
    "Cannot set the log level of {} to LOUD as it is not a supported log level. "
    "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
)


def _given_settings(nodes: ThreeNodes) -> Callable[[str], bool]:
    """Whether a setting was given to the recorded broker, or is to this one."""
    (recorded,) = [case for case in transcripts.load("configs") if case.number == "033"]
    given = {line.split("=")[0].strip() for line in recorded.stdout.splitlines() if "STATIC_BROKER_CONFIG" in line}
    properties = (nodes.home / "node1" / "server.properties").read_text()
    given |= {line.split("=")[0] for line in properties.splitlines()}
    return lambda line: line.split("=")[0].strip() in given


def _settings(text: str, is_given: Callable[[str], bool]) -> str:
    """All settings in order; those that a broker was given by their names alone, loggers by the first line alone."""
    lines = text.splitlines(keepends=True)
    if lines[:1] == ["Dynamic configs for broker-logger 1 are:\n"]:
        return lines[0]
    if lines[:1] != ["All configs for broker 1 are:\n"]:
        return text
    # the authorizer's own, and one that is not told of unless it is given
    known = [line for line in lines if not line.startswith(("  super.users=", "  log.initial.task.delay.ms="))]
    return "".join(sorted(line.split("=")[0] + "\n" if is_given(line) else line for line in known))


# -- ACLs --


def test_acls_are_changed_and_listed_as_recorded(three_nodes: ThreeNodes, tmp_path: pathlib.Path) -> None:
    def is_wanted(case: Case) -> bool:
        return case.number not in acls.WITHOUT_AUTHORIZER and case.number <= "038"

    with AdminClient(three_nodes.bootstrap, {}, SystemClock()) as admin:
        assert describe_acls(admin) == []
        try:
            replay = Replay(three_nodes, "acls", acls.DIFFERENCES, acls.NOT_HERE, acls.expect, acls.sorted_text)
            failures = replay.failures(tmp_path, is_wanted)
        finally:
            delete_acls(admin, [filter_of(one) for one in describe_acls(admin)])
        three_nodes.wait_until_all_see(lambda client: not describe_acls(client))
    assert not failures, "\n".join(failures)


# -- brokers that stop --


class Brokers:
    """Which brokers are stopped; all run again in the end."""

    def __init__(self, nodes: ThreeNodes) -> None:
        self._nodes = nodes
        self._stopped: set[int] = set()

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop_only(set())

    def stop_only(self, wanted: set[int]) -> None:
        """First stops those, then starts the others and waits until they are in sync again."""
        for node in wanted - self._stopped:
            self._nodes.stop_broker(node)
            self._stopped.add(node)
        for node in self._stopped - wanted:
            self._nodes.start_broker(node)
            self._stopped.remove(node)
        if not self._stopped:
            self._nodes.wait_until_all_see(_is_in_sync)


def _is_in_sync(client: AdminClient) -> bool:
    described = describe_topics(client, names=[topic.name for topic in list_topics(client)]).values()
    return all(set(part.isr) == set(part.replicas) for topic in described for part in topic.partitions)


def test_leaders_are_elected_as_recorded(recorded_topics: ThreeNodes, tmp_path: pathlib.Path) -> None:
    nodes = recorded_topics

    def before(case: Case) -> Case:
        if case.number in _STOPPED:
            brokers.stop_only(_STOPPED[case.number])
        if case.number in _LED_BY_ANOTHER:
            _let_broker_3_lead(nodes)
        return case

    adapt, needed = leader_election.expect, leader_election.NEEDS_THREE
    replay = Replay(nodes, "leader-election", leader_election.DIFFERENCES, needed, adapt, _sorted_lines)
    with Brokers(nodes) as brokers:
        failures = replay.failures(tmp_path, lambda case: case.number <= "034", before)
    assert not failures, "\n".join(failures)


_STOPPED: dict[str, set[int]] = {"018": {3}, "022": {2}, "024": set()}
_LED_BY_ANOTHER = ("003", "005", "013")


def _let_broker_3_lead(nodes: ThreeNodes) -> None:
    """As after a restart of broker 2: it is the preferred leader of orders-1, and broker 3 leads."""
    with AdminClient(nodes.bootstrap, {}, SystemClock()) as admin:
        for replicas in ((3, 2), (2, 3)):
            assert alter_reassignments(admin, {("orders", 1): replicas}) == {("orders", 1): None}
            eventually(lambda: not active_reassignments(admin))
            if replicas == (3, 2):
                elected = elect_leaders(admin, PREFERRED, [("orders", 1)])
                assert elected == {("orders", 1): None}
    nodes.settle()


def _sorted_lines(text: str) -> str:
    return "".join(sorted(text.splitlines(keepends=True)))


def test_topics_behave_as_recorded(empty_three_nodes: ThreeNodes, tmp_path: pathlib.Path) -> None:
    nodes = empty_three_nodes
    ids: dict[str, str] = {}

    def kt(*words: str) -> Ran:
        ran = run_kt("topics", "--bootstrap-server", nodes.bootstrap, *words)
        assert ran.status == ExitStatus.OK, ran.err
        return ran

    def before(case: Case) -> Case:
        topics.prepare(case, kt)
        if case.number == "108":
            _place_as_recorded(nodes, kt)
            brokers.stop_only({2})
        if case.number in ("056", "060"):
            found = topics.TOPIC_ID.findall(kt("--describe", "--topic", "delta").out)
            ids[_recorded_id(case)] = found[0][1]
        return case._replace(args=tuple(ids.get(word, word) for word in case.args))

    replay = Replay(nodes, "topics", topics.DIFFERENCES, topics.NEEDS_THREE)
    with Brokers(nodes) as brokers:
        failures = replay.failures(tmp_path, lambda case: case.number not in ("095", "096"), before)
    assert not failures, "\n".join(failures)


def _recorded_id(case: Case) -> str:
    return case.args[case.args.index("--topic-id") + 1]


# What the recorded cluster had chosen.
_PLACEMENTS = {
    "alpha": "1,1,2",
    "beta": "2:3,3:1,1:2",
    "gamma": "2:3:1",
    "eps": "2,3,3",
    "my.topic": "2",
    "z": "1",
}


def _place_as_recorded(nodes: ThreeNodes, kt: Callable[..., Ran]) -> None:
    for topic in _PLACEMENTS:
        kt("--delete", "--topic", topic)
    nodes.wait_until_all_see(lambda client: _PLACEMENTS.keys().isdisjoint(one.name for one in list_topics(client)))
    for topic, placement in _PLACEMENTS.items():
        settings = ("--config", "retention.ms=60000", "--config", "min.insync.replicas=2") if topic == "gamma" else ()
        kt("--create", "--topic", topic, "--replica-assignment", placement, *settings)
    nodes.settle()
    nodes.wait_until_all_see(_is_in_sync)


def test_what_only_a_stopped_broker_knows_is_said_to_be_missing(empty_three_nodes: ThreeNodes) -> None:
    nodes = empty_three_nodes
    nodes.make_topics({"__consumer_offsets": [[1], [2], [1], [1]], "__transaction_state": [[1], [2], [2], [1]]})
    server = ("--bootstrap-server", nodes.address(1))
    commands = {
        "1 of 4 partitions of __consumer_offsets have no leader (1)": (
            ("consumer-groups", *server, "--list"),
            ("consumer-groups", *server, "--describe", "--all-groups"),
            ("share-groups", *server, "--list"),
            ("groups", *server, "--list"),
        ),
        "2 of 4 partitions of __transaction_state have no leader (1, 2)": (("transactions", *server, "list"),),
    }
    with Brokers(nodes) as brokers:
        brokers.stop_only({2})
        for text, lines in commands.items():
            for words in lines:
                ran = run_kt(*words)
                assert ran.status == ExitStatus.FAILED, words
                assert text in ran.err, words
        ran = run_kt("doctor", *server)
        assert ran.status == ExitStatus.FINDINGS
        assert ": 2 brokers and 1 fenced, controller " in ran.out
        assert "  broker 2 is fenced: " in ran.out
    for lines in commands.values():
        for words in lines:
            assert run_kt(*words).status == ExitStatus.OK, words
    assert run_kt("doctor", *server).status == ExitStatus.OK
    nodes.empty()
