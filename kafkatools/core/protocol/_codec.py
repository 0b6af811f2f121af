# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""Encode and decode Kafka's messages by a Layout, which lists the fields of one structure in one version.

Rules of this file:

- It is ordinary Python and, with the C types that `_codec.pxd` adds, C. Both give the same results and the same errors;
  `COMPILED` is True when the C code runs.
- Compiled code checks no index. So every read is preceded by an explicit comparison with the end of the data.
- A length is compared with the remaining bytes before memory is allocated for it. For an array, the smallest size of an
  element is multiplied by their number.
- Malformed bytes raise MalformedMessage with the position, in the words of Apache Kafka's generated classes.
- `pause` is called every few elements of an array of structures, during reading, counting and writing (see slices.py).
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.slices import ELEMENTS_PER_PAUSE, TooManyElements

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    memcpy: Any = None  # the .pxd imports it from C; only compiled branches call it

COMPILED: bool = cython.compiled

Pause = Callable[[], None]

_BOOL = 1
_INT8 = 2
_INT16 = 3
_INT32 = 4
_INT64 = 5
_UINT16 = 6
_UINT32 = 7
_FLOAT64 = 8
_UUID = 9
_STRING = 10
_BYTES = 11
_STRUCTURE = 12
_RECORDS = 13
# flags added to the kind
_ARRAY = 32
_NULLABLE = 64
_KIND = 31

KINDS = {
    "bool": _BOOL,
    "int8": _INT8,
    "int16": _INT16,
    "int32": _INT32,
    "int64": _INT64,
    "uint16": _UINT16,
    "uint32": _UINT32,
    "float64": _FLOAT64,
    "uuid": _UUID,
    "string": _STRING,
    "bytes": _BYTES,
    "records": _RECORDS,
}
STRUCTURE = _STRUCTURE
ARRAY = _ARRAY
NULLABLE = _NULLABLE

NO_LIMIT = 1 << 62

_SIZES = (0, 1, 1, 2, 4, 8, 2, 4, 8, 16, 0, 0, 0, 0)
_LAYOUTS = {
    code: struct.Struct(layout)
    for code, layout in zip(range(1, 9), (">?", ">b", ">h", ">i", ">q", ">H", ">I", ">d"), strict=True)
}
_ZERO_UUID = bytes(16)
_make_tuple: Any = tuple.__new__
_get_bytes = uuid.UUID.bytes.fget  # type: ignore[attr-defined]


class MalformedMessage(DecodeError):
    """The bytes do not form a message of the expected type. `java_message` is the text of Kafka's exception; `position`
    is the byte, None if unknown."""

    def __init__(self, message: str, position: int | None = None, java_message: str | None = None) -> None:
        super().__init__(message if position is None else f"{message} (at byte {position})")
        self.position = position
        self.java_message = message if java_message is None else java_message


class Shared(list[object]):
    """An array that occurs many times in a response. Its elements are encoded once per layout and the bytes reused, so
    it must not change after the first encoding."""

    def __init__(self, elements: Iterable[object]) -> None:
        super().__init__(elements)
        self.encoded: dict[Layout, bytes] = {}


class Layout:
    """The fields of one structure in one version, and the entity class for it. A field is (name, code, layout of its
    structure or None, default). Untagged fields come first, in wire order, then tagged ones; `tags` has their tag
    numbers."""

    def __init__(
        self,
        entity_type: Any,
        fields: list[tuple[str, int, Any, Any]],
        tags: list[int],
        is_flexible: bool,
        replaces_bad_text: bool,
    ) -> None:
        self.type = entity_type
        self.names = tuple(field[0] for field in fields)
        self.codes = bytes(field[1] for field in fields)
        self.layouts = tuple(field[2] for field in fields)
        self.defaults = tuple(field[3] for field in fields)
        self.tags = tuple(tags)
        self.plain = len(fields) - len(tags)
        self.is_flexible = is_flexible
        self.text_errors = "replace" if replaces_bad_text else "strict"
        self.tag_defaults: list[bytes] | None = None
        # uncompiled, adjacent numbers are read and written by one `struct` call; the key is the index of the first one
        self.runs = {} if cython.compiled else _runs(self.codes[: self.plain], self.names)
        # the smallest encoded size in bytes, at least 1
        self.least = self._least_size()

    def _least_size(self) -> int:
        size = 1 if self.is_flexible else 0
        for index in range(self.plain):
            code = self.codes[index]
            size += _least_size(code, self.layouts[index], self.is_flexible)
        return max(1, size)


