"""kt groups timeline: groups with real members on a broker, and the recorded __consumer_offsets of Apache Kafka."""

from __future__ import annotations

import itertools
import json
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.apache_kafka import ApacheKafka
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.live_groups import GroupClient
from support.rebalances import settle
from support.recorded_segments import log_directory
from support.waiting import eventually
from support.why import make_topic, produce

from kafkatools import Producer
from kafkatools.core.admin.acls import Acl, create_acls, delete_acls, filter_of
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import alter_offsets, delete_offsets
from kafkatools.core.admin.groups import delete_groups
from kafkatools.core.clock import SystemClock
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.records.batch import read_batches
from kafkatools.exit_status import ExitStatus

SETTINGS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow_everyone_if_no_acl_found": "true",
    "group_initial_rebalance_delay_ms": "0",
    "offsets_topic_num_partitions": "4",
}
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
MOVES = ("added", "removed", "revoking")
QUICK = {"group.consumer.heartbeat.interval.ms": "100", "group.consumer.min.heartbeat.interval.ms": "100"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="module")
def bootstrap(directory: pathlib.Path) -> Iterator[str]:
    with embedded_broker(
        directory, **SETTINGS, **{name.replace(".", "_"): text for name, text in QUICK.items()}
    ) as address:
        make_topic(address, "any")
        yield address


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A log directory of Apache Kafka with one partition of __consumer_offsets."""
    root = tmp_path_factory.mktemp("recorded")
    shutil.copytree(log_directory("consumer-offsets"), root / "__consumer_offsets-0")
    return root


def timeline(*words: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is said about the log, and the events."""
    ran = run_kt("groups", "timeline", *words, "--json")
    assert ran.status is ExitStatus.OK, ran.err
    head, *events = map(json.loads, ran.out.splitlines())
    return head, events


