"""Records that tasks send between two turns of the loop, and the futures of the loop that their results complete.

A cancelled task loses no record: what is in the outbox is sent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkatools.core.errors import TransactionAborted
from kafkatools.core.producer.futures import NO_OFFSET, ColumnsFuture, RecordMetadata, RowsRun
from kafkatools.core.producer.interceptors import ProducerInterceptors
from kafkatools.core.producer.producer_batch import RowsSink
from kafkatools.core.producer.unbatched.outbox import Outgoing

if TYPE_CHECKING:
    from kafkatools.core.producer.producer_record import Headers


class TaskRecords(Outgoing):
    """Records of one topic with their futures. `wall_ms`: the timestamp of records without one."""

    __slots__ = ("futures", "_interceptors", "_wall_ms")

    def __init__(self, topic: str, partition: int | None, wall_ms: int, interceptors: ProducerInterceptors) -> None:
        super().__init__(topic, partition)
        self.futures: list[asyncio.Future[RecordMetadata]] = []
        self._interceptors = interceptors
        self._wall_ms = wall_ms

    def add_with(
        self,
        future: asyncio.Future[RecordMetadata],
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Add a serialized record, whose result completes `future`."""
        self.futures.append(future)
        self.add(key, value, self._wall_ms if timestamp is None else timestamp, headers)

    def sink(self) -> RowsSink:
        """Return the receiver of the results of all records."""
        return RowsSink(Deliveries(self, self._interceptors), None, range(self.count))


class Deliveries(ColumnsFuture):
    """The futures of the records of one TaskRecords."""

    __slots__ = ("_outgoing", "_interceptors")

    def __init__(self, outgoing: TaskRecords, interceptors: ProducerInterceptors) -> None:
        super().__init__(outgoing.count)
        self._outgoing = outgoing
        self._interceptors = interceptors

    def add(self, run: RowsRun) -> None:
        """Complete the futures of records that were acknowledged or failed, except cancelled futures."""
        futures, outgoing, error, offset = self._outgoing.futures, self._outgoing, run.error, run.base_offset
        step = 0 if offset == NO_OFFSET else 1
        has_interceptors = bool(self._interceptors)
        for row in run.rows:
            future = futures[row]
            if has_interceptors:
                self._interceptors.on_acknowledgement(outgoing.metadata(row, run, offset), error)
            if not future.done():
                if error is None:
                    future.set_result(outgoing.metadata(row, run, offset))
                else:
                    future.set_exception(error)
                    if isinstance(error, TransactionAborted):
                        future.exception()  # the application's own doing: no log line when nobody awaits the record
            offset += step


class RowsDelivery(ColumnsFuture):
    """The rows of one `send_many`, which complete one future of the loop."""

    __slots__ = ("_future",)

    def __init__(self, count: int, future: asyncio.Future[list[RowsRun]]) -> None:
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
            self._future.set_exception(error)
