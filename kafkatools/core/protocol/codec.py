"""The interpreter of the notation, compiled or plain: import it from here (see core/records/kernel.py)."""

from __future__ import annotations

from kafkatools.core.records import _choose_kernel as _choose_kernel  # before what it chooses

# isort: split
from kafkatools.core.protocol._codec import (
    ARRAY,
    COMPILED,
    KINDS,
    NO_LIMIT,
    NULLABLE,
    STRUCTURE,
    Layout,
    MalformedMessage,
    Reader,
    Shared,
    Writer,
)

__all__ = [
    "ARRAY",
    "COMPILED",
    "KINDS",
    "NO_LIMIT",
    "NULLABLE",
    "STRUCTURE",
    "Layout",
    "MalformedMessage",
    "Reader",
    "Shared",
    "Writer",
]
