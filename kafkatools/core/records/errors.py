"""Errors that readers of every record format raise."""

from __future__ import annotations

from typing import ClassVar

from kafkatools.core.errors import CorruptRecord


class InvalidBatchContents(CorruptRecord):
    """The records inside a batch are not what its header says (InvalidRecordException)."""

    code: ClassVar[int] = 87
    name: ClassVar[str] = "INVALID_RECORD"
    retriable: ClassVar[bool] = False
