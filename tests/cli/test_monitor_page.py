"""The page of kt monitor in a real browser: order, tables, causes, details, history, narrow and dark screens."""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from support.browser import ask
from support.monitor_page import CELLS, CONTRAST, with_data

from kafkatools.commands.monitor.server import page
from kafkatools.core.control_characters import _ABOVE_C0, visible_text
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.view import AlertView, ClusterView, Event, GroupPartition

pytestmark = pytest.mark.processes

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "unit" / "commands"))
from test_monitor_values import TIME_MS, board_of, ill_view, well_view  # noqa: E402

HOSTILE = "<img src=x onerror=document.title=1>"
_TEXT = "document.getElementById('{}').textContent"
_WAIT = "await new Promise((done) => setTimeout(done, 50));"


def board_over_time(views: Sequence[ClusterView]) -> Board:
    """A board that got these views, 5 s after each other."""
    board = Board()
    for number, view in enumerate(views):
        board.publish(view._replace(time_ms=TIME_MS + 5000 * number, clock_ms=5000 * number))
    return board


def steps(*lines: str) -> str:
    """A promise of what the last line returns."""
    return "(async () => { const byId = (id) => document.getElementById(id);" + "".join(lines) + "})()"


def seek(table: str, text: str) -> str:
    """A line that types into the search box of a table."""
    box = f"byId('find-{table}')"
    return f"{box}.value = '{text}'; {box}.dispatchEvent(new Event('input', {{bubbles: true}}));"


def many_topics(number: int) -> ClusterView:
    """A view with topics t0000, t0001 and so on; the size of each is unknown, the rate its number."""
    topic = well_view().topics[0]
    topics = (topic._replace(name=f"t{n:04}", messages_in=float(n), partitions=()) for n in range(number))
    return well_view()._replace(topics=tuple(topics))


def details() -> dict[str, Any]:
    """What the routes for details return about the topic `a"b`, the group `g` and broker 1."""
    part = {
        "topic": 'a"b', "partition": 0, "leader": 1, "leader_epoch": 7, "preferred_leader": 2, "replicas": [2, 1, 3],
        "isr": [1], "elr": [3], "offline_replicas": [2], "adding_replicas": [], "removing_replicas": [],
        "offline": False, "under_replicated": True, "under_min_isr": True, "at_min_isr": False, "end_offset": 500,
        "bytes": 700, "start_offset": None, "messages_per_second": 2.5, "notes": ["under min ISR"],
    }  # fmt: skip
    topic = {
        "topic": 'a"b', "partitions": 1, "replication_factor": 3, "offline": 0, "under_min_isr": 1, "bytes": None,
        "under_replicated": 1, "topic_id": "id", "min_isr": 2,
    }  # fmt: skip
    configs = [
        {"name": "retention.ms", "value": "5", "source": "DYNAMIC_TOPIC_CONFIG", "default": False, "sensitive": False},
        {"name": "secret", "value": None, "source": "STATIC_BROKER_CONFIG", "default": False, "sensitive": True},
        {"name": "file.delete.delay.ms", "value": "6", "source": "DEFAULT_CONFIG", "default": True, "sensitive": False},
    ]
    of_topic = {
        "time": TIME_MS, "topic": 'a"b', "summary": topic, "configs": configs, "partitions": [part], "problems": [],
        "partition_count": 1, "groups": [{"group": "g", "state": "Stable", "members": 2, "lag": None,
        "lag_at_least": 100, "consumed_per_second": 1.5}],
    }  # fmt: skip
    summary = {
        "group": "g", "type": "Consumer", "state": "Stable", "members": 1, "lag": None, "lag_at_least": 100,
        "unknown": "no leader", "lag_ms": None,
    }  # fmt: skip
    member = {
        "member": "m-1", "instance": None, "client": HOSTILE, "host": "/10.0.0.1", "rack": None, "epoch": 3,
        "assignment": [{"topic": 'a"b', "partitions": [0, 1, 2, 5]}],
    }  # fmt: skip
    lags = [
        {
            "topic": 'a"b',
            "partition": 0,
            "committed": 400,
            "lag": 100,
            "lag_ms": 90_000,
            "end_offset": 500,
            "owner": "m-1",
        },
        {
            "topic": 'a"b',
            "partition": 1,
            "committed": 5,
            "lag": None,
            "lag_ms": None,
            "end_offset": None,
            "owner": None,
        },
    ]
    of_group = {
        "time": TIME_MS, "group": "g", "summary": summary, "coordinator": {"id": 1, "host": "h1", "port": 9092},
        "assignor": "uniform", "group_epoch": 4, "members": [member], "member_count": 1, "partitions": lags,
        "partition_count": 2, "problems": [{"what": "members", "error": "refused"}],
    }  # fmt: skip
    return {'topic.json?topic=a"b': of_topic, "group.json?group=g": of_group}


