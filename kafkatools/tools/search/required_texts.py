"""What every match of a regular expression contains, from its parsed form (the standard library's `re._parser`).

Rules: the result only decides where to look first; each candidate is compared with the expression itself. Without
certainty there is no result. The parser is no public interface of Python, so whatever fails here means no result.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

MOST_ALTERNATIVES = 8
MOST_LOCAL_BYTES = 1024
MOST_REPEATED_BYTES = 16

_Texts = tuple[bytes, ...] | None

# Matches of these depend on nothing but the matched bytes, and a search for them tries all ways to match.
_LOCAL = {
    *("LITERAL", "NOT_LITERAL", "ANY", "ANY_ALL", "IN", "BRANCH", "SUBPATTERN", "MAX_REPEAT", "MIN_REPEAT"),
    *("RANGE", "CATEGORY", "NEGATE"),
}


class Shape(NamedTuple):
    """Facts about the matches of an expression. `texts`: each match contains one of them (None: unknown), in lower
    case with `ignores_case`. `is_exact`: each occurrence of the only text is a match. `is_local`: a match consists of
    1 to MOST_LOCAL_BYTES bytes and does not depend on the bytes around it."""

    texts: _Texts = None
    ignores_case: bool = False
    is_exact: bool = False
    is_local: bool = False


def shape_of(pattern: bytes, flags: int) -> Shape:
    """Return the shape of a valid expression; an empty Shape when nothing is certain."""
    try:
        tree = importlib.import_module("re._parser").parse(pattern, flags)
        all_flags: int = tree.state.flags
        if all_flags & (re.LOCALE | re.DEBUG):
            return Shape()
        items = list(tree)
        ignores_case = bool(all_flags & re.IGNORECASE)
        texts = _required(items)
        is_exact = bool(items) and all(op.name == "LITERAL" for op, _ in items)
        smallest, largest = tree.getwidth()
        is_local = smallest >= 1 and largest <= MOST_LOCAL_BYTES and _is_local(items)
    except (ImportError, AttributeError, TypeError, ValueError, RecursionError):
        return Shape()
    if texts is not None and ignores_case:
        texts = tuple(text.lower() for text in texts)
    return Shape(texts, ignores_case, is_exact, is_local)


def _required(items: Iterable[tuple[Any, Any]]) -> _Texts:
    best: _Texts = None
    run = bytearray()
    for op, argument in items:
        if op.name == "LITERAL":
            run.append(argument)
            continue
        run += _repeated_byte(op.name, argument)
        best = _better(_better(best, (bytes(run),)), _required_by(op.name, argument))
        run.clear()
    return _better(best, (bytes(run),))


def _repeated_byte(name: str, argument: Any) -> bytes:
    """Return the bytes with which a repetition of one byte begins at least, none for anything else."""
    if name not in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return b""
    least, _, body = argument
    if len(body) != 1 or body[0][0].name != "LITERAL":
        return b""
    repeated: bytes = bytes([body[0][1]]) * min(least, MOST_REPEATED_BYTES)
    return repeated


def _required_by(name: str, argument: Any) -> _Texts:
    if name == "SUBPATTERN":
        _, added_flags, removed_flags, body = argument
        return None if added_flags or removed_flags else _required(body)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, _, body = argument
        return _required(body) if least >= 1 else None
    if name == "ATOMIC_GROUP":
        return _required(argument)
    if name == "BRANCH":
        texts: set[bytes] = set()
        for alternative in argument[1]:
            found = _required(alternative)
            if found is None:
                return None
            texts.update(found)
        return tuple(sorted(texts))
    return None


def _better(first: _Texts, second: _Texts) -> _Texts:
    return first if _worth(first) >= _worth(second) else second


def _worth(texts: _Texts) -> tuple[int, int]:
    if texts is None or not all(texts) or len(texts) > MOST_ALTERNATIVES:
        return (0, 0)
    return min(map(len, texts)), -len(texts)


def _is_local(items: Sequence[tuple[Any, Any]]) -> bool:
    return all(op.name in _LOCAL and all(map(_is_local, _bodies(op.name, argument))) for op, argument in items)


def _bodies(name: str, argument: Any) -> list[list[tuple[Any, Any]]]:
    if name == "SUBPATTERN":
        return [list(argument[3])]
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        return [list(argument[2])]
    return [list(alternative) for alternative in argument[1]] if name == "BRANCH" else []
