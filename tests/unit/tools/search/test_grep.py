"""--grep selects exactly the records in which `re.search` finds the expression within a key, a value or a header."""

from __future__ import annotations

import pathlib
import re
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records import _search_kernel
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import RecordColumns
from kafkatools.tools.search import grep, key_filter
from kafkatools.tools.search.grep import PARTS, Grep
from kafkatools.tools.search.key_filter import KeyFilter
from kafkatools.tools.search.required_texts import Shape, shape_of

LOOSE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80)
Row = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


@pytest.fixture(params=["in use", "plain"], autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test runs with the kernel in use and with its Python source."""
    if request.param == "plain":
        plain = plain_search_kernel()
        for module in (grep, key_filter):
            monkeypatch.setattr(module, "kernel", plain)
    yield


def plain_search_kernel() -> Any:
    import importlib.machinery
    import sys
    import types

    directory = pathlib.Path(_search_kernel.__file__ or "").parent
    loaded = {}
    before = dict(sys.modules)
    try:
        for name in ("_kernel", "_search_kernel"):
            loader = importlib.machinery.SourceFileLoader(f"plain{name}", str(directory / f"{name}.py"))
            module = types.ModuleType(loader.name)
            module.__file__ = loader.path
            loader.exec_module(module)
            sys.modules[f"kafkatools.core.records.{name}"] = module
            loaded[name] = module
    finally:
        for name in loaded:
            full_name = f"kafkatools.core.records.{name}"
            sys.modules[full_name] = before[full_name]
    return loaded["_search_kernel"]


def fetched(rows: Sequence[Row]) -> FetchedColumns:
    """The rows as decoded from a batch in Kafka's format."""
    builder = BatchBuilder(1 << 20)
    for number, (key, value, headers) in enumerate(rows):
        builder.append(number, key, value, tuple(headers))
    return FetchedColumns("orders", 0, RecordBatch(bytes(builder.close()), 0).columns())


def by_record(rows: Sequence[Row], pattern: bytes, flags: int, parts: Sequence[str]) -> list[int]:
    """The rows that one evaluation per cell selects."""
    search = re.compile(pattern, flags).search
    selected = []
    for number, (key, value, headers) in enumerate(rows):
        cells = [key] if "key" in parts else []
        cells += [value] if "value" in parts else []
        if "headers" in parts:
            cells += [cell for name, header in headers for cell in (name.encode(), header)]
        if any(cell is not None and search(cell) for cell in cells):
            selected.append(number)
    return selected


def found(item: FetchedColumns, condition: Any) -> list[int]:
    rows = condition.rows(item)
    return list(range(item.columns.count)) if rows is None else list(rows)


# few letters, among them those that stand between cells: lengths 0 to 3 and -1 as varints, newline, upper case
LETTERS = st.sampled_from([b"a", b"b", b"A", b"B", b"\x00", b"\x01", b"\x02", b"\x04", b"\x06", b"\n", b"\xff"])
CELLS = st.none() | st.lists(LETTERS, max_size=6).map(b"".join)
NAMES = st.text("abA\n", max_size=3)
ROWS = st.lists(st.tuples(CELLS, CELLS, st.lists(st.tuples(NAMES, CELLS), max_size=2)), min_size=1, max_size=12)
ATOMS = st.sampled_from(
    [
        *(
            b"a",
            b"b",
            b"ab",
            b"aB",
            b".",
            b"[ab]",
            b"[^a]",
            b"\\x00",
            b"\\x02",
            b"\\n",
            b"^",
            b"$",
            b"\\A",
            b"\\Z",
            b"\\b",
        ),
        *(b"(?<=a)", b"(?<!\\x02)", b"(?=b)", b"(?!a)", b"(a)", b"(?:ab|ba)", b"(?:a|bb|\\x04)", b"(?s:.)", b"(?i:a)"),
        *(b"(?>a+)", b"\\w", b"\\W", b""),
    ]
)
REPEATS = st.sampled_from([b"", b"", b"", b"*", b"+", b"?", b"{2}", b"*?", b"{1,3}", b".*", b".*?"])


@st.composite
def patterns(draw: st.DrawFn) -> bytes:
    """A valid regular expression."""
    pieces = draw(st.lists(st.tuples(ATOMS, REPEATS), min_size=1, max_size=4))
    pattern = b"".join(atom + repeat for atom, repeat in pieces)
    if draw(st.booleans()):
        pattern += b"|" + draw(ATOMS)
    try:
        re.compile(pattern)
    except re.error:
        return re.escape(pattern)
    return pattern


@pytest.mark.slow
@LOOSE
@given(ROWS, patterns(), st.booleans(), st.sets(st.sampled_from(sorted(PARTS)), min_size=1))
def test_any_expression_selects_what_it_selects_record_by_record(
    rows: list[Row], pattern: bytes, ignores_case: bool, parts: set[str]
) -> None:
    condition = Grep(pattern, sum(PARTS[part] for part in parts), ignores_case=ignores_case)
    expected = by_record(rows, pattern, re.IGNORECASE if ignores_case else 0, sorted(parts))
    item = fetched(rows)
    assert found(item, condition) == expected
    # a later stretch, and rows that were selected before: the same buffer, other positions
    start = len(rows) // 2
    tail = item._replace(columns=item.columns.slice(start, len(rows)))
    assert found(tail, condition) == [row - start for row in expected if row >= start]
    every_other = item._replace(columns=item.columns.take(array("i", range(0, len(rows), 2))))
    assert found(every_other, condition) == [row // 2 for row in expected if row % 2 == 0]


@pytest.mark.slow
@LOOSE
@given(ROWS, patterns())
def test_cells_in_any_order_are_searched(rows: list[Row], pattern: bytes) -> None:
    # Decoded values lie behind all keys; rows in another order have descending positions.
    columns = fetched(rows).columns
    moved = bytearray(columns.buffer)
    positions = array("i")
    for _, value, _ in reversed(rows):
        positions.insert(0, len(moved))
        moved += value or b""
    ints = [*columns.places]
    ints[2] = positions
    item = FetchedColumns("orders", 0, RecordColumns(bytes(moved), (columns.offsets, columns.timestamps), ints))
    every = sum(PARTS.values())
    assert found(item, Grep(pattern, every)) == by_record(rows, pattern, 0, list(PARTS))


def test_a_match_across_cells_does_not_count() -> None:
    # In the buffer the bytes are ab, the length of the value (4 as varint 08), cd: none of these is in a cell.
    item = fetched([(b"ab", b"abcd", ()), (b"ab", b"cd", ())])
    for pattern in (b"ab\\x08", b"ab.abcd", b"b.c", b"b.+c", b"cd.+ab"):
        assert found(item, Grep(pattern, sum(PARTS.values()))) == by_record(
            [(b"ab", b"abcd", ()), (b"ab", b"cd", ())], pattern, 0, list(PARTS)
        )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^ok$", [0, 3]),
        ("(?m)^ok$", [0, 1, 3]),
        ("", [0, 1, 2, 3, 4]),
        ("x*", [0, 1, 2, 3, 4]),
        ("^$", [4]),
        ("(?<=o)k", [0, 1, 2, 3]),
        ("(?<=k)o", []),
        ("o.*k", [0, 1, 2, 3]),
    ],
)
def test_anchors_and_edges_are_those_of_a_cell(pattern: str, expected: list[int]) -> None:
    values = [b"ok", b"no\nok", b"so ok?", b"ok\n", b"", None]
    item = fetched([(None, value, ()) for value in values])
    assert found(item, Grep(pattern.encode(), PARTS["value"])) == expected


