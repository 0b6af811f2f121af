"""Errors of the readers of all message formats."""

from __future__ import annotations

from typing import ClassVar

from kafkatools.core.errors import CorruptRecord


class InvalidBatchContents(CorruptRecord):
    """The records of a batch contradict its header (Kafka's InvalidRecordException)."""

    code: ClassVar[int] = 87
    name: ClassVar[str] = "INVALID_RECORD"
    retriable: ClassVar[bool] = False
