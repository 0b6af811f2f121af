"""Parse sasl.jaas.config: a login module and its options (org.apache.kafka.common.security.JaasConfig).

The tokens are those of Java's StreamTokenizer with Kafka's setup. Words consist of letters, digits and `-_$.`; text in
single or double quotes may have C escapes; comments start with `/`, `//` or `/*`. A word that begins with a digit is a
number and not a valid value. Only five login modules are known; no class is loaded by name. Options hold secrets, so
no error and no `repr` shows them. Names of unknown options are not shown either: one may be half a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkatools.core.errors import ConfigError
from kafkatools.core.secrets import is_secret_name, remember

_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_MODULES = ("PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule", "Krb5LoginModule", "IAMLoginModule")
_OPTIONS = ("username", "password", "tokenauth", "clientId", "clientSecret", "scope", "keyTab", "principal")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLASS = re.compile(r"(?:[A-Za-z_$][\w$]*\.)+[A-Za-z_$][\w$]*|[A-Za-z]+(?:Module|Callback|Handler)")
_WORD = re.compile(r"[A-Za-z]{1,10}")
"""Errors show class names and flags only; other text may be a whole entry in quotes with its password."""
_TOKEN = re.compile(
    r"""[\x00- ]+ | /\*.*?(?:\*/|\Z) | /[^\r\n]*             # blanks and comments
    | (?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\r\n])*)(?P=quote)?  # a text ends at the line's end too
    | (?P<number>(?:[0-9.]|-(?=[0-9.]))[0-9.-]*)
    | (?P<word>[A-Za-z\xa0-\U0010ffff_$][A-Za-z\xa0-\U0010ffff_$0-9.-]*)
    | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)


class LoginModule(NamedTuple):
    """The login module of sasl.jaas.config: class name and options. Its `repr` hides the options' values."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name}, options={sorted(self.options)})"


class _Token(NamedTuple):
    """A token of the setting: a word or quoted text (`text`), or another character (`mark`); both are None at the
    end."""

    text: str | None
    mark: str | None


def parse_jaas_config(value: str) -> LoginModule:
    """Parse the one login module of sasl.jaas.config. Raises ConfigError."""
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
        label = f" {entry.name}" if _CLASS.fullmatch(entry.name) else ""
        raise ConfigError(
            f"sasl.jaas.config: the login module{label} is not known; it may be one of {', '.join(_MODULES)}"
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
        label = f" '{flag.text}'" if _WORD.fullmatch(flag.text) else ""
        raise ConfigError(f"Invalid login module control flag{label} in JAAS config")
    options: dict[str, str] = {}
    while True:
        key = next(tokens)
        if key.mark == ";":
            return LoginModule(module.text, options)
        if key == (None, None):
            raise ConfigError("JAAS config entry not terminated by semi-colon")
        equals, value = next(tokens), next(tokens)
        if equals.mark != "=" or value.text is None:
            option = f"key '{key.text}'" if key.text in _OPTIONS else "a key"
            raise ConfigError(f"Value not specified for {option} in JAAS config (sasl.jaas.config)")
        options[key.text or ""] = value.text


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        if match["number"] is not None:
            yield _Token(None, "number")
        elif match["mark"] is not None:
            yield _Token(None, match["mark"])
        elif match["quote"] is not None:
            yield _Token(_ESCAPED.sub(_unescaped, match["quoted"]), None)
        elif match["word"] is not None:
            yield _Token(match["word"], None)
    while True:
        yield _Token(None, None)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if "0" <= code[0] <= "7" else _ESCAPES.get(code, code)
