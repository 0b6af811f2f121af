"""Masking of keys, values, headers and JSON fields, so that their contents leave in no output format.

Rules: a step replaces the cells before the formatter sees them. What cannot be masked as requested is masked more, not
less: a value that is not a JSON object or list is masked whole, and so is a text or number where a field goes on
inside of it. Null stays null. Hashes are HMAC-SHA-256, since anyone can hash all likely e-mail addresses without a key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Final, NamedTuple

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records.columns import RecordColumns
from kafkatools.tools.lines.replaced_columns import replaced_columns

MODES: Final = ("hash", "null", "last4")
_HIDDEN = "****"
_SHORTEST_WITH_LAST4 = 8
_DOT = re.compile(r"(?<!\\)\.")


class Mask(NamedTuple):
    """One --mask: `part` is key, value or headers; `path` the header's name or the way to the JSON field, empty for the
    whole key or value; `text` the field as the user wrote it."""

    text: str
    part: str
    path: tuple[str, ...]
    mode: str


def parse_mask(text: str) -> Mask:
    """Parse FIELD or FIELD=MODE. Raises ValueError with what is wrong."""
    field, equals, mode = text.rpartition("=")
    if not equals:
        field, mode = text, MODES[0]
    elif mode not in MODES:
        raise ValueError(f"'{mode}' is none of {', '.join(MODES)}")
    part, dot, rest = field.partition(".")
    if part not in ("key", "value", "headers") or (part == "headers" and not rest) or (dot and not rest):
        raise ValueError(f"'{field}' is none of key, value, headers.NAME, key.JSON.FIELD, value.JSON.FIELD")
    path = (rest,) if part == "headers" else tuple(name.replace("\\.", ".") for name in _DOT.split(rest) if dot)
    if "" in path:
        raise ValueError(f"'{field}' has an empty name between dots")
    return Mask(field, part, path, mode)


class MaskStep:
    """Replaces the masked contents of records. `hash_key`: the key of all hashes."""

    def __init__(self, masks: Sequence[Mask], hash_key: bytes) -> None:
        self._hash_key = hash_key
        self._masks = {part: [mask for mask in masks if mask.part == part] for part in ("key", "value", "headers")}
        self._matches = dict.fromkeys((mask.text for mask in masks), 0)
        self._whole = {"key": 0, "value": 0}
        self._first_whole: dict[str, str] = {}
        self._count = 0

    def apply(self, fetched: FetchedColumns) -> FetchedColumns:
        """Return the records with masked contents."""
        columns = fetched.columns
        rows = range(columns.count)
        self._count += columns.count
        cells: dict[str, list[bytes | None]] = {}
        for part, cell_of in (("key", columns.key), ("value", columns.value)):
            if self._masks[part]:
                cells[part] = [self._cell(part, cell_of(row), fetched, row) for row in rows]
        headers = [self._headers(columns, row) for row in rows] if self._masks["headers"] else None
        return fetched._replace(columns=replaced_columns(columns, cells.get("key"), cells.get("value"), headers))

    def failures(self) -> Sequence[str]:
        """Return a line for keys and one for values that were masked whole because they are not JSON."""
        return [
            f"{count} {part}s were masked whole, since they are neither a JSON object nor a list (the first: "
            f"{self._first_whole[part]})"
            for part, count in self._whole.items()
            if count
        ]

    def remarks(self) -> Sequence[str]:
        """Return a line for each mask that matched no record."""
        return [
            f"--mask {text}: none of the {self._count} records has this field"
            for text, matches in self._matches.items()
            if self._count and not matches
        ]

    def _headers(self, columns: RecordColumns, row: int) -> list[tuple[bytes, bytes | None]]:
        modes = {mask.path[0].encode("utf-8", "surrogateescape"): mask for mask in self._masks["headers"]}
        headers = []
        for name, value in columns.raw_headers(row):
            mask = modes.get(name)
            if mask is not None:
                self._matches[mask.text] += 1
                value = self._bytes(value, mask.mode)
            headers.append((name, value))
        return headers

    def _cell(self, part: str, data: bytes | None, fetched: FetchedColumns, row: int) -> bytes | None:
        if data is None:
            return None
        masks = self._masks[part]
        whole = [mask for mask in masks if not mask.path]
        if whole:
            for mask in masks:
                self._matches[mask.text] += 1
            return self._bytes(data, whole[0].mode)
        try:
            return self._json(data, masks)
        except (ValueError, RecursionError):
            offset = fetched.columns.offsets[row]
            self._first_whole.setdefault(part, f"{fetched.topic}-{fetched.partition} offset {offset}")
            self._whole[part] += 1
            for mask in masks:
                self._matches[mask.text] += 1
            return self._hidden_whole(data, [mask.mode for mask in masks])

    def _hidden_whole(self, data: bytes, modes: Sequence[str]) -> bytes | None:
        if "null" in modes:
            return None
        return _HIDDEN.encode() if "last4" in modes else self._bytes(data, "hash")

    def _bytes(self, data: bytes | None, mode: str) -> bytes | None:
        if data is None or mode == "null":
            return None
        if mode == "hash":
            return hmac.new(self._hash_key, data, hashlib.sha256).hexdigest().encode()
        try:
            return _last4(data.decode()).encode()
        except UnicodeDecodeError:
            return _HIDDEN.encode()

    # -- fields of JSON --

    def _json(self, data: bytes, masks: Sequence[Mask]) -> bytes:
        """Return a JSON text with masked fields. Raises ValueError or RecursionError if it is none with fields."""
        node = json.loads(str(data, "utf-8"), parse_int=_Number, parse_float=_Number, parse_constant=_Number)
        if not isinstance(node, (dict, list)):
            raise ValueError("not an object or list")
        for mask in masks:
            node = self._replaced(node, mask.path, mask)
        try:
            return _json_text(node, encode_basestring).encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can hold
            return _json_text(node, encode_basestring_ascii).encode()

    def _replaced(self, node: object, path: Sequence[str], mask: Mask) -> object:
        """Return the JSON value with what is at `path` masked: in each item of a list, or in the item of a number."""
        if not path:
            self._matches[mask.text] += 1
            return self._node(node, mask.mode)
        if isinstance(node, list):
            if path[0].isdecimal():
                index = int(path[0])
                return [self._replaced(item, path[1:], mask) if at == index else item for at, item in enumerate(node)]
            return [self._replaced(item, path, mask) for item in node]
        if isinstance(node, dict):
            if path[0] in node:
                node[path[0]] = self._replaced(node[path[0]], path[1:], mask)
            return node
        return self._node(node, mask.mode)

    def _node(self, node: object, mode: str) -> object:
        if node is None or mode == "null":
            return None
        text = node if isinstance(node, str) else _json_text(node, encode_basestring)
        if mode == "last4":
            return _HIDDEN if isinstance(node, (dict, list)) else _last4(text)
        return hmac.new(self._hash_key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


class _Number(str):
    """A JSON number as its text, which keeps all digits."""

    __slots__ = ()


def _last4(text: str) -> str:
    """Return the last four characters, if at least as many are hidden."""
    return _HIDDEN + text[-4:] if len(text) >= _SHORTEST_WITH_LAST4 else _HIDDEN


def _json_text(node: object, quoted: Callable[[str], str]) -> str:
    if isinstance(node, _Number):
        return str(node)
    if isinstance(node, str):
        return quoted(node)
    if isinstance(node, dict):
        return "{" + ",".join([f"{quoted(name)}:{_json_text(item, quoted)}" for name, item in node.items()]) + "}"
    if isinstance(node, list):
        return "[" + ",".join([_json_text(item, quoted) for item in node]) + "]"
    return {None: "null", True: "true", False: "false"}[node]  # type: ignore[index]
