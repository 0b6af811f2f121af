"""What the pipeline refuses, in words for people."""

from __future__ import annotations


class PipelineError(Exception):
    """A source, sink, query or job cannot do what was asked; the text is one line that names what is wrong."""