class Run(NamedTuple):
    """Adjacent number fields (at least two) that one `struct` call codes. `stop`: the index after them."""

    codec: struct.Struct
    stop: int
    pick: Callable[[Mapping[str, object]], tuple[object, ...]]


def _runs(codes: bytes, names: tuple[str, ...]) -> dict[int, Run]:
    runs: dict[int, Run] = {}
    start = 0
    for index in range(len(codes) + 1):
        if index < len(codes) and codes[index] < _UUID:
            continue
        if index - start > 1:
            codec = struct.Struct(">" + "".join(_LAYOUTS[code].format[1:] for code in codes[start:index]))
            runs[start] = Run(codec, index, itemgetter(*names[start:index]))
        start = index + 1
    return runs


def _least_size(code: int, layout: Any, is_flexible: bool) -> int:
    kind = code & _KIND
    if code & _ARRAY:
        return 1 if is_flexible else 4
    if kind == _STRUCTURE:
        return 1 if code & _NULLABLE else int(layout.least)
    if kind in (_STRING, _BYTES, _RECORDS):
        return 1 if is_flexible else 2 if kind == _STRING else 4
    return _SIZES[kind]


def _items(data: Any) -> Any:
    """Return the bytes in the form that loops index: a pointer when compiled, else the buffer itself."""
    if cython.compiled:
        return cython.address(data[0])
    return data


def _int16(data: Any, position: int) -> int:
    if cython.compiled:
        return (data[position] << 8) | data[position + 1]  # type: ignore[no-any-return]
    return _LAYOUTS[3].unpack_from(data, position)[0]  # type: ignore[no-any-return]


def _int32(data: Any, position: int) -> int:
    if cython.compiled:
        return _unsigned(data, position, 4)
    return _LAYOUTS[4].unpack_from(data, position)[0]  # type: ignore[no-any-return]


def _unsigned(data: Any, position: int, size: int) -> int:
    number = 0
    for index in range(size):
        number = (number << 8) | data[position + index]
    return number


def _signed_64(data: Any, position: int) -> int:
    if cython.compiled:
        return _unsigned(data, position, 8)
    return _LAYOUTS[5].unpack_from(data, position)[0]  # type: ignore[no-any-return]


def _signed_8(byte: int) -> int:
    if cython.compiled:
        return byte
    return byte - 256 if byte >= 128 else byte


def _signed_32(number: int) -> int:
    if cython.compiled:
        return number
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def _copied(data: Any, start: int, end: int) -> bytes:
    if cython.compiled:
        return data[start:end]  # type: ignore[no-any-return]
    return bytes(data[start:end])


