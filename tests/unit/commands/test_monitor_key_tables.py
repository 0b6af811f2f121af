"""The tables of kt monitor with keys, without a terminal: cells, widths, order, filter, and places."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from test_monitor_values import TIME_MS, ill_view

from kafkatools.commands.monitor.sections import SECTIONS
from kafkatools.commands.monitor.terminal import places
from kafkatools.commands.monitor.terminal.catalogue import VIEWS, title_of
from kafkatools.commands.monitor.terminal.columns import Cell, Column, cut, fitted, padded
from kafkatools.commands.monitor.terminal.head import head_text
from kafkatools.commands.monitor.terminal.model import Details, Model
from kafkatools.commands.monitor.terminal.places import TABS, Path, Place
from kafkatools.commands.monitor.terminal.table_state import TableState
from kafkatools.core.admin.coordinators import Coordinator
from kafkatools.core.admin.groups import GroupDescription, MemberDescription
from kafkatools.tools.monitor.view import GroupView, PartitionView, TopicView


def cells(place: Place, model: Model) -> list[list[str]]:
    """The texts of a place's rows."""
    view = VIEWS[place.view]
    return [[column.cell(model, item).text for column in view.columns] for item in view.rows(model, place.target)]


def column(place: Place, model: Model, header: str) -> list[str]:
    """The texts of one column."""
    headers = [found.header for found in VIEWS[place.view].columns]
    return [row[headers.index(header)] for row in cells(place, model)]


def state(place: Place, model: Model, height: int = 3) -> TableState:
    """The state of a place's table on a screen with so many rows."""
    table = TableState(VIEWS[place.view])
    table.resize(height)
    table.refresh(model, VIEWS[place.view].rows(model, place.target))
    return table


def keys(table: TableState) -> list[object]:
    """The keys of the rows in order."""
    return [table.view.key(item) for item in table.rows]


def many(count: int, ends: Sequence[int | None] = ()) -> Model:
    """A topic `t` with so many partitions."""
    parts = tuple(
        PartitionView("t", n, 1, 0, (1,), (1,), None, (), end_offset=ends[n] if n < len(ends) else n)
        for n in range(count)
    )
    return Model(ill_view(topics=(TopicView("t", "id", False, parts),), groups=()))


# -- what is not known --


def test_unknown_values_are_question_marks() -> None:
    model = Model(ill_view())
    of_topic = Place(places.TOPIC, ('a"b',))
    assert column(of_topic, model, "Leader") == ["1", "none", "1"]
    assert column(of_topic, model, "State") == ["<min", "offline", "moving"]
    assert column(of_topic, model, "End") == ["500", "?", "0"]
    assert column(of_topic, model, "Size") == ["700 B", "?", "0 B"]
    assert column(of_topic, model, "Start") == ["30", "...", "..."], "not read yet"
    read = model.with_details(Details(starts={('a"b', 0): 31}))
    assert column(of_topic, read, "Start") == ["31", "?", "?"]
    assert column(Place(places.GROUPS), model, "Lag") == [">=100", "500"]
    assert column(Place(places.GROUPS), model, "Behind")[0] == "?"
    assert column(Place(places.BROKERS), model, "Size") == ["1000 B", "?", "?"]
    assert column(Place(places.LOG_DIRS), model, "Free") == ["400 B", "?", "?", "?"]
    facts = dict(row[:2] for row in cells(Place(places.OVERVIEW), model))
    assert (facts["Brokers"], facts["Log dirs offline"], facts["Lag"]) == ("1/3", ">=1", ">=600")


def test_a_group_without_reported_offsets_has_no_numbers() -> None:
    model = Model(ill_view(groups=(GroupView("g", "Classic", "Unknown", 3, None, None, unknown="broker 3 is away"),)))
    (row,) = cells(Place(places.GROUPS), model)
    assert row[:7] == ["g", "Unknown", "?", "?", "?", "?", "?"] and row[-1] == "broker 3 is away"
    unread = model.with_details(Details(error="members are unknown: refused"))
    place = Place(places.GROUP, ("g",))
    assert cells(place, unread) == []
    assert VIEWS[places.GROUP].when_empty(unread, place.target) == "members are unknown: refused"


