"""The exception that `kt pipeline` prints as one line."""

from __future__ import annotations


class PipelineError(Exception):
    """A source, sink, query or job failed; the message is one line that names the cause."""
