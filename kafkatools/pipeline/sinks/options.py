"""Options of the `kt` sink: `topic` (overrides the column), `kafka.*` (producer settings), `exactlyOnce`, `sinkId`,
`strictOptions`.

A program that has written with Spark's Kafka sink must run here: unknown options and settings are a warning, or with
strictOptions=true an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkatools.core import config
from kafkatools.core.config.client_settings import config_of
from kafkatools.core.errors import ConfigError
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live.options import STRICT_OPTIONS, OptionReader, OptionWarnings, nearest

KAFKA_PREFIX = "kafka."
_OPTIONS = {name.lower(): name for name in ("topic", "exactlyOnce", "sinkId", STRICT_OPTIONS)}
_OF_SPARK = {"checkpointlocation", "includeheaders", "path", "queryname"}  # ignored; headers are always written
_DEFAULTS = {"batch.size": "262144", "buffer.memory": "67108864"}
"""Rows arrive in large numbers: large batches take a tenth of the time and compress better."""

_RESERVED_SETTINGS = {
    "key.serializer": "keys are bytes or text",
    "value.serializer": "values are bytes or text",
    "partitioner.class": "the column `partition` determines the partition, else the key",
    "interceptor.classes": "rows are sent as columns, not as single records",
    "transactional.id": "the sink uses one for each task of a stream",
}


@dataclass(frozen=True)
class SinkOptions:
    """Parsed options of the `kt` sink, pickled and sent to the tasks. `exactly_once` is None if not specified."""

    topic: str | None
    producer: Mapping[str, str] = field(repr=False)
    exactly_once: bool | None = None
    sink_id: str | None = None
    is_strict: bool = False


def read_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of the `kt` sink. Logs a warning for each option and setting that is unknown. Raises
    PipelineError that names a missing or invalid option, with strictOptions=true also an unknown one."""
    values = {name.lower(): str(value) for name, value in options.items() if value is not None}
    producer = {
        name.removeprefix(KAFKA_PREFIX): value for name, value in values.items() if name.startswith(KAFKA_PREFIX)
    }
    is_strict = OptionReader(values).boolean(STRICT_OPTIONS, False)
    warnings = OptionWarnings("kt sink", is_strict=is_strict)
    for name in sorted(values.keys() - _OPTIONS.keys() - _OF_SPARK):
        if not name.startswith(KAFKA_PREFIX):
            own = ", ".join(_OPTIONS.values())
            hint = nearest(name, _OPTIONS) or f"; its options are {own} and kafka.*"
            warnings.unknown(f"kt sink: unknown option `{name}`", hint)
    _check_producer(producer, warnings)
    for name, option in (("topic", "topic"), ("sinkid", "sinkId")):
        if not values.get(name, "set").strip():
            raise PipelineError(f"kt sink: the option `{option}` is empty")
    exactly_once = None
    if "exactlyonce" in values:
        exactly_once = {"true": True, "false": False}.get(values["exactlyonce"].strip().lower())
        if exactly_once is None:
            raise PipelineError(
                f"kt sink: the option `exactlyOnce` must be true or false, not {values['exactlyonce']!r}"
            )
    if exactly_once and producer.get("enable.idempotence", "true").lower() == "false":
        raise PipelineError("kt sink: kafka.enable.idempotence=false and exactlyOnce=true contradict each other")
    topic = values["topic"].strip() if "topic" in values else None
    return SinkOptions(topic, {**_DEFAULTS, **producer}, exactly_once, values.get("sinkid"), is_strict)


def _check_producer(settings: dict[str, str], warnings: OptionWarnings) -> None:
    if not settings.get("bootstrap.servers"):
        raise PipelineError("kt sink: the option `kafka.bootstrap.servers` is missing")
    for name, reason in _RESERVED_SETTINGS.items():
        if name in settings:
            raise PipelineError(f"kt sink: the option `kafka.{name}` cannot be set: {reason}")
    for name in list(settings):
        if name not in config.PRODUCER:
            if name not in config.CONSUMER and name not in config.ADMIN:  # options are often shared with a source
                warnings.unknown(f"kt sink: kafka.*: {config.PRODUCER.unknown(name)}")
            del settings[name]
    try:
        config_of(config.PRODUCER, settings, {})
    except ConfigError as error:
        raise PipelineError(f"kt sink: kafka.*: {error}") from error
