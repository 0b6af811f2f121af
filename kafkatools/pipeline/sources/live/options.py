"""Options of the `kt` source: those of Spark's Kafka source, and a few more.

Rules: option names are case-insensitive. Each error names the option and its valid values. Nothing here queries a
cluster. Precedence is as in Spark's source: one timestamp, then timestamps by partition, then offsets. Client settings
are options `kafka.<name>`. A program that has run with Spark's source must run here: unknown options and those without
an effect are a warning, or with strictOptions=true an error.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from kafkatools.core import config as tables
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError
from kafkatools.core.java.patterns import java_pattern
from kafkatools.core.json_texts import parse_json
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.record_bounds import RecordBounds
from kafkatools.pipeline.uris import topic_names

_log = logging.getLogger(__name__)

EARLIEST = -2
LATEST = -1
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
_MAX_LONG = (1 << 63) - 1
_MAX_INT = (1 << 31) - 1

STRICT_OPTIONS = "strictOptions"
"""The option that turns warnings about options into errors."""

_STRATEGIES = ("assign", "subscribe", "subscribePattern")
_ONLY_BATCH = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_REFUSED_IN_STREAMS = ("endingOffsets", "endingOffsetsByTimestamp")  # as by Spark's source
_ONLY_STREAM = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
COMMON_NAMES = (
    *_STRATEGIES, *_ONLY_BATCH, "bounds", "decodeRecords", "startingOffsets", "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "startingTimestamp", "failOnDataLoss", "includeHeaders", "includeMetadata",
    "isolationLevel", "minPartitions", "pushFilters", "reportPath", "requireReports", "strict",
    STRICT_OPTIONS,
)  # fmt: skip
"""Options of both `kt` and `kafka-log`."""

_NAMES = (
    *COMMON_NAMES, *_ONLY_STREAM, "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs", "maxRecordsPerPartition", "sourceName",
)  # fmt: skip
_NO_GROUP = "the source reads without a consumer group"
_BY_LOWER = {name.lower(): name for name in _NAMES}
_NOT_FOR_SOURCES = {
    "auto.offset.reset": "use startingOffsets",
    "key.deserializer": "keys are bytes; decode them with SQL",
    "value.deserializer": "values are bytes; decode them with SQL",
    "enable.auto.commit": "a source does not commit offsets",
    "interceptor.classes": "a source has no interceptors",
}
# Fetch as much as a broker returns at once, so that the columns of many batches are built together.
_FETCH_DEFAULTS = {"max.partition.fetch.bytes": "8388608", "receive.buffer.bytes": "-1"}
_PREFIX = "kafka."

_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE = '{"topicA":{"0":1700000000000,"1":1700000000000}}'
_ASSIGN_EXAMPLE = '{"topicA":[0,1],"topicB":[2,4]}'
_TIME_UNITS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}

Offsets = Mapping[TopicPartition, int]
_Read = TypeVar("_Read")


class Subscription(NamedTuple):
    """The partitions to read: topic names, a topic pattern or partitions, according to `option`, the one that was
    set."""

    option: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()


class Limit(NamedTuple):
    """The start or end of reading, as set by `option`; exactly one other field is set. `everywhere` is EARLIEST or
    LATEST; timestamps are epoch ms, or EARLIEST or LATEST."""

    option: str
    everywhere: int | None = None
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None


@dataclass(frozen=True)
class SourceOptions:
    """The parsed options of a `kt` source, checked without querying the cluster; can be pickled."""

    subscription: Subscription
    starting: Limit
    ending: Limit
    settings: Mapping[str, str] = field(repr=False)
    fail_on_data_loss: bool = True
    latest_without_match: bool = False
    include_headers: bool = False
    include_metadata: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    poll_timeout_ms: int = 120_000
    fetch_retries: int = 3
    retry_interval_ms: int = 1000
    report_path: str | None = None
    requires_reports: bool = True
    is_strict: bool = True
    decodes_records: bool = True
    bounds: RecordBounds = RecordBounds()
    pushes_filters: bool = False
    has_strict_options: bool = False
    source_name: str | None = None

    @property
    def is_committed_only(self) -> bool:
        """Return whether the isolation level is read_committed."""
        return self.settings.get("isolation.level") == "read_committed"


def is_set(options: Mapping[str, str], name: str) -> bool:
    """Return the value of a single Boolean option, False if not set. Raises PipelineError for another value than true
    or false."""
    return OptionReader(options).boolean(name, False)


def read_options(options: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    """Parse and check the options of a `kt` source. A stream starts at the latest offsets by default and accepts no
    end; a batch query starts at the earliest. Without reportPath the source is strict, whatever the option `strict`
    says.

    Logs a warning for each option and `kafka.*` setting that is unknown or has no effect. Raises PipelineError that
    names the option, with strictOptions=true also for unknown ones.
    """
    values = OptionReader(options)
    has_strict_options = values.boolean(STRICT_OPTIONS, False)
    warnings = OptionWarnings("kt", is_strict=has_strict_options)
    _check_names(values, warnings, is_streaming=is_streaming)
    subscription = values.subscription()
    if subscription is None:
        raise PipelineError("One of the options subscribe, subscribePattern and assign is required")
    # brokers take -1 and -2 for the latest and the earliest offset, so Spark's source accepts them as timestamps
    starting = values.limit("starting", LATEST if is_streaming else EARLIEST, EARLIEST)
    ending = values.limit("ending", LATEST, EARLIEST)
    if not is_streaming:
        _check_batch(starting, ending)
    smallest, largest = values.number("minOffsetsPerTrigger"), values.number("maxOffsetsPerTrigger")
    if smallest is not None and largest is not None and smallest > largest:
        raise PipelineError(f"minOffsetsPerTrigger ({smallest}) is higher than maxOffsetsPerTrigger ({largest})")
    return SourceOptions(
        subscription,
        starting,
        ending,
        values.settings(warnings),
        fail_on_data_loss=values.boolean("failOnDataLoss", True),
        latest_without_match=values.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        include_headers=values.boolean("includeHeaders", False),
        include_metadata=values.boolean("includeMetadata", False),
        min_partitions=values.number("minPartitions", maximum=_MAX_INT),
        max_records_per_partition=values.number("maxRecordsPerPartition"),
        max_offsets_per_trigger=largest,
        min_offsets_per_trigger=smallest,
        max_trigger_delay_ms=values.duration_ms("maxTriggerDelay", 900_000),
        poll_timeout_ms=values.duration_ms("kafkaConsumer.pollTimeoutMs", 120_000, minimum=1),
        fetch_retries=_fetch_retries(values),
        retry_interval_ms=values.duration_ms("fetchOffset.retryIntervalMs", 1000),
        report_path=values.text("reportPath"),
        requires_reports=values.boolean("requireReports", True),
        # without a report, damage would go unnoticed
        is_strict=not values.has("reportPath") or values.boolean("strict", False),
        decodes_records=values.boolean("decodeRecords", values.boolean("strict", False)),
        bounds=values.bounds(),
        pushes_filters=values.boolean("pushFilters", False),
        has_strict_options=has_strict_options,
        source_name=values.text("sourceName"),
    )


def _fetch_retries(values: OptionReader) -> int:
    retries = values.number("fetchOffset.numRetries", minimum=0)
    return 3 if retries is None else max(retries, 1)


def _check_names(values: OptionReader, warnings: OptionWarnings, *, is_streaming: bool) -> None:
    for name in values.unknown(_BY_LOWER):
        warnings.unknown(f"kt has no option {name} for reading", nearest(name, _BY_LOWER))
    for name in _REFUSED_IN_STREAMS if is_streaming else ():
        if values.has(name):
            raise PipelineError(f"{name} is for batch queries: a stream has no end")
    reasons = dict.fromkeys(("groupIdPrefix", "kafka.group.id"), _NO_GROUP)
    if is_streaming:
        reasons["endingTimestamp"] = "a stream has no end"
    else:
        reasons |= dict.fromkeys(_ONLY_STREAM, "a batch query has no triggers")
    for name, reason in reasons.items():
        if values.has(name):
            warnings.no_effect(name, reason)


def _check_batch(starting: Limit, ending: Limit) -> None:
    if starting.everywhere == LATEST:
        raise PipelineError("startingOffsets cannot be latest in a batch query: there would be nothing to read")
    if ending.everywhere == EARLIEST:
        raise PipelineError("endingOffsets cannot be earliest in a batch query: there would be nothing to read")
    for part, offset in (starting.offsets or {}).items():
        if offset == LATEST:
            raise PipelineError(f"startingOffsets for {part} cannot be latest (-1) in a batch query")
    for part, offset in (ending.offsets or {}).items():
        if offset == EARLIEST:
            raise PipelineError(f"endingOffsets for {part} cannot be earliest (-2) in a batch query")
    _check_order(starting.option, starting.offsets, ending.option, ending.offsets)
    _check_order(starting.option, starting.timestamps_ms, ending.option, ending.timestamps_ms)


def _check_order(start_option: str, starts: Offsets | None, end_option: str, ends: Offsets | None) -> None:
    if starts is None or ends is None:
        return
    if starts.keys() != ends.keys():
        part = min(starts.keys() ^ ends.keys())
        option = start_option if part in ends else end_option
        raise PipelineError(f"{start_option} and {end_option} name different partitions: {part} is not in {option}")
    for part, start in starts.items():
        if start > ends[part] >= 0:
            raise PipelineError(f"{start_option} for {part} ({start}) is after {end_option} ({ends[part]})")


def nearest(name: str, by_lower: Mapping[str, str]) -> str:
    """Return the hint "; did you mean NAME?" for a misspelt option name; empty if no name is similar."""
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
    return f"; did you mean {by_lower[matches[0]]}?" if matches else ""


class OptionWarnings:
    """Reports unknown options and those without an effect: as warnings, which Spark's log has, or unknown ones as
    errors if strictOptions is true."""

    def __init__(self, source: str, *, is_strict: bool) -> None:
        self._source = source
        self._is_strict = is_strict

    def unknown(self, message: str, hint: str = "") -> None:
        """Report an unknown option or setting. Raises PipelineError if strict."""
        if self._is_strict:
            raise PipelineError(f"{message}{hint}")
        _log.warning("%s; it has no effect%s (%s=true refuses it)", message, hint, STRICT_OPTIONS)

    def no_effect(self, name: str, reason: str) -> None:
        """Report an option of Spark's Kafka source or sink that has no effect here."""
        _log.warning("%s: the option %s has no effect: %s", self._source, name, reason)