def of_type(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def share_a_group(bootstrap: str, group: str, topic: str, protocol: str) -> None:
    """Two members share four partitions; the second one commits offset 3 of one of its partitions and leaves."""
    make_topic(bootstrap, topic, 4, records=10)
    settings: dict[str, object] = {
        "group_id": group,
        "group_protocol": protocol,
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 20,
    }
    if protocol == "classic":
        settings |= {"heartbeat_interval_ms": 100}
    with Consumer(bootstrap_servers=bootstrap, client_id="first", **settings) as first:
        first.subscribe([topic])
        settle([first], 4)
        with Consumer(bootstrap_servers=bootstrap, client_id="second", **settings) as second:
            second.subscribe([topic])
            settle([first, second], 2, 2)
            second.commit_sync({second.assignment()[0]: 3})
        settle([first], 4)


def check_shared_group(events: list[dict[str, Any]], topic: str) -> None:
    """Hold the events of `share_a_group` against what happened: joins and leaves, owners, and the commit."""
    rebalances = of_type(events, "rebalance")
    joined = [member["client_id"] for event in rebalances for member in event["joined"]]
    left = [member["client_id"] for event in rebalances for member in event["left"]]
    assert (joined, left) == (["first", "second"], ["second", "first"])
    assert {member["host"] for event in rebalances for member in event["joined"]} == {"/127.0.0.1"}
    numbers = [event["generation"] for event in rebalances]
    assert numbers == sorted(numbers)
    assert (rebalances[-1]["state"], rebalances[-1]["members"]) == ("Empty", 0)
    owners: dict[str, set[int]] = {}
    most_members = 0
    for event in rebalances:
        most_members = max(most_members, event["members"])
        for moved in event["moved"]:
            assert {place["topic"] for place in (*moved["added"], *moved["removed"])} == {topic}
            owned = owners.setdefault(moved["member"], set())
            owned |= {place["partition"] for place in moved["added"]}
            owned -= {place["partition"] for place in moved["removed"]}
    assert most_members == 2 and set(map(len, owners.values())) == {0}
    (commit,) = of_type(events, "commits")
    assert (commit["topic"], commit["commits"], commit["last_offset"], commit["lag"]) == (topic, 1, 3, 7)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_that_join_and_leave(bootstrap: str, directory: pathlib.Path, protocol: str) -> None:
    share_a_group(bootstrap, f"two-{protocol}", f"t-{protocol}", protocol)
    head, events = timeline(f"two-{protocol}", "--bootstrap-server", bootstrap)
    check_shared_group(events, f"t-{protocol}")
    assert (head["group"], head["compacted_to"], head["damaged"]) == (f"two-{protocol}", None, [])
    assert {event["protocol"] for event in of_type(events, "rebalance")} == {protocol}
    assert (head, events) == timeline(f"two-{protocol}", "--from", f"log:{directory}")


def test_a_group_that_is_converted_to_the_consumer_protocol_and_back(bootstrap: str) -> None:
    make_topic(bootstrap, "conv", 4)
    settings: dict[str, object] = {"group_id": "conv", "enable_auto_commit": False, "fetch_max_wait_ms": 20}
    old = {"heartbeat_interval_ms": 100, "partition_assignment_strategy": COOPERATIVE}
    with Consumer(bootstrap_servers=bootstrap, client_id="old", **settings, **old) as first:
        first.subscribe(["conv"])
        settle([first], 4)
        with Consumer(bootstrap_servers=bootstrap, client_id="new", group_protocol="consumer", **settings) as second:
            second.subscribe(["conv"])
            settle([first, second], 2, 2)
        settle([first], 4)
    _, events = timeline("conv", "--bootstrap-server", bootstrap)
    assert not of_type(events, "group_deleted"), "a tombstone beside records of the other protocol is no deletion"
    rebalances = of_type(events, "rebalance")
    protocols = [event["protocol"] for event in rebalances]
    assert [name for name, _ in itertools.groupby(protocols)] == ["classic", "consumer", "classic"]
    joined = [member["client_id"] for event in rebalances for member in event["joined"]]
    left = [member["client_id"] for event in rebalances for member in event["left"]]
    assert (joined, left) == (["old", "new"], ["new", "old"])


@pytest.mark.real_kafka
@pytest.mark.slow
def test_the_same_events_on_apache_kafka(new_kafka: Callable[..., ApacheKafka]) -> None:
    cluster = new_kafka(settings=QUICK)
    cluster.start()
    for protocol in ("classic", "consumer"):
        share_a_group(cluster.bootstrap, protocol, f"t-{protocol}", protocol)
        head, events = timeline(protocol, "--bootstrap-server", cluster.bootstrap)
        check_shared_group(events, f"t-{protocol}")
        assert (head, events) == timeline(protocol, "--from", f"log:{cluster.log_dir()}")


def test_commits_are_joined_until_one_goes_back(bootstrap: str, directory: pathlib.Path) -> None:
    make_topic(bootstrap, "steps", 2, records=10)
    with GroupClient(bootstrap) as client:
        for offset in (2, 4, 9, 5, 6):
            client.commit("steps", {("steps", 0): offset})
        client.commit("steps", {("steps", 1): 1})
    _, events = timeline("steps", "--bootstrap-server", bootstrap)
    rows = [
        (
            event["partition"],
            event["commits"],
            event["previous"],
            event["first_offset"],
            event["last_offset"],
            event["lag"],
        )
        for event in events
    ]
    assert rows == [(0, 3, None, 2, 9, 1), (0, 2, 9, 5, 6, 4), (1, 1, None, 1, 1, 9)]
    produce(bootstrap, "steps", 1, 5)
    again = timeline("steps", "--bootstrap-server", bootstrap)[1]
    assert [event["lag"] for event in again] == [1, 4, 9], "records that came later are no lag of then"
    _, single = timeline("steps", "--bootstrap-server", bootstrap, "--commits", "--last", "3")
    assert [(event["partition"], event["last_offset"]) for event in single] == [(0, 5), (0, 6), (1, 1)]
    text = run_kt("groups", "timeline", "steps", "--from", f"log:{directory}", "--last", "2").out
    assert "2 commits of steps-0: offsets 5 to 6, back from 9, until " in text
    assert "Commit of steps-1: offset 1; lag 9" in text


def test_lag_of_deleted_records_is_unknown(bootstrap: str) -> None:
    make_topic(bootstrap, "cut", records=10)
    with GroupClient(bootstrap) as client:
        client.commit("cut", {("cut", 0): 4})
    produce(bootstrap, "cut", records=3)
    ran = run_kt("delete-records", "--bootstrap-server", bootstrap, "--topic", "cut", "--before", "11")
    assert ran.status is ExitStatus.OK, ran.err
    _, [commit] = timeline("cut", "--bootstrap-server", bootstrap)
    assert commit["lag"] is None


def test_deleted_offsets_and_groups(bootstrap: str) -> None:
    make_topic(bootstrap, "gone-topic", 2)
    with GroupClient(bootstrap) as client, AdminClient(bootstrap, {}, SystemClock()) as admin:
        client.commit("leaves", {("gone-topic", 0): 2, ("gone-topic", 1): 3})
        delete_offsets(admin, "leaves", [("gone-topic", 1)])
        delete_groups(admin, ["leaves"])
    _, events = timeline("leaves", "--bootstrap-server", bootstrap)
    deleted = [(event["partition"], event["offset"]) for event in of_type(events, "offset_deleted")]
    assert deleted == [(1, 3), (0, 2)]
    ran = run_kt("groups", "timeline", "leaves", "--bootstrap-server", bootstrap, "--topic", "other")
    assert "has no commits of topic 'other' in __consumer_offsets-" in ran.err
    assert ran.err.endswith("; it committed gone-topic\n")


def test_offsets_of_transactions(bootstrap: str) -> None:
    make_topic(bootstrap, "tx")
    with Producer(bootstrap_servers=bootstrap, transactional_id="tx-1") as producer:
        producer.init_transactions()
        for offset, is_kept in ((1, True), (2, False), (3, True)):
            producer.begin_transaction()
            producer.send_offsets_to_transaction({("tx", 0): offset}, ConsumerGroupMetadata("tx"))
            if offset == 3:
                break
            producer.commit_transaction() if is_kept else producer.abort_transaction()
        head, events = timeline("tx", "--bootstrap-server", bootstrap)
        producer.abort_transaction()
    assert [(event["last_offset"], event["pending"]) for event in of_type(events, "commits")] == [(1, False), (3, True)]
    assert head["aborted_commits"] == 1


@pytest.mark.slow
def test_a_log_that_the_cleaner_compacted(tmp_path: pathlib.Path) -> None:
    settings = {
        "offsets_topic_segment_bytes": str(1 << 20),
        "log_cleaner_backoff_ms": "200",
        "log_cleaner_min_cleanable_ratio": "0.0",
    }
    with embedded_broker(tmp_path, **SETTINGS, **settings) as address:
        make_topic(address, "cleaned", records=10)
        with AdminClient(address, {}, SystemClock()) as admin:
            for number in range(600):
                offset = OffsetAndMetadata(number % 10, metadata="x" * 4000)
                assert alter_offsets(admin, {"cleaned": {("cleaned", 0): offset}})["cleaned"].error is None
        eventually(lambda: timeline("cleaned", "--bootstrap-server", address)[0]["compacted_to"] is not None)
        head, events = timeline("cleaned", "--from", f"log:{tmp_path}")
    assert 0 < head["compacted_to"] <= head["next_offset"] == 600
    assert sum(event["commits"] for event in events) < 600 and events[-1]["last_offset"] == 599 % 10


# -- recorded by Apache Kafka


def test_recorded_groups(recorded: pathlib.Path) -> None:
    source = ("--from", f"log:{recorded}")
    _, events = timeline("doomed-fjord", *source)
    kinds = [event["type"] for event in events]
    assert kinds == ["rebalance"] * 2 + ["commits"] * 6 + ["rebalance", "group_deleted"] + ["offset_deleted"] * 6
    assert [event["generation"] for event in of_type(events, "rebalance")] == [0, 1, 2]
    assert {event["lag"] for event in of_type(events, "commits")} == {None}
    _, events = timeline("pebble-new", *source)
    assert [event["generation"] for event in of_type(events, "rebalance")] == [2, 3, 3]
    handovers = [(event["epoch"], len(event["added"]), len(event["revoking"]), len(event["removed"]))
                 for event in of_type(events, "handover")]  # fmt: skip
    assert handovers == [(2, 6, 0, 0), (2, 0, 3, 0), (3, 0, 0, 3), (3, 3, 0, 0)]
    _, events = timeline("share-juniper", *source)
    assert [event["generation"] for event in of_type(events, "rebalance")] == [2, 3, 4, 5, 5, 6]
    assert {event["protocol"] for event in of_type(events, "rebalance")} == {"share"}


def test_times_select_events(recorded: pathlib.Path) -> None:
    words = (
        "doomed-fjord",
        "--from",
        f"log:{recorded}",
        "--since",
        "2026-11-21T03:00:42",
        "--until",
        "2026-11-21T03:00:45",
    )
    _, events = timeline(*words)
    assert [event["type"] for event in events] == ["commits"] * 6 + ["rebalance"]
    assert events[-1]["left"], "the members before the slice are known"
    ran = run_kt("groups", "timeline", *words[:3], "--since", "2026-11-22")
    assert ran.status is ExitStatus.OK and "No events match the options." in ran.out


def test_compaction_is_told(recorded: pathlib.Path, tmp_path: pathlib.Path) -> None:
    copy = shutil.copytree(recorded, tmp_path / "copy")
    segment = copy / "__consumer_offsets-0" / f"{0:020}.log"
    batches = list(read_batches(segment.read_bytes()))
    segment.write_bytes(b"".join(batch.to_bytes() for batch in batches[8:]))
    head, _ = timeline("doomed-fjord", "--from", f"log:{copy}")
    assert (head["compacted_to"], head["first_offset"]) == (batches[8].base_offset, batches[8].base_offset)
    text = run_kt("groups", "timeline", "doomed-fjord", "--from", f"log:{copy}").out
    assert f"The log was compacted: events before log offset {batches[8].base_offset} (2026-" in text


def test_damaged_batches_are_counted_and_skipped(recorded: pathlib.Path, tmp_path: pathlib.Path) -> None:
    copy = shutil.copytree(recorded, tmp_path / "copy")
    segment = copy / "__consumer_offsets-0" / f"{0:020}.log"
    data = bytearray(segment.read_bytes())
    _, commits, *_ = [batch for batch in read_batches(bytes(data)) if b"doomed-fjord" in batch.to_bytes()]
    data[commits.position + 70] ^= 1
    segment.write_bytes(data)
    ran = run_kt("groups", "timeline", "doomed-fjord", "--from", f"log:{copy}", "--json")
    assert ran.status is ExitStatus.FAILED
    head = json.loads(ran.out.splitlines()[0])
    assert head["damaged"] == [{"first_offset": commits.base_offset, "next_offset": commits.next_offset}]
    assert json.loads(ran.err.splitlines()[-1])["error"]["kind"] == "DAMAGE"


# -- wrong input


def failure(*words: str) -> Ran:
    ran = run_kt("groups", "timeline", *words)
    assert ran.status is not ExitStatus.OK and not ran.out
    return ran


def test_unknown_group_with_similar_names(bootstrap: str, recorded: pathlib.Path) -> None:
    with GroupClient(bootstrap) as client:
        client.commit("billing", {("any", 0): 1})
    assert (
        "Group 'biling' has no records in __consumer_offsets-" in failure("biling", "--bootstrap-server", bootstrap).err
    )
    assert "Similar names: billing" in failure("biling", "--bootstrap-server", bootstrap).err
    assert "Similar names: simple-hazel" in failure("simple-hazle", "--from", f"log:{recorded}").err


def test_missing_permission_names_the_acl(bootstrap: str) -> None:
    with GroupClient(bootstrap) as client:
        client.commit("secret", {("any", 0): 1})
    deny = Acl("TOPIC", "__consumer_offsets", "User:ANONYMOUS", "READ", "DENY")
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        create_acls(admin, [deny])
        try:
            ran = failure("secret", "--bootstrap-server", bootstrap)
        finally:
            delete_acls(admin, [filter_of(deny)])
    assert "Not permitted to read __consumer_offsets: the principal needs the operation READ on this topic" in ran.err
    assert "kt acls --add --allow-principal TYPE:NAME --operation Read --topic __consumer_offsets" in ran.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "The group is missing: kt groups timeline GROUP"),
        (("a", "b"), "Unexpected argument 'b'"),
        (("a", "--since", "soon"), "Invalid value of --since: 'soon' is not a time"),
        (("a", "--since", "-1h", "--until", "-2h"), "--until -2h is not after --since -1h"),
        (("a", "--last", "0"), "--last 0 must be at least 1"),
        (("a", "--from", "/tmp"), "Invalid value of --from: '/tmp' is not log:DIRECTORY"),
        (("a", "--from", "log:/tmp", "--bootstrap-server", "b:1"), "--bootstrap-server is for reading from brokers"),
    ],
)
def test_wrong_command_lines(words: tuple[str, ...], text: str) -> None:
    ran = failure(*words)
    assert ran.status is ExitStatus.USAGE and text in ran.err