class Reader:
    """Decodes one message from a position in a buffer. Records become a memoryview of it, without a copy."""

    def __init__(self, data: Any, position: int, pause: Pause | None, most_elements: int) -> None:
        self.source = data
        self.view = data
        self.end = len(data)
        self.position = position
        self.pause = pause
        self.elements_left = most_elements
        if self.end > 0:
            self.data = _items(self.view)

    # -- values --

    def entity(self, layout: Layout) -> Any:
        """Decode the structure at the current position. Raises MalformedMessage, and TooManyElements above the reader's
        limit."""
        values: list[object] = []
        index = 0
        while index < layout.plain:
            if not cython.compiled and index in layout.runs:
                values += self._run(layout.runs[index].codec)
                index = len(values)
                continue
            values.append(self._value(layout, index))
            index += 1
        if layout.is_flexible:
            self._tags(layout, values)
        return _make_tuple(layout.type, values)

    def _run(self, run: struct.Struct) -> tuple[object, ...]:
        """Read adjacent numbers with one `struct` call."""
        position = self.position
        if run.size > self.end - position:
            self._cut_off()
        self.position = position + run.size
        return run.unpack_from(self.data, position)

    def _value(self, layout: Layout, index: int) -> object:
        code = layout.codes[index]
        kind = code & 31
        if code & 32:
            return self._array(layout, index, kind, (code & 64) != 0)
        if kind < 10:
            return self._fixed(kind)
        if kind == 12:
            if code & 64 and self._int8() < 0:
                return None
            return self.entity(layout.layouts[index])
        return self._sized(layout, index, kind, (code & 64) != 0)

    def _fixed(self, kind: int) -> object:
        """Read a value of fixed size: a number, a Boolean or a uuid."""
        if not cython.compiled and kind < 9:
            return self._run(_LAYOUTS[kind])[0]
        size = _size_of(kind)
        position = self.position
        if size > self.end - position:
            self._cut_off()
        self.position = position + size
        if kind == 4:
            return _int32(self.data, position)
        if kind == 3:
            return _int16(self.data, position)
        if kind == 5:
            return _signed_64(self.data, position)
        if kind == 1:
            return self.data[position] != 0
        if kind == 2:
            return _signed_8(self.data[position])
        if kind == 9:
            return _uuid_of(_copied(self.data, position, position + 16))
        if kind == 8:
            return _LAYOUTS[8].unpack(_copied(self.data, position, position + 8))[0]
        return _unsigned(self.data, position, size)

    def _int8(self) -> int:
        if self.position >= self.end:
            self._cut_off()
        self.position += 1
        return _signed_8(self.data[self.position - 1])

    def varint(self) -> int:
        """Read an unsigned varint as Java does: as an int32, which may be negative. Raises MalformedMessage."""
        if self.position < self.end and self.data[self.position] < 0x80:
            self.position += 1
            return self.data[self.position - 1]  # type: ignore[no-any-return]
        number = 0
        shift = 0
        position = self.position
        while shift < 35:
            if position >= self.end:
                self._cut_off()
            byte = self.data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position
                return _signed_32(number)
            shift += 7
        text = f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {number:x}"
        raise MalformedMessage(text, self.position)

    def _length(self, layout: Layout, is_short: bool) -> int:
        if layout.is_flexible:
            return self.varint() - 1
        size = 2 if is_short else 4
        if size > self.end - self.position:
            self._cut_off()
        self.position += size
        if is_short:
            return _int16(self.data, self.position - 2)
        return _int32(self.data, self.position - 4)

    def _checked_length(self, layout: Layout, index: int, kind: int, nullable: bool) -> int:
        """Read the length of a string or of bytes and compare it with the remaining bytes; -1 for null."""
        length = self._length(layout, kind == 10)
        if length < 0:
            if not nullable:
                self._refuse_null(layout, index)
            return -1
        if kind == 10 and length > 32767:
            self._fail(f"string field {layout.names[index]} had invalid length {length}")
        remaining = self.end - self.position
        if length > remaining:
            self._fail(f"Error reading byte array of {length} byte(s): only {remaining} byte(s) available")
        return length

    def _sized(self, layout: Layout, index: int, kind: int, nullable: bool) -> object:
        length = self._checked_length(layout, index, kind, nullable)
        if length < 0:
            return None
        start = self.position
        self.position = start + length
        if kind == 13:
            return memoryview(self.source)[start : start + length]
        data = _copied(self.data, start, start + length)
        if kind == 11:
            return data
        try:
            return data.decode("utf-8", layout.text_errors)
        except UnicodeDecodeError as problem:
            raise MalformedMessage(f"string field {layout.names[index]} is not UTF-8", start) from problem

    def _count(self, layout: Layout, index: int, kind: int, nullable: bool) -> int:
        """Read the number of elements of an array and compare it with the remaining bytes; -1 for null."""
        count = self._length(layout, False)
        if count < 0:
            if not nullable:
                self._refuse_null(layout, index)
            return -1
        if count > (self.end - self.position) // self._least(layout, index, kind):
            text = f"Tried to allocate a collection of size {count}, but there are only "
            self._fail(f"{text}{self.end - self.position} bytes remaining.")
        self.note_elements(count)
        return count

    def note_elements(self, count: int) -> None:
        """Count elements of arrays and tagged fields. Raises TooManyElements above this reader's limit."""
        if count > self.elements_left:
            raise TooManyElements
        if count > 0:
            self.elements_left -= count

    def _least(self, layout: Layout, index: int, kind: int) -> int:
        if kind == 12:
            return self._least_of(layout.layouts[index])
        if kind >= 10:
            return 1 if layout.is_flexible else 2 if kind == 10 else 4
        return _size_of(kind)

    def _least_of(self, layout: Layout) -> int:
        return layout.least

    def _array(self, layout: Layout, index: int, kind: int, nullable: bool) -> object:
        count = self._count(layout, index, kind, nullable)
        if count < 0:
            return None
        values: list[object] = []
        element = 0
        if kind == 12:
            nested = layout.layouts[index]
            while element < count:
                if self.pause is not None and element % ELEMENTS_PER_PAUSE == 0:
                    self.pause()
                values.append(self.entity(nested))
                element += 1
        elif kind < 10:
            if not cython.compiled and kind < 8:
                size = count * _SIZES[kind]
                self.position += size
                return struct.unpack_from(f">{count}{_LAYOUTS[kind].format[1:]}", self.data, self.position - size)
            while element < count:
                values.append(self._fixed(kind))
                element += 1
        else:
            while element < count:
                values.append(self._sized(layout, index, kind, False))
                element += 1
        return tuple(values)

    def _tags(self, layout: Layout, values: list[object]) -> None:
        """Read the section of tagged fields. Missing fields get their defaults."""
        if self.position < self.end and self.data[self.position] == 0:
            self.position += 1
            if layout.tags:
                values.extend(layout.defaults[layout.plain :])
            return
        tagged = list(layout.defaults[layout.plain :])
        count = self.varint()
        self.note_elements(count)
        while count > 0:
            count -= 1
            tag, stop = self._tag()
            if tag in layout.tags:
                place = layout.tags.index(tag)
                tagged[place] = self._tagged_value(layout, layout.plain + place)
            self._end_tag(layout, tag, stop)
        values.extend(tagged)

    def _tagged_value(self, layout: Layout, index: int) -> object:
        if layout.codes[index] == 12 + 64:
            return None if self.varint() == 0 else self.entity(layout.layouts[index])
        return self._value(layout, index)

    def _tag(self) -> tuple[int, int]:
        """Read the header of a tagged field. Return its tag and the position where the field ends."""
        tag = self.varint()
        size = self.varint()
        return tag, self.position + size

    def _end_tag(self, layout: Layout, tag: int, stop: int) -> None:
        """Move to the end of a tagged field. A field of the layout must end there: Kafka ignores the size of such a
        field and continues after its value, so a wrong size would change where the rest of the message is read."""
        if tag in layout.tags:
            if self.position != stop:
                self._fail(f"tagged field {tag} ends at byte {self.position}, not at byte {stop}")
            return
        remaining = self.end - self.position
        if stop < self.position or stop > self.end:
            size = stop - self.position
            self._fail(f"Error reading byte array of {size} byte(s): only {remaining} byte(s) available")
        self.position = stop

    # -- counting --

    def skip(self, layout: Layout) -> None:
        """Skip the structure at the current position: count its array elements and tagged fields, without creating
        values. Raises MalformedMessage, TooManyElements."""
        index = 0
        while index < layout.plain:
            self._skip_value(layout, index)
            index += 1
        if not layout.is_flexible:
            return
        count = self.varint()
        self.note_elements(count)
        while count > 0:
            count -= 1
            tag, stop = self._tag()
            if tag in layout.tags:
                place = layout.plain + layout.tags.index(tag)
                if layout.codes[place] != 12 + 64:
                    self._skip_value(layout, place)
                elif self.varint() != 0:
                    self.skip(layout.layouts[place])
            self._end_tag(layout, tag, stop)

    def _skip_value(self, layout: Layout, index: int) -> None:
        code = layout.codes[index]
        kind = code & 31
        if code & 32:
            self._skip_array(layout, index, kind, (code & 64) != 0)
        elif kind < 10:
            self._skip_bytes(_size_of(kind))
        elif kind == 12:
            if not code & 64 or self._int8() >= 0:
                self.skip(layout.layouts[index])
        else:
            self._skip_bytes(max(0, self._checked_length(layout, index, kind, (code & 64) != 0)))

    def _skip_bytes(self, size: int) -> None:
        if size > self.end - self.position:
            self._cut_off()
        self.position += size

    def _skip_array(self, layout: Layout, index: int, kind: int, nullable: bool) -> None:
        count = self._count(layout, index, kind, nullable)
        element = 0
        if kind < 10:
            self._skip_bytes(max(0, count) * _size_of(kind))
            return
        while element < count:
            if self.pause is not None and element % ELEMENTS_PER_PAUSE == 0:
                self.pause()
            if kind == 12:
                self.skip(layout.layouts[index])
            else:
                self._skip_bytes(self._checked_length(layout, index, kind, False))
            element += 1

    # -- errors --

    def _cut_off(self) -> None:
        raise MalformedMessage("the data ends early", self.position, "null")  # BufferUnderflowException has no message

    def _refuse_null(self, layout: Layout, index: int) -> None:
        self._fail(f"non-nullable field {layout.names[index]} was serialized as null")

    def _fail(self, message: str) -> None:
        raise MalformedMessage(message, self.position)


