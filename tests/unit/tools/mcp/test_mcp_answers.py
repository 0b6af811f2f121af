"""Pages of rows and messages of a command: their bounds, and the cuts of long rows."""

from __future__ import annotations

import json

import pytest

from kafkatools.core.secrets import remember
from kafkatools.output import json_line
from kafkatools.tools.mcp.answers import (
    ANSWER_SCHEMA,
    CHANGED,
    MAX_BYTES,
    UNFINISHED,
    Messages,
    Page,
    answer,
    is_failure,
    refusal,
)


def line(row: object) -> bytes:
    return json.dumps(row).encode()


def test_a_page_has_the_rows_behind_its_cursor() -> None:
    page = Page(skip=2, max_rows=3)
    taken = [page.add(line({"n": number})) for number in range(7)]
    assert taken == [True] * 5 + [False, False]
    assert [row["n"] for row in page.rows] == [2, 3, 4]
    assert (page.is_truncated, page.next_cursor) == (True, "5")


def test_a_page_that_holds_the_last_row_is_complete() -> None:
    page = Page(max_rows=3)
    assert [page.add(line({"n": number})) for number in range(3)] == [True] * 3
    assert (page.is_truncated, page.next_cursor) == (False, None)


def test_a_search_ends_with_its_last_row() -> None:
    page = Page(max_rows=2, ends_when_full=True)
    assert [page.add(line({"n": number})) for number in range(2)] == [True, False]
    assert (page.is_truncated, page.next_cursor) == (True, "2")


def test_rows_beyond_the_bytes_are_left_to_the_next_page() -> None:
    page = Page()
    rows = [line({"value": "x" * 30_000}) for _ in range(3)]
    assert [page.add(row) for row in rows] == [True, True, False]
    assert page.next_cursor == "2" and not page.shortened


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"value": "x" * 100_000, "key": "k"}, "rows[0].value: 8192 of 100000 characters"),
        ({"partitions": [{"n": n, "text": "t" * 90} for n in range(2000)]}, "rows[0].partitions: 200 of 2000 items"),
        ({"a": {str(n): "v" * 99 for n in range(5000)}}, "rows[0].a: 200 of 5000 keys"),
        ({"a": {"b": ["é" * 50_000] * 4}}, "rows[0].a.b[0]: 2048 of 50000 characters"),
        ({"a": [["t" * 600] * 90] * 90}, "rows[0].a: 10 of 90 items"),
    ],
)
def test_a_row_beyond_the_bytes_is_shortened(row: dict[str, object], place: str) -> None:
    page = Page()
    assert page.add(line(row))
    assert place in page.shortened
    assert len(json.dumps(page.rows[0], ensure_ascii=False).encode()) <= MAX_BYTES * 1.2, "spaces between values"
    assert page.rows[0].keys() == row.keys()


def test_messages_are_bounded() -> None:
    messages = Messages(hidden_directory=b"/tmp/private/")
    for number in range(50):
        messages.add(line({"note": f"{number} /tmp/private/set.properties"}))
        messages.add(line({"error": {"kind": "FAILED", "message": "m" * 10_000, "exit": 1}}))
    messages.add(b"Traceback (most recent call last):")
    assert len(messages.notes) == len(messages.errors) == 20
    assert messages.notes[0] == {"note": "0 set.properties"}
    assert messages.errors[0] == {"kind": "FAILED", "message": "m" * 2000, "exit": 1}


def test_lines_that_are_not_json_are_kept_as_text() -> None:
    page, messages = Page(), Messages()
    page.add(b"Nothing to do.")
    messages.add(b"plain \xff")
    assert page.rows == [{"text": "Nothing to do."}] and messages.notes == [{"note": "plain �"}]


def test_an_answer_hides_known_secrets_and_has_no_surrogates() -> None:
    remember("S3cret-of-a-profile")
    page = Page()
    page.add(b'{"value": "<S3cret-of-a-profile>", "S3cret-of-a-profile": ["\\ud800"]}')
    content = answer(page, Messages(), 0)
    assert content["rows"] == [{"value": "<[hidden]>", "[hidden]": ["?"]}]


def test_a_secret_is_hidden_where_a_text_is_cut() -> None:
    secret = "Another-S3cret-of-a-profile"
    remember(secret)
    page, messages = Page(), Messages()
    page.add(line({"value": "x" * 8180 + secret + "x" * 100_000}))
    messages.add(line({"error": {"kind": "FAILED", "message": "m" * 1990 + secret}}))
    content = answer(page, messages, 1)
    assert "Another" not in json.dumps(content)
    assert content["rows"] == [{"value": "x" * 8180 + "[hidden]xxxx"}]


def test_a_secret_of_three_characters_is_no_reason_to_blank_out_words() -> None:
    remember("q", "7q", "zzq", "zzqq")
    page = Page()
    page.add(b'{"value": "q topic with 7q partitions, zzq", "key": "zzqq, sea_zzqq"}')
    (row,) = answer(page, Messages(), 0)["rows"]  # type: ignore[misc, attr-defined]
    assert row == {"value": "q topic with 7q partitions, zzq", "key": "[hidden], sea_zzqq"}


@pytest.mark.parametrize("character", ["\u202e", "\x01", "\U000e0041"])
def test_escaped_characters_count_with_the_length_of_their_escape(character: str) -> None:
    page = Page()
    for _ in range(3):
        page.add(line({"value": character * 5_000}))
    assert len(json_line({"rows": page.rows}).encode()) <= MAX_BYTES + 100


def test_a_change_is_read_to_its_end() -> None:
    page = Page(max_rows=2, reads_on=True)
    assert all(page.add(line({"n": number})) for number in range(5))
    assert [row["n"] for row in page.rows] == [0, 1] and page.is_truncated


def test_failures_have_errors_and_no_row() -> None:
    page = Page()
    page.add(b'{"n": 1}')
    messages = Messages()
    messages.add_error("UNKNOWN", "one broker did not answer")
    assert not is_failure(answer(page, messages, 1)), "a part of the answer is there"
    assert is_failure(answer(Page(), messages, 1)) and is_failure(refusal("ARGUMENT", "wrong"))
    assert not is_failure(answer(Page(), Messages(), 3)), "findings"
    for kind in (CHANGED, UNFINISHED):
        messages.errors = []
        messages.add_error(kind, "not made")
        assert is_failure(answer(page, messages, None)), "rows of a change that was not made"
    assert set(refusal("ARGUMENT", "wrong")) == set(ANSWER_SCHEMA["required"])  # type: ignore[call-overload]