# -- what the page shows --


def test_the_page_says_what_is_wrong(tmp_path: pathlib.Path) -> None:
    known = ill_view().groups[1:]
    state, tiles, brokers, charts, titles = ask(
        with_data(board_over_time([ill_view(groups=known), ill_view(groups=known)])),
        "[document.getElementById('state').textContent, [...document.querySelectorAll('#tiles .bad dt')].map("
        f"e => e.textContent), {CELLS.format('brokers')},"
        "[...document.querySelectorAll('#charts svg')].map(e => e.getAttribute('aria-label').split(',')[0]),"
        "[...document.querySelectorAll('section:not([hidden]) > h2')].map(e => e.textContent)]",
        tmp_path,
    )
    assert state == (
        "Unhealthy: 1 broker fenced, 1 broker not responding, 1 partition without a leader, "
        "2 partitions under their min ISR, 2 partitions under-replicated, 1 log directory offline"
    )
    assert tiles == ["Brokers", "Offline", "Under min ISR", "Under-replicated"]
    assert [row[-1] for row in brokers] == ["400 B", "?", "?"], "free"
    assert [row[3] for row in brokers] == [
        "alive, controller, log directories offline: /bad", "fenced", "no response",
    ]  # fmt: skip
    assert charts[:4] == [
        "Messages per second: now 250", "Bytes per second: now 2.0 KiB", "Lag of all groups: now 500",
        "Under-replicated partitions: now 2",
    ]  # fmt: skip
    assert titles == [
        "Brokers", "Findings", "Events by cause", "The last hour", "Topics", "Groups", "Quorum", "Not reported",
    ]  # fmt: skip


def test_findings_open_to_their_partitions(tmp_path: pathlib.Path) -> None:
    rows, expanded, items = ask(
        with_data(board_of(ill_view())),
        steps(
            f"const rows = {CELLS.format('findings')}; const button = document.querySelector('#findings .opener');"
            "button.focus(); button.click();"
            "return [rows, document.activeElement.getAttribute('aria-expanded'),"
            "[...document.querySelectorAll('#findings li')].map(e => e.textContent)];"
        ),
        tmp_path,
    )
    assert rows[0] == ["broker 2 is fenced", "3", "1", "2", "2"]
    assert expanded == "true", "the focus stays"
    assert items == [
        'a"b-0: under min ISR, under-replicated, preferred leader 2', 'a"b-1: offline, under min ISR, under-replicated',
        'a"b-2: moving to 2',
    ]  # fmt: skip


