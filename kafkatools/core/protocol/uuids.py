"""Kafka's Uuid: 16 bytes, written as 22 characters of URL-safe base64 without padding.

Rules: None stands for the zero id in text; an id that begins with a dash is never made, since a command line would
take it for an option (org.apache.kafka.common.Uuid).
"""

from __future__ import annotations

import uuid
from base64 import b64decode, urlsafe_b64encode

UUID_ZERO = uuid.UUID(int=0)
METADATA_TOPIC_ID = uuid.UUID(int=1)


def random_uuid() -> uuid.UUID:
    """A random id (version 4), neither reserved nor with a leading dash (Uuid.randomUuid)."""
    while True:
        made = uuid.uuid4()
        if not uuid_text(made).startswith("-"):
            return made


def uuid_text(value: uuid.UUID | None) -> str:
    """The 22 characters."""
    raw = bytes(16) if value is None else value.bytes
    return urlsafe_b64encode(raw)[:22].decode()


def uuid_from_text(text: str) -> uuid.UUID:
    """The id that Kafka writes so (Uuid.fromString). Raises ValueError in its words."""
    if len(text) > 24:
        raise ValueError(f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID")
    try:
        data = b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise ValueError(f"Input string `{text}` is not a base64-encoded UUID") from None
    if len(data) != 16:
        problem = f"decoded as {len(data)} bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID"
        raise ValueError(f"Input string `{text}` {problem}")
    return uuid.UUID(bytes=data)
