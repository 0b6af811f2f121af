"""Errors of malformed or unknown records of internal topics."""

from __future__ import annotations


class RecordFormatError(ValueError):
    """The bytes are not a record of the expected schema."""


class UnknownRecordType(RecordFormatError):
    """A record has an unknown type; `type_id` is its number."""

    def __init__(self, type_id: int, message: str = "") -> None:
        super().__init__(message or f"Found an unknown record type {type_id}")
        self.type_id = type_id
