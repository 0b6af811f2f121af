"""Where a task of a sink stands, and what it has prepared."""

from __future__ import annotations

from typing import NamedTuple

from kafkatools.core.prepared_transaction import PreparedTransaction


class TaskPlace(NamedTuple):
    """Which attempt at which part of which epoch a task is. `query_id` is the checkpoint's, `run` the start's."""

    query_id: str
    run: str
    epoch: int
    partition: int
    attempt: int


class PreparedTask(NamedTuple):
    """A task that has written: its transaction, and a topic of it."""

    place: TaskPlace
    transaction: PreparedTransaction
    topic: str
