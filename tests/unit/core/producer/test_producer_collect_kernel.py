"""The kernel of Producer.send, in the form in use and as plain Python."""

from __future__ import annotations

import gc
import importlib.machinery
import sys
import threading
import types
from typing import Any, NamedTuple

import pytest

from kafkatools.core.producer import _collect_kernel
from kafkatools.core.producer.futures import RecordFuture
from kafkatools.core.records.kernel import COMPILED


def plain() -> types.ModuleType:
    """The kernel's source, whatever the process runs with."""
    path = f"{str(_collect_kernel.__file__).rpartition('_collect_kernel')[0]}_collect_kernel.py"
    loader = importlib.machinery.SourceFileLoader("plain_collect_kernel", path)
    module = types.ModuleType(loader.name)
    loader.exec_module(module)
    return module


@pytest.fixture(params=["in use", "plain"])
def kernel(request: pytest.FixtureRequest) -> Any:
    return _collect_kernel if request.param == "in use" else plain()


def test_rows_keep_their_order_sizes_and_times(kernel: Any) -> None:
    rows = kernel.RecordRows("t", None, 1000)
    assert [rows.append(None, b"abc", 5), rows.append(b"key", None, 5), rows.append(None, b"", 7)] == [0, 1, 2]
    assert (bytes(rows.data), rows.count) == (b"abckey", 3)
    assert (list(rows.value_positions), list(rows.value_lengths)) == ([0, 3, 6], [3, -1, 0])
    assert (list(rows.key_positions)[1], list(rows.key_lengths)) == (3, [-1, 3, -1])
    assert list(rows.timestamps) == [5, 5, 7]
    assert rows.room_bytes == 1000 - 3 * kernel.RECORD_BYTES - 6


def test_keys_are_not_kept_before_the_first_one(kernel: Any) -> None:
    rows = kernel.RecordRows("t", 3, 1000)
    rows.append(None, b"v", 1)
    assert (list(rows.key_positions), list(rows.key_lengths)) == ([], [])


@pytest.mark.skipif(not COMPILED, reason="plain Python holds the lock")
def test_no_python_code_runs_while_a_record_is_added() -> None:
    """The garbage collector's callbacks run where an object that it tracks is made."""
    rows = _collect_kernel.RecordRows("t", None, 1000)
    rows.append(None, b"v", 1)
    counts: list[int] = []

    def add_another(phase: str, info: dict[str, int]) -> None:
        if not counts:
            counts.append(rows.append(None, b"other", 2))

    threshold = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(add_another)
    gc.set_threshold(1)
    try:
        rows.append(b"key", b"value", 3)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(add_another)
    columns = rows.value_positions, rows.value_lengths, rows.key_positions, rows.key_lengths, rows.timestamps
    assert [len(column) for column in columns] == [rows.count] * 5
    assert list(rows.key_lengths).count(3) == 1


def test_many_cells_lie_behind_each_other(kernel: Any) -> None:
    rows = kernel.RecordRows("t", None, 1 << 20)
    cells = [b"%d" % number * (number % 40) for number in range(3000)]
    for cell in cells:
        rows.append(None if len(cell) % 3 else cell[:5], cell, -1)
    assert len(rows.data) == (1 << 20) - rows.room_bytes - 3000 * kernel.RECORD_BYTES
    places = zip(rows.value_positions, rows.value_lengths, strict=True)
    assert [bytes(rows.data[position : position + length]) for position, length in places] == cells


def test_cells_that_are_no_bytes_are_copied(kernel: Any) -> None:
    rows = kernel.RecordRows("t", None, 1000)
    rows.append(memoryview(b"key"), bytearray(b"value"), 1)
    assert bytes(rows.data) == b"valuekey"
    for cell in ("text", 5, [1]):
        with pytest.raises(TypeError):
            rows.append(None, cell, 1)
    assert (rows.count, len(rows.value_lengths), bytes(rows.data)) == (1, 1, b"valuekey")


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


def place(future: Any) -> tuple[Any, int]:
    """The records and the row of a future."""
    return future.records, future.row


