"""Exactly-once delivery of a stream's writes: a two-phase commit whose decision is stored in Kafka.

A task writes in its own transaction and prepares it: the records are flushed, the transaction stays open, and its
identity goes into the commit message. The driver decides with one committed offset of the sink's group, whose metadata
name the epoch and its transactions. Then the driver commits each transaction. Rules:

- The decision is written in a transaction of the driver's own transactional ID, and read after that ID was initialized
  (InitProducerId). If two drivers commit the same epoch, because one was thought dead, one decides and the other reads
  the decision. No driver can decide between another driver's read and its decision.
- An epoch with a decision is never written again: a replay commits the remaining transactions of the decision and
  aborts its own. An epoch without a decision is written again; transactions of earlier attempts are aborted.
- Before the decision all transactions are checked: if one was aborted by its timeout or another writer, the epoch fails
  and is written again. After the decision its transactions are only committed.
- A transactional ID belongs to a sink, a run of the query, a partition and an attempt. Only that attempt uses it, so no
  writer can fence a prepared transaction of another. Even and odd epochs have different IDs, since the markers of the
  previous epoch may still be in progress.
- Transactions without a decision (speculative attempts, earlier runs) are aborted after a decision, when no other
  driver can decide for them, by the identity they were listed with. Those that began after the decision are left alone.
- When a run fails, tasks that did not report may still be writing: their IDs are fenced for as long as Spark may take
  to kill them.

Crashes: before the decision nothing is visible and the epoch is written again; after it a replay commits the remaining
transactions and writes nothing. Known limit: a prepared transaction lives for transaction.timeout.ms. If the driver is
away longer than that between the decision and the commits, the broker aborts; the epoch then fails for good, with an
error that says so.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core import config
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.prepared_transactions import end_transactions
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.admin.transactions import (
    TransactionDescription,
    describe_transactions,
    force_terminate,
    list_transactions,
)
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.metadata import ConsumerGroupMetadata
from kafkatools.core.prepared_transaction import PreparedTransaction
from kafkatools.core.producer.producer import Producer
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sinks.decision import Decision, newest_decision, offsets_of
from kafkatools.pipeline.sinks.producers import closing_producer
from kafkatools.pipeline.sinks.tasks import PreparedTask, TaskPlace

_log = logging.getLogger(__name__)

TASK_TIMEOUT_MS = 900_000
"""The brokers' default for transaction.max.timeout.ms: an epoch must be written and committed within this time."""

LATE_TASKS_MS = 3_000
"""How long after a failure to abort transactions of tasks that still write. Longer than Spark waits before it kills a
Python worker (spark.python.task.killTimeout, 2 s)."""

