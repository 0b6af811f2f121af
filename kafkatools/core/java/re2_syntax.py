"""Check the syntax of RE2 regular expressions, which brokers accept for subscriptions (KIP-848, library RE2/J).

`syntax_error` follows RE2/J's parser (com.google.re2j.Parser with Perl's extensions) and returns its descriptions.
Python's `re` is no substitute: it accepts look-around and back references, which RE2 lacks.
"""

from __future__ import annotations

import re

_MAX_REPEAT = 1000
_MAX_HEX = 0x10FFFF
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}", re.ASCII)
_CAPTURE_NAME = re.compile(r"[0-9A-Za-z_]+", re.ASCII)
_POSIX_TEXT = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit"
_POSIX_NAMES = frozenset(_POSIX_TEXT.split())


class _Refused(Exception):
    """The pattern is invalid; the message is RE2/J's."""


def syntax_error(pattern: str) -> str | None:
    """RE2/J's description of the first syntax error in a pattern; None for a valid pattern."""
    try:
        _Parser(pattern).parse()
    except _Refused as refused:
        return str(refused)
    return None


class _Parser:
    """Parser of RE2 patterns that only checks the syntax. `_items` has an entry for each open group: the number of its
    items since the last `(` or `|`."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._items = [0]
        self._names: set[str] = set()

    def parse(self) -> None:
        was_repeat = False
        while self._at < len(self._text):
            was_repeat = self._item(was_repeat=was_repeat)
        if len(self._items) > 1:
            raise _Refused("missing closing )")

    def _item(self, *, was_repeat: bool) -> bool:
        """Read one item; return whether it was a repetition operator, or a `{` that begins no repetition, which RE2/J
        treats alike. Raises _Refused."""
        character = self._text[self._at]
        if character in "*+?" or (character == "{" and _REPEAT.match(self._text, self._at)):
            self._repeat(was_repeat=was_repeat)
            return True
        if character == "(":
            self._open()
        elif character == "|":
            self._at += 1
            self._items[-1] = 0
        elif character == ")":
            self._close()
        elif character == "[":
            self._class()
            self._items[-1] += 1
        elif character == "\\":
            self._escape_outside()
        else:
            self._at += 1
            self._items[-1] += 1
        # A brace that begins no repetition counts as one for the next operator: RE2/J does not reset its position.
        return character == "{"

    def _repeat(self, *, was_repeat: bool) -> None:
        braces = _REPEAT.match(self._text, self._at) if self._text[self._at] == "{" else None
        if braces is not None:
            self._check_count(braces)
        self._at = braces.end() if braces is not None else self._at + 1
        if self._text.startswith("?", self._at):
            self._at += 1
        if was_repeat:
            raise _Refused("invalid nested repetition operator")
        if not self._items[-1]:
            raise _Refused("missing argument to repetition operator")

    def _check_count(self, braces: re.Match[str]) -> None:
        least = int(braces[1])
        most = least if braces[2] is None else int(braces[3]) if braces[3] else -1
        if least > _MAX_REPEAT or most > _MAX_REPEAT or 0 <= most < least:
            raise _Refused("invalid repeat count")

    def _open(self) -> None:
        if not self._text.startswith("(?", self._at):
            self._at += 1
            self._items.append(0)
        elif self._text.startswith(("(?P<", "(?<"), self._at):
            self._named_capture()
        else:
            self._flags()

    def _named_capture(self) -> None:
        start = self._text.index("<", self._at) + 1
        end = self._text.find(">", start)
        name = self._text[start:end]
        if end < 0 or not _CAPTURE_NAME.fullmatch(name):
            raise _Refused("invalid named capture")
        if name in self._names:
            raise _Refused("duplicate capture group name")
        self._names.add(name)
        self._at = end + 1
        self._items.append(0)

    def _flags(self) -> None:
        """Read a group with flags or without capture: `(?i)`, `(?i-s:`, `(?:`."""
        match = re.compile(r"\(\?(?:[imsU]*|[imsU]*-[imsU]+)([:)])").match(self._text, self._at)
        if match is None:
            raise _Refused("invalid or unsupported Perl syntax")
        self._at = match.end()
        if match[1] == ":":
            self._items.append(0)

    def _close(self) -> None:
        if len(self._items) == 1:
            raise _Refused("regexp/syntax: internal error")
        self._at += 1
        self._items.pop()
        self._items[-1] += 1

    # -- escapes --

    def _escape_outside(self) -> None:
        text, at = self._text, self._at
        if text.startswith("\\Q", at):
            end = text.find("\\E", at + 2)
            quoted = text[at + 2 : end] if end >= 0 else text[at + 2 :]
            self._at = end + 2 if end >= 0 else len(text)
            self._items[-1] += len(quoted)
            return
        self._items[-1] += 1
        if text[at + 1 : at + 2] in ("A", "b", "B", "z"):
            self._at += 2
        elif not self._class_escape():
            self._escaped_character()

    def _class_escape(self) -> bool:
        r"""Read a class such as `\d`, `\pL` or `\p{Greek}`; return False when there is none. Raises _Refused for an
        unknown Unicode name."""
        following = self._text[self._at + 1 : self._at + 2]
        if following and following in "dDsSwW":
            self._at += 2
            return True
        if following and following in "pP":
            self._unicode_class()
            return True
        return False

    def _unicode_class(self) -> None:
        start = self._at + 2
        if start >= len(self._text):
            raise _Refused("invalid character class range")
        if self._text[start] != "{":
            name, self._at = self._text[start], start + 1
        else:
            end = self._text.find("}", start)
            if end < 0:
                raise _Refused("invalid character class range")
            name, self._at = self._text[start + 1 : end], end + 1
        if name.removeprefix("^") not in _UNICODE_NAMES:
            raise _Refused("invalid character class range")

    def _escaped_character(self) -> int:
        """Read an escape for one character and return its code point. Raises _Refused for an unknown escape."""
        self._at += 1
        if self._at >= len(self._text):
            raise _Refused("trailing backslash at end of expression")
        character = self._text[self._at]
        self._at += 1
        if character in "01234567":
            return self._octal(character)
        if character == "x":
            return self._hexadecimal()
        if character in "afnrtv":
            return {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}[character]
        if character.isascii() and character.isalnum():
            raise _Refused("invalid escape sequence")
        return ord(character)

    def _octal(self, first: str) -> int:
        """Read an octal escape such as `\\12` or `\\0`. `\\1` alone is a back reference, which RE2 lacks."""
        following = self._text[self._at : self._at + 1]
        if first != "0" and not (following and following in "01234567"):
            raise _Refused("invalid escape sequence")
        digits = first
        while len(digits) < 3 and self._text[self._at : self._at + 1] in tuple("01234567"):
            digits += self._text[self._at]
            self._at += 1
        return int(digits, 8)

    def _hexadecimal(self) -> int:
        match = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})").match(self._text, self._at)
        if match is None:
            raise _Refused("invalid escape sequence")
        code = int(match[1] or match[2], 16)
        if code > _MAX_HEX:
            raise _Refused("invalid escape sequence")
        self._at = match.end()
        return code

    # -- character classes --

    def _class(self) -> None:
        self._at += 1
        if self._text.startswith("^", self._at):
            self._at += 1
        is_first = True
        while is_first or not self._text.startswith("]", self._at):
            is_first = False
            if not self._posix_class() and not (self._text.startswith("\\", self._at) and self._class_escape()):
                self._range()
        self._at += 1

    def _posix_class(self) -> bool:
        """Read a class such as `[:alpha:]`; return False when there is none. Raises _Refused for an unknown name."""
        if not self._text.startswith("[:", self._at):
            return False
        end = self._text.find(":]", self._at + 2)
        if end < 0:
            return False
        if self._text[self._at + 2 : end].removeprefix("^") not in _POSIX_NAMES:
            raise _Refused("invalid character class range")
        self._at = end + 2
        return True

    def _range(self) -> None:
        low = self._class_character()
        text, at = self._text, self._at
        if text.startswith("-", at) and at + 1 < len(text) and text[at + 1] != "]":
            self._at += 1
            if self._class_character() < low:
                raise _Refused("invalid character class range")

    def _class_character(self) -> int:
        if self._at >= len(self._text):
            raise _Refused("missing closing ]")
        if self._text[self._at] == "\\":
            return self._escaped_character()
        self._at += 1
        return ord(self._text[self._at - 1])


_CATEGORY_TEXT = "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
_SCRIPT_TEXT = (
    "Arabic Armenian Bengali Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul Hebrew Hiragana "
    "Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Runic Sinhala Tamil Telugu Thaana Thai Tibetan"
)
_UNICODE_NAMES = frozenset(["Any", *_CATEGORY_TEXT.split(), *_SCRIPT_TEXT.split()])
"""The names that RE2/J accepts in `\\p{...}`: general categories, scripts and `Any`."""