def test_open_rows_take_a_record_only_for_a_topic_with_room(kernel: Any) -> None:
    rows = kernel.RecordRows("t", None, 100)
    opened = kernel.OpenRows({"t": rows}, threading.Lock(), kernel.RowFuture)
    assert place(opened.accept("t", None, None, b"first", 1, None)) == (rows, 0)
    assert place(opened.accept("t", None, b"k", b"second", 1, print)) == (rows, 1)
    assert rows.callbacks == {1: print}
    assert opened.accept("other", None, None, b"", 1, None) is None
    assert opened.accept("t", 5, None, b"", 1, None) is None
    assert opened.accept("t", None, None, b"v" * 100, 1, None) is None
    assert rows.count == 2
    assert not opened.lock.locked()


def test_a_partition_that_is_no_plain_number_is_left_to_the_caller(kernel: Any) -> None:
    opened = kernel.OpenRows({"t": kernel.RecordRows("t", 1, 100)}, threading.Lock(), kernel.RowFuture)
    assert opened.accept("t", True, None, b"", 1, None) is None
    assert opened.accept("t", 1, None, b"", 1, None).row == 0


def test_a_failed_record_leaves_the_lock_free(kernel: Any) -> None:
    opened = kernel.OpenRows({"t": kernel.RecordRows("t", None, 100)}, threading.Lock(), kernel.RowFuture)
    with pytest.raises(TypeError):
        opened.accept("t", None, None, 5, 1, None)
    assert not opened.lock.locked()


class Sent(NamedTuple):
    """What a kernel's `send` passed on."""

    how: str
    arguments: tuple[Any, ...]


def sends(kernel: Any, opened: Any) -> Any:
    """A producer whose key serializer is bytes and whose other sends return their arguments."""

    def returned(how: str) -> Any:
        return lambda self, *arguments: Sent(how, arguments)

    kind = type("Sends", (kernel.PlainSends,), {"_send_one": returned("one"), "_begin_plain": returned("begin")})
    producer = kind()
    producer.open_rows, producer.is_plain = opened, True
    producer.serialize_key = producer.serialize_value = lambda topic, cell: str(cell).encode()
    producer.wall_ns = lambda: 5_999_999
    return producer


def test_plain_records_are_added_and_others_passed_on(kernel: Any) -> None:
    rows = kernel.RecordRows("t", None, 1000)
    producer = sends(kernel, kernel.OpenRows({"t": rows}, threading.Lock(), kernel.RowFuture))
    assert [producer._send_record("t", cell).row for cell in (b"v", None, 7)] == [0, 1, 2]
    assert producer._send_record("t", b"w", key=8, callback=print).row == 3
    assert (bytes(rows.data), list(rows.value_lengths), list(rows.timestamps)) == (b"v7w8", [1, -1, 1, 1], [5] * 4)
    assert rows.callbacks == {3: print}
    assert producer._send_record("other", b"v", 1) == Sent("begin", ("other", (1, b"v"), None, (5, b"1", b"v"), None))
    assert producer._send_record("t", b"v", timestamp=3) == Sent("one", ("t", b"v", None, None, 3, (), None))
    assert producer._send_record("t", b"v", headers={"h": b""}).how == "one"
    assert producer._send_record(5, print).arguments[:2] == (5, print)
    producer.open_rows = None
    assert producer._send_record("t", b"v", b"k", partition=2).arguments == ("t", b"v", b"k", 2, None, (), None)


def test_threads_lose_no_record_of_a_collection(kernel: Any) -> None:
    """Without the lock only the GIL keeps the columns equally long."""
    rows = kernel.RecordRows("t", None, 1 << 24)
    producer = sends(kernel, kernel.OpenRows({"t": rows}, threading.Lock(), kernel.RowFuture))
    interval = sys.getswitchinterval()
    taken: list[list[int]] = [[] for _ in range(3)]

    def work(thread: int) -> None:
        taken[thread] = [producer._send_record("t", b"%d" % thread, key=thread).row for _ in range(5000)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sorted(row for found in taken for row in found) == list(range(15_000))
    for thread, found in enumerate(taken):
        assert {rows.data[rows.value_positions[row]] for row in found} == {ord(str(thread))}
        assert {rows.data[rows.key_positions[row]] for row in found} == {ord(str(thread))}