def _size_of(kind: int) -> int:
    """Return the size in bytes of a value of fixed size."""
    if kind == 4 or kind == 7:  # noqa: PLR1714 - a comparison in C
        return 4
    if kind == 5 or kind == 8:  # noqa: PLR1714
        return 8
    if kind == 3 or kind == 6:  # noqa: PLR1714
        return 2
    return 16 if kind == 9 else 1


def _uuid_of(data: bytes) -> uuid.UUID | None:
    return None if data == _ZERO_UUID else uuid.UUID(bytes=data)


class Writer:
    """Encodes one message from an entity, a mapping of field names to values, another object with such attributes, or a
    mix. A missing field is written with its default. A name that is no field of this version is ignored."""

    def __init__(self, pause: Pause | None) -> None:
        self.out = bytearray(512)
        self.data = self.out
        self.capacity = 512
        self.size = 0
        self.pause = pause

    def result(self) -> bytes:
        """Return the encoded bytes."""
        return bytes(memoryview(self.out)[: self.size])

    def structure(self, layout: Layout, value: Any) -> None:
        """Write a structure. An `error_message` above 32767 bytes is cut. Raises ValueError for a value that its field
        cannot hold, such as another string of that length or a null."""
        index = 0
        if isinstance(value, layout.type):
            while index < layout.plain:
                if not cython.compiled and index in layout.runs:
                    index = self._run(layout, index, value[index : layout.runs[index].stop])
                    continue
                self._value(layout, index, value[index])
                index += 1
            if layout.is_flexible:
                if layout.tags:
                    self._tags(layout, value[layout.plain :])
                else:
                    self._byte(0)
            return
        fields = value if isinstance(value, Mapping) else _attributes_of(layout, value)
        while index < layout.plain:
            if not cython.compiled and index in layout.runs:
                index = self._run(layout, index, _picked(layout, index, fields))
                continue
            name = layout.names[index]
            self._value(layout, index, fields[name] if name in fields else layout.defaults[index])
            index += 1
        if layout.is_flexible:
            if layout.tags:
                pairs = zip(layout.names[layout.plain :], layout.defaults[layout.plain :])  # noqa: B905
                self._tags(layout, [fields.get(name, default) for name, default in pairs])
            else:
                self._byte(0)

    def _run(self, layout: Layout, index: int, values: tuple[object, ...]) -> int:
        """Write adjacent numbers and return the index of the field after them."""
        run = layout.runs[index]
        self._room(run.codec.size)
        try:
            run.codec.pack_into(self.out, self.size, *values)
        except struct.error:
            for place, value in enumerate(values):  # raises the error of the value that does not fit
                self._fixed(layout, index + place, layout.codes[index + place], value)
            return run.stop
        self.size += run.codec.size
        return run.stop

    def _value(self, layout: Layout, index: int, value: object) -> None:
        code = layout.codes[index]
        kind = code & 31
        if code & 32:
            self._array(layout, index, kind, (code & 64) != 0, value)
        elif kind < 10:
            self._fixed(layout, index, kind, value)
        elif kind == 12:
            if code & 64:
                self._byte(255 if value is None else 1)
                if value is None:
                    return
            self.structure(layout.layouts[index], value)
        else:
            self._sized(layout, index, kind, (code & 64) != 0, value)

    def _room(self, count: int) -> None:
        if count > self.capacity - self.size:
            self.capacity = 2 * self.capacity + count
            self.out.extend(bytes(self.capacity - len(self.out)))
            self.data = self.out

    def _byte(self, byte: int) -> None:
        self._room(1)
        self.data[self.size] = byte
        self.size += 1

    def _fixed(self, layout: Layout, index: int, kind: int, value: Any) -> None:
        size = _size_of(kind)
        self._room(size)
        if kind == 9:
            self._bytes(_ZERO_UUID if value is None else _get_bytes(value))
            return
        if kind == 1:
            self._byte(1 if value else 0)
            return
        if cython.compiled and kind != 8:
            number = _as_number(value)
            if not _is_in_range(number, kind):
                _refuse_number(layout, index, value)
            _put_number(self.data, self.size, number, size)
        else:
            try:
                _LAYOUTS[kind].pack_into(self.out, self.size, value)
            except struct.error:
                _refuse_number(layout, index, value)
        self.size += size

    def _bytes(self, data: bytes) -> None:
        size = len(data)
        self._room(size)
        if cython.compiled:
            memcpy(self.data + self.size, _start_of(data), size)  # type: ignore[operator]
        else:
            self.out[self.size : self.size + size] = data
        self.size += size

    def varint(self, number: int) -> None:
        """Write an unsigned varint."""
        self._room(5)
        while number > 0x7F:
            self.data[self.size] = (number & 0x7F) | 0x80
            self.size += 1
            number >>= 7
        self.data[self.size] = number
        self.size += 1

    def _length(self, layout: Layout, size: int, is_short: bool) -> None:
        if layout.is_flexible:
            self.varint(size + 1)
        else:
            self._room(4)
            if cython.compiled:
                _put_number(self.data, self.size, size, 2 if is_short else 4)
            else:
                _LAYOUTS[3 if is_short else 4].pack_into(self.out, self.size, size)
            self.size += 2 if is_short else 4

    def _sized(self, layout: Layout, index: int, kind: int, nullable: bool, value: Any) -> None:
        if value is None:
            if not nullable:
                _refuse_null_value(layout, index)
            self._length(layout, -1, kind == 10)
            return
        if kind == 10:
            data = value.encode()
            if len(data) > 32767:
                if layout.names[index] != "error_message":
                    raise ValueError(f"'{layout.names[index]}' field is too long to be serialized")
                # an error message may repeat a name of the request that already has the maximum length
                data = data[:32767].decode(errors="ignore").encode()
        else:
            data = value if type(value) is bytes else bytes(value)
        self._length(layout, len(data), kind == 10)
        self._bytes(data)

    def _array(self, layout: Layout, index: int, kind: int, nullable: bool, values: Any) -> None:
        if values is None:
            if not nullable:
                _refuse_null_value(layout, index)
            self._length(layout, -1, False)
            return
        if not hasattr(values, "__len__"):
            values = tuple(values)
        self._length(layout, len(values), False)
        if not cython.compiled and 1 < kind < 8:
            self._numbers(layout, index, kind, values)
        elif kind != 12:
            for value in values:
                if kind < 10:
                    self._fixed(layout, index, kind, value)
                else:
                    self._sized(layout, index, kind, False, value)
        elif isinstance(values, Shared):
            self._shared(layout.layouts[index], values)
        else:
            self._structures(layout.layouts[index], values)

    def _numbers(self, layout: Layout, index: int, kind: int, values: Sequence[object]) -> None:
        self._room(len(values) * _SIZES[kind])
        try:
            struct.pack_into(f">{len(values)}{_LAYOUTS[kind].format[1:]}", self.out, self.size, *values)
        except struct.error:
            for value in values:  # raises a ValueError that names the field and the value
                self._fixed(layout, index, kind, value)
            return
        self.size += len(values) * _SIZES[kind]

    def _structures(self, layout: Layout, values: Iterable[object]) -> None:
        for element, value in enumerate(values):
            if self.pause is not None and element % ELEMENTS_PER_PAUSE == 0:
                self.pause()
            self.structure(layout, value)

    def _shared(self, layout: Layout, values: Shared) -> None:
        data = values.encoded.get(layout)
        if data is None:
            writer = Writer(self.pause)
            writer._structures(layout, values)
            data = values.encoded[layout] = writer.result()
        self._bytes(data)

    def _tags(self, layout: Layout, values: Iterable[object]) -> None:
        """Write the section of tagged fields: their number, then tag, size and value of each. Omitted are fields with
        their default value, and None where the field is not nullable."""
        if layout.tag_defaults is None:
            layout.tag_defaults = [
                _tagged_bytes(layout, layout.plain + place, layout.defaults[layout.plain + place], None)
                for place in range(len(layout.tags))
            ]
        present = []
        for place, value in enumerate(values):
            index = layout.plain + place
            if value is layout.defaults[index] or (value is None and not layout.codes[index] & 64):
                continue
            data = _tagged_bytes(layout, index, value, self.pause)
            if data != layout.tag_defaults[place]:
                present.append((layout.tags[place], data))
        self.varint(len(present))
        for tag, data in present:
            self.varint(tag)
            self.varint(len(data))
            self._bytes(data)


