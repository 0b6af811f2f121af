"""Encode JSON values as Avro, by a writer for each type of the schema.

Rules: a union takes the value itself, by the first branch that fits, or {"branch": value} as Avro's JSON encoding has
it. Decimals are numbers or strings; dates, times and timestamps are ISO 8601 or numbers; bytes are a string (UTF-8) or
{"b64": base64}. A missing field takes its default; an unknown field is an error. Defaults have the form of Avro's
specification: bytes and fixed, also decimals, are strings with a character from U+0000 to U+00FF for each byte.
"""

from __future__ import annotations

import datetime
import json
import math
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import cache, partial
from typing import Any

from kafkatools.core import json_texts
from kafkatools.tools.lines.json_records import bytes_of_json
from kafkatools.tools.schemas.avro_program import logical_operation, resolve
from kafkatools.tools.schemas.avro_schema import AvroSchema, Schema, ensure_installed
from kafkatools.tools.schemas.errors import InvalidValue, SchemaError
from kafkatools.tools.schemas.registry import RegisteredSchema

Writer = Callable[[object, bytearray], None]
"""Appends a JSON value to the output. Raises InvalidValue."""

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_UNITS = {"millis": 3, "micros": 6, "nanos": 9}
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_NAMES = {dict: "an object", list: "a list", str: "a string", bool: "a Boolean", type(None): "null"}


class AvroWriter:
    """Encodes JSON text by a schema. `name`: the full name of its record, None for another type. Raises SchemaError
    that names `origin` if the schema is invalid."""

    def __init__(self, registered: RegisteredSchema, origin: str) -> None:
        ensure_installed()
        schema = AvroSchema(registered, origin)
        self._named = schema.named_schemas
        self._writers: dict[str, Writer] = {}
        try:
            self._write = self._writer(schema.parsed)
            parsed = schema.parsed if isinstance(schema.parsed, list) else resolve(schema.parsed, self._named)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SchemaError(f"{origin} is not a valid Avro schema: {type(error).__name__} {error}") from None
        self.name: str | None = parsed.get("name") if isinstance(parsed, dict) else None

    def encode(self, text: bytes) -> bytes:
        """Return the Avro bytes of JSON text. Raises InvalidValue with the place in it."""
        out = bytearray()
        try:
            self._write(parse_json(text, parse_float=Decimal), out)
        except RecursionError:
            raise InvalidValue("it is nested too deeply") from None
        return bytes(out)

    def _writer(self, schema: Schema) -> Writer:
        if isinstance(schema, list):
            return self._union(schema)
        schema = resolve(schema, self._named)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "enum":
            return _enum(schema["symbols"])
        if kind == "array":
            return _array(self._writer(schema["items"]))
        if kind == "map":
            return _map(self._writer(schema["values"]))
        if kind == "fixed":
            return _logical_fixed(schema) or _fixed(int(schema["size"]))
        return _logical(schema, kind) or _PLAIN[kind]

    def _record(self, schema: Mapping[str, Schema]) -> Writer:
        name = schema["name"]
        if name in self._writers:
            return lambda value, out: self._writers[name](value, out)
        self._writers[name] = _no_writer  # for fields that contain the record
        fields = [
            (field["name"], self._writer(field["type"]), _default_of(field, self._named)) for field in schema["fields"]
        ]
        names = frozenset(field[0] for field in fields)

        def write(value: object, out: bytearray) -> None:
            if not isinstance(value, dict):
                raise _wrong(value, f"an object for the record {name}")
            if not value.keys() <= names:
                raise InvalidValue(f"{name} has no field {json.dumps(sorted(value.keys() - names)[0])}")
            for field, write_field, default in fields:
                if field not in value:
                    if default is None:
                        raise InvalidValue(f"the field {json.dumps(field)} of {name} is missing")
                    out += default()
                    continue
                try:
                    write_field(value[field], out)
                except InvalidValue as error:
                    raise error.inside(f".{field}") from None

        self._writers[name] = write
        return write

    def _union(self, schema: list[Schema]) -> Writer:
        branches = [(number, _branch_name(branch, self._named), self._writer(branch)) for number, branch in
                    enumerate(schema)]  # fmt: skip
        by_name = {name: (number, write) for number, name, write in branches}

        def write(value: object, out: bytearray) -> None:
            if isinstance(value, dict) and len(value) == 1 and (tag := next(iter(value))) in by_name:
                number, write_branch = by_name[tag]
                attempt = bytearray(_varint(number))
                try:
                    write_branch(value[tag], attempt)
                except InvalidValue as error:
                    raise error.inside(f".{tag}") from None
                out += attempt
                return
            failures = []
            for number, name, write_branch in branches:
                attempt = bytearray(_varint(number))
                try:
                    write_branch(value, attempt)
                except InvalidValue as error:
                    failures.append((name, error))
                else:
                    out += attempt
                    return
            others = [error for name, error in failures if name != "null"]
            if len(others) == 1 and value is not None:
                raise others[0]
            raise _wrong(value, " or ".join(name for name, _ in failures))

        return write


