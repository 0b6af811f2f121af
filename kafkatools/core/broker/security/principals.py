"""The name of a client from its certificate: the subject as text (RFC 2253), and ssl.principal.mapping.rules (KIP-371).

Sources: javax.security.auth.x500.X500Principal.getName and Kafka's SslPrincipalMapper. A rule is DEFAULT, the whole
subject, or `RULE:pattern/replacement/[LU]`; the first one whose pattern matches the whole subject decides.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kafkatools.core.errors import ConfigError, SslAuthenticationFailed
from kafkatools.core.java.patterns import java_pattern

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_SEQUENCE, _OBJECT_ID = 0x30, 0x06
_VERSION_TAG = 0xA0
_TEXT_TAGS = {12: "utf-8", 18: "ascii", 19: "ascii", 20: "latin-1", 22: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
_BLANKS = " \r"
_ESCAPED = rf'[,=+<>#;"\\]|[{_BLANKS}](?=[{_BLANKS}]*\Z)'
_REFERENCE = re.compile(r"\\(.)|\$(\d)")
_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)


class _Element(NamedTuple):
    """An element of DER: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    encoded: bytes


def _elements(data: bytes) -> list[_Element]:
    """Split DER into its elements. Raises IndexError for a truncated one."""
    elements = []
    position = 0
    while position < len(data):
        start, size = position, data[position + 1]
        position += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[position : position + count], "big")
            position += count
        elements.append(_Element(data[start], data[position : position + size], data[start : position + size]))
        position += size
    return elements


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER as X500Principal.getName has it, the last part first. Raises
    SslAuthenticationFailed for a malformed certificate."""
    try:
        fields = _elements(_elements(_elements(certificate)[0].content)[0].content)
        subject = fields[5 if fields[0].tag == _VERSION_TAG else 4]
        parts = ["+".join(map(_attribute, _elements(part.content))) for part in reversed(_elements(subject.content))]
    except (IndexError, ValueError):
        raise SslAuthenticationFailed("the client's certificate has no readable subject") from None
    return ",".join(parts)


def _attribute(attribute: _Element) -> str:
    kind, value = _elements(attribute.content)
    number = _object_id(kind.content)
    encoding = _TEXT_TAGS.get(value.tag)
    if number not in _KEYWORDS or encoding is None:
        return f"{number}=#{value.encoded.hex()}"
    text = re.sub(_ESCAPED, r"\\\g<0>", value.content.decode(encoding)).replace("\0", r"\00")
    inner = text.lstrip(_BLANKS)
    blanks = "".join(f"\\{blank}" for blank in text[: len(text) - len(inner)])
    return f"{_KEYWORDS[number]}={blanks}{inner}"


def _object_id(content: bytes) -> str:
    numbers = [content[0] // 40, content[0] % 40]
    current = 0
    for byte in content[1:]:
        current = current << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(current)
            current = 0
    return ".".join(map(str, numbers))


class _Rule(NamedTuple):
    """A rule: the pattern (None: DEFAULT), the replacement in Python's notation, and L, U or nothing."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str


class PrincipalRules(NamedTuple):
    """The rules of ssl.principal.mapping.rules in their order."""

    rules: tuple[_Rule, ...]
    text: str

    @classmethod
    def parse(cls, text: str) -> PrincipalRules:
        """Parse the setting. Raises ConfigError for a malformed rule."""
        rules = []
        for match in _SPLITTER.finditer(text.strip() or "DEFAULT"):
            if match[1]:
                rules.append(_rule(match[1]))
        return cls(tuple(rules), text)

    def name_of(self, subject: str) -> str:
        """The principal's name for a subject. Raises SslAuthenticationFailed when no rule applies."""
        for rule in self.rules:
            if rule.pattern is None:
                return subject
            if rule.pattern.fullmatch(subject) is not None:
                name = rule.pattern.sub(rule.replacement, subject)  # as in Kafka: what matches, perhaps several times
                return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
        raise SslAuthenticationFailed(f"no rule of ssl.principal.mapping.rules applies to {subject}: {self.text}")


def _rule(text: str) -> _Rule:
    match = _PARSER.fullmatch(text)
    if match is None or match[5] is not None:
        raise ConfigError(f"Invalid rule: `{text}`, unexpected value of ssl.principal.mapping.rules")
    if match[1]:
        return _Rule(None, "", "")
    try:
        pattern = java_pattern(match[2])
    except re.error as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {text}: {error}") from None

    def reference(found: re.Match[str]) -> str:
        if found[1] is not None:  # an escaped character stands for itself
            return found[1].replace("\\", r"\\")
        # a number without a group stands for itself, as in Kafka
        return rf"\g<{found[2]}>" if int(found[2]) <= pattern.groups else found[0]

    return _Rule(pattern, _REFERENCE.sub(reference, match[3]), match[4])
