"""Records that tasks send between two turns of the loop, and the futures of their results.

Rules: a cancelled task loses no record: what is in the outbox is sent. A future of the event loop for each record costs
as much as sending it, so `send` returns a Delivery, which knows its record's row. It makes a future of the loop when a
task awaits it, or adds a callback, before the result is there. Results arrive as runs of rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import cast

from kafkatools.core.errors import TransactionAborted
from kafkatools.core.producer._collect_kernel import RowFuture
from kafkatools.core.producer.futures import ColumnsFuture, RecordMetadata, RowsRun, offset_at
from kafkatools.core.producer.interceptors import ProducerInterceptors
from kafkatools.core.producer.producer_batch import RowsSink
from kafkatools.core.producer.unbatched.outbox import Outgoing

LoopFuture = asyncio.Future[RecordMetadata]
DoneCallback = Callable[[LoopFuture], object]

_UNDONE = "The record is neither acknowledged nor failed"


class TaskRecords(Outgoing):
    """Records of one topic and, once known, their results."""

    __slots__ = ("_interceptors", "_loop", "_futures", "_runs", "_retrieved")

    def __init__(
        self,
        topic: str,
        partition: int | None,
        interceptors: ProducerInterceptors,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(topic, partition)
        self._interceptors = interceptors
        self._loop = loop
        self._futures: dict[int, LoopFuture] = {}
        self._runs: list[RowsRun] = []
        self._retrieved: set[int] = set()

    def __del__(self) -> None:
        """Report failed records whose results were never retrieved, as asyncio.Future does; those of an aborted
        transaction are the application's own doing."""
        for run in self._runs:
            if run.error is None or isinstance(run.error, TransactionAborted):
                continue
            missed = sum(row not in self._retrieved and row not in self._futures for row in run.rows)
            if missed:
                message = f"The exception of {missed} records for topic {self.topic} was never retrieved"
                self._loop.call_exception_handler({"message": message, "exception": run.error})

    def sink(self) -> RowsSink:
        """Return the receiver of the results of all records."""
        return RowsSink(_Results(self), None, range(self.count))

    def delivery(self, row: int) -> LoopFuture:
        """Return the Delivery of a record, typed as asyncio.Future, whose methods it has."""
        return cast("LoopFuture", Delivery(self, row))

    def complete(self, run: RowsRun) -> None:
        """Take the results of a run of records: call the interceptors, then complete the futures of the loop."""
        if self._interceptors:
            for position, row in enumerate(run.rows):
                self._interceptors.on_acknowledgement(self.metadata(row, run, offset_at(run, position)), run.error)
        self._runs.append(run)
        if self._futures:
            for row in run.rows:
                future = self._futures.get(row)
                if future is not None and not future.done():
                    self._complete_future(future, row, run)

    def _complete_future(self, future: LoopFuture, row: int, run: RowsRun) -> None:
        if run.error is None:
            future.set_result(self.metadata_of(row, run))
            return
        future.set_exception(run.error)
        if isinstance(run.error, TransactionAborted):
            future.exception()  # no log line when nobody awaits the record

    def run_of(self, row: int) -> RowsRun | None:
        """Return the run with the result of a record, None before it is acknowledged or failed."""
        return next((run for run in self._runs if row in run.rows), None)

    def metadata_of(self, row: int, run: RowsRun) -> RecordMetadata:
        """Return the RecordMetadata of a record of an acknowledged run."""
        return self.metadata(row, run, offset_at(run, run.rows.index(row)))

    def result_of(self, row: int) -> RecordMetadata:
        """Return the RecordMetadata of a record. Raises its error, InvalidStateError before there is a result."""
        run = self.run_of(row)
        if run is None:
            raise asyncio.InvalidStateError(_UNDONE)
        if run.error is not None:
            self._retrieved.add(row)
            raise run.error
        return self.metadata_of(row, run)

    def error_of(self, row: int) -> Exception | None:
        """Return the error of a record. Raises InvalidStateError before there is a result."""
        run = self.run_of(row)
        if run is None:
            raise asyncio.InvalidStateError(_UNDONE)
        if run.error is not None:
            self._retrieved.add(row)
        return run.error

    def known_future(self, row: int) -> LoopFuture | None:
        """Return the future of the loop of a record, None when none was made."""
        return self._futures.get(row)

    def future(self, row: int) -> LoopFuture:
        """Return the future of the loop of a record, made at the first call."""
        future = self._futures.get(row)
        if future is None:
            future = self._futures[row] = self._loop.create_future()
            run = self.run_of(row)
            if run is not None:
                self._complete_future(future, row, run)
        return future

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop on which the records were sent."""
        return self._loop


class _Results(ColumnsFuture):
    """The results of TaskRecords, as the batches report them."""

    __slots__ = ("_records",)

    def __init__(self, records: TaskRecords) -> None:
        super().__init__(records.count)
        self._records = records

    def add(self, run: RowsRun) -> None:
        """Pass the results of a run on."""
        self._records.complete(run)


class _Passing:
    """A callback of a Delivery, which gets the Delivery in place of the loop's future."""

    __slots__ = ("delivery", "callback")

    def __init__(self, delivery: Delivery, callback: DoneCallback) -> None:
        self.delivery = delivery
        self.callback = callback

    def __call__(self, future: LoopFuture) -> object:
        return self.callback(cast("LoopFuture", self.delivery))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Passing) and self.callback == other.callback and self.delivery is other.delivery

    __hash__ = None  # type: ignore[assignment]


