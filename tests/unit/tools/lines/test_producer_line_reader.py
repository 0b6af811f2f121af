"""Lines to rows as Kafka's LineMessageReader does; messages and records were recorded from Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.errors import ConfigError
from kafkatools.tools.lines.line_reader import LineFormat, LineReader, MalformedLine

Cell = tuple[bytes | None, bytes | None]


def read(
    text: bytes, chunk: int = 64, reader: LineReader | None = None, step: int = 1 << 20, **properties: str
) -> list[Cell]:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    reader = reader or LineReader(LineFormat.from_properties(names), 1000, chunk)
    cells: list[Cell] = []
    place = 0
    while True:
        room = reader.room()
        count = min(len(room), len(text) - place, step)
        room[:count] = text[place : place + count]
        place += count
        reader.filled(count)
        for rows in reader.rows():
            for row in range(rows.count):
                cells.append((_cell(rows, row, "key"), _cell(rows, row, "value")))
        if count == 0:
            return cells


def _cell(rows: object, row: int, name: str) -> bytes | None:
    positions, lengths = getattr(rows, f"{name}_positions"), getattr(rows, f"{name}_lengths")
    if positions is None or lengths[row] < 0:
        return None
    return bytes(rows.buffer[positions[row] : positions[row] + lengths[row]])  # type: ignore[attr-defined]


def values(text: bytes, **options: object) -> list[bytes | None]:
    return [value for _, value in read(text, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"one\ntwo\nthree\n", [b"one", b"two", b"three"]),
        (b"one\ntwo", [b"one", b"two"]),
        (b"one\n\nthree\n", [b"one", b"", b"three"]),
        (b"", []),
        (b"one\r\ntwo\r\n", [b"one", b"two"]),
        (b"one\rtwo\n", [b"one", b"two"]),
        (b"a\xff\xfeb\n", [b"a\xff\xfeb"]),
        (b" lead\ttab trail \n", [b" lead\ttab trail "]),
    ],
)
def test_lines_are_values(text: bytes, expected: list[bytes]) -> None:
    assert values(text) == expected


@pytest.mark.slow
@given(
    st.lists(st.binary(max_size=90).filter(lambda line: b"\n" not in line and b"\r" not in line), max_size=40),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.integers(1, 70),
)
@settings(max_examples=200, deadline=None)
def test_lines_do_not_depend_on_how_they_arrive(lines: list[bytes], end: bytes, step: int) -> None:
    text = b"".join(line + end for line in lines)
    assert values(text, step=step) == lines


def test_keys_end_at_the_first_separator() -> None:
    text = b"k1:v1\nk2:v2:with:colons\n:emptykey\nk4:\n"
    assert read(text, parse_key="true", key_separator=":") == [
        (b"k1", b"v1"),
        (b"k2", b"v2:with:colons"),
        (b"", b"emptykey"),
        (b"k4", b""),
    ]


def test_a_separator_may_have_several_characters() -> None:
    assert read(b"k1||v1\n", parse_key="true", key_separator="||") == [(b"k1", b"v1")]


def test_a_line_without_its_separator_ends_the_reading_after_the_rows_before_it() -> None:
    reader = LineReader(LineFormat.from_properties({"parse.key": "true", "key.separator": ":"}))
    room = reader.room()
    room[:17] = b"k1:v1\nnokey\nk3:v3"
    reader.filled(17)
    rows = reader.rows()
    assert next(rows).count == 1
    with pytest.raises(MalformedLine, match="^No key separator found on line number 2: 'nokey'$"):
        next(rows)


def test_ignore_error_sends_the_whole_line_as_value() -> None:
    assert read(b"k1:v1\nnokey\nk3:v3\n", parse_key="true", key_separator=":", ignore_error="true") == [
        (b"k1", b"v1"),
        (None, b"nokey"),
        (b"k3", b"v3"),
    ]


def test_the_null_marker_stands_for_null_in_keys_and_values() -> None:
    text = b"NULL:v1\nk2:NULL\nNULL:NULL\n"
    assert read(text, parse_key="true", key_separator=":", null_marker="NULL") == [
        (None, b"v1"),
        (b"k2", None),
        (None, None),
    ]
    assert values(b"NULL\nnull\n", null_marker="NULL") == [None, b"null"]


def records(text: bytes, **properties: str) -> list[tuple[object, ...]]:
    reader = LineReader(
        LineFormat.from_properties({name.replace("_", "."): value for name, value in properties.items()})
    )
    found: list[tuple[object, ...]] = []
    room = reader.room()
    room[: len(text)] = text
    reader.filled(len(text))
    found += [tuple(record) for record in reader.records()]
    reader.room()
    reader.filled(0)
    return found + [tuple(record) for record in reader.records()]


def test_headers_come_first() -> None:
    assert records(b"h1:a,h2:b\tk1\tv1\n", parse_headers="true", parse_key="true") == [
        (b"k1", b"v1", (("h1", b"a"), ("h2", b"b")))
    ]
    assert records(b"h1:a,h2:b\tv1\nh1:c\tv2", parse_headers="true") == [
        (None, b"v1", (("h1", b"a"), ("h2", b"b"))),
        (None, b"v2", (("h1", b"c"),)),
    ]


def test_headers_may_have_separators_of_their_own() -> None:
    found = records(
        b"h1=a;h2=b|k1:v1\n",
        parse_headers="true",
        parse_key="true",
        headers_delimiter="|",
        headers_separator=";",
        headers_key_separator="=",
        key_separator=":",
    )
    assert found == [(b"k1", b"v1", (("h1", b"a"), ("h2", b"b")))]


@pytest.mark.parametrize("separator", ["(,|;)", r"\Q,\E|;", "[,;]"])
def test_the_separator_of_headers_is_a_regular_expression_of_java(separator: str) -> None:
    found = records(b"h1:a;h2:b,h3:\xff,,\tv1\n,\tv2\n", parse_headers="true", headers_separator=separator)
    assert found == [(None, b"v1", (("h1", b"a"), ("h2", b"b"), ("h3", b"\xff"))), (None, b"v2", ())]


def test_an_empty_match_splits_headers_between_all_characters() -> None:
    with pytest.raises(MalformedLine, match="^No header key separator found in pair 'h' on line number 1$"):
        records(b"h1:a|h2:b\tv1\n", parse_headers="true", headers_separator="|")


def test_the_null_marker_in_headers() -> None:
    found = records(b"NULL\tk\tv\nh1:NULL,h2:x\tk\tv\n", parse_headers="true", parse_key="true", null_marker="NULL")
    assert found == [(b"k", b"v", ()), (b"k", b"v", (("h1", None), ("h2", b"x")))]


def test_ignore_error_with_headers() -> None:
    found = records(b"v1\nh1:a\tv2\nbad\tv3\n", parse_headers="true", ignore_error="true")
    assert found == [(None, b"v1", ()), (None, b"v2", (("h1", b"a"),)), (None, b"v3", (("bad", None),))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"v1\n", "No headers delimiter found on line number 1: 'v1'"),
        (b"h1\tv1\n", "No header key separator found in pair 'h1' on line number 1"),
        (b"\tv1\n", "No header key separator found in pair '' on line number 1"),
    ],
)
def test_malformed_headers_are_named(text: bytes, message: str) -> None:
    with pytest.raises(MalformedLine) as caught:
        records(text, parse_headers="true")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"parse.headers": "true", "headers.delimiter": ":"},
            "headers.delimiter and headers.key.separator may not be equal",
        ),
        (
            {"parse.headers": "true", "headers.separator": ":"},
            "headers.separator and headers.key.separator may not be equal",
        ),
        (
            {"null.marker": ":", "parse.key": "true", "key.separator": ":"},
            "null.marker and key.separator may not be equal",
        ),
        ({"key.separator": ""}, "key.separator may not be empty"),
        (
            {"parse.headers": "true", "headers.separator": "[,"},
            "headers.separator is not a regular expression: '[,': unterminated character set at position 0",
        ),
        (
            {"headers.separator": "a{99999999999}"},
            "headers.separator is not a regular expression: 'a{99999999999}': the repetition number is too large",
        ),
        ({"parse.key": "yes"}, "Reader property parse.key must be true or false, not 'yes'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LineFormat.from_properties(properties)
    assert str(caught.value) == message


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(ConfigError, match="Unknown reader property: no.such.thing"):
        LineFormat.from_properties({"no.such.thing": "1"})


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_that_can_never_be_sent_is_skipped_without_keeping_it(end: bytes) -> None:
    reader = LineReader(LineFormat(), max_line_bytes=200, chunk_bytes=64)
    text = b"before\n" + b"x" * 100_000 + end + (b"after\n" if end else b"")
    assert [value for _, value in read(text, reader=reader)] == ([b"before", b"after"] if end else [b"before"])
    assert reader.oversized == [(2, 100_000)]
    assert len(reader._data) <= 1024
    assert reader.line_number == (3 if end else 2)
