"""The user name of a Kerberos principal: sasl.kerberos.principal.to.local.rules (KerberosShortNamer, KerberosRule).

A rule is DEFAULT, the first component of a principal in the default realm, or
`RULE:[components:format](pattern)s/from/to/g/L`. The first one that applies decides; a name that still has `/` or `@`
is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kafkatools.core.errors import ConfigError
from kafkatools.core.java.patterns import java_pattern

_PRINCIPAL = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<count>\d+):(?P<format>[^\]]*)](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<every>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER = re.compile(r"\$(\d+)")
_REFERENCE = re.compile(r"\\(.)|\$(\d)")


class NoName(Exception):
    """A principal without a user name; the text is for the broker's log."""


class _Rule(NamedTuple):
    """A rule that is not DEFAULT; `new` is in Python's notation of replacements."""

    components: int
    format: str
    match: re.Pattern[str] | None
    old: re.Pattern[str] | None
    new: str
    is_repeated: bool
    case: str


class KerberosNames(NamedTuple):
    """The rules in their order (None: DEFAULT), and the default realm of krb5.conf."""

    rules: tuple[_Rule | None, ...]
    default_realm: str

    @classmethod
    def parse(cls, rules: Iterable[str], default_realm: str) -> KerberosNames:
        """Parse the setting. Raises ConfigError for a malformed rule."""
        return cls(tuple(map(_parsed, rules)), default_realm)

    def name_of(self, principal: str) -> str:
        """The user name of a principal. Raises NoName when no rule applies."""
        match = _PRINCIPAL.fullmatch(principal)
        if match is None:
            if "@" in principal:
                raise NoName(f"Malformed Kerberos name: {principal}")
            return principal
        first, second, realm = match.groups()
        parts = [realm, first] if second is None else [realm, first, second]
        for rule in self.rules:
            name = self._default(parts) if rule is None else _applied(rule, parts)
            if name is None:
                continue
            if re.search("[/@]", name):
                raise NoName(f"Non-simple name {name} after sasl.kerberos.principal.to.local.rules for {principal}")
            case = "" if rule is None else rule.case
            return name.lower() if case == "L" else name.upper() if case == "U" else name
        raise NoName(f"No rule of sasl.kerberos.principal.to.local.rules applies to {principal}")

    def _default(self, parts: list[str]) -> str | None:
        return parts[1] if parts[0] == self.default_realm else None


def _parsed(text: str) -> _Rule | None:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ConfigError(f"sasl.kerberos.principal.to.local.rules: invalid rule {text}")
    if match["default"]:
        return None
    try:
        pattern, old = (None if match[name] is None else java_pattern(match[name]) for name in ("match", "old"))
    except re.error as error:
        raise ConfigError(f"sasl.kerberos.principal.to.local.rules: {text}: {error}") from None
    count = int(match["count"])
    too_large = [number for number in _PARAMETER.findall(match["format"]) if int(number) > count]
    if too_large:
        raise ConfigError(f"sasl.kerberos.principal.to.local.rules: {text}: there is no component ${too_large[0]}")
    new = _REFERENCE.sub(lambda found: _reference(found, old), match["new"] or "")
    return _Rule(count, match["format"], pattern, old, new, match["every"] is not None, match["case"] or "")


def _reference(found: re.Match[str], pattern: re.Pattern[str] | None) -> str:
    if found[1] is not None:  # an escaped character stands for itself
        return re.escape(found[1]) if found[1] == "\\" else found[1]
    if pattern is None or int(found[2]) > pattern.groups:
        raise ConfigError(f"sasl.kerberos.principal.to.local.rules: there is no group {found[0]}")
    return rf"\g<{found[2]}>"


def _applied(rule: _Rule, parts: list[str]) -> str | None:
    if len(parts) - 1 != rule.components:
        return None
    base = _PARAMETER.sub(lambda found: parts[int(found[1])], rule.format)
    if rule.match is not None and rule.match.fullmatch(base) is None:
        return None
    return base if rule.old is None else rule.old.sub(rule.new, base, count=0 if rule.is_repeated else 1)
