"""Reading tasks on threads: the order of their batches, and what runs before the consumer asks for more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from support.requirements import require

try:
    import pyarrow as pa
except ImportError:
    require("pyarrow is not installed: pip install '.[sql]'")

from kafkatools.pipeline.scan.ordered import read_in_order


def batches(*numbers: int) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        yield pa.RecordBatch.from_pydict({"n": [number]})


def numbers_of(found: Iterator[pa.RecordBatch]) -> list[int]:
    return [batch.column(0)[0].as_py() for batch in found]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_batches_come_in_the_order_of_the_tasks(threads: int) -> None:
    tasks: list[Callable[[], Iterator[pa.RecordBatch]]] = [
        lambda: batches(0, 1), lambda: batches(), lambda: batches(2), lambda: batches(3, 4, 5),
    ]  # fmt: skip
    assert numbers_of(read_in_order(tasks, threads)) == [0, 1, 2, 3, 4, 5]


def test_later_tasks_wait_for_the_second_request() -> None:
    began = threading.Event()

    def later() -> Iterator[pa.RecordBatch]:
        began.set()
        return batches(1)

    found = read_in_order([lambda: batches(0), later], threads=2)
    assert numbers_of(iter([next(found)])) == [0]
    assert not began.is_set()
    assert numbers_of(found) == [1]


def test_consumer_that_needs_one_batch_ends_all_threads() -> None:
    found = read_in_order([lambda: batches(0)] * 20, threads=4)
    next(found)
    found.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("scan-")]


def test_first_task_without_batches_does_not_stop_the_others() -> None:
    assert numbers_of(read_in_order([lambda: batches(), lambda: batches(1), lambda: batches(2)], threads=3)) == [1, 2]


def test_error_of_the_first_task_is_raised() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        numbers_of(read_in_order([broken, lambda: batches(1)], threads=2))
