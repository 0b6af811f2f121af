"""kt console-consumer --formatter logfmt: one line of key=value pairs for each record."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from kafkatools.errors import ConfigError
from kafkatools.plugins import ConsumerRecord, FormatterPlugin


def make(properties: Mapping[str, str]) -> Callable[[ConsumerRecord], bytes]:
    """Return the function that formats a record. The property `fields` selects what is printed."""
    other = [name for name in properties if name != "fields"]
    if other:
        raise ConfigError(f"logfmt: there is no property {other[0]}; the only one is fields")
    fields = properties.get("fields", "topic,partition,offset,key,value").split(",")
    unknown = [field for field in fields if field not in ConsumerRecord._fields]
    if unknown:
        raise ConfigError(f"logfmt: fields has no {unknown[0]}; it may name {', '.join(ConsumerRecord._fields)}")

    def line(record: ConsumerRecord) -> bytes:
        return (" ".join(f"{field}={_text(getattr(record, field))}" for field in fields) + "\n").encode()

    return line


def _text(value: object) -> str:
    if value is None:
        return "null"
    return json.dumps(value.decode(errors="replace")) if isinstance(value, bytes) else str(value)


FORMATTER = FormatterPlugin(make)
