"""OpenTelemetry spans of producers and consumers, with trace contexts in record headers.

    from kafkatools.tracing import KafkatoolsInstrumentor, process

    KafkatoolsInstrumentor().instrument()

Needs the extra `opentelemetry`. No other module imports this one, so a program without it pays nothing. The guide is
docs/observability.md.
"""

from kafkatools.core.install_command import install_command

try:
    import opentelemetry.instrumentation as _instrumentation  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        f"kafkatools.tracing needs the Python package opentelemetry-instrumentation: {install_command('opentelemetry')}"
    ) from error

from kafkatools.tracing.instrumentor import KafkatoolsInstrumentor as KafkatoolsInstrumentor
from kafkatools.tracing.instrumentor import instrument_consumer as instrument_consumer
from kafkatools.tracing.instrumentor import instrument_producer as instrument_producer
from kafkatools.tracing.instrumentor import process as process
from kafkatools.tracing.instrumentor import uninstrument_consumer as uninstrument_consumer
from kafkatools.tracing.instrumentor import uninstrument_producer as uninstrument_producer

__all__ = [
    "KafkatoolsInstrumentor",
    "instrument_consumer",
    "instrument_producer",
    "process",
    "uninstrument_consumer",
    "uninstrument_producer",
]
