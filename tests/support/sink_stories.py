"""A streaming query that writes with `kt`, step by step and without Spark, and drivers that die at every step."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from support.prepared_transactions import Steps

from kafkatools.core.admin.prepared_transactions import end_transactions
from kafkatools.core.admin.transactions import list_transactions
from kafkatools.core.producer.producer import Producer

_names = (f"sink{number:03}" for number in itertools.count())


class Crash(BaseException):
    """The driver is gone."""


class Query:
    """A streaming query that writes rows to its own topic: what Spark does of it, step by step."""

    def __init__(self, steps: Steps, topic: str | None = None) -> None:
        self.steps = steps
        self.topic = topic or next(_names)
        self.query_id = f"query-{next(_names)}"
        self._runs = itertools.count(1)
        self.start()

    def start(self) -> None:
        """Starts it, or starts it again."""
        self.run = f"{next(self._runs):012x}"

    def writer(self) -> Any:
        from kafkatools.pipeline.sinks.sink import StreamWriter, read_options

        given = {"kafka.bootstrap.servers": self.steps.bootstrap, "topic": self.topic, "sinkId": self.topic}
        return StreamWriter(read_options({**given, "exactlyOnce": "true"}))

    def task(self, epoch: int, partition: int, *values: str, attempt: int = 0, run: str = "") -> Any:
        from kafkatools.pipeline.sinks.sink import write_transaction
        from kafkatools.pipeline.sinks.tasks import TaskPlace

        place = TaskPlace(self.query_id, run or self.run, epoch, partition, attempt)
        import pyarrow as pa

        batches = [pa.record_batch({"value": pa.array([value])}) for value in values]
        writer = self.writer()
        transactions = writer._transactions([place])
        return write_transaction(writer.options, transactions, place, iter(batches), transactions.is_decided)

    def tasks(self, epoch: int, count: int = 3) -> list[Any]:
        """Of an epoch whose rows are always the same."""
        rows = [f"{epoch}.{number}" for number in range(6)]
        return [self.task(epoch, number, *rows[number::count]) for number in range(count)]

    def commit(self, epoch: int, messages: list[Any]) -> None:
        self.writer().commit(messages, epoch)

    def ended(self) -> tuple[list[str], int]:
        """What is committed, and how many transactions of the sink are still open."""
        with self.steps.admin() as admin:
            listed = [one for one in list_transactions(admin).transactions if self.topic in one.transactional_id]
            for one in listed:
                if one.state.startswith("Prepare"):
                    self.steps.state(one.transactional_id)  # until its markers are written
            is_open = [one for one in listed if one.state == "Ongoing"]
        return self.steps.read(self.topic), len(is_open)

    def written(self) -> list[str]:
        """All that is in the log, aborted or not."""
        return self.steps.read(self.topic, "read_uncommitted")


def rows_of(*epochs: int) -> list[str]:
    return [f"{epoch}.{number}" for epoch in epochs for number in range(6)]


# -- crashes of the driver --


def dies_before_anything_is_prepared(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    pass


def dies_between_prepares(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.task(0, 0, "0.0", "0.3")


def dies_with_more_tasks_prepared_than_come_later(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.tasks(0, count=6)


def dies_before_the_decision(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = query.tasks(0)
    monkeypatch.setattr("kafkatools.pipeline.sinks.transactions.SinkTransactions._decide", crash)
    query.commit(0, messages)


def dies_within_the_decision(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets are sent, the end of their transaction is not."""
    messages = query.tasks(0)

    def leave_open(producer: Producer, timeout_ms: int | None = None) -> None:
        producer.prepare_transaction()
        raise Crash

    monkeypatch.setattr(Producer, "commit_transaction", leave_open)
    query.commit(0, messages)


def dies_behind_the_decision(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = query.tasks(0)
    monkeypatch.setattr("kafkatools.pipeline.sinks.transactions.SinkTransactions._complete", crash)
    query.commit(0, messages)


def dies_among_the_ends(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = query.tasks(0)

    def end_one(admin: Any, transactions: Any, *, commit: bool) -> None:
        assert end_transactions(admin, list(transactions)[1:2], commit=commit) == {}
        raise Crash

    monkeypatch.setattr("kafkatools.core.admin.prepared_transactions.end_transactions", end_one)
    query.commit(0, messages)


def dies_before_spark_notes_the_commit(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    query.commit(0, query.tasks(0))


def crash(*arguments: object, **named: object) -> None:
    raise Crash


DECIDED = {dies_behind_the_decision, dies_among_the_ends, dies_before_spark_notes_the_commit}
CRASHES: list[Callable[[Query, pytest.MonkeyPatch], None]] = [
    dies_before_anything_is_prepared,
    dies_between_prepares,
    dies_with_more_tasks_prepared_than_come_later,
    dies_before_the_decision,
    dies_within_the_decision,
    dies_behind_the_decision,
    dies_among_the_ends,
    dies_before_spark_notes_the_commit,
]


def comes_through(steps: Steps, dies: Callable[[Query, pytest.MonkeyPatch], None]) -> None:
    """Every record is there once, wherever the driver died, and nothing is left open."""
    query = Query(steps)
    with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Crash):
        dies(query, patched)
    before = query.written() if dies in DECIDED else []
    query.start()
    messages = query.tasks(0)
    assert all(message.is_decided for message in messages) == (dies in DECIDED)
    query.commit(0, messages)
    assert query.ended() == (rows_of(0), 0)
    if dies in DECIDED:
        assert query.written() == before == rows_of(0)
    query.commit(1, query.tasks(1, count=2))
    assert query.ended() == (rows_of(0, 1), 0)
