"""Exactly once for a stream's writes: two phases, with the decision in Kafka.

A task writes within a transaction of its own and prepares it: flushed, left open, its identity in the commit message.
The driver decides: one committed offset of the sink's group, whose metadata name the epoch and its transactions. Then
it ends each. Rules:

- The decision is made within a transaction of the driver's own transactional id, and read after that id was taken over
  (InitProducerId). So of two drivers that commit the same epoch, because one was thought dead, one decides, and the
  other reads it; none decides between another's look and its decision.
- An epoch that has its decision is never written again: its replay ends what is left of its transactions and aborts its
  own. One that has none is written anew; what earlier attempts prepared is aborted.
- Before the decision every transaction is looked at: one that its time-out or another writer has aborted fails the
  epoch, which then is written again. After it the transactions are only ever committed.
- A transactional id is that of a sink, a run of the query, a partition and an attempt, so nothing but that very attempt
  uses it, and no writer can fence another one's prepared transaction. Even and odd epochs have ids of their own: those
  of the epoch before may still be getting their markers.
- What nobody decided for (speculative attempts, earlier runs) is aborted behind a decision, when no other driver can
  decide for it any more, by the identity it was found with; what was begun later than the decision is left alone.
- When a run fails, tasks of it may still be writing that told the driver nothing: their ids are fenced for as long as
  Spark may take to kill them.

Crashes: before the decision nothing is visible and the epoch is written again; behind it the replay ends what is left
and writes nothing. Known limit: a prepared transaction lives for transaction.timeout.ms. If the driver is away for
longer between the decision and the end, the broker aborts; the epoch then fails for good and says so.
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
"""What brokers allow at most by default (transaction.max.timeout.ms): an epoch must be written and ended within it."""

LATE_TASKS_MS = 3_000
"""How long after a failure tasks are looked for that still write: longer than Spark lets a Python worker live that it
has told to stop (spark.python.task.killTimeout, 2 s)."""

_LOOK_AGAIN_MS = 300
_DRIVER_TIMEOUT_MS = 60_000
_ONGOING = "Ongoing"
_LOST = frozenset({"INVALID_TXN_STATE", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"})


class SinkNames(NamedTuple):
    """What a sink calls its group and its transactional ids."""

    sink_id: str

    @property
    def group(self) -> str:
        return f"kt-sink-{self.sink_id}"

    @property
    def driver(self) -> str:
        return f"kt-sink-{self.sink_id}-driver"

    def task(self, run: str, partition: int, attempt: int, epoch: int) -> str:
        return f"kt-sink-{self.sink_id}-{run}-{partition}-{attempt}-{epoch % 2}"

    def is_task(self, transactional_id: str, run: str = "[0-9a-f]+", parity: str = "[01]") -> bool:
        pattern = rf"kt-sink-{re.escape(self.sink_id)}-{run}-\d+-\d+-{parity}"
        return re.fullmatch(pattern, transactional_id) is not None


class SinkTransactions:
    """The transactions of one sink. `settings` are the producer's."""

    def __init__(self, settings: Mapping[str, str], sink_id: str) -> None:
        self._settings = settings
        self.names = SinkNames(sink_id)

    # -- a task --

    def task_settings(self, place: TaskPlace) -> dict[str, str]:
        """The settings of a task's producer."""
        name = self.names.task(place.run, place.partition, place.attempt, place.epoch)
        return {"transaction.timeout.ms": str(TASK_TIMEOUT_MS), **self._settings, "transactional.id": name}

    def is_decided(self, place: TaskPlace) -> bool:
        """Whether the epoch was decided before: then there is nothing to write. A decision that is just being made may
        go unseen; the driver's look is the one that counts. Raises PipelineError."""
        with self._admin() as admin:
            decision = self._decision(admin, require_stable=False)
        return decision is not None and decision.is_of(place.query_id, place.epoch)

    # -- the driver --

    def commit(self, epoch: int, query_id: str, tasks: Sequence[PreparedTask], *, is_decided: bool = False) -> None:
        """Makes what the tasks prepared visible, all or nothing. `is_decided`: a task found the epoch decided, and has
        written nothing. Raises PipelineError."""
        if not tasks and not is_decided:
            return
        with self._locked() as (driver, admin):
            before = self._decision(admin)
            if before is not None and before.query_id == query_id and epoch <= before.epoch:
                self._end(admin, [task.transaction for task in tasks if task.transaction not in before.transactions])
                self._repeat(admin, before, epoch)
                return
            if is_decided:
                raise PipelineError(
                    f"kt sink: the decision for epoch {epoch} in group {self.names.group} is gone: was the group "
                    "deleted, or does another query write with the same sinkId?"
                )
            if before is not None and before.query_id != query_id:
                self._end_of_others(admin, before)
            self._ensure_ongoing(admin, tasks)
            decision = self._decide(driver, admin, before, tasks)
            self._complete(admin, decision)
            self._abort_others(admin, decision.transactions, self.names.driver)
            self._await_markers(admin, decision.transactions)

    def _repeat(self, admin: AdminClient, decision: Decision, epoch: int) -> None:
        """The epoch was decided before. Raises PipelineError."""
        if epoch < decision.epoch:
            raise PipelineError(
                f"kt sink: epoch {decision.epoch} of this query was committed before, so the checkpoint is older than "
                f"the topic: epoch {epoch} is not written again"
            )
        self._complete(admin, decision)
        self._await_markers(admin, decision.transactions)

    def abort(self, place: TaskPlace, tasks: Sequence[PreparedTask], *, is_whole: bool = True) -> None:
        """Aborts what the tasks prepared, unless the epoch is decided: a commit may have failed behind its decision.
        `place` is that of any task, `is_whole` False when tasks are missing: what those may yet open is aborted too.
        Raises PipelineError."""
        with self._locked() as (_, admin):
            decision = self._decision(admin)
            if decision is not None and decision.is_of(place.query_id, place.epoch):
                return
            self._end(admin, [task.transaction for task in tasks])
            if not is_whole:
                self._end_late_tasks(admin, place.run, str(place.epoch % 2))

    # -- a batch job: no epochs, nobody comes back to it --

    def commit_job(self, tasks: Sequence[PreparedTask]) -> None:
        """Commits what the tasks prepared when all of it still stands. Raises PipelineError: nothing is committed, or,
        when a commit itself fails, a part may be."""
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
                    f"{error.name}: {error}): the topic has a part of the rows"
                )
            self._abort_others(admin, transactions)
            self._await_markers(admin, transactions)

    def abort_job(self, run: str, tasks: Sequence[PreparedTask], *, is_whole: bool = True) -> None:
        """Aborts what the tasks prepared, as far as it is not committed; `is_whole` as with `abort`. Raises
        PipelineError."""
        if is_whole and not tasks:
            return
        with self._admin() as admin:
            self._end(admin, [task.transaction for task in tasks])
            if not is_whole:
                self._end_late_tasks(admin, run)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[tuple[Producer, AdminClient]]:
        """Takes over the driver's transactional id: whoever had it decides nothing any more, and what was being decided
        is decided or not."""
        timeout_ms = min(int(self._settings.get("transaction.timeout.ms", _DRIVER_TIMEOUT_MS)), _DRIVER_TIMEOUT_MS)
        own = {"transactional.id": self.names.driver, "transaction.timeout.ms": str(timeout_ms)}
        with closing_producer({**self._settings, **own}) as driver, self._admin() as admin:
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
        found = fetch_offsets(admin, [group], require_stable=require_stable)[group]
        if found.error is not None:
            raise found.error
        for error in found.errors.values():
            raise error
        return newest_decision(found.offsets, self.names.task)

    def _decide(
        self, driver: Producer, admin: AdminClient, before: Decision | None, tasks: Sequence[PreparedTask]
    ) -> Decision:
        """One transaction of the driver's: from its end on the epoch is committed."""
        serial = 0 if before is None else before.serial + 1
        place = tasks[0].place
        transactions = tuple(task.transaction for task in tasks)
        decision = Decision(serial, place.query_id, place.run, place.epoch, transactions)
        topic = min(task.topic for task in tasks)
        described = describe_topics(admin, names=[topic])[topic]
        if described.error is not None:
            raise described.error
        offsets = offsets_of(decision, [task.place for task in tasks], topic, len(described.partitions))
        driver.begin_transaction()
        driver.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(self.names.group))
        try:
            driver.commit_transaction()
        except KafkaError as error:
            raise PipelineError(f"kt sink: epoch {place.epoch} is not decided: {self._fenced(error)}") from error
        return decision

    def _fenced(self, error: KafkaError) -> str:
        if error.name == "PRODUCER_FENCED":
            return f"another driver has taken over the sink {self.names.sink_id!r} ({error})"
        return f"{error.name}: {error}"

    # -- transactions --

    def _ensure_ongoing(self, admin: AdminClient, tasks: Sequence[PreparedTask]) -> None:
        """Every transaction is as its task left it. Raises PipelineError."""
        wanted = {task.transaction.transactional_id: task for task in tasks}
        for name, found in describe_transactions(admin, wanted).items():
            task = wanted[name]
            if isinstance(found, KafkaError):
                raise found
            is_its_own = found.producer_id == task.transaction.producer_id
            if found.state == _ONGOING and is_its_own and found.producer_epoch == task.transaction.producer_epoch:
                continue
            raise PipelineError(
                f"kt sink: the transaction of partition {task.place.partition} of epoch {task.place.epoch} was aborted "
                f"before it was committed: it lived longer than transaction.timeout.ms ({found.timeout_ms} ms), or "
                "another writer took it over; all is written again when the query is started again"
            )

    def _complete(self, admin: AdminClient, decision: Decision) -> None:
        """Commits all transactions of a decision, whichever of them are committed already. Raises PipelineError."""
        errors = end_transactions(admin, decision.transactions, commit=True)
        if not errors:
            return
        count = f"{len(errors)} of {len(decision.transactions)} transactions"
        name, error = min(errors.items())
        lost = {name: error for name, error in errors.items() if error.name in _LOST}
        if not lost:
            raise PipelineError(
                f"kt sink: epoch {decision.epoch} is decided, but {count} could not be ended ({name}: {error.name}: "
                f"{error}); they are when the query is started again"
            )
        raise PipelineError(
            f"kt sink: epoch {decision.epoch} was decided, but {count} were aborted before they were ended ({name}: "
            f"{error.name}): the driver was away for longer than transaction.timeout.ms. Their records are not in the "
            f"topic. To write the epoch again, with what is committed of it twice, delete the group {self.names.group}"
        )

    def _await_markers(self, admin: AdminClient, transactions: Sequence[PreparedTransaction]) -> None:
        """Until readers see what is committed: a second end is answered when the markers of the first are written."""
        for name, error in end_transactions(admin, transactions, commit=True).items():
            _log.info("Whether readers see the transaction %s is not known: %s", name, error)

    def _end_of_others(self, admin: AdminClient, decision: Decision) -> None:
        """What another query with this sinkId decided last, in case it never came to end it."""
        for name, error in end_transactions(admin, decision.transactions, commit=True).items():
            _log.info("The transaction %s of another query ended before: %s", name, error)

    def _abort_others(
        self, admin: AdminClient, decided: Sequence[PreparedTransaction], driver: str | None = None
    ) -> None:
        """Aborts what nobody decided for. With `driver` only what was begun before that one decided: later ones may be
        a newer driver's, for the next epoch. What fails here is tried again behind the next decision."""
        kept = {one.transactional_id for one in decided}
        try:
            listed = list_transactions(admin, states=(_ONGOING,)).transactions
            names = {one.transactional_id for one in listed if self.names.is_task(one.transactional_id)} - kept
            if not names:
                return
            described = describe_transactions(admin, names if driver is None else {*names, driver})
        except KafkaError as error:
            _log.warning("Open transactions of sink %s could not be listed: %s", self.names.sink_id, error)
            return
        found = {name: one for name, one in described.items() if isinstance(one, TransactionDescription)}
        decided_ms = None if driver is None or driver not in found else found[driver].start_ms
        version = decided[0].transaction_version
        left = [
            PreparedTransaction(name, one.producer_id, one.producer_epoch, version)
            for name, one in found.items()
            if name in names and one.state == _ONGOING and _is_before(one.start_ms, decided_ms, driver is None)
        ]
        self._end(admin, left)

    def _end(self, admin: AdminClient, transactions: Sequence[PreparedTransaction]) -> None:
        """Aborts transactions that are nobody's; one that ended by itself is fine."""
        for name, error in end_transactions(admin, transactions, commit=False).items():
            if error.name not in _LOST:
                _log.warning("The transaction %s could not be aborted: %s", name, error)

    def _end_late_tasks(self, admin: AdminClient, run: str, parity: str = "[01]") -> None:
        """Ends what the tasks of a failed run have open that told nothing. Spark tells them to stop and goes on; some
        write until they are killed, and nobody would end their transactions before transaction.timeout.ms."""
        until_ms = admin.deadline_ms(LATE_TASKS_MS)
        try:
            while True:
                for name in [one.transactional_id for one in list_transactions(admin, states=(_ONGOING,)).transactions]:
                    error = force_terminate(admin, name) if self.names.is_task(name, run, parity) else None
                    if error is not None:
                        _log.warning("The transaction %s could not be aborted: %s", name, error)
                if admin.left_ms(until_ms) == 0:
                    return
                admin.clock.sleep_ms(min(admin.left_ms(until_ms), _LOOK_AGAIN_MS))
        except KafkaError as error:
            _log.warning("Open transactions of sink %s could not be listed: %s", self.names.sink_id, error)


def _is_before(start_ms: int | None, decided_ms: int | None, is_always: bool) -> bool:
    """Times are the brokers'."""
    return is_always or (start_ms is not None and decided_ms is not None and start_ms <= decided_ms)