def test_a_partition_out_of_view_has_an_unknown_commit() -> None:
    member = MemberDescription("m-1", None, "till", "/10.0.0.1", (('a"b', 1), ('a"b', 2), ("other", 0)))
    described = GroupDescription("g", "Classic", "Stable", "range", (member,), Coordinator(1, "h1", 9092))
    model = Model(ill_view()).with_details(Details(described))
    rows = cells(Place(places.MEMBER, ("g", "m-1")), model)
    assert rows[0][:5] == ['a"b-1', "none", "5", "?", "?"]
    assert rows[1][:5] == ['a"b-2', "1", "-", "0", "-"], "nothing was committed"
    assert rows[2][:5] == ["other-0", "?", "?", "?", "?"], "--topic may leave it out"
    assert column(Place(places.GROUP, ("g",)), model, "Lag") == ["?", "100"], "of the member, and of nobody"


def test_addresses_are_shown_whole() -> None:
    line = "records: http://127.0.0.1:44237/?token=" + "x" * 40
    notes = column(Place(places.OVERVIEW), Model(ill_view(), addresses=(line,)), "Note")
    assert "".join(notes[-2:]) == line and max(map(len, notes[-2:])) <= 48


def test_rates_of_partitions_need_two_snapshots_of_the_same_topic() -> None:
    first = many(3, [10, None, 30]).view
    later = first._replace(clock_ms=first.clock_ms + 2000, topics=many(3, [14, 20, 5]).view.topics)
    place = Place(places.PARTITIONS)
    assert column(place, Model(first), "Msg/s") == ["-", "?", "-"]
    assert column(place, Model(later, first), "Msg/s") == ["2.0", "?", "0"], "a log that was truncated got nothing"
    recreated = (later.topics[0]._replace(topic_id="other"),)
    assert column(place, Model(later._replace(topics=recreated), first), "Msg/s") == ["-", "?", "-"]


# -- widths --


def test_a_long_name_loses_its_middle() -> None:
    assert cut("payments.europe.west-12", 12) == "payments…-12"
    assert cut("short", 5) == "short" and cut("longer", 1) == "…"
    assert cut("漢字漢字漢字", 7) == "漢字…字", "two columns for each character"
    assert padded("漢字", 6, is_number=False) == "漢字  " and padded("12", 4, is_number=True) == "  12"


def test_numbers_are_never_cut() -> None:
    def cell(model: Model, item: object) -> Cell:
        return Cell("", None)

    columns = [
        Column("Name", cell, is_number=False, least=8),
        Column("Count", cell),
        Column("ISR", cell, is_number=False, is_list=True),
        Column("Words", cell, is_number=False),
    ]
    widths = [30, 12, 9, 20]
    assert fitted(columns, widths, 100, 1) == [(0, 30), (1, 12), (2, 9), (3, 20)]
    assert fitted(columns, widths, 60, 1) == [(0, 16), (1, 12), (2, 9), (3, 17)], "the widest words first"
    assert fitted(columns, widths, 45, 1) == [(0, 20), (1, 12), (2, 9)], "then the last columns are hidden"
    assert fitted(columns, widths, 30, 1) == [(0, 16), (1, 12)]
    assert fitted(columns, widths, 45, 3) == [(0, 23), (3, 20)], "the first one always stays"
    assert fitted(columns, widths, 10, 1) == [(0, 10)]


def test_a_long_list_of_faults_is_counted_not_cut() -> None:
    lines = [head_text(Model(ill_view()), 2000, 5000, is_paused=False, width=width)[1].plain for width in (200, 80, 62)]
    assert lines[0].startswith("Unhealthy: 1 broker fenced, 1 broker not responding, ")
    assert lines[0].endswith("; 1 without data (see 5)")
    assert lines[2] == "Unhealthy: 1 broker fenced and 5 more; 1 without data (see 5)"
    assert len(lines[1]) <= 80 and " more; " in lines[1]


# -- order, filter, cursor --


def test_unknown_values_are_last_in_both_directions() -> None:
    table = state(Place(places.PARTITIONS), many(4, [7, None, 9, 8]), 10)
    table.sort_by([column.header for column in table.view.columns].index("End"))
    assert keys(table) == [("t", 2), ("t", 3), ("t", 0), ("t", 1)]
    table.reverse()
    assert keys(table) == [("t", 0), ("t", 3), ("t", 2), ("t", 1)]
    table.sort_by(None)
    assert keys(table) == [("t", n) for n in range(4)]
    table.reverse()
    assert keys(table) == [("t", n) for n in (3, 2, 1, 0)], "numbers of partitions, not texts"


