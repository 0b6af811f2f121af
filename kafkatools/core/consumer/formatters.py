"""Records to lines: Kafka's DefaultMessageFormatter, LoggingMessageFormatter and NoOpMessageFormatter.

Rules: a formatter appends to a bytearray and never writes anywhere. Plain values go through the kernel, a batch at a
time; everything else is one record at a time, and a record that cannot be formatted leaves nothing behind. Formatters
are a closed list; no class is loaded by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.deserializers import Deserializer, deserializer
from kafkatools.core.errors import ConfigError, KafkaError
from kafkatools.core.records import kernel

_TOOLS = "org.apache.kafka.tools.consumer."
DEFAULT_FORMATTER = _TOOLS + "DefaultMessageFormatter"
LOGGING_FORMATTER = _TOOLS + "LoggingMessageFormatter"
NO_OP_FORMATTER = _TOOLS + "NoOpMessageFormatter"
INTERNAL_TOPIC_FORMATTERS: Final = frozenset(
    _TOOLS + name
    for name in (
        "OffsetsMessageFormatter",
        "GroupMetadataMessageFormatter",
        "TransactionLogMessageFormatter",
        "CoordinatorRecordMessageFormatter",
        "ShareGroupStateMessageFormatter",
    )
)

OnError = Callable[[KafkaError], bool]
Escape = Callable[[bytes], bytes]

_FLAGS = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
_DESERIALIZERS = ("key.deserializer", "value.deserializer", "headers.deserializer")
_TEXTS = ("key.separator", "line.separator", "headers.separator", "null.literal")
_PROPERTIES = frozenset((*(f"print.{flag}" for flag in _FLAGS), *_DESERIALIZERS, *_TEXTS))


class MessageFormatter(Protocol):
    """Turns records into bytes."""

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Appends the records; returns how many were dealt with.

        `on_error` is asked about each record that cannot be formatted: True goes on with the next, False stops after
        it.
        """


class NoOpFormatter:
    """Prints nothing: for measuring."""

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Counts."""
        return fetched.columns.count


class DefaultFormatter:
    """Kafka's lines: the chosen parts in Kafka's order, with separators."""

    def __init__(self, properties: Mapping[str, str], escape: Escape | None = None) -> None:
        check_properties(properties)
        self._shown = {flag: _flag(properties, f"print.{flag}", flag == "value") for flag in _FLAGS}
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._key, self._value, self._header = (named_deserializer(properties, name) for name in _DESERIALIZERS)
        self._escape = escape
        shown = [flag for flag in _FLAGS if self._shown[flag]]
        texts = (self._key, self._value, escape)
        # What the kernel writes: values, or keys and values, as they are.
        self._is_plain = shown in (["value"], ["key", "value"]) and texts == (None, None, None)
        self._key_end = self._separator if shown == ["key", "value"] else None
        self._parts: list[Callable[[FetchedColumns, int], bytes]] = [
            getattr(self, f"_{flag}_text") for flag in _FLAGS if self._shown[flag]
        ]

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Appends the records' lines."""
        columns = fetched.columns
        if self._is_plain:
            return int(kernel.write_keys_and_values(columns, out, self._key_end, self._line_end, self._null))
        for index in range(columns.count):
            try:
                line = self._separator.join([part(fetched, index) for part in self._parts])
            except KafkaError as error:
                if not on_error(error):
                    return index + 1
                continue
            if self._parts:
                out += line
                out += self._line_end
        return columns.count

    def _text(self, data: bytes | None, deserialize: Deserializer | None) -> bytes:
        if data is None:
            return self._null
        text = data if deserialize is None else deserialize(data)
        return text if self._escape is None else self._escape(text)

    def _timestamp_text(self, fetched: FetchedColumns, index: int) -> bytes:
        name = timestamp_type_name(fetched.columns)
        if name == "NoTimestampType":
            return b"NO_TIMESTAMP"
        return b"%s:%d" % (name.encode(), fetched.columns.timestamps[index])

    def _partition_text(self, fetched: FetchedColumns, index: int) -> bytes:
        return b"Partition:%d" % fetched.partition

    def _offset_text(self, fetched: FetchedColumns, index: int) -> bytes:
        return b"Offset:%d" % fetched.columns.offsets[index]

    def _delivery_text(self, fetched: FetchedColumns, index: int) -> bytes:
        return b"Delivery:NOT_PRESENT"

    def _epoch_text(self, fetched: FetchedColumns, index: int) -> bytes:
        return b"Epoch:NOT_PRESENT"

    def _headers_text(self, fetched: FetchedColumns, index: int) -> bytes:
        headers = fetched.columns.headers(index)
        if not headers:
            return b"NO_HEADERS"
        pairs = [self._text(name.encode(), None) + b":" + self._text(value, self._header) for name, value in headers]
        return self._headers_separator.join(pairs)

    def _key_text(self, fetched: FetchedColumns, index: int) -> bytes:
        return self._text(fetched.columns.key(index), self._key)

    def _value_text(self, fetched: FetchedColumns, index: int) -> bytes:
        return self._text(fetched.columns.value(index), self._value)


def timestamp_type_name(columns: Any) -> str:
    """Kafka's name of the records' timestamp type: CreateTime, LogAppendTime or NoTimestampType (magic 0)."""
    names = {0: "CreateTime", 1: "LogAppendTime"}
    return names.get(int(columns.timestamp_type), "NoTimestampType")


def make_formatter(name: str, properties: Mapping[str, str], escape: Escape | None = None) -> MessageFormatter:
    """The formatter of a Java class name; raises ConfigError for one that is not on the list."""
    if name in (DEFAULT_FORMATTER, LOGGING_FORMATTER):
        # The logging formatter adds log lines that the settings of Kafka's own tools hide; stdout is the same.
        return DefaultFormatter(properties, escape)
    if name == NO_OP_FORMATTER:
        return NoOpFormatter()
    if name in INTERNAL_TOPIC_FORMATTERS:
        raise ConfigError(f"{name} reads internal topics, which this version cannot print yet")
    raise ConfigError(name)


def check_properties(properties: Mapping[str, str]) -> None:
    """Raises ConfigError for a property that means nothing."""
    for name in properties:
        if name not in _PROPERTIES:
            raise ConfigError(f"Unknown formatter property {name}. Known ones: {', '.join(sorted(_PROPERTIES))}")


def _flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    text = properties.get(name)
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"Formatter property {name} must be true or false, not {text}")
    return word == "true"


def named_deserializer(properties: Mapping[str, str], name: str) -> Deserializer | None:
    """The deserializer a property names; None without the property."""
    text = properties.get(name)
    return None if text is None else deserializer(text)
