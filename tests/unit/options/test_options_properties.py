"""Java properties files: expected values from the documentation of java.util.Properties.load."""

from __future__ import annotations

import pathlib

import pytest

from kafkatools.exit_status import CommandError
from kafkatools.options import parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a=1\nb = 2\nc:3\nd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n! no\n\n   # no\na=#yes", {"a": "#yes"}),
        ("Truth = Beauty\n Truth:Beauty\nTruth                    :Beauty", {"Truth": "Beauty"}),
        (
            "fruits    apple, banana, pear, \\\n             cantaloupe, watermelon, \\\n       kiwi, mango",
            {"fruits": "apple, banana, pear, cantaloupe, watermelon, kiwi, mango"},
        ),
        ("cheeses", {"cheeses": ""}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("path=c:\\\\dir\nlast=1", {"path": "c:\\dir", "last": "1"}),
        ("t=a\\tb\\nc\\u00e9\\z", {"t": "a\tb\ncéz"}),
        ("face=\\ud83d\\ude00", {"face": "😀"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("trailing=keeps  ", {"trailing": "keeps  "}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        (
            'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n  username="a" \\\n'
            '  password="b=c:d";',
            {
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'username="a" password="b=c:d";'
            },
        ),
    ],
)
def test_settings(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


def test_malformed_unicode_escape_is_refused() -> None:
    with pytest.raises(CommandError, match=r"malformed \\uxxxx escape '\\u12g4'"):
        parse_properties("a=\\u12g4")


def test_files_are_utf8_or_else_latin_1(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "p"
    path.write_bytes("a=é".encode())
    assert read_properties(str(path)) == {"a": "é"}
    path.write_bytes("a=é".encode("iso-8859-1"))
    assert read_properties(str(path)) == {"a": "é"}


def test_files_that_cannot_be_read_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CommandError, match="absent: no such properties file"):
        read_properties(str(tmp_path / "absent"))
    with pytest.raises(CommandError, match="Is a directory"):
        read_properties(str(tmp_path))