def test_events_are_collapsed_by_cause(tmp_path: pathlib.Path) -> None:
    events = (
        Event(TIME_MS, "broker-gone", "broker 2 is fenced", broker=2, cause="broker 2 is fenced"),
        *(Event(TIME_MS, "isr-shrank", f"t-{n}: 2 left", "t", n, cause="broker 2 is fenced") for n in range(70)),
        Event(TIME_MS, "topic-created", f"topic {HOSTILE} is there", cause="topics were created"),
    )
    rows, items, images = ask(
        with_data(board_of(ill_view(events=events))),
        steps(
            f"const rows = {CELLS.format('events')};"
            "document.querySelectorAll('#events .opener').forEach(e => e.click());"
            "document.querySelectorAll('#events .opener')[1].click();"
            "const items = [...document.querySelectorAll('#events li')].map(e => e.textContent);"
            "return [rows, items, document.images.length];"
        ),
        tmp_path,
    )
    assert [row[:3] for row in rows] == [
        ["broker 2 is fenced", "71", "70 isr-shrank, 1 broker-gone"], ["topics were created", "1", "1 topic-created"],
    ]  # fmt: skip
    assert len(items) == 52 and items[0].endswith("broker-gone: broker 2 is fenced")
    assert items[50] == "and 21 more" and items[51].endswith(f"topic {HOSTILE} is there") and images == 0


def test_what_is_not_known_is_a_gap_in_the_chart_and_a_question_mark(tmp_path: pathlib.Path) -> None:
    known = ill_view().groups[1:]
    unknown = (ill_view().groups[0]._replace(unknown="no leader"), *known)
    groups_over_time = [known, known, unknown, known, known, unknown]
    path, now, tile, lags = ask(
        with_data(board_over_time([ill_view(groups=groups) for groups in groups_over_time])),
        "(() => { const box = document.querySelectorAll('#charts > div')[2];"
        "return [box.querySelector('path.line').getAttribute('d').split('M ').length - 1, box.querySelector('.now')"
        ".textContent, [...document.querySelectorAll('#tiles dd')].pop().textContent,"
        "[...document.querySelectorAll('#groups tbody tr')].map(e => e.children[1].textContent)]; })()",
        tmp_path,
    )
    assert (path, now, tile, lags) == (2, "?", "≥ 600", ["500", "≥ 100"])


def test_a_monitor_that_has_no_view_says_so(tmp_path: pathlib.Path) -> None:
    board = Board()
    board.fail("Connection to h:1 failed")
    assert ask(with_data(board), _TEXT.format("state"), tmp_path) == "Connection to h:1 failed"


def test_a_failed_refresh_is_in_the_title(tmp_path: pathlib.Path) -> None:
    board = board_of(well_view())
    board.fail("No response within 2000 ms")
    found = ask(with_data(board), f"[{_TEXT.format('state')}, document.title]", tmp_path)
    assert found == ["The last refresh failed: No response within 2000 ms", "Not refreshed – Kafka cluster"]


def test_alerts_are_listed_those_that_fire_first(tmp_path: pathlib.Path) -> None:
    alerts = (
        AlertView("lag>7", "pending", TIME_MS, "lag>7 holds for group h: lag is 8", "h"),
        AlertView("lag>5", "firing", TIME_MS - 86_400_000, f"lag>5 holds for group {HOSTILE}: lag is 6", HOSTILE),
    )
    expression = (
        f"[document.getElementById('alerts-section').hidden, {CELLS.format('alerts')},"
        "document.querySelector('#alerts tbody tr').className, document.querySelectorAll('img').length]"
    )
    hidden, rows, mood, images = ask(with_data(board_of(well_view()._replace(alerts=alerts))), expression, tmp_path)
    assert (hidden, [row[0] for row in rows], mood, images) == (False, ["firing", "pending"], "bad", 0)
    assert rows[0][2] == f"lag>5 holds for group {HOSTILE}: lag is 6" and rows[0][1].startswith("2023-11-1")
    assert ask(with_data(board_of(well_view())), "document.getElementById('alerts-section').hidden", tmp_path)


# -- tables --