def test_the_subcommand_comes_first() -> None:
    ran = run_kt("groups", "--bootstrap-server", "127.0.0.1:1", "timeline", "a")
    assert ran.status is ExitStatus.USAGE
    assert ran.err.splitlines()[0] == "The subcommand 'timeline' comes before all options"


def test_files_without_the_topic(tmp_path: pathlib.Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").touch()
    assert "has no partition of __consumer_offsets" in failure("a", "--from", f"log:{tmp_path}").err
    assert "does not exist" in failure("a", "--from", f"log:{tmp_path}/nothing").err


def test_the_epochs_and_tasks_of_a_kafka_streams_group() -> None:
    log = pathlib.Path(__file__).parent.parent / "golden" / "groups" / "streams_log"
    ran = run_kt("groups", "timeline", "counts", "--from", f"log:{log}", "--json")
    assert ran.status == ExitStatus.OK, ran.err
    _, *events = map(json.loads, ran.out.splitlines())
    one, two = "F_MOvRRnTY-XecuFX7Fynw", "1zj2A8kmR8yk1v_IoU_Grg"

    def tasks(places: list[dict[str, object]]) -> list[str]:
        return [f"{place['topic']}-{place['partition']}" for place in places]

    epochs = [
        (
            event["log_offset"], event["generation"], event["state"],
            [member["member_id"] for member in event["joined"]], [member["member_id"] for member in event["left"]],
            {moved["member"]: (tasks(moved["added"]), tasks(moved["removed"])) for moved in event["moved"]},
        )
        for event in events
        if event["type"] == "rebalance"
    ]  # fmt: skip
    assert epochs == [
        (0, 2, "NotReady", [one], [], {}),  # its changelog topic is missing: no validated topology epoch
        (4, 3, "Assigning", [], [], {}),
        (5, 3, "Reconciling", [], [], {one: (["0-0", "0-1", "0-2"], [])}),
        (10, 4, "Reconciling", [two], [], {two: (["0-2"], []), one: ([], ["0-2"])}),
        (22, 5, "Assigning", [], [one], {one: ([], ["0-0", "0-1"])}),
        (26, 5, "Stable", [], [], {two: (["0-0", "0-1"], [])}),
    ]
    handovers = [
        (event["log_offset"], event["member"], event["epoch"], *(tasks(event[key]) for key in MOVES))
        for event in events
        if event["type"] == "handover"
    ]
    assert handovers == [
        (7, one, 3, ["0-0", "0-1", "0-2"], [], []),
        (17, one, 3, [], [], ["0-2"]),
        (18, one, 4, [], ["0-2"], []),
        (19, two, 4, ["0-2"], [], []),
        (28, two, 5, ["0-0", "0-1"], [], []),
    ]
    commits = [event for event in events if event["type"] == "commits"]
    assert [(event["topic"], event["partition"], event["last_offset"]) for event in commits] == [
        ("words", 1, 2), ("words", 2, 2), ("words", 1, 4), ("words", 2, 4),
    ]  # fmt: skip
