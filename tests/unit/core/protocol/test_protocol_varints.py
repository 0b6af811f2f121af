"""Unsigned varints and sections of tagged fields: sizes, limits, and bytes that end too early."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.varints import read_unsigned_varint, skip_tagged_fields, unsigned_varint


@pytest.mark.parametrize(("number", "size"), [(0, 1), (127, 1), (128, 2), (16383, 2), (16384, 3), (2**31, 5)])
def test_unsigned_varints(number: int, size: int) -> None:
    data = unsigned_varint(number)
    assert len(data) == size
    assert read_unsigned_varint(b"!" + data, 1) == (number, size + 1)


def test_the_example_of_the_format() -> None:
    assert unsigned_varint(300) == b"\xac\x02"


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff\xff\xff"])
def test_varint_without_an_end_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_unsigned_varint(data, 0)


def test_tagged_fields_are_passed_over() -> None:
    assert skip_tagged_fields(b"\x00rest", 0) == 1
    assert skip_tagged_fields(b"!\x02\x00\x01x\x05\x02yzrest", 1) == 9


@pytest.mark.parametrize("data", [b"\x01", b"\x01\x00", b"\x01\x00\x02x", b"\x02\x00\x00"])
def test_tagged_fields_that_are_cut_off_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        skip_tagged_fields(data, 0)


@given(st.binary(max_size=64))
def test_any_bytes_end_within_the_buffer_or_in_an_error(data: bytes) -> None:
    try:
        position = skip_tagged_fields(memoryview(data), 0)
    except DecodeError:
        return
    assert 0 < position <= len(data)