def _no_writer(value: object, out: bytearray) -> None:
    raise InvalidValue("the schema is not complete")


def parse_json(text: bytes, **options: Any) -> Any:
    """Parse JSON text. Raises InvalidValue."""
    try:
        return json_texts.parse_json(text, **options)
    except json.JSONDecodeError as error:
        raise InvalidValue(f"not JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise InvalidValue(f"not JSON: {error}") from None


def _branch_name(schema: Schema, named: Mapping[str, Schema]) -> str:
    definition = resolve(schema, named)
    return str(definition.get("name") or definition["type"])


def _wrong(value: object, expected: str) -> InvalidValue:
    found = _NAMES.get(type(value))
    return InvalidValue(f"expected {expected}, not {found or value}")


def _varint(number: int) -> bytes:
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _null(value: object, out: bytearray) -> None:
    if value is not None:
        raise _wrong(value, "null")


def _boolean(value: object, out: bytearray) -> None:
    if not isinstance(value, bool):
        raise _wrong(value, "true or false")
    out.append(value)


def _integer(bits: int) -> Writer:
    limit, name = 1 << (bits - 1), "an int" if bits == 32 else "a long"

    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
            raise _wrong(value, name)
        out += _varint(value)

    return write


def _number(form: str, name: str) -> Writer:
    def write(value: object, out: bytearray) -> None:
        if isinstance(value, bool) or not (isinstance(value, (int, float, Decimal)) or value in _SPECIAL):
            raise _wrong(value, name)
        try:
            number = float(value)
            if math.isinf(number) and not isinstance(value, str):
                raise _wrong(value, name)
            out += struct.pack(form, number)
        except OverflowError:
            raise _wrong(value, name) from None

    return write


def _string(value: object, out: bytearray) -> None:
    if not isinstance(value, str):
        raise _wrong(value, "a string")
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise InvalidValue("a lone surrogate is not valid in a string") from None
    out += _varint(len(data)) + data


def _binary(value: object) -> bytes:
    data = None
    if isinstance(value, (str, dict)):
        with suppress(ValueError):
            data = bytes_of_json(value)
    if data is None:
        raise _wrong(value, 'bytes, as a string or {"b64": "..."}')
    return data


def _bytes(value: object, out: bytearray) -> None:
    data = _binary(value)
    out += _varint(len(data)) + data


def _fixed(size: int) -> Writer:
    def write(value: object, out: bytearray) -> None:
        data = _binary(value)
        if len(data) != size:
            raise InvalidValue(f"expected {size} bytes, not {len(data)}")
        out += data

    return write


def _enum(symbols: list[str]) -> Writer:
    encoded = {symbol: _varint(number) for number, symbol in enumerate(symbols)}

    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, str) or value not in encoded:
            shown = json.dumps(value) if isinstance(value, str) else _NAMES.get(type(value)) or value
            raise InvalidValue(f"expected one of {', '.join(symbols)}, not {shown}")
        out += encoded[value]

    return write


