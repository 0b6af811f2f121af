"""Masks of keys, values, headers and JSON fields: what is masked is in no byte of the records that go on."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.tools.lines.mask import MaskStep, parse_mask

KEY = b"a key of hashes"


def hashed(data: bytes) -> str:
    return hmac.new(KEY, data, hashlib.sha256).hexdigest()


def fetched(*rows: Any) -> FetchedColumns:
    builder = BatchBuilder(1 << 16, base_offset=40)
    for row in rows:
        builder.append(1, *row)
    return FetchedColumns("orders", 2, RecordBatch(builder.close()).columns())


def masked(step: MaskStep, *rows: Any) -> list[Any]:
    columns = step.apply(fetched(*rows)).columns
    return [(columns.key(row), columns.value(row), columns.headers(row)) for row in range(columns.count)]


def step_of(*masks: str) -> MaskStep:
    return MaskStep([parse_mask(mask) for mask in masks], KEY)


def value_of(mask: str, value: str) -> str:
    [(_, data, _)] = masked(step_of(mask), (None, value.encode()))
    return "None" if data is None else data.decode()


def test_keys_values_and_headers() -> None:
    headers = (("token", b"secret-1"), ("other", b"x"), ("token", b"secret-2"), ("token", None))
    rows = [(b"alice", b"4111111111111111", headers), (None, None, ()), (b"", b"\xff" * 9, ())]
    assert masked(step_of("key", "value=last4", "headers.token=null"), *rows) == [
        (hashed(b"alice").encode(), b"****1111", (("token", None), ("other", b"x"), ("token", None), ("token", None))),
        (None, None, ()),
        (hashed(b"").encode(), b"****", ()),
    ]


def test_nothing_of_the_masked_contents_is_in_the_buffer() -> None:
    step = step_of("key", "value.user.email", "headers.h")
    row = (b"secret", b'{"user":{"email":"secret"},"n":1}', (("h", b"secret"),))
    assert b"secret" not in step.apply(fetched(row)).columns.buffer
    assert (step.failures(), step.remarks()) == ([], [])


@pytest.mark.parametrize(
    ("mask", "value", "expected"),
    [
        ("value.email=null", '{"email": "a@b", "n": 1.10, "big": 123456789012345678901}',
         '{"email":null,"n":1.10,"big":123456789012345678901}'),
        ("value.email", '{"email":"a@b"}', f'{{"email":"{hashed(b"a@b")}"}}'),
        ("value.email", '{"email":null}', '{"email":null}'),
        ("value.card=last4", '{"card":4111111111111111}', '{"card":"****1111"}'),
        ("value.card=last4", '{"card":"1234567"}', '{"card":"****"}'),
        ("value.card=last4", '{"card":{"n":"4111111111111111"}}', '{"card":"****"}'),
        ("value.users.email=null", '{"users":[{"email":"a"},{"id":2},{"email":"b"}]}',
         '{"users":[{"email":null},{"id":2},{"email":null}]}'),
        ("value.users.1.email=null", '{"users":[{"email":"a"},{"email":"b"}]}',
         '{"users":[{"email":"a"},{"email":null}]}'),
        ("value.user.email=null", '{"user":"a@b","n":true}', '{"user":null,"n":true}'),
        ("value.email=null", '{"email":"first","email":"second"}', '{"email":null}'),
        ("value.email=null", '[{"email":"a"}]', '[{"email":null}]'),
        (r"value.a\.b=null", '{"a.b":1,"a":{"b":2}}', '{"a.b":null,"a":{"b":2}}'),
        ("value.email=null", r'{"email":"x","é":"é\ud800"}', '{"email":null,"\\u00e9":"\\u00e9\\ud800"}'),
    ],
)  # fmt: skip
def test_fields_of_json(mask: str, value: str, expected: str) -> None:
    assert value_of(mask, value) == expected


@pytest.mark.parametrize(
    "value", [b"plain", b'"text"', b"42", b"null", b"\xff{}", b"", b'{"email":"a"', b"[" * 100_000]
)
def test_value_without_fields_is_masked_whole_and_counted(value: bytes) -> None:
    step = step_of("value.email=null", "value.card")
    assert masked(step, (None, value), (None, b'{"email":"a","card":"b"}'), (None, None)) == [
        (None, None, ()),
        (None, f'{{"email":null,"card":"{hashed(b"b")}"}}'.encode(), ()),
        (None, None, ()),
    ]
    [line] = step.failures()
    assert line.startswith("1 values were masked whole")
    assert "orders-2 offset 40" in line
    assert value_of("value.email", "plain") == hashed(b"plain")
    assert value_of("value.email=last4", "4111111111111111") == "****"


def test_mask_without_a_match_is_noted() -> None:
    step = step_of("value.emial", "key")
    masked(step, (b"k", b'{"email":"a"}'))
    assert step.remarks() == ["--mask value.emial: none of the 1 records has this field"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vlaue", "'vlaue' is none of key, value, headers.NAME"),
        ("value.", "'value.' is none of"),
        ("headers", "'headers' is none of"),
        ("value=hide", "'hide' is none of hash, null, last4"),
        ("value.a..b", "'value.a..b' has an empty name"),
        ("", "'' is none of"),
    ],
)
def test_wrong_mask_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_mask(text)
    assert str(raised.value).startswith(message)


SECRET = "sEcReT-4711"
NODES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4) | st.just(SECRET),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["email", "user", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def without(node: Any, path: list[str]) -> Any:
    """The node with null at the path and where the path cannot go on."""
    if not path:
        return None
    if isinstance(node, list):
        return [without(item, path) for item in node]
    if isinstance(node, dict):
        return {name: without(item, path[1:]) if name == path[0] else item for name, item in node.items()}
    return None


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.sampled_from(["email", "user", "x"]), NODES, max_size=3))
def test_all_but_the_masked_field_stays(node: dict[str, Any]) -> None:
    text = value_of("value.user.email=null", json.dumps(node))
    assert json.loads(text) == without(node, ["user", "email"])
