"""Hide the secrets of a command line before it is written to the journal.

A secret is the value of a secret option, in each spelling of the parsers (`--hmac X`, `-hmac X`, `--hmac=X`), or of a
secret setting anywhere in a word (`--add-config=a=1,ssl.keystore.key=X`). A setting's value may contain commas, so the
word is hidden from there to its end. Other secrets, such as the user and password of a URL, are recognized by form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kafkatools.core.secrets import HIDDEN, holds_secret, is_secret_name, redacted_line

_SECRET_OPTION = r"(?i)(hmac|password|passwd|secret|(access|api|auth|bearer)[._-]?(token|key))$"
"""The ends of the names of options whose whole value is a secret; commands of plugins may have such options, too."""
_SETTING = r"(?<![\w.-])(?P<name>[\w.-]++)[\s\"']*+=\s*+(?=(?P<value>\S))"
"""A name is tried from its first character only: else the time is quadratic in the length of a word."""


def masked(command: Sequence[str]) -> list[str]:
    """Return the words of a command line with secrets hidden."""
    words: list[str] = []
    hides_next = False
    for word in command:
        name, equals, value = word.partition("=")
        if hides_next:
            words.append(HIDDEN)
            hides_next = False
        elif not word.startswith("-"):
            words.append(_masked_value(word))
        elif _is_secret_option(name):
            words.append(f"{name}={HIDDEN}" if equals else name)
            hides_next = not equals
        else:
            words.append(f"{name}={_masked_value(value)}" if equals else redacted_line(word))
    return words


def _is_secret_option(name: str) -> bool:
    return re.search(_SECRET_OPTION, name) is not None


def _masked_value(text: str) -> str:
    """Hide a text from the value of its first secret setting on, and secrets that are recognized by form."""
    for setting in re.finditer(_SETTING, text):
        if is_secret_name(setting["name"]) or holds_secret(setting["name"], setting["value"]):
            return redacted_line(text[: setting.start("value")]) + HIDDEN
    return redacted_line(text)
