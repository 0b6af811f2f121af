"""What can be wrong with the bytes of a record."""

from __future__ import annotations


class RecordFormatError(ValueError):
    """Bytes that are not a record of the expected schema."""


class UnknownRecordType(RecordFormatError):
    """A record key of a type this table does not have; `type_id` is what was found."""

    def __init__(self, type_id: int, message: str = "") -> None:
        super().__init__(message or f"Found an unknown record type {type_id}")
        self.type_id = type_id