def test_tables_are_searched_sorted_and_turned(tmp_path: pathlib.Path) -> None:
    names = "[...document.querySelectorAll('#topics tbody tr')].map(e => e.cells[0].textContent)"
    rows, page_text, second, found, words, order, address = ask(
        with_data(board_of(many_topics(5000))),
        steps(
            f"const rows = {names}, page = byId('topics-page').textContent;",
            f"document.querySelector('[data-turn=topics][data-by=\"1\"]').click(); const second = {names};",
            seek("topics", "T00 9"),
            f"const found = {names}, words = byId('topics-found').textContent;",
            "document.querySelector('#topics [data-column=messages]').click();",
            "document.querySelector('#topics [data-column=messages]').click();",
            f"return [rows, page, second, found, words, {names}.slice(0, 2), location.hash];",
        ),
        tmp_path,
    )
    assert (len(rows), rows[0], page_text, second[0]) == (50, "t4999", "1 to 50 of 5,000", "t4949")
    expected = [f"t00{n:02}" for n in range(99, -1, -1) if "9" in f"{n}"]
    assert (found, words) == (expected, f"{len(expected)} of 5,000"), "every word is in a row"
    assert order == ["t0009", "t0019"] and address == "#find.topics=T00+9&sort.topics=messages"


def test_an_address_restores_search_order_and_page(tmp_path: pathlib.Path) -> None:
    at = "#find.topics=t1&sort.topics=topic&page.topics=2&sort.groups=-nothing&page.brokers=x&find.nothing=1"
    first, text, sort = ask(
        with_data(board_of(many_topics(5000)), at),
        "[document.querySelector('#topics tbody button').textContent, document.getElementById('find-topics').value,"
        "document.querySelector('#topics th').getAttribute('aria-sort')]",
        tmp_path,
    )
    assert (first, text, sort) == ("t1050", "t1", "ascending")


def test_unknown_values_are_last_in_both_orders(tmp_path: pathlib.Path) -> None:
    topics = many_topics(3).topics
    topics = (topics[0]._replace(messages_in=None), *topics[1:])
    click = "document.querySelector('#topics [data-column=messages]').click();"
    names = "[...document.querySelectorAll('#topics tbody tr')].map(e => e.cells[0].textContent)"
    down, up = ask(
        with_data(board_of(well_view()._replace(topics=topics))),
        steps(click, f"const down = {names};", click, f"return [down, {names}];"),
        tmp_path,
    )
    assert (down, up) == (["t0002", "t0001", "t0000"], ["t0001", "t0002", "t0000"])


def test_every_table_has_headers_to_sort_by_and_a_box_to_search(tmp_path: pathlib.Path) -> None:
    tables = ask(
        with_data(board_of(ill_view()), '#topic=a"b&group=g', details()),
        "[...document.querySelectorAll('table')].filter(t => t.tHead).map(t => [t.id, t.tHead.rows[0].cells.length ==="
        "t.querySelectorAll('th button[data-sort]').length, document.getElementById('find-' + t.id)"
        ".getAttribute('aria-label').startsWith('Find in ')])",
        tmp_path,
    )
    assert [row for row in tables if row[1:] != [True, True]] == []
    names = {row[0] for row in tables}
    assert {"brokers", "findings", "events", "topics", "groups", "quorum"} <= names
    assert {"partitions", "topic-groups", "topic-settings", "members", "group-partitions"} <= names


# -- details --


def test_a_topic_opens_and_closes(tmp_path: pathlib.Path) -> None:
    asked, focus, parts, groups, settings, at, rest = ask(
        with_data(board_of(ill_view()), details=details()),
        steps(
            f"document.querySelector('#topics tbody button').click(); {_WAIT}"
            "const focus = document.activeElement.id, at = location.hash;"
            f"const found = [{CELLS.format('partitions')}, {CELLS.format('topic-groups')}, "
            f"{CELLS.format('topic-settings')}];"
            "document.querySelector('[data-close=topic]').click();"
            "return [asked.filter(url => url.includes('topic')), focus, ...found, at,"
            "[location.hash, byId('topic-section').hidden, document.activeElement.dataset.name]];"
        ),
        tmp_path,
    )
    assert asked == ["topic.json?topic=a%22b", "history.json?topic=a%22b"] and focus == "h-topic"
    assert parts == [["0", "1", "213", "1", "3", "?", "500", "700 B", "2.5", "under min ISR"]]
    assert groups == [["g", "≥ 100", "Stable", "2", "1.5"]]
    assert settings == [["retention.ms", "5", "topic"], ["secret", "hidden", "broker, file"],
                        ["file.delete.delay.ms", "6", "default"]]  # fmt: skip
    assert (at, rest) == ("#topic=a%22b", ["", True, 'a"b'])


