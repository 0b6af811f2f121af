"""Kafka's message formatters, which turn records into lines; `internal_formatters.py` has those of internal topics.

Rules: a formatter appends to a bytearray and writes nowhere. Plain values go through the kernel, a batch at a time.
Everything else is formatted record by record; a failing record leaves nothing in the output. No class is loaded by
name; plugins add formatters (`plugin_formatter.py`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.deserializers import Deserializer, deserializer
from kafkatools.core.errors import ConfigError, KafkaError
from kafkatools.core.records import kernel
from kafkatools.core.records.columns import RecordColumns
from kafkatools.tools.lines.internal_formatters import INTERNAL_FORMATTERS, InternalTopicFormatter
from kafkatools.tools.lines.plugin_formatter import PLUGIN_GROUP, find_formatter
from kafkatools.tools.lines.plugin_formatter import Escape as Escape
from kafkatools.tools.lines.plugin_formatter import OnError as OnError

_log = logging.getLogger("kafkatools.console_consumer")

_TOOLS = "org.apache.kafka.tools.consumer."
DEFAULT_FORMATTER = _TOOLS + "DefaultMessageFormatter"
LOGGING_FORMATTER = _TOOLS + "LoggingMessageFormatter"
NO_OP_FORMATTER = _TOOLS + "NoOpMessageFormatter"
FORMATTERS: Final = (DEFAULT_FORMATTER, LOGGING_FORMATTER, NO_OP_FORMATTER, *INTERNAL_FORMATTERS)
_ENDING = "MessageFormatter"

_FLAGS = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
_DESERIALIZERS = ("key.deserializer", "value.deserializer", "headers.deserializer")
_TEXTS = ("key.separator", "line.separator", "headers.separator", "null.literal")
_PROPERTIES = frozenset((*(f"print.{flag}" for flag in _FLAGS), *_DESERIALIZERS, *_TEXTS))


def _bytes(text: str) -> bytes:
    """Encode an option's value, keeping command-line bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


class MessageFormatter(Protocol):
    """The interface of formatters that turn fetched records into output bytes."""

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Append the formatted records to `out`; return how many were processed. `on_error` is called for each record
        that fails: True continues with the next record, False stops after it."""


class NoOpFormatter:
    """Kafka's NoOpMessageFormatter: prints nothing."""

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Return the number of records without printing any."""
        return fetched.columns.count


class DefaultFormatter:
    """Kafka's DefaultMessageFormatter: the selected parts of each record in a fixed order, with separators. `escape`
    converts the printed keys, values and headers. Raises ConfigError for an invalid property."""

    def __init__(self, properties: Mapping[str, str], escape: Escape | None = None) -> None:
        check_properties(properties)
        flags = [flag for flag in _FLAGS if _flag(properties, f"print.{flag}", flag == "value")]
        self._separator = _bytes(properties.get("key.separator", "\t"))
        self._line_end = _bytes(properties.get("line.separator", "\n"))
        self._headers_separator = _bytes(properties.get("headers.separator", ","))
        self._null = _bytes(properties.get("null.literal", "null"))
        self._key, self._value, self._header = (named_deserializer(properties, name) for name in _DESERIALIZERS)
        self._escape = escape
        texts = (self._key, self._value, escape)
        # The kernel writes plain values, or plain keys and values.
        self._is_plain = flags in (["value"], ["key", "value"]) and texts == (None, None, None)
        self._key_end = self._separator if flags == ["key", "value"] else None
        parts: dict[str, Callable[[FetchedColumns, int], bytes]] = {
            "timestamp": lambda fetched, index: _timestamp_text(fetched.columns, index),
            "partition": lambda fetched, index: b"Partition:%d" % fetched.partition,
            "offset": lambda fetched, index: b"Offset:%d" % fetched.columns.offsets[index],
            "delivery": lambda fetched, index: _delivery_text(fetched),
            "epoch": lambda fetched, index: b"Epoch:NOT_PRESENT",
            "headers": lambda fetched, index: self._headers_text(fetched.columns, index),
            "key": lambda fetched, index: self._text(fetched.columns.key(index), self._key),
            "value": lambda fetched, index: self._text(fetched.columns.value(index), self._value),
        }
        self._parts = [parts[flag] for flag in flags]

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Append a line for each record, nothing if no part is selected. Returns how many records were processed,
        failed ones included. `on_error` is called for each failed record; False stops after it."""
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

    def _headers_text(self, columns: RecordColumns, index: int) -> bytes:
        headers = columns.headers(index)
        if not headers:
            return b"NO_HEADERS"
        pairs = [self._text(name.encode(), None) + b":" + self._text(value, self._header) for name, value in headers]
        return self._headers_separator.join(pairs)


