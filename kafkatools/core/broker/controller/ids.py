"""Kafka's Uuid: 16 random bytes written as 22 characters of URL-safe base64; an id that begins with a dash is never
made."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode

METADATA_TOPIC_ID = uuid.UUID(int=1)


def random_id() -> uuid.UUID:
    """A random id, neither reserved nor with a leading dash (Uuid.randomUuid)."""
    while True:
        made = uuid.uuid4()
        if not to_text(made).startswith("-"):
            return made


def to_text(value: uuid.UUID) -> str:
    """The 22 characters."""
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def from_text(text: str) -> uuid.UUID:
    """The id of 22 characters; ValueError for anything else."""
    return uuid.UUID(bytes=urlsafe_b64decode(text + "=="))
