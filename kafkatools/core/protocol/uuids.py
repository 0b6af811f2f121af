"""Kafka's Uuid: 16 bytes, written as 22 characters of URL-safe base64 without padding (org.apache.kafka.common.Uuid).

None stands for the zero uuid. A new uuid never begins with a dash in text, because a command line would take it for an
option.
"""

from __future__ import annotations

import uuid
from base64 import b64decode, urlsafe_b64encode

UUID_ZERO = uuid.UUID(int=0)
METADATA_TOPIC_ID = uuid.UUID(int=1)


def random_uuid() -> uuid.UUID:
    """Return a random uuid (version 4) whose text does not begin with a dash (Uuid.randomUuid)."""
    while True:
        value = uuid.uuid4()
        if not uuid_text(value).startswith("-"):
            return value


def uuid_text(value: uuid.UUID | None) -> str:
    """Return a uuid as Kafka's 22 characters of base64. None gives the zero uuid."""
    raw = bytes(16) if value is None else value.bytes
    return urlsafe_b64encode(raw)[:22].decode()


def uuid_from_text(text: str) -> uuid.UUID:
    """Parse Kafka's base64 text of a uuid (Uuid.fromString). Raises ValueError with Kafka's message."""
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
