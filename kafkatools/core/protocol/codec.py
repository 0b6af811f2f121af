"""The message codec, compiled or plain as `_choose_kernel` decides: import it from here."""

from __future__ import annotations

from kafkatools.core.records import _choose_kernel as _choose_kernel  # before the module that it chooses

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
