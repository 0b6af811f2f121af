"""kt streams-application-reset against the recordings of kafka-streams-application-reset.sh, and its own options."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.apache_kafka import ApacheKafka
from support.kt import Ran, run_kt
from transcripts import Difference

import kafkatools
from kafkatools.commands.consumer_groups import application
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.groups import GroupListings, list_groups
from kafkatools.core.errors import RequestTimedOut
from kafkatools.exit_status import ExitStatus

_TOOL = "streams-application-reset"
_LIVE = ("055", "056", "057", "058", "059")
_USAGE = Difference("usage", status=ExitStatus.USAGE, own_words=True)
_EARLY = Difference("application-reset-checks", stdout="", own_words=True)
_DIFFERENCES = {
    "003": _USAGE,
    "004": Difference("usage", status=ExitStatus.USAGE),
    "016": _USAGE,
    "023": _USAGE,
    "026": Difference("reset-duration", status=ExitStatus.OK, own_words=True),
    **dict.fromkeys(("028", "029", "030", "031", "032", "033", "040"), _EARLY),
    "034": Difference("usage", status=ExitStatus.USAGE),
    "035": _USAGE,
    "044": Difference("usage", status=ExitStatus.USAGE),
    "045": Difference("usage", own_words=True),
    "047": _USAGE,
}
_INTERNAL = (
    "app-store-changelog",
    "app-x-repartition",
    "app-b-subscription-registration-topic",
    "app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic",
)
_PARTITIONS = {"orders": 3, "mid": 1, "mid2": 2, "other": 1, "app-x-repartition": 2}
_ON_STDERR = re.compile(
    r"WARN: `--intermediate-topics`|Option --config-file has been|Following \w+ topics are not found|"
    r"Topic: ?(ghost|spectre)\n|New offset \(|Partition \d+ from topic"
)


def _create_topics(bootstrap: str) -> None:
    """Create the topics and offsets with which the tool of Kafka was recorded."""
    server = ("--bootstrap-server", bootstrap)
    for topic in ("orders", "mid", "mid2", "other", *_INTERNAL, "app-output", "other-store-changelog"):
        partitions = str(_PARTITIONS.get(topic, 1))
        made = run_kt("topics", *server, "--create", "--topic", topic, "--partitions", partitions)
        assert made.status == ExitStatus.OK, made.err
    lines = "".join(f"k{number}:v{number}\n" for number in range(30)).encode()
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    for topic in ("orders", "mid", "mid2"):
        assert run_kt("console-producer", *server, "--topic", topic, *keyed, stdin=lines).status == ExitStatus.OK


def _commit(bootstrap: str, group: str, offset: int, *topics: str) -> None:
    words = [word for topic in topics for word in ("--topic", topic)]
    target = ("--to-offset", str(offset), "--execute", "--no-undo-file")
    done = run_kt(
        "consumer-groups", "--bootstrap-server", bootstrap, "--reset-offsets", "--group", group, *words, *target
    )
    assert done.status == ExitStatus.OK, done.err


def _offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int | None]:
    return admin_tools.described_offsets(
        lambda *words: run_kt("consumer-groups", "--bootstrap-server", bootstrap, *words), group
    )


def _topics(bootstrap: str) -> set[str]:
    return set(run_kt("topics", "--bootstrap-server", bootstrap, "--list").out.split())


def _sorted(text: str) -> str:
    """The text with the topics to delete sorted: Kafka's tool has them in the order of the broker's response."""
    return re.sub(r"(?<=internal topics \[).*(?=])", lambda match: ", ".join(sorted(match[0].split(", "))), text)


def _failures(bootstrap: str, directory: pathlib.Path) -> list[str]:
    def without_notes(case: transcripts.Case, expected: transcripts.Expected) -> transcripts.Expected:
        """Kafka's tool prints warnings and missing topics on stdout, kt on stderr."""
        lines = _sorted(expected.stdout).splitlines(keepends=True)
        if not any(_ON_STDERR.match(line) for line in lines):
            return expected._replace(stdout="".join(lines))
        return expected._replace(stdout="".join(line for line in lines if not _ON_STDERR.match(line)), error=None)

    def run(case: transcripts.Case) -> Ran:
        if case.number == "006":
            _commit(bootstrap, "app", 4, "orders")
            _commit(bootstrap, "app", 3, "mid", "mid2")
        ran = admin_tools.run_case(_TOOL, case, bootstrap, directory)
        return ran._replace(stdout=_sorted(ran.out).encode())

    _create_topics(bootstrap)
    cases = [case for case in transcripts.load(_TOOL) if case.number not in ("001", *_LIVE)]
    failures = transcripts.replay(cases, run, _DIFFERENCES, without_notes)
    assert not failures, "\n".join(failures)
    ends = {("mid", 0): 30, ("mid2", 0): 17, ("mid2", 1): 13}  # as kafka-consumer-groups.sh showed afterwards
    assert _offsets(bootstrap, "app") == {("orders", partition): 0 for partition in range(3)} | ends
    assert not _topics(bootstrap) & set(_INTERNAL)
    assert _topics(bootstrap) >= {"app-output", "other-store-changelog"}
    return failures


