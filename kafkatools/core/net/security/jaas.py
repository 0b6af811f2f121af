"""The value of sasl.jaas.config: a login module and its options (org.apache.kafka.common.security.JaasConfig).

It is taken apart as Java's StreamTokenizer does as Kafka sets it up: words of letters, digits and `-_$.`, text in
single or double quotes with C's escapes, comments from `/` (alone, `//` and `/* */`); a word that begins with a digit
is a number and no value. Modules are a closed list of names; nothing is loaded by name. Options hold secrets: they are
in no error and no `repr`, nor is a name of an option that is not one of Kafka's: it may be half a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkatools.core.errors import ConfigError
from kafkatools.core.secrets import is_secret_name, remember

_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_MODULES = ("PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule")
_OPTIONS = ("username", "password", "tokenauth", "clientId", "clientSecret", "scope")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLASS = re.compile(r"(?:[A-Za-z_$][\w$]*\.)+[A-Za-z_$][\w$]*|[A-Za-z]+(?:Module|Callback|Handler)")
_WORD = re.compile(r"[A-Za-z]{1,10}")
"""Errors show class names and flags only; other text may be a whole entry in quotes with its password."""
_END = ""


class LoginModule(NamedTuple):
    """The one entry of the setting."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name}, options={sorted(self.options)})"


class _Token(NamedTuple):
    """A word or a quoted text (`text`), or one character that is neither (`mark`); at the end both are None."""

    text: str | None
    mark: str | None


def parse_jaas_config(value: str) -> LoginModule:
    """The login module. Raises ConfigError."""
    tokens = _tokens(value)
    entries = []
    while True:
        module = next(tokens)
        if module == (None, None):
            break
        entries.append(_entry(module, tokens))
    if not entries:
        raise ConfigError("Login module not specified in JAAS config (sasl.jaas.config)")
    if len(entries) > 1:
        raise ConfigError(
            f"JAAS config property sasl.jaas.config contains {len(entries)} login modules, should be 1 module"
        )
    entry = entries[0]
    remember(*(value for name, value in entry.options.items() if is_secret_name(name)))
    if entry.name.rpartition(".")[2] not in _MODULES:
        hint = "; see AWS MSK in docs/security.md" if entry.name.endswith("IAMLoginModule") else ""
        shown = f" {entry.name}" if _CLASS.fullmatch(entry.name) else ""
        raise ConfigError(
            f"sasl.jaas.config: the login module{shown} is not known; it may be one of {', '.join(_MODULES)}{hint}"
        )
    return entry


def _entry(module: _Token, tokens: Iterator[_Token]) -> LoginModule:
    if module.text is None:
        raise ConfigError("Login module not specified in JAAS config (sasl.jaas.config)")
    flag = next(tokens)
    if flag.text is None:
        is_quoted_whole = any(character.isspace() for character in module.text)
        hint = "Write the value of sasl.jaas.config without quotes around all of it." if is_quoted_whole else ""
        raise ConfigError("Login module control flag not specified in JAAS config", hint)
    if flag.text.upper() not in _FLAGS:
        shown = f" '{flag.text}'" if _WORD.fullmatch(flag.text) else ""
        raise ConfigError(f"Invalid login module control flag{shown} in JAAS config")
    options: dict[str, str] = {}
    while True:
        key = next(tokens)
        if key.mark == ";":
            return LoginModule(module.text, options)
        if key == (None, None):
            raise ConfigError("JAAS config entry not terminated by semi-colon")
        equals, value = next(tokens), next(tokens)
        if equals.mark != "=" or value.text is None:
            named = f"key '{key.text}'" if key.text in _OPTIONS else "a key"
            raise ConfigError(f"Value not specified for {named} in JAAS config (sasl.jaas.config)")
        options[key.text or ""] = value.text


def _tokens(text: str) -> Iterator[_Token]:
    """The tokens, then without end the token of the end."""
    position = 0
    while True:
        position = _skip(text, position)
        character = text[position : position + 1]
        if character == _END:
            yield _Token(None, None)
        elif character in "\"'":
            quoted, position = _quoted(text, position)
            yield _Token(quoted, None)
        elif _is_number_start(text, position):
            while _is_digit(text[position : position + 1]) or text[position : position + 1] == "-":
                position += 1
            yield _Token(None, "number")
        elif character != "-" and _is_letter(character):
            end = position
            while _is_letter(text[end : end + 1]) or _is_digit(text[end : end + 1]):
                end += 1
            yield _Token(text[position:end], None)
            position = end
        else:
            yield _Token(None, character)
            position += 1


def _skip(text: str, position: int) -> int:
    while position < len(text):
        if text[position] <= " ":
            position += 1
        elif text.startswith("/*", position):
            end = text.find("*/", position + 2)
            position = len(text) if end < 0 else end + 2
        elif text[position] == "/":
            while position < len(text) and text[position] not in "\r\n":
                position += 1
        else:
            break
    return position


def _is_letter(character: str) -> bool:
    return character != _END and (
        "a" <= character <= "z" or "A" <= character <= "Z" or character >= "\xa0" or character in "-_$"
    )


def _is_digit(character: str) -> bool:
    return character != _END and character in "0123456789."


def _is_number_start(text: str, position: int) -> bool:
    character = text[position]
    return _is_digit(character) or (character == "-" and _is_digit(text[position + 1 : position + 2]))


def _quoted(text: str, position: int) -> tuple[str, int]:
    """A quoted text and the position behind it; it ends at the line's end too."""
    quote, position, out = text[position], position + 1, []
    while position < len(text) and text[position] not in (quote, "\n", "\r"):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character, position = _escaped(text, position)
        out.append(character)
    closed = position < len(text) and text[position] == quote
    return "".join(out), position + 1 if closed else position


def _escaped(text: str, position: int) -> tuple[str, int]:
    character = text[position]
    if not "0" <= character <= "7":
        return _ESCAPES.get(character, character), position + 1
    length = 3 if character <= "3" else 2
    digits = ""
    while len(digits) < length and "0" <= text[position : position + 1] <= "7":
        digits += text[position]
        position += 1
    return chr(int(digits, 8)), position