def _timestamp_text(columns: RecordColumns, index: int) -> bytes:
    name = timestamp_type_name(columns)
    return b"NO_TIMESTAMP" if name == "NoTimestampType" else b"%s:%d" % (name.encode(), columns.timestamps[index])


def _delivery_text(fetched: FetchedColumns) -> bytes:
    count = fetched.delivery_count
    return b"Delivery:NOT_PRESENT" if count is None else b"Delivery:%d" % count


class LoggingFormatter(DefaultFormatter):
    """Kafka's LoggingMessageFormatter: DefaultFormatter's lines, and each record in the log, shown with KT_DEBUG=1."""

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Append a line for each record, and log the processed records if the log level is INFO or lower. Returns how
        many were processed."""
        count = super().write(out, fetched, on_error)
        if _log.isEnabledFor(logging.INFO):
            for index in range(count):
                _log.info("%s", log_text(fetched.columns, index))
        return count


def log_text(columns: RecordColumns, index: int) -> str:
    """Return a record as LoggingMessageFormatter logs it."""
    kind = timestamp_type_name(columns)
    key, value = columns.key(index), columns.value(index)
    timestamp = "" if kind == "NoTimestampType" else f"{kind}:{columns.timestamps[index]}, "
    key_text = "null" if key is None else key.decode("utf-8", "replace") + ", "
    return f"{timestamp}key:{key_text}value:{'null' if value is None else value.decode('utf-8', 'replace')}"


def timestamp_type_name(columns: RecordColumns) -> str:
    """Return the timestamp type's name in Kafka: CreateTime, LogAppendTime or NoTimestampType (magic 0)."""
    names = {0: "CreateTime", 1: "LogAppendTime"}
    return names.get(int(columns.timestamp_type), "NoTimestampType")


def make_formatter(name: str, properties: Mapping[str, str], escape: Escape | None = None) -> MessageFormatter:
    """Return a formatter by name, as in `formatter_class`, or that of a plugin. `escape` converts the printed bytes.
    Raises ConfigError for an unknown name or an invalid property, PluginError; the no-op formatter ignores
    properties."""
    if _known_class(name) is None:
        plugin = find_formatter(name, properties, escape)
        if plugin is not None:
            return plugin
    class_name = formatter_class(name)
    if class_name == LOGGING_FORMATTER:
        return LoggingFormatter(properties, escape)
    if class_name == NO_OP_FORMATTER:
        return NoOpFormatter()
    if class_name == DEFAULT_FORMATTER:
        return DefaultFormatter(properties, escape)
    return InternalTopicFormatter(class_name, properties, escape)


def formatter_class(name: str) -> str:
    """Return a formatter's Java class from its full, simple or short name (`offsets`). Raises ConfigError."""
    class_name = _known_class(name)
    if class_name is not None:
        return class_name
    if name.startswith("io.confluent."):
        raise ConfigError(f"Unknown formatter {name}. --schema-registry URL decodes Avro, Protobuf and JSON Schema")
    from kafkatools.core.entry_points import entry_points, find

    point = find(PLUGIN_GROUP, name)
    if point is not None:
        raise ConfigError(
            f"Formatter {name} of {point.distribution} prints its own lines: it cannot be used with --json"
        )
    of_plugins = (point.name for point in entry_points(PLUGIN_GROUP))
    names = ", ".join((*(short_name(class_name) for class_name in FORMATTERS), *of_plugins))
    raise ConfigError(f"Unknown formatter {name}. Known ones, by class name or in short: {names}")


def _known_class(name: str) -> str | None:
    for class_name in FORMATTERS:
        if name in (class_name, class_name.rpartition(".")[2], short_name(class_name)):
            return class_name
    return None


def short_name(class_name: str) -> str:
    """Return a formatter's short name, such as `transaction-log` for TransactionLogMessageFormatter."""
    words = re.findall("[A-Z][a-z]+", class_name.rpartition(".")[2].removesuffix(_ENDING))
    return "-".join(words).lower()


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for an unknown formatter property."""
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
    """Return the deserializer that a property names, None without the property. Raises ConfigError for an unknown
    deserializer."""
    text = properties.get(name)
    return None if text is None else deserializer(text)
