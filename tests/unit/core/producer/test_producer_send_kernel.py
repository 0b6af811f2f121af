"""The kernel of Producer.send, in the form in use and as plain Python."""

from __future__ import annotations

import importlib.machinery
import threading
import types
from typing import Any

import pytest

from kafkatools.core.producer import _send_kernel
from kafkatools.core.producer.futures import RecordFuture


def plain() -> types.ModuleType:
    """The kernel's source, whatever the process runs with."""
    path = f"{str(_send_kernel.__file__).rpartition('_send_kernel')[0]}_send_kernel.py"
    loader = importlib.machinery.SourceFileLoader("plain_send_kernel", path)
    module = types.ModuleType(loader.name)
    loader.exec_module(module)
    return module


@pytest.fixture(params=["in use", "plain"])
def kernel(request: pytest.FixtureRequest) -> Any:
    return _send_kernel if request.param == "in use" else plain()


def test_rows_keep_their_order_sizes_and_times(kernel: Any) -> None:
    rows = kernel.RecordRows("t", None, 1000)
    assert [rows.append(None, b"abc", 5), rows.append(b"key", None, 5), rows.append(None, b"", 7)] == [0, 1, 2]
    assert (rows.keys, rows.values) == ([None, b"key", None], [b"abc", None, b""])
    assert (rows.first_rows, rows.stamps, rows.count) == ([0, 2], [5, 7], 3)
    assert rows.room_bytes == 1000 - 3 * kernel.RECORD_BYTES - 6


def test_keys_are_not_kept_before_the_first_one(kernel: Any) -> None:
    rows = kernel.RecordRows("t", 3, 1000)
    rows.append(None, b"v", 1)
    assert rows.keys == []


@pytest.mark.parametrize(
    ("partition", "key", "value", "row"),
    [
        (2, None, b"v", 0),
        (None, None, b"v", -1),
        (1, None, b"v", -1),
        (2, None, b"v" * 100, -1),
        (2, b"k" * 100, None, -1),
        (2, b"k" * 99, b"v" * 99, 0),
    ],
)
def test_a_record_for_another_partition_or_without_room_is_refused(
    kernel: Any, partition: int | None, key: bytes | None, value: bytes | None, row: int
) -> None:
    rows = kernel.RecordRows("t", 2, 100)
    assert rows.offer(partition, key, value, 1) == row
    assert rows.count == row + 1


def test_no_record_is_taken_when_the_room_is_used_up(kernel: Any) -> None:
    rows = kernel.RecordRows("t", None, 10)
    assert rows.offer(None, None, None, 1) == 0
    assert rows.offer(None, None, None, 1) == kernel.NO_ROOM


def test_a_key_or_value_without_a_length_is_a_type_error(kernel: Any) -> None:
    rows = kernel.RecordRows("t", None, 10)
    with pytest.raises(TypeError):
        rows.offer(None, None, 5, 1)


def test_a_future_may_have_a_second_base(kernel: Any) -> None:
    future = type("Future", (kernel.RowFuture, RecordFuture), {"__slots__": ()})
    rows = kernel.RecordRows("t", None, 10)
    assert (future(rows, 4).records, future(rows, 4).row) == (rows, 4)


def test_open_rows_take_a_record_only_for_a_topic_with_room(kernel: Any) -> None:
    rows = kernel.RecordRows("t", None, 100)
    opened = kernel.OpenRows({"t": rows}, threading.Lock(), lambda records, row: (records, row))
    assert opened.accept("t", None, None, b"first", 1, None) == (rows, 0)
    assert opened.accept("t", None, b"k", b"second", 1, print) == (rows, 1)
    assert rows.callbacks == {1: print}
    assert opened.accept("other", None, None, b"", 1, None) is None
    assert opened.accept("t", 5, None, b"", 1, None) is None
    assert opened.accept("t", None, None, b"v" * 100, 1, None) is None
    assert rows.count == 2
    assert not opened.lock.locked()


def test_a_failed_record_leaves_the_lock_free(kernel: Any) -> None:
    opened = kernel.OpenRows({"t": kernel.RecordRows("t", None, 100)}, threading.Lock(), list)
    with pytest.raises(TypeError):
        opened.accept("t", None, None, 5, 1, None)
    assert not opened.lock.locked()