class OptionReader:
    """Typed access to source options by case-insensitive names. The methods raise PipelineError for invalid values."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {str(name).lower(): str(value) for name, value in options.items() if value is not None}

    def has(self, name: str) -> bool:
        """Return whether the option is set."""
        return name.lower() in self._options

    def text(self, name: str) -> str | None:
        """Return the option's value without surrounding spaces; None if not set."""
        value = self._options.get(name.lower())
        return None if value is None else value.strip()

    def bounds(self) -> RecordBounds:
        """Return the bounds that `kt pipeline` passes to its sources; unrestricted if not set. Raises PipelineError for
        invalid text."""
        try:
            return RecordBounds.from_text(self.text("bounds") or "{}")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PipelineError(f"Invalid bounds {self.text('bounds')}: the option is for kt pipeline only") from None

    def unknown(self, by_lower: Mapping[str, str]) -> list[str]:
        """Return the options other than `kafka.*` that are not in `by_lower`, which maps lower-case names to names."""
        return [name for name in self._options if name not in by_lower and not name.startswith(_PREFIX)]

    def refuse_unknown(self, source: str, by_lower: Mapping[str, str]) -> None:
        """Raise PipelineError for an option that is not in `by_lower`, which maps lower-case names to names."""
        for name in self._options:
            if name not in by_lower:
                raise PipelineError(f"{source} has no option {name} for reading{nearest(name, by_lower)}")

    def boolean(self, name: str, default: bool) -> bool:
        """Return a Boolean option, `default` if not set. Raises PipelineError unless the value is true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise PipelineError(f"{name} must be true or false, not {text!r}")
        return text.lower() == "true"

    def number(self, name: str, minimum: int = 1, maximum: int = _MAX_LONG) -> int | None:
        """Return an integer option; None if not set. Raises PipelineError unless least <= value <= most."""
        text = self.text(name)
        if text is None:
            return None
        number = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None
        if number is None or not minimum <= number <= maximum:
            limit = f"of at least {minimum}" if maximum == _MAX_LONG else f"from {minimum} to {maximum}"
            raise PipelineError(f"{name} must be an integer {limit}, not {text!r}")
        return number

    def duration_ms(self, name: str, default: int, minimum: int = 0) -> int:
        """Return a duration such as 500ms, 30s or 15m in milliseconds, `default` if not set; a plain number is
        milliseconds. Raises PipelineError for other text, and for less than `minimum` milliseconds."""
        text = self.text(name)
        if text is None:
            return default
        match = re.fullmatch(r"([0-9]+)\s*([a-z]*)", text.lower())
        if match is None or match[2] not in _TIME_UNITS:
            raise PipelineError(f"{name} must be a duration such as 500ms, 30s or 15m, not {text!r}")
        duration = int(int(match[1]) * _TIME_UNITS[match[2]])
        if duration < minimum:
            raise PipelineError(f"{name} must be at least {minimum} ms, not {text!r}")
        return duration

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return an option with one of several values, in lower case; the first one if not set. Raises PipelineError
        for another value."""
        text = (self.text(name) or choices[0]).lower()
        if text not in choices:
            raise PipelineError(f"{name} must be one of {', '.join(choices)}, not {text!r}")
        return text

    # --- what to read

    def subscription(self) -> Subscription | None:
        """Return the partitions to read from the option subscribe, subscribePattern or assign; None if none is set.
        Raises PipelineError if several are set or the value is invalid."""
        options = [name for name in _STRATEGIES if self.has(name)]
        if not options:
            return None
        if len(options) > 1:
            raise PipelineError(f"The options {' and '.join(options)} cannot be used together")
        option = options[0]
        text = self.text(option) or ""
        if option == "assign":
            return Subscription(option, partitions=_partitions(text))
        if option == "subscribe":
            topics = topic_names(text)
            if not topics:
                raise PipelineError(f"subscribe names no topic: {text!r}")
            return Subscription(option, topics=topics)
        _check_pattern(text)
        return Subscription(option, pattern=text)

    def limit(self, which: str, default: int, earliest_ms: int = 0) -> Limit:
        """Return the limit from the options of `which` ("starting" or "ending"); `default` is EARLIEST or LATEST. A
        timestamp is `earliest_ms` or later. Raises PipelineError for an invalid value."""
        option = f"{which}Timestamp"
        if self.has(option):
            return Limit(option, timestamp_ms=self.number(option, minimum=earliest_ms))
        option = f"{which}OffsetsByTimestamp"
        text = self.text(option)
        if text is not None:
            return Limit(option, timestamps_ms=_by_partition(option, text, _TIMES_EXAMPLE, earliest_ms))
        option = f"{which}Offsets"
        text = self.text(option)
        if text is None:
            return Limit(option, everywhere=default)
        everywhere = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
        if everywhere is not None:
            return Limit(option, everywhere=everywhere)
        return Limit(option, offsets=_by_partition(option, text, f"earliest, latest or {_OFFSETS_EXAMPLE}", EARLIEST))

    def settings(self, warnings: OptionWarnings) -> dict[str, str]:
        """Return the consumer settings from the `kafka.*` options and isolationLevel, with larger fetches by default.
        Unknown settings are dropped with a warning, group.id without one. Raises PipelineError for a missing or invalid
        setting, and for an unknown one if `warnings` are strict."""
        settings = {name[len(_PREFIX) :]: value for name, value in self._options.items() if name.startswith(_PREFIX)}
        for name, reason in _NOT_FOR_SOURCES.items():
            if name in settings:
                raise PipelineError(f"kafka.{name} cannot be set for a source: {reason}")
        if not settings.get("bootstrap.servers", "").strip():
            raise PipelineError("kafka.bootstrap.servers is required: host:port of one or more brokers")
        if self.has("isolationLevel"):
            settings["isolation.level"] = self.choice("isolationLevel", ISOLATION_LEVELS)
        try:
            unknown = Config(tables.CONSUMER, settings, allow_unknown=True).unknown
        except ConfigError as error:
            raise PipelineError(f"kafka.*: {error}") from error
        for name in unknown:
            if name not in tables.PRODUCER and name not in tables.ADMIN:  # options are often shared with a sink
                warnings.unknown(f"kafka.{name} is not a setting of this client")
            del settings[name]
        settings.pop("group.id", None)  # nothing joins a group
        return _FETCH_DEFAULTS | settings


