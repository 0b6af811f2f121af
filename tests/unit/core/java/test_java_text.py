"""Bytes as Java shows them: malformed UTF-8 as `new String(bytes, UTF_8)` of OpenJDK 17 replaces it."""

from __future__ import annotations

import pytest

from kafkatools.core.java.text import java_boolean, java_string, optional_long

R = "\ufffd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("Grüße 🦊".encode(), "Grüße 🦊"),
        (b"\xff\xfe", R + R),
        (b"a\xc3", "a" + R),
        (b"\xe2\x82", R),
        (b"\xe2\x28\xa1", R + "(" + R),
        (b"\xed\xa0\x80", R),
        (b"\xed\xa0", R),
        (b"\xed\xa0A", R + "A"),
        (b"\xed\xa0\x80\xed\xb0\x80", R + R),
        (b"\xf0\x9f\x98", R),
        (b"\xf0\x80\x80A", R + R + R + "A"),
        (b"\xc0\x80", R + R),
        (b"\xf8\x88\x80\x80\x80", R * 5),
    ],
)
def test_malformed_bytes_are_replaced_as_in_java(data: bytes, text: str) -> None:
    assert java_string(data) == text


def test_small_texts() -> None:
    assert (java_boolean(True), java_boolean(False)) == ("true", "false")
    assert (optional_long(None), optional_long(-5)) == ("OptionalLong.empty", "OptionalLong[-5]")
