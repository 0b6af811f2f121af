"""Identity of a sink's write task, and the transaction it prepared."""

from __future__ import annotations

from typing import NamedTuple

from kafkatools.core.prepared_transaction import PreparedTransaction


class TaskPlace(NamedTuple):
    """Identity of a task attempt: query, run, epoch, partition and attempt number. `query_id` belongs to the
    checkpoint, `run` to one start of the query. A batch job has its run as both, and epoch 0."""

    query_id: str
    run: str
    epoch: int
    partition: int
    attempt: int


class PreparedTask(NamedTuple):
    """A task that has flushed its rows: its prepared transaction, and one of the topics it wrote to."""

    place: TaskPlace
    transaction: PreparedTransaction
    topic: str
