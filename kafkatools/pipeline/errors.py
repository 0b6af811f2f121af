"""The exception that `kt pipeline` prints as one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafkatools.core.errors import ConnectionFailed, RequestTimedOut, Timeout
from kafkatools.tools.schemas.errors import SchemaError


class PipelineError(Exception):
    """A source, sink, query or job failed; the message is one line that names the cause."""


def unreachable_brokers_hint(error: Exception, settings: Mapping[str, str]) -> str:
    """Return the end of an error message that names the brokers of a client's settings, if the error says that they did
    not answer; else an empty text."""
    if not isinstance(error, (Timeout, ConnectionFailed, RequestTimedOut)):
        return ""
    return f" (check that the brokers of {settings['bootstrap.servers']} run and can be reached from here)"


@contextmanager
def schema_failures() -> Iterator[None]:
    """Raise a SchemaError of this context as PipelineError."""
    try:
        yield
    except SchemaError as error:
        raise PipelineError(str(error)) from error
