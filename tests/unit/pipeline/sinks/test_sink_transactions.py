"""Exactly once by two phases: tasks and drivers that die anywhere, told to a broker in both transaction versions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.prepared_transactions import Steps
from support.requirements import require
from support.sink_stories import CRASHES, Crash, Query, comes_through, crash, rows_of

from kafkatools.core.admin.prepared_transactions import end_transactions
from kafkatools.pipeline.errors import PipelineError

try:
    import pyarrow as pa
    import pyspark  # noqa: F401
except ImportError:
    require("PySpark is not installed: pip install '.[spark]'")


@pytest.fixture(scope="module", params=[1, 2])
def steps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    with embedded_broker(tmp_path_factory.mktemp("sink"), num_partitions="2") as bootstrap:
        made = Steps(bootstrap, request.param)
        if made.version == 1:
            made.lower_version()
        yield made


@pytest.fixture(autouse=True)
def within_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """For how long tasks of what failed are looked for; those of these tests end sooner than Spark's."""
    monkeypatch.setattr("kafkatools.pipeline.sinks.transactions.LATE_TASKS_MS", 1500)
    return 1.5


@pytest.mark.slow
@pytest.mark.parametrize("dies", CRASHES)
def test_every_record_is_there_once_wherever_the_driver(
    steps: Steps, dies: Callable[[Query, pytest.MonkeyPatch], None]
) -> None:
    comes_through(steps, dies)


# -- others who live on --


@pytest.mark.slow
def test_the_first_of_two_drivers_decides(steps: Steps) -> None:
    query = Query(steps)
    zombie = query.tasks(0)
    query.start()
    query.commit(0, query.tasks(0))
    query.commit(0, zombie)
    assert query.ended() == (rows_of(0), 0)
    query.writer().abort(zombie, 0)
    query.commit(1, query.tasks(1))
    with pytest.raises(PipelineError, match="epoch 1 of this query is already committed"):
        query.commit(0, zombie)
    assert query.ended() == (rows_of(0, 1), 0)