def _tagged_bytes(layout: Layout, index: int, value: object, pause: Pause | None) -> bytes:
    """Encode the value of a tagged field. A nullable structure begins with a marker, 0 for null."""
    writer = Writer(pause)
    if layout.codes[index] != 12 + 64:
        writer._value(layout, index, value)
    elif value is None:
        writer._byte(0)
    else:
        writer._byte(1)
        writer.structure(layout.layouts[index], value)
    return writer.result()


def _picked(layout: Layout, index: int, fields: Mapping[str, object]) -> tuple[object, ...]:
    """Return the values of adjacent number fields from a mapping, with defaults for missing keys."""
    run = layout.runs[index]
    try:
        return run.pick(fields)
    except KeyError:
        return run.pick({**dict(zip(layout.names, layout.defaults)), **fields})  # noqa: B905


def _attributes_of(layout: Layout, value: object) -> dict[str, object]:
    """Return the fields of another object, such as an entity of another version, by the names in the layout."""
    return {name: getattr(value, name) for name in layout.names if hasattr(value, name)}


def _start_of(data: bytes) -> Any:
    return data


def _as_number(value: Any) -> Any:
    return value


def _is_in_range(number: int, kind: int) -> bool:
    if kind == 5:
        return True
    if kind == 4:
        return -0x80000000 <= number <= 0x7FFFFFFF
    if kind == 3:
        return -0x8000 <= number <= 0x7FFF
    if kind == 2:
        return -0x80 <= number <= 0x7F
    if kind == 6:
        return 0 <= number <= 0xFFFF
    if kind == 7:
        return 0 <= number <= 0xFFFFFFFF
    return True


def _put_number(data: Any, position: int, number: int, size: int) -> None:
    """Write the low `size` bytes of a number in big-endian order."""
    while size > 0:
        size -= 1
        data[position + size] = number & 0xFF
        number >>= 8


def _refuse_number(layout: Layout, index: int, value: object) -> NoReturn:
    raise ValueError(f"{layout.names[index]}: {value!r} does not fit the type of the field")


def _refuse_null_value(layout: Layout, index: int) -> NoReturn:
    raise ValueError(f"{layout.names[index]} is null where the protocol has none")
