"""Formatters of plugins: a function that turns one record into the bytes that are printed for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.consumer.consumer_records import ConsumerRecord, records_of
from kafkatools.core.entry_points import EntryPoint, find_object
from kafkatools.core.errors import ConfigError, KafkaError, PluginError, SerializationError
from kafkatools.core.plugin_calls import PluginCalls

if TYPE_CHECKING:
    from kafkatools.core.consumer.completed_fetch import FetchedColumns

PLUGIN_GROUP = "kafkatools.formatters"
FormatRecord = Callable[[ConsumerRecord], bytes]
OnError = Callable[[KafkaError], bool]
Escape = Callable[[bytes], bytes]


class FormatterPlugin(NamedTuple):
    """A formatter of another distribution. `make` takes the properties of --formatter-property and returns the function
    that formats a record, line end included; it may raise ConfigError for a property."""

    make: Callable[[Mapping[str, str]], FormatRecord]


class PluginFormatter:
    """The formatter of a plugin. What its function raises, or returns instead of bytes, is the error of that record.
    `escape` converts each printed line."""

    def __init__(self, point: EntryPoint, format_record: FormatRecord, escape: Escape | None) -> None:
        self._calls = PluginCalls(point, SerializationError)
        self._format_record = format_record
        self._escape = escape

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Append the formatted records. Returns how many were processed, failed ones included."""
        for count, record in enumerate(records_of(fetched), 1):
            try:
                out += self._formatted(record)
            except KafkaError as error:
                if not on_error(error):
                    return count
        return fetched.columns.count

    def _formatted(self, record: ConsumerRecord) -> bytes:
        line: object = self._calls.call(self._format_record, record)
        if not isinstance(line, bytes | bytearray | memoryview):
            raise self._calls.wrong("the function of make", line, "bytes")
        data = bytes(line)
        return data if self._escape is None else b"\n".join(map(self._escape, data.split(b"\n")))


def find_formatter(name: str, properties: Mapping[str, str], escape: Escape | None) -> PluginFormatter | None:
    """Return the formatter of a plugin with this name, None without one. Raises ConfigError for a property that it
    refuses, PluginError if it cannot be loaded or fails."""
    found = find_object(PLUGIN_GROUP, name, FormatterPlugin)
    if found is None:
        return None
    point, plugin = found
    calls = PluginCalls(point, PluginError, passes=(ConfigError,))
    format_record = calls.call(plugin.make, properties)
    if not callable(format_record):
        raise calls.wrong("make", format_record, "a function")
    return PluginFormatter(point, format_record, escape)
