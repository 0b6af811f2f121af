"""The exception that `kt pipeline` prints as one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafkatools.tools.schemas.errors import SchemaError


class PipelineError(Exception):
    """A source, sink, query or job failed; the message is one line that names the cause."""


@contextmanager
def schema_failures() -> Iterator[None]:
    """Raise a SchemaError of this context as PipelineError."""
    try:
        yield
    except SchemaError as error:
        raise PipelineError(str(error)) from error
