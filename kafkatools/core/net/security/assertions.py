"""Signed assertions for a token endpoint, from sasl.oauthbearer.assertion.* (AssertionSupplierFactory).

An assertion is the content of a file, or a JSON Web Token of three layers, the later over the earlier ones: the claims
of the settings, a template file, and the times. The files are read again for each token. The key is in PEM, in DER, or
the base64 of DER, where Kafka takes base64 without and DER with a passphrase only; ES256 has the signature of RFC 7518.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.config.setting import clear_text
from kafkatools.core.errors import AuthenticationFailed, ConfigError
from kafkatools.core.json_texts import parse_json
from kafkatools.core.secrets import remember

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_PREFIX = "sasl.oauthbearer.assertion."
_TOKEN = re.compile(r"[-_A-Za-z0-9=]+\.[-_A-Za-z0-9=]+\.[-_A-Za-z0-9=]*")
_P256_BYTES = 32
_JTI_BYTES = 16
AssertionSource = Callable[[], str]


def assertion_source(config: Config, clock: Clock) -> AssertionSource:
    """A source of assertions by the settings. Raises ConfigError; the source raises AuthenticationFailed."""
    path: str | None = config[f"{_PREFIX}file"]
    if path:
        return lambda: _of_file(path)
    key_path: str | None = config[f"{_PREFIX}private.key.file"]
    if not key_path:
        raise ConfigError(f"SASL OAUTHBEARER: neither {_PREFIX}file nor {_PREFIX}private.key.file is set")
    algorithm = str(config[f"{_PREFIX}algorithm"]).upper()
    passphrase = clear_text(config[f"{_PREFIX}private.key.passphrase"])

    def make() -> str:
        header, claims = _layers(config, algorithm, clock.wall_ms() // 1000)
        content = f"{_encoded(header)}.{_encoded(claims)}"
        key = _private_key(key_path, passphrase)
        signature = base64.urlsafe_b64encode(_signature(algorithm, key, content.encode(), key_path))
        return f"{content}.{signature.decode().rstrip('=')}"

    return _remembered(make)


def _remembered(make: AssertionSource) -> AssertionSource:
    def make_secret() -> str:
        assertion = make()
        remember(assertion)
        return assertion

    return make_secret


def _of_file(path: str) -> str:
    text = _read(path, "file").decode("utf-8", "replace").strip()
    remember(text)
    if not _TOKEN.fullmatch(text):
        raise AuthenticationFailed(f"{_PREFIX}file {path} holds no JSON Web Token")
    return text


def _read(path: str, setting: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        raise AuthenticationFailed(f"{_PREFIX}{setting} {path}: {problem.strerror or problem}") from None


def _layers(config: Config, algorithm: str, now_s: int) -> tuple[dict[str, object], dict[str, object]]:
    """The header and the claims."""
    claims: dict[str, object] = {}
    for name in ("aud", "iss", "sub"):
        value: str | None = config[f"{_PREFIX}claim.{name}"]
        if value is not None:
            claims[name] = value
    header, more = _template(config[f"{_PREFIX}template.file"])
    lifetime_s: int = config[f"{_PREFIX}claim.exp.seconds"]
    early_s: int = config[f"{_PREFIX}claim.nbf.seconds"]
    claims |= {**more, "iat": now_s, "exp": now_s + lifetime_s, "nbf": now_s - early_s}
    if config[f"{_PREFIX}claim.jti.include"]:
        claims["jti"] = os.urandom(_JTI_BYTES).hex()
    return {**header, "alg": algorithm, "typ": "JWT"}, claims


def _template(path: str | None) -> tuple[Mapping[str, object], Mapping[str, object]]:
    if not path:
        return {}, {}
    try:
        content = parse_json(_read(path, "template.file"))
    except ValueError:
        content = None
    parts = [content.get(name, {}) for name in ("header", "payload")] if isinstance(content, dict) else []
    objects = [part for part in parts if isinstance(part, dict)]
    if len(objects) != len(("header", "payload")):
        raise AuthenticationFailed(
            f'{_PREFIX}template.file {path} is no JSON object with the objects "header" and "payload"'
        )
    return objects[0], objects[1]


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).decode().rstrip("=")


def _private_key(path: str, passphrase: str | None) -> PrivateKeyTypes:
    from cryptography.hazmat.primitives import serialization

    data = _read(path, "private.key.file")
    password = None if passphrase is None else passphrase.encode()
    try:
        if b"-----BEGIN " in data:
            return serialization.load_pem_private_key(data, password)
        with contextlib.suppress(binascii.Error):  # otherwise it is DER
            data = base64.b64decode(data.strip(), validate=True)
        return serialization.load_der_private_key(data, password)
    except TypeError:
        lack = "is set, but the key is not encrypted" if passphrase is not None else "is not set"
        raise AuthenticationFailed(
            f"{_PREFIX}private.key.file {path}: {_PREFIX}private.key.passphrase {lack}"
        ) from None
    except Exception:  # noqa: BLE001 - ValueError, UnsupportedAlgorithm and errors of OpenSSL
        hint = ", or the passphrase is wrong" if passphrase is not None else ""
        raise AuthenticationFailed(f"{_PREFIX}private.key.file {path} holds no private key (PKCS #8){hint}") from None


def _signature(algorithm: str, key: PrivateKeyTypes, content: bytes, path: str) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

    if algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
        return key.sign(content, padding.PKCS1v15(), hashes.SHA256())
    if algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size == 8 * _P256_BYTES:
        numbers = utils.decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
        return b"".join(number.to_bytes(_P256_BYTES, "big") for number in numbers)
    kind = "an RSA key" if algorithm == "RS256" else "a key on the curve P-256"
    raise AuthenticationFailed(f"{_PREFIX}private.key.file {path}: {_PREFIX}algorithm {algorithm} needs {kind}")