@pytest.mark.slow
def test_a_driver_that_was_overtaken_while_it_decides_is_fenced(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkatools.pipeline.sinks.transactions import SinkTransactions

    query = Query(steps)
    zombie = query.tasks(0)
    decide = SinkTransactions._decide

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        query.start()
        query.commit(0, query.tasks(0))
        return decide(*arguments)

    monkeypatch.setattr(SinkTransactions, "_decide", overtaken)
    with pytest.raises(PipelineError, match="PRODUCER_FENCED|taken over|another driver"):
        query.commit(0, zombie)
    query.writer().abort(zombie, 0)
    assert query.ended() == (rows_of(0), 0)


@pytest.mark.slow
def test_what_a_newer_driver_has_begun_is_left_alone(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkatools.pipeline.sinks.transactions import SinkTransactions

    query = Query(steps)
    messages = query.tasks(0)
    newer: list[Any] = []
    complete = SinkTransactions._complete

    def slow(*arguments: Any) -> Any:
        monkeypatch.undo()
        query.start()
        newer.extend(query.tasks(1))
        return complete(*arguments)

    monkeypatch.setattr(SinkTransactions, "_complete", slow)
    query.commit(0, messages)
    query.commit(1, newer)
    assert query.ended() == (rows_of(0, 1), 0)


@pytest.mark.slow
def test_of_several_attempts_at_a_task_one_counts(steps: Steps) -> None:
    query = Query(steps)
    first = query.task(0, 0, "a", attempt=0)
    second = query.task(0, 0, "a", attempt=1)
    query.task(0, 0, "a", attempt=2)
    query.commit(0, [first])
    assert query.ended() == (["a"], 0)
    query.writer().abort([second, None], 0)
    assert query.ended() == (["a"], 0)


def test_a_task_that_fails_leaves_nothing_open(steps: Steps) -> None:
    query = Query(steps)
    with pytest.raises(PipelineError, match="not written to .*: RECORD_TOO_LARGE"):
        query.task(0, 0, "a", "x" * 2_000_000)
    assert query.ended() == ([], 0)


def test_an_epoch_that_failed_is_aborted(steps: Steps) -> None:
    query = Query(steps)
    query.writer().abort([query.task(0, 0, "a"), None], 0)
    assert query.ended() == ([], 0)


@pytest.mark.slow
def test_tasks_of_a_failed_epoch_that_told_nothing_leave_nothing_open(steps: Steps) -> None:
    query = Query(steps)
    query.commit(0, query.tasks(0))
    message, _ = query.tasks(1, count=2)
    query.writer().abort([message, None], 1)
    assert query.ended() == (rows_of(0), 0)


@pytest.mark.slow
def test_an_abort_behind_the_decision_aborts_nothing(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(steps)
    messages = query.tasks(0)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr("kafkatools.pipeline.sinks.transactions.SinkTransactions._complete", crash)
        query.commit(0, messages)
    query.writer().abort(messages, 0)
    query.commit(0, messages)
    assert query.ended() == (rows_of(0), 0)


@pytest.mark.slow
def test_readers_see_an_epoch_when_its_commit_returns(steps: Steps) -> None:
    query = Query(steps)
    for epoch in range(3):
        query.commit(epoch, query.tasks(epoch))
        assert steps.read(query.topic) == rows_of(*range(epoch + 1))


@pytest.mark.slow
def test_epochs_without_rows_write_nothing(steps: Steps) -> None:
    query = Query(steps)
    for epoch in (0, 1):
        query.commit(epoch, [query.task(epoch, 0), query.task(epoch, 1)])
    query.commit(2, [query.task(2, 0), query.task(2, 1, "a")])
    assert query.ended() == (["a"], 0)


@pytest.mark.slow
def test_another_query_may_go_on_with_the_sink(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(steps)
    messages = query.tasks(5)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr("kafkatools.pipeline.sinks.transactions.SinkTransactions._complete", crash)
        query.commit(5, messages)
    another = Query(steps, query.topic)
    another.commit(0, another.tasks(0))
    assert another.ended() == (rows_of(0, 5), 0)


# -- what cannot be mended is said --


def aborted(steps: Steps, messages: list[Any]) -> None:
    """As the broker does when transaction.timeout.ms is over."""
    with steps.admin() as admin:
        assert end_transactions(admin, [messages[0].transaction], commit=False) == {}
    steps.state(messages[0].transaction.transactional_id)


@pytest.mark.slow
def test_a_transaction_that_was_aborted_before_the_decision_fails_the_epoch(steps: Steps) -> None:
    query = Query(steps)
    messages = query.tasks(0)
    aborted(steps, messages)
    with pytest.raises(PipelineError, match="was aborted before it was committed: it was open longer than"):
        query.commit(0, messages)
    query.writer().abort(messages, 0)
    assert query.ended() == ([], 0)
    query.start()
    query.commit(0, query.tasks(0))
    assert query.ended() == (rows_of(0), 0)


@pytest.mark.slow
def test_a_transaction_that_was_aborted_behind_the_decision_is_told(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(steps)
    messages = query.tasks(0)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr("kafkatools.pipeline.sinks.transactions.SinkTransactions._complete", crash)
        query.commit(0, messages)
    aborted(steps, messages)
    query.start()
    message = f"1 of 3 transactions were aborted before their commit .* delete the group kt-sink-{query.topic}"
    with pytest.raises(PipelineError, match=message):
        query.commit(0, query.tasks(0))


def test_a_timeout_that_the_brokers_refuse_is_told(steps: Steps) -> None:
    from kafkatools.pipeline.sinks.sink import read_options, write_transaction
    from kafkatools.pipeline.sinks.tasks import TaskPlace
    from kafkatools.pipeline.sinks.transactions import SinkTransactions

    given = {"kafka.bootstrap.servers": steps.bootstrap, "topic": "t", "kafka.transaction.timeout.ms": "9000000"}
    options, place = read_options(given), TaskPlace("q", "0", 0, 0, 0)
    batch = pa.record_batch({"value": pa.array(["a"])})
    with pytest.raises(PipelineError, match=r"Set kafka\.transaction\.timeout\.ms"):
        write_transaction(options, SinkTransactions(options.producer, "s"), place, iter([batch]))


# -- jobs --


def job(steps: Steps, *tasks: tuple[int, int, str]) -> tuple[Query, Any, list[Any]]:
    """A batch job with `exactlyOnce`: its tasks are (partition, attempt, row)."""
    from kafkatools.pipeline.sinks.sink import BatchWriter, read_options

    query = Query(steps)
    given = {"kafka.bootstrap.servers": steps.bootstrap, "topic": query.topic, "sinkId": query.topic}
    writer = BatchWriter(read_options({**given, "exactlyOnce": "true"}))
    return query, writer, [write_task(writer, task) for task in tasks]


def write_task(writer: Any, task: tuple[int, int, str]) -> Any:
    from kafkatools.pipeline.sinks.sink import write_transaction
    from kafkatools.pipeline.sinks.tasks import TaskPlace

    partition, attempt, row = task
    place = TaskPlace("q", writer._run, 0, partition, attempt)
    batch = pa.record_batch({"value": pa.array([row])})
    return write_transaction(writer.options, writer._transactions(), place, iter([batch]))


def test_a_job_is_committed_whole_and_attempts_count_once(steps: Steps) -> None:
    query, writer, messages = job(steps, (0, 0, "a"), (1, 0, "b"), (1, 1, "b"))
    assert query.ended() == ([], 3)
    writer.commit([messages[0], messages[2]])
    assert query.ended() == (["a", "b"], 0)


def test_a_job_of_which_a_part_is_lost_commits_nothing(steps: Steps) -> None:
    query, writer, messages = job(steps, (0, 0, "a"), (1, 0, "b"))
    aborted(steps, messages)
    with pytest.raises(PipelineError, match="was aborted before it was committed"):
        writer.commit(messages)
    writer.abort([*messages, None])
    assert query.ended() == ([], 0)


@pytest.mark.slow
def test_tasks_of_a_failed_job_that_told_nothing_leave_nothing_open(steps: Steps) -> None:
    query, writer, messages = job(steps, (0, 0, "a"), (1, 0, "b"))
    other, _, _ = job(steps, (0, 0, "a"))
    writer.abort([messages[0], None])
    assert query.ended() == ([], 0)
    assert other.ended() == ([], 1)


def test_a_task_that_begins_while_its_job_is_aborted_leaves_nothing_open(steps: Steps, within_s: float) -> None:
    query, writer, _ = job(steps)
    late = threading.Timer(within_s / 3, lambda: write_task(writer, (0, 0, "late")))
    late.start()
    writer.abort([None])
    late.join()
    assert query.written() == ["late"]
    assert query.ended() == ([], 0)


# -- the decision --


def test_decisions_of_many_tasks_take_several_offsets() -> None:
    from kafkatools.core.prepared_transaction import PreparedTransaction
    from kafkatools.pipeline.sinks.decision import Decision, newest_decision, offsets_of
    from kafkatools.pipeline.sinks.tasks import TaskPlace
    from kafkatools.pipeline.sinks.transactions import SinkNames

    names = SinkNames("s")

    def decision(serial: int, tasks: int) -> tuple[Decision, list[TaskPlace]]:
        places = [TaskPlace("q", "ab12", serial + 40, number, number % 2) for number in range(tasks)]
        transactions = tuple(
            PreparedTransaction(names.task(*place[1:2], *place[3:], place.epoch), 9000 + 7 * place.partition, 3, 2)
            for place in places
        )
        return Decision(serial, "q", "ab12", serial + 40, transactions), places

    large, places = decision(3, 1000)
    offsets = offsets_of(large, places, "t", 10)
    assert 1 < len(offsets) <= 4
    assert all(len(one.metadata) <= 4096 for one in offsets.values())
    assert newest_decision(offsets, names.task) == large
    small, few = decision(4, 1)
    offsets |= offsets_of(small, few, "u", 1)
    assert newest_decision(offsets, names.task) == small
    with pytest.raises(PipelineError, match=r"1000 tasks are too many for one epoch written to t with 1 partitions"):
        offsets_of(large, places, "t", 1)
    assert newest_decision({}, names.task) is None


def test_ids_of_tasks_are_told_from_those_of_other_sinks() -> None:
    from kafkatools.pipeline.sinks.transactions import SinkNames

    names = SinkNames("a")
    assert names.is_task(names.task("0f3", 12, 1, 7))
    others = [names.driver, SinkNames("a-0f3").task("0f3", 1, 1, 1), SinkNames("aa").task("0f3", 1, 1, 1), "other"]
    assert not any(names.is_task(name) for name in others)