def _array(write_item: Writer) -> Writer:
    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        if value:
            out += _varint(len(value))
        for index, item in enumerate(value):
            try:
                write_item(item, out)
            except InvalidValue as error:
                raise error.inside(f"[{index}]") from None
        out.append(0)

    return write


def _map(write_item: Writer) -> Writer:
    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, "an object")
        if value:
            out += _varint(len(value))
        for name, item in value.items():
            _string(name, out)
            try:
                write_item(item, out)
            except InvalidValue as error:
                raise error.inside(f".{name}") from None
        out.append(0)

    return write


_PLAIN: dict[str, Writer] = {
    "null": _null, "boolean": _boolean, "int": _integer(32), "long": _integer(64), "float": _number("<f", "a float"),
    "double": _number("<d", "a double"), "string": _string, "bytes": _bytes,
}  # fmt: skip


# -- defaults --


def _default_of(field: Mapping[str, Schema], named: Mapping[str, Schema]) -> Callable[[], bytes] | None:
    """Return a function that returns the encoded default of a record's field; None without a default. The function
    raises InvalidValue for a default that does not fit the type."""
    if "default" not in field:
        return None

    @cache
    def encoded() -> bytes:
        out = bytearray()
        try:
            _write_default(field["type"], named, field["default"], out)
        except (InvalidValue, RecursionError) as error:
            text = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise InvalidValue(f"the schema's default of the field {json.dumps(field['name'])}: {text}") from None
        return bytes(out)

    return encoded


def _write_default(schema: Schema, named: Mapping[str, Schema], value: object, out: bytearray) -> None:
    if isinstance(schema, list):
        _write_union_default(schema, value, named, out)
        return
    schema = resolve(schema, named)
    kind = schema["type"]
    if kind in ("record", "error"):
        if not isinstance(value, dict):
            raise _wrong(value, f"an object for the record {schema['name']}")
        for field in schema["fields"]:
            if field["name"] not in value and "default" not in field:
                raise InvalidValue(f"the field {json.dumps(field['name'])} is missing")
            _write_default(field["type"], named, value.get(field["name"], field.get("default")), out)
    elif kind == "array":
        _array(partial(_write_default, schema["items"], named))(value, out)
    elif kind == "map":
        _map(partial(_write_default, schema["values"], named))(value, out)
    elif kind == "enum":
        _enum(schema["symbols"])(value, out)
    elif kind in ("bytes", "fixed"):
        _write_latin1_default(schema, value, out)
    else:
        _PLAIN[kind](value, out)


def _write_union_default(schema: list[Schema], value: object, named: Mapping[str, Schema], out: bytearray) -> None:
    for number, branch in enumerate(schema):
        attempt = bytearray(_varint(number))
        with suppress(InvalidValue):
            _write_default(branch, named, value, attempt)
            out += attempt
            return
    raise _wrong(value, " or ".join(_branch_name(branch, named) for branch in schema))


def _write_latin1_default(schema: Mapping[str, Schema], value: object, out: bytearray) -> None:
    try:
        data = value.encode("latin-1") if isinstance(value, str) else None
    except UnicodeEncodeError:
        data = None
    if data is None:
        raise _wrong(value, "a string with a character from U+0000 to U+00FF for each byte")
    if schema["type"] == "bytes":
        out += _varint(len(data))
    elif len(data) != int(schema["size"]):
        raise InvalidValue(f"expected {schema['size']} bytes, not {len(data)}")
    out += data


# -- logical types --


def _logical(schema: Mapping[str, Schema], kind: str) -> Writer | None:
    """Return the writer of a logical type that is not fixed; None without one that fits the type."""
    if logical_operation(schema, kind) is None:
        return None
    logical = str(schema.get("logicalType", ""))
    if logical == "decimal" and kind == "bytes":
        return _decimal(schema, None)
    if logical == "date" and kind == "int":
        return _moment(_days, _PLAIN["int"], "a date such as 2026-01-31")
    name, _, unit = logical.rpartition("-")
    digits = _UNITS[unit]
    if name == "time":
        return _moment(lambda text: _time_units(text, digits), _PLAIN[kind], "a time such as 13:45:00")
    has_zone = name == "timestamp"
    example = f"a timestamp such as 2026-01-31T13:45:00{'Z' if has_zone else ''}"
    return _moment(lambda text: _timestamp_units(text, digits, has_zone=has_zone), _PLAIN[kind], example)


