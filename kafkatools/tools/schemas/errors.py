"""The errors of schemas and schema registries; their messages are one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafkatools.exit_status import CommandError


class SchemaError(CommandError):
    """A schema is invalid, unknown or refused by the registry."""


class RegistryFailed(SchemaError):
    """The schema registry does not answer, denies access, or is not a schema registry: other requests would fail
    too. `is_temporary`: it does not answer, or answers that it cannot answer now (408, 429,
    500 to 599)."""

    is_temporary = False


@contextmanager
def reading_reply(url: str) -> Iterator[None]:
    """Raise RegistryFailed if JSON lacks a field that is read in this context."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError):
        raise RegistryFailed(f"{url} answers with JSON that a schema registry does not send") from None


class InvalidValue(Exception):
    """A JSON value that its schema does not allow; `place` is the path of the field in it."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place

    def __str__(self) -> str:
        place = self.place.removeprefix(".")
        return f"field {place}: {self.message}" if place else self.message

    def inside(self, step: str) -> InvalidValue:
        """Return this error with an outer step prepended to its place."""
        return InvalidValue(self.message, step + self.place)