def test_the_selected_row_stays_on_its_line() -> None:
    table = state(Place(places.PARTITIONS), many(20), 5)
    table.move(9)
    assert (table.cursor, table.top) == (9, 5)
    table.move(-2)
    table.reverse()
    assert table.view.key(table.selected) == ("t", 7) and table.cursor - table.top == 2
    table.filter("t-(7|8)$")
    assert keys(table) == [("t", 8), ("t", 7)] and table.cursor == 1
    table.filter("")
    assert table.view.key(table.selected) == ("t", 7)


def test_a_table_that_nobody_touched_stays_at_its_first_row() -> None:
    table = state(Place(places.PARTITIONS), many(20), 5)
    table.reverse()
    assert (table.cursor, table.top, table.view.key(table.selected)) == (0, 0, ("t", 19))


def test_rows_that_are_gone_leave_the_cursor_in_the_table() -> None:
    table = state(Place(places.PARTITIONS), many(20), 5)
    table.move(19)
    fewer = many(3)
    table.refresh(fewer, list(fewer.view.partitions))
    assert (table.cursor, table.top) == (2, 0)
    table.refresh(fewer, [])
    assert (table.cursor, table.selected) == (0, None)
    table.move(1)
    table.scroll(-3)


def test_an_invalid_expression_changes_nothing() -> None:
    table = state(Place(places.PARTITIONS), many(12), 5)
    table.filter("T-1")
    assert table.rows == [] and table.count == 12
    table.filter("t-1")
    with pytest.raises(re.error):
        table.filter("t-(")
    assert (table.filter_text, len(table.rows)) == ("t-1", 3)


# -- places --


def test_a_place_that_is_on_the_path_is_gone_back_to() -> None:
    path = Path(TABS["3"])
    for place in (Place(places.TOPIC, ("t",)), Place(places.PARTITION, ("t", 0)), Place(places.BROKER, (1,))):
        path.open(place)
    path.open(Place(places.TOPIC, ("t",)))
    assert [place.view for place in path.places] == ["topics", "topic"]
    assert path.back() and not path.back() and path.place == TABS["3"]


def test_each_view_has_rows_that_lead_somewhere_and_a_name() -> None:
    model = Model(ill_view())
    assert {place.view for place in TABS.values()} == {"overview", *SECTIONS} - {"alerts"}, "events have the alerts"
    for name, view in VIEWS.items():
        target = {"broker": (1,), "topic": ('a"b',), "partition": ('a"b', 0), "group": ("g",), "member": ("g", "")}
        place = Place(name, target.get(name, ()))
        for item in view.rows(model, place.target):
            opened = view.opens(model, item)
            assert opened is None or opened.view in VIEWS
            assert view.subject(item).text
        assert title_of(place, model) and view.when_empty(model, place.target)
    assert title_of(Place(places.GROUP, ("\x1b[2J",)), model) == "group \\x1b[2J"


def test_a_late_snapshot_says_its_age() -> None:
    model = Model(ill_view())
    assert model.view.time_ms == TIME_MS and model.view.clock_ms == 5000
    assert "old" not in head_text(model, 2000, 9000, is_paused=False, width=100)[0].plain
    assert "65 s old" in head_text(model, 2000, 70_000, is_paused=False, width=100)[0].plain


def test_each_column_sorts_in_both_directions_and_fits() -> None:
    model = Model(ill_view(), ill_view(clock_ms=3000)).prepare()
    targets = {"broker": (1,), "topic": ('a"b',), "partition": ('a"b', 0), "group": ("g",), "member": ("g", "")}
    shown = model.with_details(Details())
    for name in VIEWS:
        table = state(Place(name, targets.get(name, ())), shown, 20)
        count = len(table.rows)
        for place in range(len(table.view.columns)):
            table.sort_by(place)
            table.reverse()
            assert len(table.rows) == count
        for width in (120, 80, 40, 20):
            layout = table.layout([row for _, row in table.visible_rows()], width)
            assert len(layout) == 1 or sum(size for _, size in layout) + 2 * (len(layout) - 1) <= width
        table.filter(".")
        assert len(table.rows) == count