def _logical_fixed(schema: Mapping[str, Schema]) -> Writer | None:
    if logical_operation(schema, "fixed") is None:
        return None
    logical, size = schema.get("logicalType"), int(schema["size"])
    return _decimal(schema, size) if logical == "decimal" else _duration


def _moment(convert: Callable[[str], int], write_number: Writer, example: str) -> Writer:
    def write(value: object, out: bytearray) -> None:
        if isinstance(value, str):
            try:
                value = convert(value)
            except ValueError:
                raise InvalidValue(f"expected {example}, not {json.dumps(value)}") from None
        elif not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(value, example)
        write_number(value, out)

    return write


def _days(text: str) -> int:
    return datetime.date.fromisoformat(text).toordinal() - _EPOCH


def _time_units(text: str, digits: int) -> int:
    whole, point, fraction = text.partition(".")
    if point and not (fraction.isdecimal() and len(fraction) <= digits):
        raise ValueError(text)
    time = datetime.time.fromisoformat(whole)
    if time.tzinfo is not None or time.microsecond:
        raise ValueError(text)
    seconds = time.hour * 3600 + time.minute * 60 + time.second
    return int(seconds * 10**digits + int(fraction.ljust(digits, "0") or "0"))


def _timestamp_units(text: str, digits: int, *, has_zone: bool) -> int:
    day, letter, rest = text.partition("T")
    if not letter:
        raise ValueError(text)
    zone, offset_s = rest[-1:], 0
    if has_zone:
        if zone == "Z":
            rest = rest[:-1]
        else:  # such as +02:00
            moment = datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{rest[-6:]}")
            offset = moment.utcoffset()
            if offset is None:
                raise ValueError(text)
            rest, offset_s = rest[:-6], int(offset.total_seconds())
    unit: int = 10**digits
    return (_days(day) * 86_400 - offset_s) * unit + _time_units(rest, digits)


def _decimal(schema: Mapping[str, Schema], size: int | None) -> Writer:
    scale, precision = int(schema.get("scale", 0)), int(schema["precision"])

    def write(value: object, out: bytearray) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
            raise _wrong(value, "a decimal number")
        try:
            sign, digits, exponent = Decimal(value).as_tuple()
        except InvalidOperation:
            raise _wrong(json.dumps(value), "a decimal number") from None
        if not isinstance(exponent, int) or abs(exponent) > 10_000:
            raise _wrong(value, "a decimal number")
        whole = "".join(map(str, digits)).rstrip("0")
        shift = exponent + scale + len(digits) - len(whole)
        if whole and (shift < 0 or len(whole) + shift > precision):
            raise InvalidValue(f"{value} does not fit decimal({precision},{scale})")
        unscaled = int(Decimal(whole)) * 10**shift * (-1 if sign else 1) if whole else 0
        length = size if size is not None else unscaled.bit_length() // 8 + 1
        try:
            data = unscaled.to_bytes(length, "big", signed=True)
        except OverflowError:
            raise InvalidValue(f"{value} does not fit {length} bytes") from None
        out += data if size is not None else _varint(len(data)) + data

    return write


def _duration(value: object, out: bytearray) -> None:
    names = ("months", "days", "millis")
    if not isinstance(value, dict) or value.keys() != set(names):
        raise _wrong(value, "an object of months, days and millis")
    numbers = [value[name] for name in names]
    if not all(type(number) is int and 0 <= number < 1 << 32 for number in numbers):
        raise InvalidValue("months, days and millis are numbers from 0 to 4294967295")
    out += struct.pack("<III", *numbers)
