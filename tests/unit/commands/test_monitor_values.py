"""kt monitor without a cluster: its conditions, its options, and what it makes of views."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafkatools.commands.monitor import OPTIONS
from kafkatools.commands.monitor.condition_texts import parse_condition
from kafkatools.commands.monitor.http_requests import is_this_machine
from kafkatools.commands.monitor.lines import line
from kafkatools.commands.monitor.monitor_options import MonitorOptions, read_options
from kafkatools.commands.monitor.screen import column_widths, visible_row_counts
from kafkatools.commands.monitor.sections import FAMILIES
from kafkatools.commands.monitor.tables import Row, Table, tables
from kafkatools.core.admin.log_dirs import LogDir, ReplicaInfo
from kafkatools.core.admin.quorum import MetadataQuorum, QuorumReplica
from kafkatools.core.errors import KafkaStorageError
from kafkatools.exit_status import UsageError
from kafkatools.tools.monitor import figures
from kafkatools.tools.monitor import page_data as page_data_module
from kafkatools.tools.monitor.assessment import catches_up_s, partition_notes
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.changes import KINDS
from kafkatools.tools.monitor.conditions import what_is_wrong
from kafkatools.tools.monitor.json_form import partition_json
from kafkatools.tools.monitor.measures import MEASURES
from kafkatools.tools.monitor.metrics.exposition import ALL_METRICS, MetricsPage
from kafkatools.tools.monitor.metrics.families import METRICS
from kafkatools.tools.monitor.page_data import page_data
from kafkatools.tools.monitor.view import (
    NO_BROKER,
    NOT_REPORTED,
    AlertView,
    BrokerView,
    ClusterView,
    Event,
    GroupPartition,
    GroupView,
    PartitionView,
    Problem,
    TopicView,
)

DOCS = pathlib.Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "monitor.md").read_text(encoding="utf-8")
METRICS_PAGE = (DOCS / "monitor-metrics.md").read_text(encoding="utf-8")
TIME_MS = 1_700_000_000_000


WHY = 'a"b-1 has no leader'


def ill_view(**more: Any) -> ClusterView:
    """Three brokers: 2 is fenced, 3 does not respond. Of `a"b`, partition 0 has lost replicas, 1 its leader."""
    replicas = (ReplicaInfo('a"b', 0, 700, 0, False), ReplicaInfo('a"b', 1, 300, 0, False))
    dirs = (LogDir("/data", replicas, 1000, 400), LogDir("/bad", (), error=KafkaStorageError()))
    brokers = (
        BrokerView(1, "h1", 9092, "r1", False, True, dirs),
        BrokerView(2, "h2", 9092, None, True, False, None),
        BrokerView(3, "h3", 9092, None, False, False, None),
    )
    parts = (
        PartitionView(
            'a"b', 0, 1, 7, (2, 1, 3), (1,), (3,), (2,), min_isr=2, end_offset=500, size_bytes=700, start_offset=30
        ),
        PartitionView('a"b', 1, -1, 3, (2, 3), (2,), (), (2,), min_isr=1),
        PartitionView('a"b', 2, 1, 0, (1, 3, 2), (1, 3), (), (), (2,), (), 1, 0, 0),
    )
    topic = TopicView('a"b', "id", False, parts, 250.0, 2048.0)
    group = GroupView(
        "g", "Consumer", "Stable", 1, 2, (GroupPartition('a"b', 0, 400, 100), GroupPartition('a"b', 1, 5, None)),
        300.0, {'a"b': 300.0},
    )  # fmt: skip
    left = GroupView("left", "Classic", "Empty", 1, 0, (GroupPartition('a"b', 0, 0, 500, 90_500),), 0.0, {'a"b': 0.0})
    replicas_of_log = (QuorumReplica(1, None, 90, 1, TIME_MS), QuorumReplica(2, None, 60, 1, TIME_MS - 9000))
    quorum = MetadataQuorum(1, 4, 88, replicas_of_log, (), {})
    return ClusterView(**{
        "time_ms": TIME_MS, "clock_ms": 5000, "took_ms": 12, "cluster_id": "cid", "controller": 1, "brokers": brokers,
        "topics": (topic,), "quorum": quorum, "groups": (group, left),
        "problems": (Problem(3, "no response", "refused"),), **more,
    })  # fmt: skip


def well_view() -> ClusterView:
    view = ill_view()
    parts = (PartitionView('a"b', 0, 1, 7, (1,), (1,), (), (), min_isr=1, end_offset=500),)
    topics = (view.topics[0]._replace(partitions=parts),)
    brokers = (view.brokers[0]._replace(log_dirs=()),)
    return view._replace(brokers=brokers, topics=topics, groups=(), problems=())


def board_of(view: ClusterView) -> Board:
    board = Board()
    board.publish(view)
    return board


# -- conditions --


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("offline>0", ["offline>0 holds: offline is 1"]),
        ("offline > 1", []),
        ("under-replicated>=2", ["under-replicated>=2 holds: under-replicated is 2"]),
        ("under-min-isr=2", ["under-min-isr=2 holds: under-min-isr is 2"]),
        ("brokers<3", ["brokers<3 holds: brokers is 2"]),
        ("fenced==1", ["fenced==1 holds: fenced is 1"]),
        ("silent!=1", []),
        ("offline-log-dirs>0", ["offline-log-dirs>0 holds: offline-log-dirs is at least 1"]),
        ("controllers<1", []),
        ("moving>0", ["moving>0 holds: moving is 1"]),
        ("problems>0", ["problems>0 holds: problems is 1"]),
        ("total-lag>599", ["total-lag>599 holds: total-lag is at least 600"]),
        ("messages<1000", ["messages<1000 holds: messages is 250.0"]),
        ("lag>=100", ["lag>=100 holds for group g: lag is at least 100", "lag>=100 holds for group left: lag is 500"]),
        ("lag-seconds>60", ["lag-seconds>60 holds for group left: lag-seconds is 90.5"]),
        ("lag>90s", ["lag>90s holds for group left: lag-seconds is 90.5"]),
        ("lag > 90500 ms", []),
        ("lag-seconds>=1m", ["lag-seconds>=1m holds for group left: lag-seconds is 90.5"]),
        ("members<1", ["members<1 holds for group left: members is 0"]),
    ],
)
def test_conditions(text: str, found: list[str]) -> None:
    assert list(parse_condition(text).findings(ill_view())) == found


def test_what_is_not_known_makes_no_condition_hold() -> None:
    unknown = ill_view(topics=(), groups=(GroupView("g", "Classic", "Stable", 1, None, None),))
    for text in ("messages<9", "lag<9", "lag-seconds<9", "members<9"):
        assert list(parse_condition(text).findings(unknown)) == []


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("lag>100", [f"lag>100 is unknown for group g: {WHY}"]),
        ("lag>=100", []),  # what is known of it is enough
        ("lag<100", []),
        ("lag<200", [f"lag<200 is unknown for group g: {WHY}"]),
        ("lag=100", [f"lag=100 is unknown for group g: {WHY}"]),
        ("lag=50", []),
        ("lag!=50", []),
        ("lag-seconds>60", [f"lag-seconds>60 is unknown for group g: {WHY}"]),
        ("total-lag>599", []),
        ("total-lag>600", [f"total-lag>600 is unknown: group g: {WHY}"]),
        ("offline-log-dirs>1", ["offline-log-dirs>1 is unknown: broker 3 did not report its log directories"]),
        ("members<1", []),
        ("brokers<3", []),
        ("unwell", []),
    ],
)
def test_a_condition_over_something_unknown_is_unknown(text: str, unknown: list[str]) -> None:
    view = ill_view()
    groups = (view.groups[0]._replace(unknown=WHY), view.groups[1])
    assert list(parse_condition(text).unknowns(view._replace(groups=groups), is_only_snapshot=False)) == unknown


def test_groups_of_a_coordinator_that_is_away_make_conditions_unknown() -> None:
    view = well_view()._replace(unlisted=("broker 2 did not list its groups: refused",))
    (found,) = parse_condition("lag>5").unknowns(view, is_only_snapshot=False)
    assert found == "lag>5 is unknown for groups that are not listed: broker 2 did not list its groups: refused"
    (found,) = parse_condition("total-lag>5").unknowns(view, is_only_snapshot=False)
    assert found == "total-lag>5 is unknown: broker 2 did not list its groups: refused"
    assert view.totals.lag is None and well_view().totals.lag == 0


def test_a_condition_on_a_listed_group_does_not_wait_for_other_coordinators() -> None:
    view = ill_view(unlisted=("broker 2 did not list its groups: refused",))
    for text in ("lag>100 on group=left", "total-lag>100 on group=left", "members>0 on group=left"):
        assert list(parse_condition(text).unknowns(view, is_only_snapshot=False)) == [], text
    (found,) = parse_condition("lag>500 on group=le*").unknowns(view, is_only_snapshot=False)
    assert found.startswith("lag>500 on group=le* is unknown for groups that are not listed: broker 2 did not list")
    (found,) = parse_condition("lag>500 on group=away").unknowns(view, is_only_snapshot=False)
    assert found.endswith("there is no group away: broker 2 did not list its groups: refused")


def test_a_rate_is_unknown_only_where_there_is_no_second_look() -> None:
    first = well_view()._replace(topics=(well_view().topics[0]._replace(messages_in=None),))
    condition = parse_condition("messages>=0")
    assert list(condition.findings(first)) == list(condition.unknowns(first, is_only_snapshot=False)) == []
    assert list(condition.unknowns(first, is_only_snapshot=True)) == ["messages>=0 is unknown: it takes two snapshots"]


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    view = ill_view()
    assert (view.totals.lag, view.totals.least_lag) == (None, 600)
    assert (view.groups[0].lag, view.groups[0].least_lag, view.groups[0].lag_by_topic()) == (None, 100, {'a"b': None})
    assert view.topics[0].size_bytes is None, "the partition without a leader has a size that nobody told"
    found = samples(metrics(board_of(view)))
    assert ("kafka_consumergroup_lag_sum", labels(consumergroup="g", topic='a"b')) not in found
    data = page_data(board_of(view))
    assert (data["totals"]["lag"], data["totals"]["lag_at_least"]) == (None, 600)
    assert board_of(view).history("cluster").values["lag"] == [None]
    assert [board_of(view).history("group", name).values["lag"] for name in ("left", "g")] == [[500], [None]]
    (table,) = tables(view, ("groups",), False, [])
    assert [row.cells[5] for row in table.rows] == ["500", ">=100"]


def test_counts_over_an_unknown_min_isr_and_unknown_moves_are_unknown() -> None:
    topic = well_view().topics[0]
    part = topic.partitions[0]._replace(min_isr=None)
    problems = (Problem(NO_BROKER, "reassignments", "refused"),)
    view = well_view()._replace(topics=(topic._replace(partitions=(part,)),), problems=problems)
    data = page_data(board_of(view))
    assert [data["totals"][name] for name in ("under_min_isr", "at_min_isr", "moving")] == [None] * 3
    assert data["topics"][0]["under_min_isr"] is None
    assert (partition_json(part)["under_min_isr"], partition_json(part)["at_min_isr"]) == (None, None)
    assert board_of(view).history("cluster").values["under_min_isr"] == [None]
    assert " under-min-isr ? " in line(view)
    (table,) = tables(view, ("topics",), False, [])
    assert table.rows[0].cells[4] == "?"
    unknown = ("underminisrpartitioncount", "atminisrpartitioncount", "reassigningpartitions")
    found = {name.rpartition("_")[2] for name, _ in samples(metrics(board_of(view)))}
    known = {name.rpartition("_")[2] for name, _ in samples(metrics(board_of(well_view())))}
    assert found.isdisjoint(unknown) and known.issuperset(unknown)


def test_a_group_of_which_nothing_is_known_is_shown_so() -> None:
    away = GroupView("g", "Consumer", "Unknown", 3, None, None, unknown="its coordinator, broker 3, does not respond")
    view = well_view()._replace(groups=(away,))
    (table,) = tables(view, ("groups",), False, [])
    assert table.rows[0].cells == ("g", "Consumer", "Unknown", "?", "3", "?", "?", "?", "?")
    assert board_of(view).history("cluster").values["lag"] == [None]
    assert board_of(view).history("group", "g").values["lag"] == [None]
    assert not [name for name, _ in samples(metrics(board_of(view))) if name.startswith("kafka_consumergroup")]


def test_the_log_of_a_voter_that_never_fetched_is_unknown() -> None:
    leader, late = QuorumReplica(1, None, 90, TIME_MS, TIME_MS), QuorumReplica(2, None, -1)
    quorum = MetadataQuorum(1, 4, 88, (leader, late), (), {})
    assert quorum.late_voters == (late,)
    assert [quorum.lag(leader), quorum.lag(late)] == [0, None]
    view = well_view()._replace(quorum=quorum)
    (table,) = tables(view, ("quorum",), False, [])
    assert table.rows[1].cells == ("2", "follower", "?", "?", "-")
    found = samples(metrics(board_of(view)))
    assert [key for key in found if key[0] == "kt_quorum_voter_lag"] == [("kt_quorum_voter_lag", labels(voter=1))]
    # Kafka before 3.3 reports no times.
    assert quorum._replace(voters=(QuorumReplica(1, None, 90), late)).late_voters == ()


def test_unwell_says_what_is_wrong() -> None:
    assert what_is_wrong(ill_view()) == [
        "1 broker fenced",
        "1 broker not responding",
        "1 partition without a leader",
        "2 partitions under their min ISR",
        "2 partitions under-replicated",
        "1 log directory offline",
    ]
    assert what_is_wrong(ill_view(controller=NO_BROKER))[0] == "no active controller known"
    assert what_is_wrong(ill_view(controller=NOT_REPORTED)) == what_is_wrong(ill_view())
    assert list(parse_condition("controllers<1").findings(ill_view(controller=NOT_REPORTED))) == []
    assert list(parse_condition("unwell").findings(well_view())) == what_is_wrong(well_view()) == []
    (found,) = parse_condition("unwell").findings(ill_view())
    assert found.startswith("unwell holds: 1 broker fenced, ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Invalid condition '' of --fail-if"),
        ("lag", "Invalid condition 'lag' of --fail-if"),
        ("lag>", "Invalid condition 'lag>' of --fail-if"),
        ("lag>5x", "Invalid condition 'lag>5x' of --fail-if"),
        ("offline>5m", "Invalid condition 'offline>5m' of --fail-if at character 9: offline takes a number without"),
        ("lag>-1", "Invalid condition 'lag>-1' of --fail-if"),
        ("leaders>1", "Unknown measure 'leaders' in --fail-if 'leaders>1' at character 1; measures are brokers, "),
    ],
)
def test_what_is_no_condition(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        parse_condition(text)


# -- options --


def options_of(**given: Any) -> MonitorOptions:
    values = {option.key: [] if option.repeatable else None if option.value else False for option in OPTIONS}
    return read_options(SimpleNamespace(**{**values, **given}))  # type: ignore[arg-type]


def test_what_is_wanted() -> None:
    plain = options_of()
    assert (plain.interval_ms, plain.is_overview, plain.sections[0]) == (2000, True, "brokers")
    chosen = options_of(view="lag, quorum", interval=0.5, web="8080", prometheus="[::1]:0", topic=["a", "a"])
    assert (chosen.sections, chosen.interval_ms, chosen.topics) == (("lag", "quorum"), 500, ("a",))
    assert (str(chosen.web), str(chosen.prometheus)) == ("127.0.0.1:8080", "[::1]:0")
    assert set(options_of(view="all").sections) >= {"brokers", "log-dirs", "events"}
    assert str(options_of(web="0.0.0.0:1", insecure=True).web) == "0.0.0.0:1"


def test_members_are_requested_only_for_the_metrics_that_name_them() -> None:
    assert not options_of(prometheus="0").scope().with_owners
    assert not options_of(metrics="lag-exporter").scope().with_owners
    assert options_of(prometheus="0", metrics="kt,lag-exporter").scope().with_owners


def test_names_are_literal_unless_regex() -> None:
    literal = options_of(topic=["a.b"]).scope()
    assert (literal.topic_names, literal.takes_topic("a.b"), literal.takes_topic("axb")) == (("a.b",), True, False)
    pattern = options_of(topic=["a.b"], group=["g.*"], regex=True).scope()
    assert (pattern.topic_names, pattern.takes_topic("axb"), pattern.takes_topic("axbc")) == ((), True, False)
    assert pattern.takes_group("g1") and not pattern.takes_group("h")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"view": "brokers,leaders"}, "Unknown section 'leaders' in --view; sections are brokers, "),
        ({"web": "http://x"}, "--web takes [HOST:]PORT, such as 8080 or 127.0.0.1:8080, not 'http://x'"),
        ({"prometheus": "99999"}, "--prometheus takes [HOST:]PORT"),
        ({"web": "::1:80"}, "--web takes [HOST:]PORT"),
        ({"web": "0.0.0.0:80"}, "--web refuses to listen on 0.0.0.0: tokens and data are not encrypted"),
        ({"prometheus": "example.org:80"}, "--prometheus refuses to listen on example.org"),
        ({"regex": True}, "--regex needs --topic or --group"),
        ({"regex": True, "topic": ["("]}, "--topic '(' is not a valid regular expression"),
        ({"insecure": True}, "--insecure needs --web or --prometheus"),
    ],
)
def test_what_cannot_be_wanted(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        options_of(**given)


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("127.0.0.1:8080", True), ("localhost", True), ("[::1]:80", True), ("", True), ("LOCALHOST:1", True),
        ("example.org", False), ("192.168.1.1:80", False), ("127.0.0.1.example.org:80", False),
    ],
)  # fmt: skip
def test_which_host_is_this_machine(host: str, is_here: bool) -> None:
    assert is_this_machine(host) == is_here


# -- texts --


def test_figures() -> None:
    assert [figures.size(number) for number in (None, 0, 1023, 1536, 200 << 20)] == [
        "?", "0 B", "1023 B", "1.5 KiB", "200 MiB",
    ]  # fmt: skip
    assert [figures.rate(number) for number in (None, 0.0, 1.25, 99.94, 12345.6)] == ["-", "0", "1.2", "99.9", "12,346"]
    assert [figures.span(number) for number in (None, 0.2, 61, 3600, 90_061)] == [
        "-",
        "0 s",
        "1 min 1 s",
        "1 h",
        "1 d 1 h",
    ]


def test_a_round_is_one_line() -> None:
    events = (Event(1, "isr-shrank", "a"), Event(1, "isr-shrank", "b"), Event(1, "leader-lost", "c"))
    text = line(ill_view(events=events))
    assert "\n" not in text
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d brokers 1/3 controller 1 topics 1 ", text)
    assert "partitions 3 offline 1 under-min-isr 2 under-replicated 2 groups 2 lag >=600 messages/s 250 " in text
    assert text.endswith("; 2 isr-shrank, 1 leader-lost; broker 3: no response: refused")
    assert line(well_view()).endswith(" messages/s 250 bytes/s 2048"), "scripts read it: no thousands separator"


def test_notes_of_partitions() -> None:
    first, second, third = ill_view().partitions
    assert partition_notes(first) == ["under min ISR", "under-replicated", "preferred leader 2"]
    assert partition_notes(second) == ["offline", "under min ISR", "under-replicated"]
    assert partition_notes(third) == ["moving to 2"]


def test_a_group_catches_up_by_what_it_gains() -> None:
    view = ill_view()
    assert catches_up_s(view, view.groups[0]) is None, "a part of its lag is not known"
    known = view.groups[0]._replace(partitions=(GroupPartition('a"b', 0, 400, 100),))
    assert catches_up_s(view, known) == 100 / (300 - 250)
    assert catches_up_s(view, view.groups[1]) is None
    slower = known._replace(consumed=200.0)
    assert catches_up_s(view, slower) is None
    silent = view._replace(topics=(view.topics[0]._replace(messages_in=None),))
    assert catches_up_s(silent, known) is None, "nobody knows what arrives"


def test_every_section_has_a_table() -> None:
    sections = options_of(view="all").sections
    view = ill_view(alerts=(AlertView("lag>5", "firing", TIME_MS, "lag>5 holds for group g: lag is 6", "g"),))
    found = list(tables(view, sections, False, [Event(TIME_MS, "broker-gone", "broker 2 is fenced")]))
    assert len(found) == len(sections)
    for table in found:
        assert table.rows and all(len(row.cells) == len(table.headers) for row in table.rows), table.title
    overview = {table.title: table for table in tables(ill_view(), ("partitions",), True, [])}
    troubled = [row.cells[1] for row in overview["Unhealthy partitions"].rows]
    assert troubled == ["1", "0", "2"], "the worst first"


@pytest.mark.parametrize(
    ("rows", "height", "shown"),
    [
        ([3, 10], 50, [3, 10]),
        ([3, 100], 30, [3, 21]),
        ([100, 100], 26, [10, 10]),
        ([100, 100, 100], 5, [3, 3, 3]),
        ([], 5, []),
    ],
)
def test_tables_are_cut_to_fit(rows: list[int], height: int, shown: list[int]) -> None:
    assert visible_row_counts(rows, height) == shown


def test_columns_are_cut_to_fit() -> None:
    table = Table("T", ("NAME", "A LONG HEADER", "NOTES"), [Row(("n" * 30, "12,345", "x" * 20))], frozenset({1}))
    widths = [column_widths(table, table.rows, width) for width in (100, 61, 54, 40, 10)]
    assert widths == [[30, 13, 20], [24, 13, 20], [24, 6, 20], [15, 6, 15], [8, 6, 8]]


# -- what the page is told --


def test_the_page_is_told_what_matters_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_data_module, "MOST_TOPICS", 1000)
    monkeypatch.setattr(page_data_module, "MOST_GROUPS", 500)
    view = ill_view()
    topic, group = view.topics[0], view.groups[0]
    topics = tuple(topic._replace(name=f"t{n:04}", partitions=(), messages_in=float(n)) for n in range(1500))
    groups = tuple(group._replace(group_id=f"g{n:04}", partitions=(GroupPartition("t", 0, 1, n),)) for n in range(600))
    data = page_data(board_of(view._replace(topics=(*topics, topic), groups=groups)))
    assert [one["topic"] for one in data["topics"][:3]] == ['a"b', "t1499", "t1498"], "what is not well comes first"
    assert (len(data["topics"]), data["totals"]["topics"]) == (1000, 1501)
    assert [one["group"] for one in data["groups"][:2]] == ["g0599", "g0598"]
    assert (len(data["groups"]), data["totals"]["groups"]) == (500, 600)
    assert page_data(Board()) == {"error": "there is no view yet"}


def test_unhealthy_partitions_are_collapsed_by_cause() -> None:
    found = [(one["cause"], one["troubled"], one["offline"]) for one in page_data(board_of(ill_view()))["findings"]]
    assert found == [
        ("broker 2 is fenced", 3, 1),  # the one that moves to it, too
        ("broker 1 has an offline log directory", 0, 0),
        ("broker 3 does not respond", 0, 0),
    ]


def test_missing_values_are_collapsed_by_error() -> None:
    problems = tuple(Problem(3, f"offsets of groups g{n}", "refused") for n in range(30))
    (found,) = page_data(board_of(ill_view(problems=problems)))["problems"]
    assert (found["broker"], found["error"], found["count"], len(found["what"])) == (3, "refused", 30, 20)


def test_a_board_keeps_what_is_new() -> None:
    board = Board()
    events = tuple(Event(n, "isr-grew", str(n)) for n in range(600))
    for number in range(400):
        board.publish(ill_view(time_ms=number, events=events if number == 399 else ()))
    assert [event.time_ms for event in board.events(2)] == [0, 1], "of one look in their order"


# -- metrics --


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What Prometheus' own parser reads."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def metrics(board: Board, families: Iterable[str] = FAMILIES) -> str:
    content_type, body = MetricsPage(board, families).answer()
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    return body.decode()


def labels(**values: object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in values.items()))


def test_prometheus_reads_the_metrics() -> None:
    found = samples(metrics(board_of(ill_view())))
    part = {"topic": 'a"b', "partition": 0}
    expected = {
        ("kt_monitor_up", ()): 1,
        ("kafka_controller_kafkacontroller_activecontrollercount", ()): 1,
        ("kafka_controller_kafkacontroller_offlinepartitionscount", ()): 1,
        ("kafka_controller_kafkacontroller_fencedbrokercount", ()): 1,
        ("kafka_controller_kafkacontroller_globalpartitioncount", ()): 3,
        ("kafka_server_replicamanager_underreplicatedpartitions", labels(broker=1)): 1,
        ("kafka_server_replicamanager_underreplicatedpartitions", labels(broker=3)): 0,
        ("kafka_server_replicamanager_leadercount", labels(broker=1)): 2,
        ("kafka_server_replicamanager_partitioncount", labels(broker=3)): 3,
        ("kafka_server_replicamanager_reassigningpartitions", labels(broker=1)): 1,
        ("kafka_log_logmanager_offlinelogdirectorycount", labels(broker=1)): 1,
        ("kafka_log_log_size", labels(broker=1, **part)): 700,
        ("kafka_server_raft_metrics_current_leader", ()): 1,
        ("kafka_server_raft_metrics_high_watermark", ()): 88,
        ("kafka_brokers", ()): 2,
        ("kafka_broker_info", labels(address="h1:9092", id=1)): 1,
        ("kafka_topic_partitions", labels(topic='a"b')): 3,
        ("kafka_topic_partition_current_offset", labels(**part)): 500,
        ("kafka_topic_partition_oldest_offset", labels(**part)): 30,
        ("kafka_topic_partition_leader", labels(topic='a"b', partition=1)): -1,
        ("kafka_topic_partition_leader_is_preferred", labels(**part)): 0,
        ("kafka_topic_partition_in_sync_replica", labels(**part)): 1,
        ("kafka_topic_partition_under_replicated_partition", labels(**part)): 1,
        ("kafka_consumergroup_lag", labels(consumergroup="g", **part)): 100,
        ("kafka_consumergroup_current_offset", labels(consumergroup="g", topic='a"b', partition=1)): 5,
        ("kafka_consumergroup_lag_sum", labels(consumergroup="left", topic='a"b')): 500,
        ("kafka_consumergroup_current_offset_sum", labels(consumergroup="g", topic='a"b')): 405,
        ("kafka_consumergroup_members", labels(consumergroup="g")): 2,
        ("kt_quorum_voter_lag", labels(voter=2)): 30,
        ("kt_broker_answering", labels(broker=3)): 0,
    }
    assert {key: found.get(key) for key in expected} == expected
    # Fenced brokers lead nothing; a topic with an end that nobody told has no count of records; lag that is not known.
    assert ("kafka_server_replicamanager_leadercount", labels(broker=2)) not in found
    assert not [name for name, _ in found if name == "kafka_server_brokertopicmetrics_messagesin_total"]
    assert ("kafka_consumergroup_lag", labels(consumergroup="g", topic='a"b', partition=1)) not in found


def test_records_that_came_in_are_a_counter() -> None:
    (family,) = [
        family
        for family in text_string_to_metric_families(metrics(board_of(well_view())))
        if family.name == "kafka_server_brokertopicmetrics_messagesin"
    ]
    assert family.type == "counter"
    assert [(sample.name, sample.value) for sample in family.samples] == [
        ("kafka_server_brokertopicmetrics_messagesin_total", 500)
    ]


def test_nothing_old_is_told_after_a_look_that_failed() -> None:
    empty = Board()
    assert samples(metrics(empty)) == {("kt_monitor_up", ()): 0}
    board = board_of(ill_view())
    board.fail("refused")
    assert samples(metrics(board)) == {("kt_monitor_up", ()): 0}


# -- the page of the docs --


def documented(title: str, column: int = 0) -> list[list[str]]:
    """The rows of the table behind a title: the code words of a column."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [row.split("|")[1:-1] for row in section.splitlines() if row.startswith("| `")]
    return [re.findall(r"`([^`]+)`", row[column]) for row in rows]


def flat(rows: Iterable[list[str]]) -> list[str]:
    return [word for row in rows for word in row]


def test_the_page_names_every_metric_with_its_labels_and_source() -> None:
    section = METRICS_PAGE.split("\n## Prometheus\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]*?) ?\| ([\w-]+) \| .+ \|$", section, re.M)
    expected = [(metric.name, ", ".join(metric.labels), metric.source) for metric in METRICS]
    assert rows == [*expected, ("kt_monitor_up", "", "kt")]


def test_the_page_names_the_metrics_of_other_exporters() -> None:
    section = METRICS_PAGE.split("\n## Names of kafka-lag-exporter")[1].split("\n## ")[0]
    rows = [line.split("|")[1:4] for line in section.splitlines() if line.startswith("|")]
    columns = [{cell.strip(" `") for cell in column} - {""} for column in zip(*rows, strict=True)]
    by_source = {source: {metric.name for metric in ALL_METRICS if metric.source == source} for source in FAMILIES}
    assert columns[1] - {"lag-exporter", "---"} == by_source["lag-exporter"]
    assert columns[2] - {"kminion", "---"} == by_source["kminion"]
    known = {metric.name for metric in METRICS}
    assert columns[0] - {"kt, kafka-exporter, jmx-exporter", "---"} <= known


def test_metrics_keep_to_the_rules_of_their_sources() -> None:
    """jmx_exporter's example rules make MBeans' domain, type and name lower case; a count gets `_total`."""
    mbeans = dict(re.findall(r"^\| `(\w+)` .*?jmx-exporter \| `(kafka[^`]+)`", METRICS_PAGE, re.M))
    for metric in METRICS:
        if metric.source != "jmx-exporter":
            continue
        domain, type, *rest = re.findall(r"^([\w.]+):type=([\w-]+)(?:,name=(\w+))?", mbeans[metric.name])[0]
        name = rest[0].removesuffix("PerSec")
        base = "_".join(part for part in (domain.replace(".", "_"), type.replace("-", "_"), name) if part).lower()
        assert metric.name.startswith(base), metric.name
        assert (metric.type == "counter") == metric.name.endswith("_total")


def test_the_page_names_every_event_and_measure() -> None:
    assert sorted(flat(documented("Events"))) == sorted(KINDS)
    assert sorted(flat(documented("Conditions"))) == sorted(MEASURES)