@pytest.mark.slow
def test_the_reset_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    failures = _failures(start_broker(), tmp_path)
    assert not failures, "\n".join(failures)


@pytest.mark.real_kafka
@pytest.mark.slow
def test_the_reset_behaves_as_recorded_on_apache_kafka(
    new_kafka: Callable[..., ApacheKafka], tmp_path: pathlib.Path
) -> None:
    kafka = new_kafka()
    kafka.start()
    failures = _failures(kafka.bootstrap, tmp_path)
    assert not failures, "\n".join(failures)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_refused_or_removed(
    start_broker: Callable[..., str], tmp_path: pathlib.Path, protocol: str
) -> None:
    """As recorded in the cases 055 to 059, whose members were console consumers."""
    bootstrap = start_broker({"group.initial.rebalance.delay.ms": "0"})
    server = ("--bootstrap-server", bootstrap)
    for topic, partitions in (("orders", 3), ("other", 1)):
        run_kt("topics", *server, "--create", "--topic", topic, "--partitions", str(partitions))
    reset = (_TOOL, *server, "--application-id", "busy")
    consumer = kafkatools.Consumer(bootstrap_servers=bootstrap, group_id="busy", group_protocol=protocol)
    with consumer:
        consumer.subscribe(["other"])
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        refused = run_kt(*reset, "--dry-run")
        assert refused.status == ExitStatus.FAILED
        assert refused.err.startswith("ERROR: Consumer group 'busy' is still active and has following members: [")
        recorded = {case.number: case for case in transcripts.load(_TOOL)}
        dry = run_kt(*reset, "--dry-run", "--force", "--input-topics", "orders")
        would = recorded["056"].stdout.replace("Force deleting", "Would delete", 1)
        assert (dry.status, dry.out) == (ExitStatus.OK, would)
        assert run_kt(*reset, "--dry-run").status == ExitStatus.FAILED  # the dry run removed nobody
        forced = run_kt(*reset, "--force", "--input-topics", "orders", "--to-earliest")
        assert (forced.status, forced.out) == (ExitStatus.OK, recorded["059"].stdout), forced.err
        assert _offsets(bootstrap, "busy") == {("orders", partition): 0 for partition in range(3)}


@pytest.mark.slow
@pytest.mark.parametrize("failure", ["undo file", "plan"])
def test_members_stay_if_the_reset_cannot_begin(
    start_broker: Callable[..., str], tmp_path: pathlib.Path, failure: str
) -> None:
    bootstrap = start_broker({"group.initial.rebalance.delay.ms": "0"})
    server = ("--bootstrap-server", bootstrap)
    run_kt("topics", *server, "--create", "--topic", "orders", "--partitions", "2")
    (tmp_path / "present.csv").write_text("orders,0,0\n")
    words = {"undo file": ("--undo-file", "present.csv"), "plan": ("--from-file", "present.csv")}[failure]
    with kafkatools.Consumer(bootstrap_servers=bootstrap, group_id="busy") as consumer:
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        reset = (_TOOL, *server, "--application-id", "busy", "--input-topics", "orders", "--force")
        refused = run_kt(*reset, *words, cwd=tmp_path)
        assert refused.status == ExitStatus.FAILED
        assert "Force deleting" not in refused.out
        assert "--no-undo-file" not in refused.err
        described = run_kt("consumer-groups", *server, "--describe", "--group", "busy", "--members", "--json")
        assert len(described.out.splitlines()) == 1
    assert (tmp_path / "present.csv").read_text() == "orders,0,0\n"


