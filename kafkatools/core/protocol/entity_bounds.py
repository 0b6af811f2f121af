"""Whether the bytes of an entity hold what their lengths and counts claim, and no null where there is to be none.

kio's native reader takes memory for as many elements as an array claims before it reads the first one, and a claim that
memory cannot meet ends the process, not the call. So nothing reaches that reader that was not walked through here: no
value is made, fields of fixed size are passed over together, and an array of such entities in one step.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.plans import (
    MAX_STRING_BYTES,
    MILLISECOND_LAYOUTS,
    NUMBER_LAYOUTS,
    EntityPlan,
    FieldPlan,
    plan_of,
)
from kafkatools.core.protocol.slices import counting, note_elements, paced
from kafkatools.core.protocol.varints import read_unsigned_varint

Skip = Callable[
    [memoryview, int], int
]  # (buffer, position) -> position after it; IndexError, struct.error, DecodeError
Step = int | Skip  # a number of bytes, or what depends on them

_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from
_FIXED_SIZES = {name: struct.calcsize(layout) for name, layout in (NUMBER_LAYOUTS | MILLISECOND_LAYOUTS).items()} | {
    "uuid": 16
}


def is_sound(entity_type: Any, buffer: memoryview, offset: int) -> bool:
    """Whether a whole entity of this type stands at `offset`, with every element of its arrays and tagged fields."""
    try:
        return _skip_of(entity_type)(buffer, offset) <= len(buffer)
    except (IndexError, struct.error, DecodeError):
        return False


def is_sound_within(entity_type: Any, buffer: memoryview, offset: int, most_elements: int) -> bool:
    """`is_sound` with a limit: raises TooManyElements when arrays and tagged fields together have more elements."""
    with counting(most_elements):
        return is_sound(entity_type, buffer, offset)


def _sized(compact: bool, is_text: bool, nullable: bool) -> Skip:
    unpack, width = (_int16, 2) if is_text else (_int32, 4)
    lowest = -1 if nullable else 0

    def skip_compact(buffer: memoryview, position: int) -> int:
        length = buffer[position] - 1
        if 0 <= length < 0x7F:
            return position + 1 + length
        length, position = read_unsigned_varint(buffer, position)
        if length <= lowest:
            raise DecodeError(f"a null at byte {position}")
        if is_text and length > MAX_STRING_BYTES + 1:
            raise DecodeError(f"a string of {length - 1} bytes at byte {position}")
        return position + max(length - 1, 0)

    def skip(buffer: memoryview, position: int) -> int:
        length = unpack(buffer, position)[0]
        if length < lowest:
            raise DecodeError(f"a length of {length} at byte {position}")
        return int(position + width + max(length, 0))

    return skip_compact if compact else skip


def _count(buffer: memoryview, position: int, compact: bool, lowest: int) -> tuple[int, int]:
    """How many elements an array claims, from `lowest` to what there can be, and where they begin."""
    if compact:
        count, position = read_unsigned_varint(buffer, position)
        count -= 1
    else:
        count, position = _int32(buffer, position)[0], position + 4
    if not lowest <= count <= len(buffer) - position:
        raise DecodeError(f"a count of {count} at byte {position} with {len(buffer) - position} bytes left")
    if count > 0:
        note_elements(count)
    return max(count, 0), position


def _array(item: Step, compact: bool, nullable: bool) -> Skip:
    lowest = -1 if nullable else 0

    def skip_fixed(buffer: memoryview, position: int) -> int:
        assert isinstance(item, int)
        count, position = _count(buffer, position, compact, lowest)
        if count * item > len(buffer) - position:
            raise DecodeError(f"{count} elements at byte {position} are cut off")
        return position + count * item

    def skip_each(buffer: memoryview, position: int) -> int:
        assert not isinstance(item, int)
        count, position = _count(buffer, position, compact, lowest)
        for _ in paced(range(count)):
            position = item(buffer, position)
        return position

    return skip_fixed if isinstance(item, int) else skip_each


def _nullable(entity: Step) -> Skip:
    def skip(buffer: memoryview, position: int) -> int:
        marker, position = buffer[position], position + 1
        if marker == 0xFF:
            return position
        if marker >= 0x80:  # null for Kafka and for our own reader, an entity for kio's, which must not see it
            raise DecodeError(f"a null marker of {marker - 256} at byte {position - 1}")
        return position + entity if isinstance(entity, int) else entity(buffer, position)

    return skip


def _tags(plan: EntityPlan) -> Skip:
    known = {field.tag: _field_step(field, True) for field in plan.tagged}

    def skip(buffer: memoryview, position: int) -> int:
        count, position = read_unsigned_varint(buffer, position)
        note_elements(count)
        for _ in paced(range(count)):
            tag, position = read_unsigned_varint(buffer, position)
            size, position = read_unsigned_varint(buffer, position)
            step = known.get(tag, size)
            end = position + step if isinstance(step, int) else step(buffer, position)
            if end != position + size or end > len(buffer):
                raise DecodeError(f"tagged field {tag} at byte {position} does not have {size} bytes")
            position = end
        return position

    return skip


def _field_step(field: FieldPlan, compact: bool) -> Step:
    if field.type is None:
        step = _entity_step(field.entity)
        if field.is_nullable and field.tag is None and not field.is_array:
            step = _nullable(step)
    else:
        step = _FIXED_SIZES.get(field.type) or _sized(
            compact, field.type == "string", field.is_nullable and not field.is_array
        )
    return _array(step, compact, field.is_nullable) if field.is_array else step


def _joined(steps: Sequence[Step]) -> list[Step]:
    """Neighbours of fixed size in one."""
    joined: list[Step] = []
    for step in steps:
        if joined and isinstance(step, int) and isinstance(joined[-1], int):
            joined[-1] += step
        else:
            joined.append(step)
    return joined


@cache
def _entity_step(entity_type: Any) -> Step:
    plan = plan_of(entity_type)
    steps = _joined([_field_step(field, plan.is_flexible) for field in plan.fields])
    if not plan.is_flexible and all(isinstance(step, int) for step in steps):
        return sum(step for step in steps if isinstance(step, int))
    tags = _tags(plan) if plan.is_flexible else None
    # by twos: a fixed size, then what depends on the bytes
    pairs: list[tuple[int, Skip | None]] = []
    for step in steps:
        if isinstance(step, int):
            pairs.append((step, None))
        elif pairs and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], step)
        else:
            pairs.append((0, step))

    def skip(buffer: memoryview, position: int) -> int:
        for size, step in pairs:
            position += size
            if step is not None:
                position = step(buffer, position)
        if tags is None:
            return position
        return position + 1 if buffer[position] == 0 else tags(buffer, position)

    return skip


@cache
def _skip_of(entity_type: Any) -> Skip:
    step = _entity_step(entity_type)
    if isinstance(step, int):
        return lambda _, position: position + step
    return step
