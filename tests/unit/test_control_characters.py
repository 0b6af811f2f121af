"""Control characters in foreign text: what a terminal gets, what JSON holds."""

import functools
import io
import json
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.console import Console
from kafkatools.core.control_characters import json_safe, may_need_escapes, visible, visible_drawing, visible_text
from kafkatools.core.records.json_cells import cell, cells
from kafkatools.output import json_line, table
from kafkatools.progress import TerminalProgress
from kafkatools.terminal import TerminalStream

SPOKEN = ("\u200c", "\u200d")  # they spell words and join emoji
BIDI = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
HOSTILE = "a\x1b[31mb\x1b]0;title\x07c\x9b2Jd\x7fe\re\u202ef\u2028g"


def every_character() -> Iterator[str]:
    """Each character of Unicode but for the halves of surrogate pairs."""
    return (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


@functools.cache
def dangerous_characters() -> tuple[str, ...]:
    """The characters that a terminal or a line of output must not get. The search takes a second."""
    return tuple(
        one
        for one in every_character()
        if (unicodedata.category(one) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(one) in BIDI)
        and one not in SPOKEN
    )


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def terminal_console() -> tuple[Console, Terminal, Terminal]:
    out, err = Terminal(), Terminal()
    return Console(io.BytesIO(), out, err, {"TERM": "xterm"}), out, err


def is_harmless(text: str) -> bool:
    return not any(one in text for one in dangerous_characters() if one not in "\t\n")


def test_every_control_of_the_line_is_escaped() -> None:
    assert len(dangerous_characters()) >= 65 + 2 + 9
    for one in dangerous_characters():
        assert visible(one).isascii() and visible(one).isprintable(), hex(ord(one))
        assert visible_text(one) in (visible(one), "\t", "\n"), hex(ord(one))


def test_letters_of_all_scripts_stay() -> None:
    text = "naïve 日本語 हिन्दी می\u200cخواهم 👨\u200d👩\u200d👧 ﷺ"
    assert visible(text) == text


def test_bytes_that_are_no_text_are_shown_as_bytes() -> None:
    assert visible(b"a\x9b\xff".decode("utf-8", "surrogateescape")) == "a\\x9b\\xff"


@pytest.mark.slow
@settings(deadline=None)  # a busy machine is no mistake
@given(st.text())
def test_json_reads_back_and_holds_no_control(text: str) -> None:
    line = json_line({"value": text, text: [text]})
    assert json.loads(line) == {"value": text, text: [text]}
    assert is_harmless(line) and "\n" not in line and "\t" not in line


@pytest.mark.slow
def test_the_quick_look_misses_nothing() -> None:
    missed = [
        one
        for one in every_character()
        if ord(one) > 0x7F and json_safe(one) != one and not may_need_escapes(one.encode())
    ]
    assert missed == []


@pytest.mark.slow
@settings(deadline=None)  # a busy machine is no mistake
@given(st.lists(st.none() | st.binary() | st.text().map(str.encode), min_size=1))
def test_columns_of_cells_are_the_single_cells(values: list[bytes | None]) -> None:
    buffer = b"".join(value or b"" for value in values)
    lengths = [-1 if value is None else len(value) for value in values]
    positions = [sum(max(size, 0) for size in lengths[:row]) for row in range(len(values))]
    shown = cells(buffer, positions, lengths)
    assert shown == [cell(value) for value in values]
    assert all(is_harmless(one) for one in shown)


@pytest.mark.parametrize("where", ["print", "error", "note"])
def test_a_line_on_a_terminal_stays_one_line_and_drives_nothing(where: str) -> None:
    console, out, err = terminal_console()
    getattr(console, where)(f"name\t{HOSTILE}\nkt: all is well")
    console.flush()
    text = (out.getvalue() + err.getvalue()).decode()
    assert is_harmless(text) and text.count("\n") == 1 and text.startswith("name\ta\\x1b[31mb")


def test_bytes_on_a_terminal_are_escaped_whoever_writes_them() -> None:
    console, out, err = terminal_console()
    data = HOSTILE.encode() + b"\x9b31m\n"
    console.write(data[:7])
    console.stdout.write(memoryview(data)[7:])
    console.error_lines("one\ntwo\x1b[2J")
    console.print_lines("three\nfour\x9b")
    console.flush()
    assert is_harmless(out.getvalue().decode()) and is_harmless(err.getvalue().decode())
    assert b"\\x9b31m\n" in out.getvalue()
    assert err.getvalue() == b"one\ntwo\\x1b[2J\n"


@settings(deadline=None)  # a busy machine is no mistake
@given(st.binary(), st.integers(0, 40))
def test_a_character_cut_by_a_write_is_the_same_character(data: bytes, cut: int) -> None:
    whole, parts = Terminal(), Terminal()
    one, two = TerminalStream(whole), TerminalStream(parts)
    one.write(data)
    two.write(data[:cut])
    two.write(data[cut:])
    one.flush()
    two.flush()
    assert parts.getvalue() == whole.getvalue()


def test_a_stream_that_is_no_terminal_gets_the_bytes() -> None:
    out, err = io.BytesIO(), Terminal()
    console = Console(io.BytesIO(), out, err, {})
    console.print(HOSTILE)
    console.write(b"\x9b\xff")
    console.error(HOSTILE)
    assert out.getvalue() == HOSTILE.encode() + b"\n\x9b\xff"
    assert is_harmless(err.getvalue().decode())


def test_drawing_keeps_colours_and_cursor_and_nothing_else() -> None:
    ours = "\x1b[1;31mred\x1b[0m\r\x1b[2K\x1b[1A\x1b[?25l\x1b[H"
    assert visible_drawing(ours) == ours
    assert visible_drawing("\x1b]52;c;cHduZWQ=\x07\x1bPq\x1b\\\x1b[5n\x1b[?1000h\x9b31m\u202e") == (
        "\\x1b]52;c;cHduZWQ=\\x07\\x1bPq\\x1b\\\\x1b[5n\\x1b[?1000h\\x9b31m\\u202e"
    )


def test_a_table_on_a_terminal_is_drawn_and_its_cells_are_not() -> None:
    console, out, _ = terminal_console()
    console.draw(table(["name"], [[HOSTILE]], terminal=True, width=200))
    console.flush()
    text = out.getvalue().decode()
    assert "\\x1b[31m" in text and "\x1b[31m" not in text


def test_the_label_of_a_progress_line_drives_nothing() -> None:
    out = Terminal()
    drawn = TerminalProgress(TerminalStream(out), 80, f"Reading {HOSTILE}")  # type: ignore[arg-type]
    drawn.start(first_s=0)
    drawn.stop()
    text = out.getvalue().decode()
    assert "\x1b[31m" not in text and "\x07" not in text and "\x9b" not in text