def _check_pattern(text: str) -> None:
    if not text:
        raise PipelineError("subscribePattern is empty")
    try:
        java_pattern(text)
    except re.error as error:
        raise PipelineError(f"subscribePattern {text!r} is not a valid regular expression: {error}") from error


def _partitions(text: str) -> tuple[TopicPartition, ...]:
    def read(value: Mapping[str, Sequence[int]]) -> tuple[TopicPartition, ...]:
        parts = [TopicPartition(topic, number) for topic, numbers in value.items() for number in numbers]
        if not parts or not all(type(part.partition) is int and 0 <= part.partition <= _MAX_INT for part in parts):
            raise ValueError
        return tuple(dict.fromkeys(parts))

    return _json("assign", text, _ASSIGN_EXAMPLE, read)


def _by_partition(option: str, text: str, example: str, least: int) -> dict[TopicPartition, int]:
    def read(value: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
        numbers = {
            TopicPartition(topic, int(part)): number for topic, parts in value.items() for part, number in parts.items()
        }
        if not all(type(number) is int and least <= number <= _MAX_LONG for number in numbers.values()):
            raise ValueError
        if not numbers or not all(0 <= part.partition <= _MAX_INT for part in numbers):
            raise ValueError
        return numbers

    return _json(option, text, example, read)


def _json(option: str, text: str, example: str, read: Callable[[Any], _Read]) -> _Read:
    try:
        return read(parse_json(text))
    except (ValueError, AttributeError, TypeError):
        raise PipelineError(f"{option} must be like {example}, not {text!r}") from None