_LIST_INTERVAL_MS = 300
_DRIVER_TIMEOUT_MS = 60_000
_ONGOING = "Ongoing"
_ABORT_ERRORS = frozenset(
    {"INVALID_TXN_STATE", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"}
)


class SinkNames(NamedTuple):
    """The consumer group and the transactional IDs of a sink."""

    sink_id: str

    @property
    def group(self) -> str:
        """The consumer group whose committed offsets hold the sink's decisions."""
        return f"kt-sink-{self.sink_id}"

    @property
    def driver(self) -> str:
        """The transactional ID of the driver."""
        return f"kt-sink-{self.sink_id}-driver"

    def task(self, run: str, partition: int, attempt: int, epoch: int) -> str:
        """Return the transactional ID of a task attempt; even and odd epochs use different IDs."""
        return f"kt-sink-{self.sink_id}-{run}-{partition}-{attempt}-{epoch % 2}"

    def is_task(self, transactional_id: str, run: str = "[0-9a-f]+", parity: str = "[01]") -> bool:
        """Return whether a transactional ID belongs to a task of this sink, of the run and epoch parity given as
        regular expressions."""
        pattern = rf"kt-sink-{re.escape(self.sink_id)}-{run}-\d+-\d+-{parity}"
        return re.fullmatch(pattern, transactional_id) is not None


class SinkTransactions:
    """The transactions of one sink: prepared by tasks, committed or aborted by the driver. `settings` are producer
    settings."""

    def __init__(self, settings: Mapping[str, str], sink_id: str) -> None:
        self._settings = settings
        self.names = SinkNames(sink_id)

    # -- a task --

    def task_settings(self, place: TaskPlace) -> dict[str, str]:
        """Return the producer settings of a task, with its transactional ID."""
        name = self.names.task(place.run, place.partition, place.attempt, place.epoch)
        return {"transaction.timeout.ms": str(TASK_TIMEOUT_MS), **self._settings, "transactional.id": name}

    def is_decided(self, place: TaskPlace) -> bool:
        """Return whether the task's epoch is already committed, so that the task need not write. May miss a decision
        that is being written now; the driver checks again. Raises PipelineError."""
        with self._admin() as admin:
            decision = self._decision(admin, require_stable=False)
        return decision is not None and decision.is_of(place.query_id, place.epoch)

    # -- the driver --

    def commit(self, epoch: int, query_id: str, tasks: Sequence[PreparedTask], *, is_decided: bool = False) -> None:
        """Commit the prepared transactions of an epoch, all or none. For an epoch that already has a decision, commit
        the transactions of the decision and abort those of `tasks`. Does nothing without tasks, unless `is_decided`: a
        task found the epoch committed and wrote nothing.

        Raises PipelineError if a transaction was lost, or the checkpoint is older than the decision.
        """
        if not tasks and not is_decided:
            return
        with self._lock() as (driver, admin):
            before = self._decision(admin)
            if before is not None and before.query_id == query_id and epoch <= before.epoch:
                self._end(admin, [task.transaction for task in tasks if task.transaction not in before.transactions])
                self._repeat(admin, before, epoch)
                return
            if is_decided:
                raise PipelineError(
                    f"kt sink: the decision for epoch {epoch} is no longer in group {self.names.group}: the group was "
                    "deleted, or another query writes with the same sinkId"
                )
            if before is not None and before.query_id != query_id:
                self._end_of_others(admin, before)
            self._ensure_ongoing(admin, tasks)
            decision = self._decide(driver, admin, before, tasks)
            self._complete(admin, decision)
            self._abort_others(admin, decision.transactions, self.names.driver)
            self._await_markers(admin, decision.transactions)

    def _repeat(self, admin: AdminClient, decision: Decision, epoch: int) -> None:
        """Commit the transactions of an epoch that was decided earlier. Raises PipelineError if `epoch` is older than
        the decision: then the checkpoint was reset."""
        if epoch < decision.epoch:
            raise PipelineError(
                f"kt sink: epoch {decision.epoch} of this query is already committed, so the checkpoint is older than "
                f"the topic: epoch {epoch} is not written again"
            )
        self._complete(admin, decision)
        self._await_markers(admin, decision.transactions)

    def abort(self, place: TaskPlace, tasks: Sequence[PreparedTask], *, is_whole: bool = True) -> None:
        """Abort the prepared transactions of an epoch, unless the epoch is decided, since a commit may fail after its
        decision. `place` identifies any task of the epoch. If `is_whole` is False, tasks did not report: transactions
        that they may still open are aborted for LATE_TASKS_MS. Raises PipelineError."""
        with self._lock() as (_, admin):
            decision = self._decision(admin)
            if decision is not None and decision.is_of(place.query_id, place.epoch):
                return
            self._end(admin, [task.transaction for task in tasks])
            if not is_whole:
                self._end_late_tasks(admin, place.run, str(place.epoch % 2))

    # -- a batch job: it has no epochs and is never replayed --

    def commit_job(self, tasks: Sequence[PreparedTask]) -> None:
        """Commit the prepared transactions of a batch job if all are still ongoing. Raises PipelineError; if a commit
        itself fails, part of the rows may be committed."""
        if not tasks:
            return
        with self._admin() as admin:
            self._ensure_ongoing(admin, tasks)
            transactions = [task.transaction for task in tasks]
            errors = end_transactions(admin, transactions, commit=True)
            if errors:
                name, error = min(errors.items())
                raise PipelineError(
                    f"kt sink: {len(errors)} of {len(tasks)} transactions could not be committed ({name}: "
                    f"{error.name}: {error}): the topic has only part of the rows"
                )
            self._abort_others(admin, transactions)
            self._await_markers(admin, transactions)

    def abort_job(self, run: str, tasks: Sequence[PreparedTask], *, is_whole: bool = True) -> None:
        """Abort the transactions of a batch job that are not committed; `is_whole` as for `abort`. A failure to abort
        one is only logged. Raises PipelineError if the cluster cannot be used."""
        if is_whole and not tasks:
            return
        with self._admin() as admin:
            self._end(admin, [task.transaction for task in tasks])
            if not is_whole:
                self._end_late_tasks(admin, run)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[tuple[Producer, AdminClient]]:
        """Yield a producer with the driver's transactional ID, initialized, and an admin client. Initialization
        (InitProducerId) fences any other driver: its decision is complete or will never be. Raises PipelineError."""
        timeout_ms = min(int(self._settings.get("transaction.timeout.ms", _DRIVER_TIMEOUT_MS)), _DRIVER_TIMEOUT_MS)
        driver_settings = {"transactional.id": self.names.driver, "transaction.timeout.ms": str(timeout_ms)}
        with closing_producer({**self._settings, **driver_settings}) as driver, self._admin() as admin:
            driver.init_transactions()
            yield driver, admin

    @contextlib.contextmanager
    def _admin(self) -> Iterator[AdminClient]:
        settings = {name: value for name, value in self._settings.items() if name in config.ADMIN}
        try:
            with AdminClient(self._settings["bootstrap.servers"], settings, SystemClock()) as admin:
                yield admin
        except KafkaError as error:
            raise PipelineError(f"kt sink: {error.name}: {error}") from error

    # -- the decision --

    def _decision(self, admin: AdminClient, *, require_stable: bool = True) -> Decision | None:
        group = self.names.group
        committed = fetch_offsets(admin, [group], require_stable=require_stable)[group]
        if committed.error is not None:
            raise committed.error
        for error in committed.errors.values():
            raise error
        return newest_decision(committed.offsets, self.names.task)

    def _decide(
        self, driver: Producer, admin: AdminClient, before: Decision | None, tasks: Sequence[PreparedTask]
    ) -> Decision:
        """Commit the decision as offsets in one transaction of the driver, with a serial number one above that of
        `before` (None: 0). When that transaction ends, the epoch is committed. Raises PipelineError or KafkaError."""
        serial = 0 if before is None else before.serial + 1
        place = tasks[0].place
        transactions = tuple(task.transaction for task in tasks)
        decision = Decision(serial, place.query_id, place.run, place.epoch, transactions)
        topic = min(task.topic for task in tasks)
        description = describe_topics(admin, names=[topic])[topic]
        if description.error is not None:
            raise description.error
        offsets = offsets_of(decision, [task.place for task in tasks], topic, len(description.partitions))
        driver.begin_transaction()
        driver.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(self.names.group))
        try:
            driver.commit_transaction()
        except KafkaError as error:
            reason = f"{error.name}: {error}"
            if error.name == "PRODUCER_FENCED":
                reason = f"another driver has taken over the sink {self.names.sink_id!r} ({error})"
            raise PipelineError(f"kt sink: epoch {place.epoch} could not be committed: {reason}") from error
        return decision

    # -- transactions --

    def _ensure_ongoing(self, admin: AdminClient, tasks: Sequence[PreparedTask]) -> None:
        """Raise PipelineError if a prepared transaction was aborted or taken over since its task prepared it;
        KafkaError if a transaction cannot be described."""
        by_name = {task.transaction.transactional_id: task for task in tasks}
        for name, state in describe_transactions(admin, by_name).items():
            task = by_name[name]
            if isinstance(state, KafkaError):
                raise state
            is_its_own = state.producer_id == task.transaction.producer_id
            if state.state == _ONGOING and is_its_own and state.producer_epoch == task.transaction.producer_epoch:
                continue
            raise PipelineError(
                f"kt sink: the transaction {name} of Spark task {task.place.partition} of epoch {task.place.epoch} was "
                f"aborted before it was committed: it was open longer than transaction.timeout.ms ({state.timeout_ms} "
                "ms), or another writer took it over; restart the query to write the epoch again"
            )

    def _complete(self, admin: AdminClient, decision: Decision) -> None:
        """Commit all transactions of a decision; those already committed are no error. Raises PipelineError."""
        errors = end_transactions(admin, decision.transactions, commit=True)
        if not errors:
            return
        count = f"{len(errors)} of {len(decision.transactions)} transactions"
        name, error = min(errors.items())
        aborted = {name: error for name, error in errors.items() if error.name in _ABORT_ERRORS}
        if not aborted:
            raise PipelineError(
                f"kt sink: epoch {decision.epoch} is decided, but {count} could not be committed ({name}: "
                f"{error.name}: {error}); restart the query to commit them"
            )
        raise PipelineError(
            f"kt sink: epoch {decision.epoch} was decided, but {count} were aborted before their commit ({name}: "
            f"{error.name}): the driver was away for longer than transaction.timeout.ms. Their records are not in the "
            f"topic. To write the whole epoch again, committed records twice, delete the group {self.names.group}"
        )

    def _await_markers(self, admin: AdminClient, transactions: Sequence[PreparedTransaction]) -> None:
        """Commit the transactions again, to wait for their markers: the broker answers a second EndTxn only after the
        markers of the first are written. Failures are only logged."""
        for name, error in end_transactions(admin, transactions, commit=True).items():
            _log.info("The markers of transaction %s may not be written yet: %s", name, error)

    def _end_of_others(self, admin: AdminClient, decision: Decision) -> None:
        """Commit the transactions of the last decision of another query with this sinkId, which may have stopped before
        it ended them. Failures are only logged."""
        for name, error in end_transactions(admin, decision.transactions, commit=True).items():
            _log.info("The transaction %s of another query had ended already: %s", name, error)

    def _abort_others(
        self, admin: AdminClient, decided: Sequence[PreparedTransaction], driver: str | None = None
    ) -> None:
        """Abort this sink's open transactions that are not part of the decision. With `driver`, a transactional ID,
        only those that began no later than its last transaction: later ones may belong to a newer driver. Failures are
        logged; the next decision tries again."""
        try:
            ongoing_ids = {
                transaction.transactional_id
                for transaction in list_transactions(admin, states=(_ONGOING,)).transactions
            }
            names = set(filter(self.names.is_task, ongoing_ids)) - {
                transaction.transactional_id for transaction in decided
            }
            if not names:
                return
            descriptions = describe_transactions(admin, names if driver is None else {*names, driver})
        except KafkaError as error:
            _log.warning("Open transactions of sink %s could not be listed: %s", self.names.sink_id, error)
            return
        states = {name: state for name, state in descriptions.items() if isinstance(state, TransactionDescription)}
        decided_ms = None if driver is None or driver not in states else states[driver].start_ms
        version = decided[0].transaction_version
        undecided = [
            PreparedTransaction(name, state.producer_id, state.producer_epoch, version)
            for name, state in states.items()
            if name in names and state.state == _ONGOING and _is_before(state.start_ms, decided_ms, driver is None)
        ]
        self._end(admin, undecided)

    def _end(self, admin: AdminClient, transactions: Sequence[PreparedTransaction]) -> None:
        """Abort transactions that no decision will commit. Failures raise nothing and are logged, unless a transaction
        ended already."""
        for name, error in end_transactions(admin, transactions, commit=False).items():
            if error.name not in _ABORT_ERRORS:
                _log.warning("The transaction %s could not be aborted: %s", name, error)

    def _end_late_tasks(self, admin: AdminClient, run: str, parity: str = "[01]") -> None:
        """Abort the transactions of a failed run's tasks that did not report, for LATE_TASKS_MS. Such tasks write until
        Spark kills them; otherwise their transactions would stay open until transaction.timeout.ms."""
        until_ms = admin.deadline_ms(LATE_TASKS_MS)
        try:
            while True:
                for name in [
                    transaction.transactional_id
                    for transaction in list_transactions(admin, states=(_ONGOING,)).transactions
                ]:
                    error = force_terminate(admin, name) if self.names.is_task(name, run, parity) else None
                    if error is not None:
                        _log.warning("The transaction %s could not be aborted: %s", name, error)
                if admin.remaining_ms(until_ms) == 0:
                    return
                admin.clock.sleep_ms(min(admin.remaining_ms(until_ms), _LIST_INTERVAL_MS))
        except KafkaError as error:
            _log.warning("Open transactions of sink %s could not be listed: %s", self.names.sink_id, error)


def _is_before(start_ms: int | None, decided_ms: int | None, is_always: bool) -> bool:
    """Return whether a transaction began no later than the driver's one; True if `is_always`, False if a time is
    unknown. Both times come from brokers, in epoch ms."""
    return is_always or (start_ms is not None and decided_ms is not None and start_ms <= decided_ms)
