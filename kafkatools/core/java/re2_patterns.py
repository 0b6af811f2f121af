"""Compile RE2 regular expressions, which brokers match against names (RE2/J in Kafka).

`re2_syntax.py` judges the syntax, in RE2/J's words. The package google-re2 (extra `re2`) matches, if it is installed.
Without it `linear_pattern.py` does, by a translation to the syntax of Python's `re`, which lacks a part of RE2's: such
a pattern is refused, never matched otherwise. Both take time linear in the length of the name.
"""

from __future__ import annotations

import functools
import importlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from kafkatools.core.install_command import install_command
from kafkatools.core.java.linear_pattern import LinearPattern, TooComplex
from kafkatools.core.java.re2_syntax import syntax_error

MOST_CHARACTERS = 32_767
# Of a compiled pattern. One that needs more is refused within about 50 ms.
MOST_BYTES = 2 << 20
TOO_LARGE = "expression too large"
NOT_TRANSLATED = f"not supported without the Python package google-re2 on the broker ({install_command('re2')})"
# `re` reads it, but not as RE2 does: no class of others, `{,` is a text, and ranges of other letters have no case.
_OTHER_MEANING = re.compile(r"\[:\^|\{,|\(\?[a-zA-Z]*i(?s:.*)\[[^\]]*[^\x00-\x7f]")
_QUOTED = re.compile(r"\\Q(?P<text>.*?)(?:\\E|\Z)|\\.", re.DOTALL)
_FIRST_FLAGS = re.compile(r"\(\?(?P<on>[imsU]*)-(?P<off>[imsU]+)\)")
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


class InvalidPattern(Exception):
    """A pattern is invalid or too large; the message is RE2/J's for a syntax error."""


class Matcher(Protocol):
    """A compiled pattern."""

    def fullmatch(self, name: Iterable[str]) -> bool:
        """Return whether the pattern matches the whole name, which is a text or an iterable of its characters."""


class _NativePattern:
    """A pattern compiled by google-re2."""

    def __init__(self, pattern: Any) -> None:
        self._pattern = pattern

    def fullmatch(self, name: Iterable[str]) -> bool:
        text = name if isinstance(name, str) else "".join(name)
        return self._pattern.fullmatch(text) is not None


@functools.cache
def native_compiler() -> Callable[[str], Matcher] | None:
    """A function that compiles by google-re2 and raises InvalidPattern; None without the package."""
    try:
        re2 = importlib.import_module("re2")
        options = re2.Options()
    except (ImportError, AttributeError):  # other packages have a module of this name too
        return None
    options.log_errors = False
    options.max_mem = MOST_BYTES

    def compile_natively(pattern: str) -> Matcher:
        try:
            return _NativePattern(re2.compile(pattern, options))
        except re2.error:
            raise InvalidPattern(TOO_LARGE) from None

    return compile_natively


def compile_re2(pattern: str) -> Matcher:
    """Compile a pattern. Raises InvalidPattern."""
    if len(pattern) > MOST_CHARACTERS:
        raise InvalidPattern(TOO_LARGE)
    problem = syntax_error(pattern)
    if problem is not None:
        raise InvalidPattern(problem)
    native = native_compiler()
    return compile_translated(pattern) if native is None else native(pattern)


def compile_translated(pattern: str) -> Matcher:
    """Compile a valid pattern without google-re2. Raises InvalidPattern if its syntax has no translation. With `(?i)`
    only ASCII letters, and single letters that have one other case, match both cases."""
    pattern = _FIRST_FLAGS.sub(_flags_that_stay, pattern, count=1) if _FIRST_FLAGS.match(pattern) else pattern
    if _OTHER_MEANING.search(pattern) is not None:
        raise InvalidPattern(NOT_TRANSLATED)
    text = "".join(_translated_parts(pattern))
    try:
        with warnings.catch_warnings():  # that `re` may change the meaning of `[[` and `&&`
            warnings.simplefilter("ignore", FutureWarning)
            return LinearPattern(text, re.ASCII)
    except re.error:
        raise InvalidPattern(NOT_TRANSLATED) from None
    except (TooComplex, RecursionError, OverflowError):
        raise InvalidPattern(TOO_LARGE) from None


def _flags_that_stay(match: re.Match[str]) -> str:
    """The flags at the beginning of a pattern without those that are turned off: there they are off anyway."""
    flags = "".join(flag for flag in match["on"] if flag not in match["off"])
    return f"(?{flags})" if flags else ""


def _translated_parts(pattern: str) -> Iterator[str]:
    r"""Yield a pattern in the syntax of `re`, part by part: \Q...\E quotes the characters between them, and without \E
    all to the end. A class has no quotes: RE2/J takes \Q in it for an error."""
    begin = 0
    for quoted in _QUOTED.finditer(pattern):
        if quoted["text"] is not None:
            yield _translated(pattern[begin : quoted.start()])
            yield re.escape(quoted["text"])
            begin = quoted.end()
    yield _translated(pattern[begin:])


def _translated(part: str) -> str:
    text = re.sub(r"\[:(\w+):\]", lambda match: _POSIX_CLASSES.get(match[1], match[0]), part)
    return re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", text).replace(r"\z", r"\Z")
