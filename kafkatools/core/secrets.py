"""Hide secrets in text for stderr and logs.

A secret is recognized by form: the user and password of a URL, the value after `password=` and similar names, an
Authorization header, a bearer token. And by value: the last 512 passwords, tokens and keys that this process read are
kept in memory. They are searched as they are, in base64 and percent-encoded, so an echo of a server is hidden too.

`redacted` is for foreign text, such as the error of a server; it hides short values too. `redacted_line` is for all
text on stderr and in logs, where a short value may be an ordinary word of a message.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from functools import lru_cache

HIDDEN = "[hidden]"
_MOST = 512
_LEAST_IN_DATA, _COMMON_WORD, _LONG_WORD = 4, 8, 12
"""A value shorter than the first length stays in data. One shorter than the second, or of lower-case letters and
shorter than the third, may be an ordinary word of our own messages: `admin`, `password`."""

_lock = threading.Lock()  # guards _remembered
_remembered: dict[str, None] = {}  # the remembered values, oldest first

# Compiled when a text may match: most commands print nothing that could, and compiling takes milliseconds.
# Names, schemes and words are tried from their first character only, and URLs up to the last @ of a word: the time is
# linear in the length of a text, which a server chooses.
_TO_LAST_AT = r"(?<![^\s'\"])[^\s'\"]*@"
_USERINFO = r"(?<![A-Za-z0-9+.-])(?P<scheme>[A-Za-z0-9+.-]++://)(?:[^\s/?#'\"]*|[^\s/?#'\":]*:(?!\d+[/?#])[^\s'\"]*)@"
"""Also matches a password with an unescaped slash, unless a port number follows the colon."""
_ASSIGNED = (
    r"(?i)(?<![\w.-])(?P<name>[\w.-]*(?:password|passwd|secret|client_assertion|access_token|id_token|refresh_token"
    r"|api[_-]?key)"
    r"(?:\\?[\"']\s*:\s*|\s*=\s*))(?P<value>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\[[^\]\s]*\]|[^\s,;&\"'\]})]+)"
)
_AUTHORIZATION = r"(?P<name>\b(?:Authorization:\s*)?(?:Basic|Bearer)\s+)(?P<value>[A-Za-z0-9+/=._~-]{16,})"
_SECRET_SETTINGS = ("password", "secret", "jaas.config", "keystore.key", "ssl.key.pem", "user.info", "auth.token")
_NAMES = r"(?i)password|passwd|secret|token|credential|access[._-]?key|api[._-]?key|jaas|private"


def is_secret_name(name: str) -> bool:
    """Return whether a setting with this name may hold a secret; for settings that no table defines."""
    return re.search(_NAMES, name) is not None


def holds_secret(name: str, value: str) -> bool:
    """Return whether the value of a client or broker setting is a secret, by its name or because it is a URL with a
    user or password. False for an empty value."""
    has_userinfo = "://" in value and without_userinfo(value) != value
    return bool(value) and (has_userinfo or name.endswith(_SECRET_SETTINGS))


def secrets_of(settings: Mapping[str, str]) -> list[str]:
    """The values of those settings that hold secrets."""
    return [value for name, value in settings.items() if holds_secret(name, value)]


def remember(*values: str | None) -> None:
    """Remember secret values, so that `redacted` and `redacted_line` hide them from now on. None and empty text are
    ignored. Only the last 512 values are remembered."""
    with _lock:
        for value in values:
            if value:
                _remembered.pop(value, None)
                _remembered[value] = None
        while len(_remembered) > _MOST:
            del _remembered[next(iter(_remembered))]


def remember_url(url: str) -> str:
    """Remember the password of a URL, if it has one, and return the URL with user and password hidden."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    if parts.password:
        remember(parts.password, unquote(parts.password))
    return without_userinfo(url)


def without_userinfo(text: str) -> str:
    """Replace the user and password of each URL in a text by `[hidden]`."""
    return re.sub(_TO_LAST_AT, _without_userinfo, text) if "@" in text else text


def _without_userinfo(word: re.Match[str]) -> str:
    return re.sub(_USERINFO, lambda match: f"{match['scheme']}{HIDDEN}@", word[0])


def redacted(text: str) -> str:
    """Hide secrets in foreign text, such as the error of a server: all remembered values (one of fewer than 8
    characters only as a whole word) and all recognized forms."""
    return _by_form(_by_value(text))


def redacted_line(text: str) -> str:
    """Hide secrets in text for stderr or a log, except remembered values that may be ordinary words: of fewer than 8
    characters, or fewer than 12 lower-case letters."""
    return _by_form(_by_value(text, spares_words=True))


def known_secrets_hidden(text: str) -> str:
    """Hide remembered values in data that must otherwise stay as it is: one of fewer than 8 characters only as a whole
    word, and none of fewer than 4, which would blank out ordinary words and numbers."""
    return _by_value(text, least=_LEAST_IN_DATA)


def _by_form(text: str) -> str:
    text = without_userinfo(text)
    if "=" in text or ":" in text:
        text = re.sub(_ASSIGNED, _hide_value, text)
    if "Basic" in text or "Bearer" in text:
        text = re.sub(_AUTHORIZATION, lambda match: f"{match['name']}{HIDDEN}", text)
    return text


def _hide_value(match: re.Match[str]) -> str:
    """Hide the value of a `name=value` match; `password=...` in a help text stays."""
    return f"{match['name']}{HIDDEN}" if match["value"].strip("[].") not in ("", "hidden") else match[0]


def _may_be_word(value: str) -> bool:
    return len(value) < (_LONG_WORD if value.isalpha() and value.islower() else _COMMON_WORD)


def _by_value(text: str, *, spares_words: bool = False, least: int = 1) -> str:
    with _lock:
        values = [value for value in _remembered if len(value) >= least and not (spares_words and _may_be_word(value))]
    forms = {form for value in values for form in _forms(value)}
    for form in sorted(forms, key=len, reverse=True):
        if form in text:
            text = _whole(form).sub(HIDDEN, text) if len(form) < _COMMON_WORD else text.replace(form, HIDDEN)
    return text


def _whole(word: str) -> re.Pattern[str]:
    """A pattern that matches a short value only as a whole word: `a` must not match in `failed`."""
    return re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")


@lru_cache(maxsize=_MOST)
def _forms(value: str) -> tuple[str, ...]:
    """The forms in which a secret is searched: as it is, with escaped quotes, percent-encoded and in base64."""
    from urllib.parse import quote, quote_plus  # most commands have no secrets, and its import takes milliseconds

    data = value.encode("utf-8", "surrogateescape")
    coded = _inner_base64(data) if len(value) >= _COMMON_WORD else ()
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return value, quoted, quote(data, safe=""), quote_plus(data), *coded


def _inner_base64(data: bytes) -> Iterable[str]:
    """The base64 text that these bytes have inside longer data: at each of three alignments, in both alphabets."""
    import base64

    for shift in range(3):
        head, tail = (0, 2, 3)[shift], (len(data) + shift) % 3
        coded = base64.b64encode(bytes(shift) + data).rstrip(b"=").decode()
        inner = coded[head : len(coded) - (1 if tail else 0)]
        if len(inner) >= _COMMON_WORD:
            yield inner
            yield inner.replace("+", "-").replace("/", "_")
