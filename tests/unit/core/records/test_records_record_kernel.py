"""The kernel that makes record objects and hands them out, in the form in use and as plain Python."""

from __future__ import annotations

import gc
import importlib.machinery
import types
from array import array
from typing import Any, NamedTuple

import pytest

from kafkatools.core.records import _record_kernel
from kafkatools.core.records.kernel import COMPILED

Made = NamedTuple("Made", [(name, Any) for name in "abcdefghi"])  # noqa: UP014 - the names do not matter
DATA = b"..k1v1v2"
CONSTANTS = (Made, "t", 3, "CreateTime", None)


def plain() -> types.ModuleType:
    """The kernel's source, whatever the process runs with."""
    path = f"{str(_record_kernel.__file__).rpartition('_record_kernel')[0]}_record_kernel.py"
    loader = importlib.machinery.SourceFileLoader("plain_record_kernel", path)
    module = types.ModuleType(loader.name)
    loader.exec_module(module)
    return module


@pytest.fixture(params=["in use", "plain"])
def kernel(request: pytest.FixtureRequest) -> Any:
    return _record_kernel if request.param == "in use" else plain()


def columns(values: list[int], lengths: list[int]) -> tuple[Any, Any]:
    """Longs and places of three rows, whose first one has the key k1."""
    longs = array("q", [7, 8, 1 << 40]), array("q", [5, 5, -1])
    return longs, (array("i", [2, 0, 0]), array("i", [2, -1, -1]), array("i", values), array("i", lengths))


def test_records_have_the_cells_of_their_rows(kernel: Any) -> None:
    longs, places = columns([4, 6, 8], [2, 2, 0])
    records = kernel.make_records(memoryview(DATA), longs, places, None, (0, 3), CONSTANTS)
    assert records == [
        ("t", 3, 7, 5, "CreateTime", b"k1", b"v1", (), None),
        ("t", 3, 8, 5, "CreateTime", None, b"v2", (), None),
        ("t", 3, 1 << 40, -1, "CreateTime", None, b"", (), None),
    ]
    assert [type(record) for record in records] == [Made] * 3
    assert (records[0].a, records[1].g) == ("t", b"v2")
    assert [hash(record) for record in records] == [hash(tuple(record)) for record in records]
    is_compiled = COMPILED and kernel is _record_kernel
    assert gc.is_tracked(records[0]) is not is_compiled  # records of C lead to nothing that leads back to them


def test_a_part_of_the_rows_has_its_own_headers(kernel: Any) -> None:
    longs, places = columns([4, 6, 0], [2, 2, -1])
    headers = [(), (("h", b"x"),)]
    records = kernel.make_records(DATA, longs, places, headers, (1, 3), (Made, "t", 0, 1, 4))
    assert records == [("t", 0, 8, 5, 1, None, b"v2", (), 4), ("t", 0, 1 << 40, -1, 1, None, None, (("h", b"x"),), 4)]


def test_nothing_is_read_beside_the_columns_and_their_data(kernel: Any) -> None:
    for values, lengths in (([4, 7, 0], [2, 2, 0]), ([-1, 0, 0], [1, 0, 0]), ([0, 0, 9], [0, 0, 0])):
        longs, places = columns(values, lengths)
        with pytest.raises(ValueError, match="the value of row"):
            kernel.make_records(DATA, longs, places, None, (0, 3), CONSTANTS)
    longs, places = columns([0, 0, 0], [0, 0, 0])
    with pytest.raises(ValueError, match="the key of row 0"):
        kernel.make_records(DATA[:3], longs, places, None, (0, 3), CONSTANTS)
    for rows, headers in (((0, 4), None), ((-1, 2), None), ((0, 3), [(), ()])):
        with pytest.raises(ValueError, match="more than the columns have"):
            kernel.make_records(DATA, longs, places, headers, rows, CONSTANTS)
    assert kernel.make_records(b"", longs, places, None, (3, 3), CONSTANTS) == []


def test_the_class_of_the_records_is_a_tuple_class(kernel: Any) -> None:
    longs, places = columns([0, 0, 0], [0, 0, 0])
    with pytest.raises(TypeError, match="subclass of tuple"):
        kernel.make_records(DATA, longs, places, None, (0, 1), (list, *CONSTANTS[1:]))


def test_an_iterator_is_filled_when_its_records_were_handed_out(kernel: Any) -> None:
    portions = [["a", "b"], [], ["c"]]
    held = kernel.HeldRecords()

    class Portions(kernel.HeldIterator):
        def fill(self) -> None:
            if not portions:
                raise StopIteration
            held.records, held.next_row = portions.pop(0), 0

    records = Portions(held)
    assert iter(records) is records
    assert next(records) == "a"
    assert (held.records, held.next_row) == (["a", "b"], 1)
    assert list(records) == ["b", "c"]
    assert list(records) == []


def test_an_iterator_reads_again_what_was_put_back(kernel: Any) -> None:
    held = kernel.HeldRecords()
    held.records = [1, 2]
    records = kernel.HeldIterator(held)
    assert [next(records), next(records)] == [1, 2]
    held.next_row = 1
    assert next(records) == 2
    with pytest.raises(NotImplementedError):
        next(records)


def test_records_are_taken_in_their_order_until_there_are_none(kernel: Any) -> None:
    held = kernel.HeldRecords()
    assert held.take() is None
    held.records = ["first", "second"]
    assert [held.take(), held.next_row, held.take(), held.take(), held.next_row] == ["first", 1, "second", None, 2]