def test_an_address_opens_a_group_with_members_and_lag(tmp_path: pathlib.Path) -> None:
    facts, members, lags, problems, images, charts = ask(
        with_data(board_over_time([ill_view(), ill_view()]), "#group=g", details()),
        "[document.getElementById('group-facts').textContent,"
        f"{CELLS.format('members')}, {CELLS.format('group-partitions')}, {_TEXT.format('group-problems')},"
        "document.images.length, document.querySelectorAll('#group-charts svg').length]",
        tmp_path,
    )
    assert "StateStable" in facts and "Coordinator1 (h1:9092)" in facts and "Lag≥ 100" in facts and "Behind?" in facts
    assert members == [[HOSTILE, "/10.0.0.1", "4", 'a"b 0-2,5', "m-1", "–", "–", "3"]] and images == 0
    assert lags == [
        ['a"b', "0", "100", "1 min 30 s", "400", "500", f"{HOSTILE} /10.0.0.1"], ['a"b', "1", "?", "?", "5", "?", "–"],
    ]  # fmt: skip
    assert problems == "members: not reported: refused" and charts == 1, "its lag is unknown, its rate is not"


def test_a_detail_that_does_not_exist_says_so(tmp_path: pathlib.Path) -> None:
    gone = {"topic.json?topic=gone": {"error": "Topic 'gone' is not in the latest view"}}
    shown, hidden = ask(
        with_data(board_of(ill_view()), "#topic=gone", gone),
        f"[{_TEXT.format('topic-state')}, document.getElementById('topic-content').hidden]",
        tmp_path,
    )
    assert (shown, hidden) == ("Topic 'gone' is not in the latest view", True)


def test_updates_are_paused(tmp_path: pathlib.Path) -> None:
    pressed = ask(
        with_data(board_of(ill_view())),
        "(document.getElementById('pause').click(), document.getElementById('pause').getAttribute('aria-pressed'))",
        tmp_path,
    )
    assert pressed == "true"


# -- the look, and what cluster names may contain --


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_the_page_can_be_read_by_everybody(tmp_path: pathlib.Path, is_dark: bool) -> None:
    events = (Event(TIME_MS, "broker-gone", "m" * 300, cause="c" * 300), Event(TIME_MS, "isr-shrank", "m", cause="d"))
    view = ill_view(events=events)
    long = view.topics[0]._replace(name="a-long-name-" * 20)
    view = view._replace(topics=(*view.topics, long))
    contrast, scheme, overflow, nameless, lists = ask(
        with_data(board_over_time([view, view]), '#topic=a"b&group=g', details()),
        steps(
            f"document.querySelectorAll('.opener').forEach(e => e.click()); return [{CONTRAST},"
            "getComputedStyle(document.body).backgroundColor,"
            "document.documentElement.scrollWidth - document.documentElement.clientWidth,"
            "[...document.querySelectorAll('button, input, svg[role=img]')].filter(e => !(e.textContent.trim() ||"
            "e.getAttribute('aria-label') || (e.labels && e.labels.length))).length,"
            "[...document.querySelectorAll('table')].filter(t => !t.getAttribute('aria-label')).length];"
        ),
        tmp_path,
        is_dark=is_dark,
        width=400,
    )
    assert contrast == [], "WCAG AA: 4.5 to 1"
    assert (int(re.findall(r"\d+", scheme)[0]) < 64) == is_dark
    assert (overflow, nameless, lists) == (0, 0, 0)


