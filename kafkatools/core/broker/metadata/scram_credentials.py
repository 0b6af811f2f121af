"""Parses the SCRAM credentials of `storage format --add-scram`.

Sources: org.apache.kafka.metadata.storage.ScramParser (including the messages) and RFC 5802.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import NamedTuple

from kafkatools.core.errors import KafkaError

_MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_MIN_ITERATIONS = 4096
_MAX_ITERATIONS = 16384
_KEYS = ("name", "password", "salt", "iterations", "saltedpassword")
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramSyntaxError(KafkaError):
    """An invalid --add-scram argument."""


class ScramCredential(NamedTuple):
    """The fields of a UserScramCredentialRecord."""

    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def parse_credential(text: str) -> ScramCredential:
    """Parse `SCRAM-SHA-256=[name=alice,password=secret,salt="..."]`. Raises ScramSyntaxError with Kafka's message."""
    label, equals, rest = text.partition("=")
    if not equals:
        raise ScramSyntaxError(f"Failed to find equals sign in SCRAM argument '{text}'")
    if label not in _MECHANISMS:
        raise ScramSyntaxError(f"The add-scram mechanism {label} is not supported.")
    mechanism, digest = _MECHANISMS[label]
    values = _values(rest)
    if "name" not in values:
        raise ScramSyntaxError("You must supply 'name' to add-scram")
    iterations = _iterations(values, label)
    salted, salt = _salted_password(values, digest, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", digest)
    return ScramCredential(values["name"], mechanism, salt, stored_key, server_key, iterations)


def _values(text: str) -> dict[str, str]:
    if not text.startswith("["):
        raise ScramSyntaxError("Expected configuration string to start with [")
    if not text.endswith("]"):
        raise ScramSyntaxError("Expected configuration string to end with ]")
    values: dict[str, str] = {}
    for pair in text[1:-1].split(","):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ScramSyntaxError(f"Failed to find equals sign in SCRAM argument '{pair}'")
        values[key.strip()] = value.strip().removeprefix('"').removesuffix('"')
    unknown = [key for key in values if key not in _KEYS]
    if unknown:
        raise ScramSyntaxError(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    return values


def _iterations(values: dict[str, str], label: str) -> int:
    text = values.get("iterations", str(_MIN_ITERATIONS))
    mechanism = label.replace("-", "_")
    if not text.isdecimal() or int(text) < _MIN_ITERATIONS:
        raise ScramSyntaxError(f"The 'iterations' value must be >= {_MIN_ITERATIONS} for add-scram using {mechanism}")
    if int(text) > _MAX_ITERATIONS:
        raise ScramSyntaxError(f"The 'iterations' value must be <= {_MAX_ITERATIONS} for add-scram using {mechanism}")
    return int(text)


def _salted_password(values: dict[str, str], digest: str, iterations: int) -> tuple[bytes, bytes]:
    """Return the salted password and its salt; `password` takes precedence over `saltedpassword`, as in Kafka."""
    salt = _base64(values, "salt") if "salt" in values else _random_salt()
    if "password" in values:
        return hashlib.pbkdf2_hmac(digest, values["password"].encode(), salt, iterations), salt
    if "saltedpassword" not in values:
        raise ScramSyntaxError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if "salt" not in values:
        raise ScramSyntaxError("You must supply 'salt' with 'saltedpassword' to add-scram")
    return _base64(values, "saltedpassword"), salt


def _base64(values: dict[str, str], key: str) -> bytes:
    try:
        return base64.b64decode(values[key], validate=True)
    except ValueError:  # also for text outside ASCII
        raise ScramSyntaxError(f"Failed to decode given {key}: {values[key]}") from None


def _random_salt() -> bytes:
    """Return 130 random bits in base 36 (ScramFormatter.secureRandomString)."""
    number = secrets.randbits(130)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE36[digit] + digits
    return digits.encode()
