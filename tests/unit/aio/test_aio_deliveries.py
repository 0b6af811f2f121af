"""Deliveries of aio.Producer: futures for asyncio that make no future of the loop before a task waits."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest
from support.loops import LOOPS, run_on

from kafkatools.aio.deliveries import TaskRecords
from kafkatools.core.errors import RecordTooLarge, TransactionAborted
from kafkatools.core.producer.futures import RowsRun
from kafkatools.core.producer.interceptors import ProducerInterceptors

LATE = RecordTooLarge("too large")


def records(count: int) -> TaskRecords:
    """Records that were appended to a batch, of the running loop."""
    sent = TaskRecords("t", 3, ProducerInterceptors(()), asyncio.get_running_loop())
    for number in range(count):
        sent.add(None, b"v" * number, 5)
    sent.take_rows()
    return sent


def run(rows: range, error: Exception | None = None) -> RowsRun:
    return RowsRun("t", 3, rows, -1 if error else 100 + rows.start, -1, error)


def soon(call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(0.001, call)


@pytest.mark.parametrize("loop", LOOPS)
def test_functions_of_asyncio_take_deliveries_as_futures(loop: str) -> None:
    async def main() -> None:
        sent = records(5)
        futures = [sent.delivery(row) for row in range(5)]
        assert all(map(asyncio.isfuture, futures))
        soon(lambda: sent.complete(run(range(5))))
        metadata = await asyncio.gather(*futures[:2], asyncio.shield(futures[2]))
        assert [item.offset for item in metadata] == [100, 101, 102]
        assert [item.serialized_value_size for item in metadata] == [0, 1, 2]
        assert await asyncio.wait_for(futures[3], 5) == await futures[3]
        other = records(4)
        pending = [other.delivery(row) for row in range(4)]
        soon(lambda: other.complete(run(range(2))))
        done, rest = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        assert done == set(pending[:2])
        assert rest == set(pending[2:])
        soon(lambda: other.complete(run(range(2, 4), LATE)))
        for item in asyncio.as_completed(rest):
            with pytest.raises(RecordTooLarge):
                await item
        assert (await asyncio.gather(*pending, return_exceptions=True))[2:] == [LATE, LATE]

    run_on(loop, main)


def test_only_awaited_records_have_a_future_of_the_loop() -> None:
    async def main() -> None:
        sent = records(3)
        first, second, third = (sent.delivery(row) for row in range(3))
        with pytest.raises(asyncio.InvalidStateError):
            first.result()
        with pytest.raises(asyncio.InvalidStateError):
            first.exception()
        waiting = asyncio.ensure_future(second)
        assert waiting is second
        task = asyncio.create_task(asyncio.wait_for(third, 5))
        await asyncio.sleep(0)
        assert [sent.known_future(row) is None for row in range(3)] == [True, True, False]
        sent.complete(run(range(3)))
        assert [item.done() for item in (first, second, third)] == [True] * 3
        assert (first.result().offset, (await second).offset, (await task).offset) == (100, 101, 102)
        assert first.exception() is None
        assert [sent.known_future(row) is None for row in range(3)] == [True, True, False]

    asyncio.run(main())


def test_callbacks_get_the_delivery_in_the_order_of_the_records() -> None:
    async def main() -> None:
        sent = records(4)
        futures = [sent.delivery(row) for row in range(4)]
        called: list[object] = []
        for future in reversed(futures[:3]):
            future.add_done_callback(called.append)
        futures[1].add_done_callback(print)
        assert futures[1].remove_done_callback(print) == 1
        assert futures[1].remove_done_callback(print) == 0
        sent.complete(run(range(4)))
        futures[3].add_done_callback(called.append)  # the result is there
        await asyncio.sleep(0)
        assert called == futures

    asyncio.run(main())


def test_a_cancelled_delivery_stays_cancelled_when_the_record_arrives() -> None:
    async def main() -> None:
        sent = records(2)
        future, other = sent.delivery(0), sent.delivery(1)
        assert future.cancel()
        sent.complete(run(range(2)))
        assert (future.done(), future.cancelled(), other.cancelled(), other.cancel()) == (True, True, False, False)
        with pytest.raises(asyncio.CancelledError):
            await future
        with pytest.raises(asyncio.CancelledError):
            await asyncio.gather(future)
        assert (await other).offset == 101

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "retrieved", "reported"),
    [
        (LATE, (), 3),
        (LATE, (1,), 2),
        (LATE, (0, 1, 2), None),
        (TransactionAborted("aborted"), (), None),
        (None, (), None),
    ],
)
def test_failed_records_whose_result_nobody_retrieves_are_reported_once(
    error: Exception | None, retrieved: tuple[int, ...], reported: int | None
) -> None:
    async def main() -> None:
        contexts: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: contexts.append(context))
        sent = records(4)
        futures = [sent.delivery(row) for row in range(4)]
        sent.complete(run(range(3), error))
        sent.complete(run(range(3, 4)))
        for row in retrieved:
            assert futures[row].exception() is error
        del sent, futures
        gc.collect()
        expected = f"The exception of {reported} records for topic t was never retrieved"
        assert contexts == ([] if reported is None else [{"message": expected, "exception": error}])

    asyncio.run(main())