def test_the_page_needs_nothing_from_elsewhere() -> None:
    assert not re.findall(r"(?:src|href)=\"(?!data:,|view\.json)", page(1000))
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page(1000))
    assert not re.findall(r"innerHTML\s*=[^=]|insertAdjacentHTML|document\.write|eval\(", page(1000)), "texts are text"
    assert not re.findall(r"@[A-Z]+@", page(1000)), "every part is there"


def test_names_of_the_cluster_are_no_markup(tmp_path: pathlib.Path) -> None:
    view = well_view()
    topic = view.topics[0]._replace(name=HOSTILE)
    group = ill_view().groups[1]._replace(group_id=HOSTILE, partitions=(GroupPartition(HOSTILE, 0, 1, 1),))
    broker = view.brokers[0]._replace(host=HOSTILE, rack=HOSTILE)
    hostile = view._replace(topics=(topic,), groups=(group,), brokers=(broker,), cluster_id=HOSTILE)
    shown, images, title = ask(
        with_data(board_of(hostile), f"#find.topics={HOSTILE}&topic={HOSTILE}"),
        "[['#topics button.row-button', '#groups button.row-button', '#cluster', '#h-topic'].map("
        "s => document.querySelector(s).textContent), document.images.length, document.title]",
        tmp_path,
    )
    assert shown == [HOSTILE, HOSTILE, HOSTILE, f"Topic {HOSTILE}"]
    assert (images, title) == (0, "Healthy – Kafka cluster")


def test_characters_that_nobody_sees_are_escaped(tmp_path: pathlib.Path) -> None:
    """As on a terminal. The ends of each range are compared, and their neighbours, which stay as they are."""
    edges = {code for low, high in _ABOVE_C0 for code in (low - 1, low, high, high + 1)}
    name = "".join(map(chr, sorted(edges | set(range(32)) - {9, 10}))) + "\u200c\u200d"
    group = ill_view().groups[1]._replace(group_id=name)
    alert = AlertView("lag>5", "firing", TIME_MS, f"holds for {name}: 6", name)
    view = well_view()._replace(groups=(group,), alerts=(alert,))
    texts = ask(
        with_data(board_of(view)),
        "['#groups .row-button', '#alerts td:last-child'].map(s => document.querySelector(s).textContent)",
        tmp_path,
    )
    assert texts == [visible_text(name), f"holds for {visible_text(name)}: 6"]


def test_a_long_name_does_not_push_columns_away(tmp_path: pathlib.Path) -> None:
    topic = well_view().topics[0]._replace(name="x" * 249)
    view = well_view()._replace(topics=(topic,))
    measure = "(e => e.scrollWidth - e.clientWidth)(document.getElementById('topics').closest('.wide'))"
    assert ask(with_data(board_of(view)), measure, tmp_path) == 0


def test_at_400_px_lags_and_states_need_no_scrolling(tmp_path: pathlib.Path) -> None:
    group = ill_view().groups[1]._replace(group_id="orders-invoice-service")
    cells = (
        "groups td:nth-child(2)",
        "groups td:nth-child(3)",
        "topics td:nth-child(2)",
        "group-partitions td:nth-child(3)",
    )
    wider, hidden = ask(
        with_data(board_of(ill_view(groups=(group,))), "#group=g", details()),
        f"[document.documentElement.scrollWidth - innerWidth, {list(cells)}.filter((at) => {{"
        "const cell = document.querySelector('#' + at), box = cell.closest('.wide').getBoundingClientRect();"
        "return !(cell.getBoundingClientRect().right <= box.right); })]",
        tmp_path,
        width=400,
    )  # fmt: skip
    assert wider <= 0 and hidden == []
