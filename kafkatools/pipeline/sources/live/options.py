"""The options of `kt` as a source, read and checked: those of Spark's Kafka source, and a few more.

Rules: names are matched whatever their case. Every refusal names the option and says what it takes. Nothing here asks a
cluster. What Spark's source prefers is preferred here: a timestamp over timestamps by partition over offsets. Settings
of the client come as `kafka.<name>`; one that our client does not know is passed over with a warning, as Kafka does.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from kafkatools.core import config as tables
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.record_bounds import RecordBounds

_log = logging.getLogger(__name__)

EARLIEST = -2
LATEST = -1
_MAX_LONG = (1 << 63) - 1
_MAX_INT = (1 << 31) - 1

_STRATEGIES = ("assign", "subscribe", "subscribePattern")
_ONLY_BATCH = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
COMMON_NAMES = (
    *_STRATEGIES,
    *_ONLY_BATCH,
    "bounds",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "includeMetadata",
    "isolationLevel",
    "minPartitions",
    "pushFilters",
    "reportPath",
    "strict",
)
"""Options that `kafka-log` has, too."""

_NAMES = (
    *COMMON_NAMES,
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",  # nothing here joins a group
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
)
_BY_LOWER = {name.lower(): name for name in _NAMES}
_NOT_FOR_SOURCES = {
    "auto.offset.reset": "startingOffsets says where to start",
    "key.deserializer": "keys are bytes; decode them with SQL",
    "value.deserializer": "values are bytes; decode them with SQL",
    "enable.auto.commit": "a source commits nothing",
    "interceptor.classes": "a source has no interceptors",
}
# What is fetched at once: as much as a broker gives, so that the columns of many batches are made in one go.
_FETCH_DEFAULTS = {"max.partition.fetch.bytes": "8388608", "receive.buffer.bytes": "-1"}
_PREFIX = "kafka."

_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE = '{"topicA":{"0":1700000000000,"1":1700000000000}}'
_ASSIGN_EXAMPLE = '{"topicA":[0,1],"topicB":[2,4]}'
_TIME_UNITS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}

Offsets = Mapping[TopicPartition, int]
_Read = TypeVar("_Read")


class Wanted(NamedTuple):
    """Which partitions: exactly one of the three is given, as the option of that name."""

    option: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()


class Limit(NamedTuple):
    """Where to start or end. `option` said so; exactly one of the others is there. `everywhere`: EARLIEST or LATEST."""

    option: str
    everywhere: int | None = None
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None


@dataclass(frozen=True)
class SourceOptions:
    """All that was asked for, checked as far as that goes without a cluster; it can be pickled."""

    wanted: Wanted
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
    is_strict: bool = True
    bounds: RecordBounds = RecordBounds()
    pushes_filters: bool = False

    @property
    def is_committed_only(self) -> bool:
        return self.settings.get("isolation.level") == "read_committed"


def is_set(options: Mapping[str, str], name: str) -> bool:
    """A boolean option on its own, for what is asked before everything is checked; False when it is not given."""
    return GivenOptions(options).boolean(name, False)


def read_options(options: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    """Checks the options. Raises PipelineError, one line that names the option."""
    given = GivenOptions(options)
    given.refuse_unknown()
    if is_streaming:
        given.refuse(_ONLY_BATCH, "is for batch queries: a stream has no end")
    starting = given.limit("starting", LATEST if is_streaming else EARLIEST)
    ending = given.limit("ending", LATEST)
    if not is_streaming:
        _check_batch(starting, ending)
    smallest, largest = given.number("minOffsetsPerTrigger"), given.number("maxOffsetsPerTrigger")
    if smallest is not None and largest is not None and smallest > largest:
        raise PipelineError(f"minOffsetsPerTrigger ({smallest}) is higher than maxOffsetsPerTrigger ({largest})")
    return SourceOptions(
        given.wanted(),
        starting,
        ending,
        given.settings(),
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        latest_without_match=given.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        include_headers=given.boolean("includeHeaders", False),
        include_metadata=given.boolean("includeMetadata", False),
        min_partitions=given.number("minPartitions", most=_MAX_INT),
        max_records_per_partition=given.number("maxRecordsPerPartition"),
        max_offsets_per_trigger=largest,
        min_offsets_per_trigger=smallest,
        max_trigger_delay_ms=given.duration_ms("maxTriggerDelay", 900_000),
        poll_timeout_ms=given.number("kafkaConsumer.pollTimeoutMs") or 120_000,
        fetch_retries=given.number("fetchOffset.numRetries") or 3,
        retry_interval_ms=given.duration_ms("fetchOffset.retryIntervalMs", 1000),
        report_path=given.text("reportPath"),
        # without a report damage would vanish
        is_strict=not given.has("reportPath") or given.boolean("strict", False),
        bounds=given.bounds(),
        pushes_filters=given.boolean("pushFilters", False),
    )


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
        odd = sorted(starts.keys() ^ ends.keys())[0]
        lacking = start_option if odd in ends else end_option
        raise PipelineError(f"{start_option} and {end_option} name different partitions: {odd} is not in {lacking}")
    for part, start in starts.items():
        if start > ends[part] >= 0:
            raise PipelineError(f"{start_option} for {part} ({start}) lies behind {end_option} ({ends[part]})")


def nearest(name: str, by_lower: Mapping[str, str]) -> str:
    """A hint that names the option that a misspelt one may have meant, or nothing."""
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""


class GivenOptions:
    """The options by the names they have here."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {str(name).lower(): str(value) for name, value in options.items() if value is not None}

    def has(self, name: str) -> bool:
        return name.lower() in self._options

    def text(self, name: str) -> str | None:
        value = self._options.get(name.lower())
        return None if value is None else value.strip()

    def bounds(self) -> RecordBounds:
        """What else limits the records; that Spark applies the filters as well is for the caller to see to."""
        try:
            return RecordBounds.from_text(self.text("bounds") or "{}")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PipelineError(f"bounds: {self.text('bounds')} is not what a query hands to its source") from None

    def refuse_unknown(self) -> None:
        for name in self._options:
            if name in _BY_LOWER or name.startswith(_PREFIX):
                continue
            raise PipelineError(f"kt has no option {name} for reading{nearest(name, _BY_LOWER)}")

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        for name in names:
            if self.has(name):
                raise PipelineError(f"{name} {why}")

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise PipelineError(f"{name} is true or false, not {text!r}")
        return text.lower() == "true"

    def number(self, name: str, least: int = 1, most: int = _MAX_LONG) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        number = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else None
        if number is None or not least <= number <= most:
            raise PipelineError(f"{name} is a whole number from {least} on, not {text!r}")
        return number

    def duration_ms(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        match = re.fullmatch(r"([0-9]+)\s*([a-z]*)", text.lower())
        if match is None or match[2] not in _TIME_UNITS:
            raise PipelineError(f"{name} is a time such as 500ms, 30s or 15m, not {text!r}")
        return int(int(match[1]) * _TIME_UNITS[match[2]])

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        text = (self.text(name) or choices[0]).lower()
        if text not in choices:
            raise PipelineError(f"{name} is one of {', '.join(choices)}, not {text!r}")
        return text

    # --- what to read

    def wanted(self) -> Wanted:
        named = [name for name in _STRATEGIES if self.has(name)]
        if len(named) != 1:
            given = f"not {' and '.join(named)}" if named else "none is given"
            raise PipelineError(f"Exactly one of the options subscribe, subscribePattern and assign is needed, {given}")
        option = named[0]
        text = self.text(option) or ""
        if option == "assign":
            return Wanted(option, partitions=_partitions(text))
        if option == "subscribe":
            topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
            if not topics:
                raise PipelineError(f"subscribe names no topic: {text!r}")
            return Wanted(option, topics=topics)
        _check_pattern(text)
        return Wanted(option, pattern=text)

    def limit(self, which: str, default: int) -> Limit:
        option = f"{which}Timestamp"
        if self.has(option):
            number = self.number(option, least=0)
            return Limit(option, timestamp_ms=number)
        option = f"{which}OffsetsByTimestamp"
        text = self.text(option)
        if text is not None:
            return Limit(option, timestamps_ms=_by_partition(option, text, _TIMES_EXAMPLE, least=0))
        option = f"{which}Offsets"
        text = self.text(option)
        if text is None:
            return Limit(option, everywhere=default)
        words = {"earliest": EARLIEST, "latest": LATEST}
        if text.lower() in words:
            return Limit(option, everywhere=words[text.lower()])
        return Limit(option, offsets=_by_partition(option, text, f"earliest, latest or {_OFFSETS_EXAMPLE}", EARLIEST))

    def settings(self) -> dict[str, str]:
        found = {name[len(_PREFIX) :]: value for name, value in self._options.items() if name.startswith(_PREFIX)}
        for name, why in _NOT_FOR_SOURCES.items():
            if name in found:
                raise PipelineError(f"kafka.{name} cannot be set for a source: {why}")
        if not found.get("bootstrap.servers", "").strip():
            raise PipelineError("kafka.bootstrap.servers is needed: host:port of one or more brokers")
        if self.has("isolationLevel"):
            found["isolation.level"] = self.choice("isolationLevel", ("read_uncommitted", "read_committed"))
        try:
            unknown = Config(tables.CONSUMER, found, allow_unknown=True).unknown
        except ConfigError as error:
            raise PipelineError(f"kafka.*: {error}") from error
        for name in unknown:
            _log.warning("kafka.%s is no setting of this client and has no effect", name)
        known = {name: value for name, value in found.items() if name not in unknown}
        known.pop("group.id", None)  # nothing joins a group
        return _FETCH_DEFAULTS | known


def _check_pattern(text: str) -> None:
    from kafkatools.core.java.patterns import java_pattern

    if not text:
        raise PipelineError("subscribePattern is empty")
    try:
        java_pattern(text)
    except re.error as error:
        raise PipelineError(f"subscribePattern {text!r} is no regular expression: {error}") from error


def _partitions(text: str) -> tuple[TopicPartition, ...]:
    def read(value: Mapping[str, Sequence[int]]) -> tuple[TopicPartition, ...]:
        found = [TopicPartition(topic, part) for topic, parts in value.items() for part in parts]
        if not found or not all(type(part.partition) is int and 0 <= part.partition <= _MAX_INT for part in found):
            raise ValueError
        return tuple(dict.fromkeys(found))

    return _json("assign", text, _ASSIGN_EXAMPLE, read)


def _by_partition(option: str, text: str, example: str, least: int) -> dict[TopicPartition, int]:
    def read(value: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
        found = {
            TopicPartition(topic, int(part)): number for topic, parts in value.items() for part, number in parts.items()
        }
        if not all(type(number) is int and least <= number <= _MAX_LONG for number in found.values()):
            raise ValueError
        if not found or not all(0 <= part.partition <= _MAX_INT for part in found):
            raise ValueError
        return found

    return _json(option, text, example, read)


def _json(option: str, text: str, example: str, read: Callable[[Any], _Read]) -> _Read:
    try:
        return read(json.loads(text))
    except (ValueError, AttributeError, TypeError):
        raise PipelineError(f"{option} is {example}, not {text!r}") from None
