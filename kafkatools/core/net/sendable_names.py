"""Names that no request can hold. They are refused where a caller passes them: a request for metadata with such a name
would fail for all other topics too."""

from __future__ import annotations

from kafkatools.core.errors import InvalidGroupId, InvalidTopic
from kafkatools.core.protocol.definitions import MAX_STRING_BYTES


def ensure_sendable_topic(name: str) -> None:
    """Raise InvalidTopic for the name of a topic that no request can hold, UnicodeEncodeError for lone surrogates."""
    if size := _excessive_size(name):
        raise InvalidTopic(_refusal("topic", size))


def ensure_sendable_group(name: str) -> None:
    """Raise InvalidGroupId for the id of a group that no request can hold, UnicodeEncodeError for lone surrogates."""
    if size := _excessive_size(name):
        raise InvalidGroupId(_refusal("group", size))


def _excessive_size(name: str) -> int:
    size = len(name.encode())
    return size if size > MAX_STRING_BYTES else 0


def _refusal(kind: str, size: int) -> str:
    return f"The name of the {kind} has {size:,} bytes; a text in a request has at most {MAX_STRING_BYTES:,}"
