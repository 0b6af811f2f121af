"""Options of the `kt` sink: `topic` (overrides the column), `kafka.*` (producer settings), `exactlyOnce`, `sinkId`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkatools.core import config
from kafkatools.core.config.client_settings import config_of
from kafkatools.core.errors import ConfigError
from kafkatools.pipeline.errors import PipelineError

KAFKA_PREFIX = "kafka."
_OPTIONS = {"topic", "exactlyonce", "sinkid"}
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


def read_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of the `kt` sink. Raises PipelineError that names the unknown, missing or invalid option."""
    values = {name.lower(): value for name, value in options.items()}
    producer = {
        name.removeprefix(KAFKA_PREFIX): value for name, value in values.items() if name.startswith(KAFKA_PREFIX)
    }
    unknown = sorted(name for name in values if not name.startswith(KAFKA_PREFIX) and name not in _OPTIONS | _OF_SPARK)
    if unknown:
        raise PipelineError(
            f"kt sink: unknown option `{unknown[0]}`; its options are topic, exactlyOnce, sinkId and kafka.*"
        )
    _check_producer(producer)
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
    return SinkOptions(topic, {**_DEFAULTS, **producer}, exactly_once, values.get("sinkid"))


def _check_producer(settings: dict[str, str]) -> None:
    if not settings.get("bootstrap.servers"):
        raise PipelineError("kt sink: the option `kafka.bootstrap.servers` is missing")
    for name, reason in _RESERVED_SETTINGS.items():
        if name in settings:
            raise PipelineError(f"kt sink: the option `kafka.{name}` cannot be set: {reason}")
    for name in list(settings):  # options are often shared with a source
        if name not in config.PRODUCER and (name in config.CONSUMER or name in config.ADMIN):
            del settings[name]
    try:
        config_of(config.PRODUCER, settings, {})
    except ConfigError as error:
        raise PipelineError(f"kt sink: kafka.*: {error}") from error
