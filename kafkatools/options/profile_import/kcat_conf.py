"""Parse kcat.conf as kcat does (read_conf_file in kcat.c).

Rules: a line is NAME=VALUE. White space at both ends of a line is ignored, and in front of a value, where librdkafka
removes it (rd_kafka_anyconf_set_prop). Lines that begin with `#` are comments. Backslashes before `:` and `=` are
removed, every other one is part of the value. A line that kcat itself would refuse or cut is an error: no value can be
the one that kcat sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kafkatools.exit_status import CommandError

_WHITE_SPACE = " \t\n\v\f\r"
_MAX_LINE_BYTES = 511
_ESCAPE = re.compile(r"\\+([:=])")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PLAIN_LOGIN = re.compile(
    r"org\.apache\.kafka\.common\.security\.plain\.PlainLoginModule\s*required\s*"
    r'username="(?P<user>[^"]+)"\s*password="(?P<password>[^"]+)"'
)


class KcatConf(NamedTuple):
    """The settings of a file, and the line of each, from 1."""

    settings: dict[str, str]
    lines: dict[str, int]


def parse_kcat_conf(data: bytes, path: str) -> KcatConf:
    """Return the settings of a file; a setting's last line wins. Raises CommandError with file and line."""
    settings: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        text = _text(line, f"{path}, line {number}")
        if not text or text.startswith("#"):
            continue
        name, separator, value = _ESCAPE.sub(r"\1", text).partition("=")
        if not name or not separator:
            raise _refused(f"{path}, line {number}", "a line must be NAME=VALUE")
        if not _NAME.fullmatch(name):
            raise _refused(f"{path}, line {number}", f"'{name}' is not the name of a setting: write NAME=VALUE")
        for setting, text in _converted(name, value):
            settings[setting], lines[setting] = text.lstrip(_WHITE_SPACE), number
    return KcatConf(settings, lines)


def _text(line: bytes, place: str) -> str:
    if len(line) > _MAX_LINE_BYTES:
        raise _refused(place, f"the line has {len(line)} bytes; kcat cuts it after {_MAX_LINE_BYTES}")
    if b"\0" in line:
        raise _refused(place, "the line has a NUL byte, at which kcat cuts it")
    try:
        return line.decode("utf-8").strip(_WHITE_SPACE)
    except UnicodeDecodeError:
        raise _refused(place, "the line is not UTF-8 text; convert the file to UTF-8") from None


def _converted(name: str, value: str) -> Iterator[tuple[str, str]]:
    r"""The settings of a line. kcat takes user and password of Java's PLAIN login as they are written; Kafka's clients
    would remove the backslashes in them."""
    login = _PLAIN_LOGIN.match(value) if name == "sasl.jaas.config" and "\\" in value else None
    if login is None:
        yield name, value
    else:
        yield "sasl.username", login["user"]
        yield "sasl.password", login["password"]


def _refused(place: str, problem: str) -> CommandError:
    return CommandError(
        f"{place}: {problem}", hint="If the file is one of Kafka's Java clients, pass --format properties."
    )