@pytest.mark.slow
def test_json_an_undo_file_and_the_journal(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    server = ("--bootstrap-server", bootstrap)
    for topic, partitions in (("orders", "3"), (_INTERNAL[0], "1")):
        run_kt("topics", *server, "--create", "--topic", topic, "--partitions", partitions)
    records = "".join(f'{{"value": "v", "partition": {number % 3}}}\n' for number in range(15)).encode()
    run_kt("console-producer", *server, "--topic", "orders", "--json", stdin=records)
    _commit(bootstrap, "app", 4, "orders")
    before = _offsets(bootstrap, "app")
    reset = (_TOOL, *server, "--application-id", "app", "--input-topics", "orders", "--internal-topics", _INTERNAL[0])
    dry = [json.loads(line) for line in run_kt(*reset, "--dry-run", "--json").out.splitlines()]
    place = {"group": "app", "topic": "orders", "kind": "input", "offset": 0, "executed": False}
    assert dry[:3] == [{**place, "partition": partition} for partition in range(3)]
    assert dry[3:] == [{"topic": _INTERNAL[0], "internal": True, "deleted": False}]
    assert _offsets(bootstrap, "app") == before
    undo = tmp_path / "before.csv"
    journal = {"KT_JOURNAL": "on", "KT_HOME": str(tmp_path / "home")}
    done = run_kt(*reset, "--undo-file", str(undo), environ=journal)
    assert done.status == ExitStatus.OK, done.err
    assert set(_offsets(bootstrap, "app").values()) == {0}
    assert undo.read_text() == "".join(f"app,orders,{partition},4\n" for partition in range(3))
    undone = run_kt("undo", "last", "--yes", environ=journal)
    assert _offsets(bootstrap, "app") == before, undone.err
    assert _INTERNAL[0] in undone.err + undone.out  # a deleted topic does not come back


@pytest.mark.slow
def test_topics_of_an_application_with_a_longer_id_stay(start_broker: Callable[..., str]) -> None:
    bootstrap = start_broker()
    server = ("--bootstrap-server", bootstrap)
    own, other = "app-store-changelog", "app-v2-store-changelog"
    for topic in ("orders", own, other):
        run_kt("topics", *server, "--create", "--topic", topic)
    _commit(bootstrap, "app-v2", 0, "orders")
    done = run_kt(_TOOL, *server, "--application-id", "app")
    assert (done.status, f"internal topics [{own}]" in done.out) == (ExitStatus.OK, True), done
    assert f"{other} is kept: it may belong to the application app-v2. To delete it, name it with" in done.err
    assert (own in _topics(bootstrap), other in _topics(bootstrap)) == (False, True)
    done = run_kt(_TOOL, *server, "--application-id", "app", "--internal-topics", other)
    assert (done.status, other in _topics(bootstrap)) == (ExitStatus.OK, False), done


def test_no_topic_is_deleted_while_a_broker_does_not_list_its_groups(
    start_broker: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = start_broker()
    server = ("--bootstrap-server", bootstrap)
    other = "app-v2-store-changelog"
    run_kt("topics", *server, "--create", "--topic", other)

    def list_without_node_2(admin: AdminClient) -> GroupListings:
        return GroupListings(list_groups(admin).groups, {2: RequestTimedOut()})

    monkeypatch.setattr(application, "list_groups", list_without_node_2)
    done = run_kt(_TOOL, *server, "--application-id", "app")
    assert done.status == ExitStatus.FAILED, done
    assert "broker 2: " in done.err and "Nothing was changed" in done.err, done
    assert other in _topics(bootstrap)
    done = run_kt(_TOOL, *server, "--application-id", "app", "--internal-topics", other)
    assert (done.status, other in _topics(bootstrap)) == (ExitStatus.OK, False), done


def test_a_protected_cluster_asks_first(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    profiles = tmp_path / "config.toml"
    profiles.write_text(f'[profiles.prod]\nbootstrap_servers = "{start_broker()}"\nprotected = true\n')
    reset = ("--profile", "prod", _TOOL, "--application-id", "app")
    environ = {"KT_CONFIG": str(profiles)}
    assert run_kt(*reset, environ=environ).status != ExitStatus.OK
    assert run_kt(*reset, "--dry-run", environ=environ).status == ExitStatus.OK


def test_every_difference_is_documented() -> None:
    keys = {difference.key for difference in _DIFFERENCES.values()}
    noted = {f"application-reset-{name}" for name in ("stderr", "force", "members", "streams", "prefix", "undo")}
    assert keys | noted <= transcripts.documented_keys()