@pytest.mark.slow
@LOOSE
@given(ROWS, CELLS)
def test_a_key_selects_the_records_with_exactly_its_bytes(rows: list[Row], key: bytes | None) -> None:
    key = key or b""
    assert found(fetched(rows), KeyFilter(key)) == [row for row, (cell, _, _) in enumerate(rows) if cell == key]


@pytest.mark.parametrize(
    ("pattern", "flags", "shape"),
    [
        (b"order-17", 0, Shape((b"order-17",), False, True, True)),
        (b"Order", re.IGNORECASE, Shape((b"order",), True, True, True)),
        (b"(error|failed) in", 0, Shape((b"error", b"failed"), False, False, True)),
        (b"id=[0-9]+ user", 0, Shape((b" user",), False, False, False)),
        (b"[0-9]{4}-[0-9]{2}", 0, Shape((b"-",), False, False, True)),
        (b"(?:timeout)?", 0, Shape()),
        (b"u777+8", 0, Shape((b"u777",))),
        (b"ab{2,3}", 0, Shape((b"abb",), False, False, True)),
        (b"ab*", 0, Shape((b"a",))),
        (b"^a+$", 0, Shape((b"a",))),
        (b"(?i:warn) level", 0, Shape((b" level",), False, False, True)),
    ],
)
def test_the_shape_of_an_expression(pattern: bytes, flags: int, shape: Shape) -> None:
    assert shape_of(pattern, flags) == shape


def test_taken_rows_are_the_same_records() -> None:
    rows: list[Row] = [(b"k%d" % number, b"v%d" % number, [("h", b"%d" % number)]) for number in range(9)]
    columns = fetched(rows).columns
    records = list(columns.records())
    taken = columns.take(array("i", (8, 0, 3, 3)))
    assert list(taken.records()) == [records[8], records[0], records[3], records[3]]
    assert taken.buffer is columns.buffer
    for row in (-1, 9):
        with pytest.raises(IndexError):
            columns.take(array("i", (0, row)))


PLACES = st.lists(st.integers(-5, 60), max_size=6)


@pytest.mark.slow
@LOOSE
@given(st.lists(PLACES, min_size=6, max_size=6), st.binary(max_size=40), st.binary(max_size=3), st.integers(0, 7))
def test_places_outside_of_the_data_are_no_cells(places: list[list[int]], data: bytes, text: bytes, parts: int) -> None:
    columns = tuple(array("i", column) for column in places)
    mask, plain_mask = bytearray(8), bytearray(8)
    for kernel, marks in ((_search_kernel, mask), (plain_search_kernel(), plain_mask)):
        extent = array("q", (0, 0))
        kernel.find_extent(data, columns, parts, extent)
        kernel.mark_rows(data, 0, columns, parts, text, marks, len(data))
        kernel.mark_equal(data, columns[2], columns[3], text, marks)
        kernel.is_ordered(columns)
        assert kernel.find_text(data, text, columns[0][0] if columns[0] else 0, len(data)) <= len(data)
    assert mask == plain_mask