class Delivery(RowFuture):
    """The result of a record: an awaitable with the methods of asyncio.Future, for `asyncio.isfuture` and all functions
    of asyncio a future. It is no instance of the class, because one for each record would cost as much as sending
    it."""

    __slots__ = ()
    records: TaskRecords
    _asyncio_future_blocking = False

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled() else "finished" if self.done() else "pending"
        return f"<Delivery {state} of a record for topic {self.records.topic}>"

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        """Wait for the acknowledgement and return the RecordMetadata. Raises the error of the record."""
        if not self.done():
            return (yield from self.records.future(self.row).__await__())
        return self.result()

    __iter__ = __await__

    def done(self) -> bool:
        """Return whether the record was acknowledged or failed, or this future was cancelled."""
        future = self.records.known_future(self.row)
        return self.records.run_of(self.row) is not None if future is None else future.done()

    def result(self) -> RecordMetadata:
        """Return the RecordMetadata. Raises the error of the record, InvalidStateError before there is a result, and
        CancelledError after `cancel`."""
        future = self.records.known_future(self.row)
        return self.records.result_of(self.row) if future is None else future.result()

    def exception(self) -> BaseException | None:
        """Return the error of the record, None when it was acknowledged. Raises as `result`."""
        future = self.records.known_future(self.row)
        return self.records.error_of(self.row) if future is None else future.exception()

    def outcome(self) -> RecordMetadata | Exception | None:
        """Return the RecordMetadata or the error of the record, None before there is a result and after `cancel`. Does
        not count as retrieving the error."""
        run = None if self.cancelled() else self.records.run_of(self.row)
        if run is None:
            return None
        return run.error or self.records.metadata_of(self.row, run)

    def cancel(self, msg: str | None = None) -> bool:
        """Cancel the waiting for the result; the record is sent all the same. Return False if there is a result."""
        return not self.done() and self.records.future(self.row).cancel(msg)

    def cancelled(self) -> bool:
        """Return whether this future was cancelled."""
        future = self.records.known_future(self.row)
        return future is not None and future.cancelled()

    def _make_cancelled_error(self) -> BaseException:
        """Return the error of a cancelled future, for asyncio.gather."""
        return asyncio.CancelledError()

    def add_done_callback(self, callback: DoneCallback, *, context: Context | None = None) -> None:
        """Call `callback(future)` on the loop once there is a result."""
        self.records.future(self.row).add_done_callback(_Passing(self, callback), context=context)

    def remove_done_callback(self, callback: DoneCallback) -> int:
        """Remove a callback; return how many times it had been added."""
        return self.records.future(self.row).remove_done_callback(_Passing(self, callback))

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the record's producer."""
        return self.records.loop


class RowsFuture(asyncio.Future[list[RowsRun]]):
    """The result of one `send_many`. `error` is its error; to read it does not count as retrieving the error."""

    error: Exception | None = None


class RowsDelivery(ColumnsFuture):
    """The rows of one `send_many`, which complete one future of the loop."""

    __slots__ = ("_future",)

    def __init__(self, count: int, future: RowsFuture) -> None:
        super().__init__(count)
        self._future = future
        self._settle()

    def add(self, run: RowsRun) -> None:
        """Add a run of rows, and complete the future after the last one."""
        super().add(run)
        self._settle()

    def _settle(self) -> None:
        if not self.done() or self._future.done():
            return
        try:
            self._future.set_result(self.result(0))
        except Exception as error:  # noqa: BLE001 - the error of the rows, whatever it is, belongs to the future
            self._future.error = error
            self._future.set_exception(error)
