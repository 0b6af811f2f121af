"""The keys that verify signed bearer tokens: a JWKS from a file or an HTTP address (JwksFileVerificationKeyResolver,
RefreshingHttpsJwks).

Rules: an address is fetched on a thread of its own, at the start, after sasl.oauthbearer.jwks.endpoint.refresh.ms, and
early when a token names an unknown key, at most once in EARLY_MS. Only the start waits for it. Tokens are verified with
the last keys meanwhile, also when the listener's logins are made anew. A file is read again when it has changed.
Signatures are checked by the package `cryptography`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kafkatools.core.broker.security.bearer_tokens import Claims, decoded
from kafkatools.core.broker.security.mechanisms import RefusedToken
from kafkatools.core.clock import Clock
from kafkatools.core.errors import ConfigError
from kafkatools.core.json_texts import parse_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

EARLY_MS = 10_000
_TIMEOUT_S = 10.0
_MOST_BYTES = 1 << 20
_CURVES = {"ES256": ("P-256", 32), "ES384": ("P-384", 48), "ES512": ("P-521", 66)}
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
KeySet = Mapping[str, Mapping[str, object]]
"""The members of each key by key id."""


def parse_jwks(data: bytes) -> KeySet:
    """The keys of a JWKS document by key id. Raises ValueError when it is none."""
    document = parse_json(data)
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise ValueError("it has no list of keys")
    return {str(key["kid"]): key for key in keys if isinstance(key, dict) and "kid" in key}


def verify_signature(key: Mapping[str, object], algorithm: str, signed: bytes, signature: bytes) -> None:
    """Check the signature of a token with a key of a JWKS. Raises RefusedToken."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    if algorithm not in (*_RSA, *_CURVES) or str(key.get("alg", algorithm)) != algorithm:
        raise RefusedToken(f"the algorithm {algorithm[:10]} is not allowed for the token's key")
    digests: dict[str, hashes.HashAlgorithm] = {
        "256": hashes.SHA256(),
        "384": hashes.SHA384(),
        "512": hashes.SHA512(),
    }
    digest = digests[algorithm[2:]]
    try:
        if algorithm in _CURVES:
            half = _CURVES[algorithm][1]
            if len(signature) != 2 * half:
                raise RefusedToken("the token's signature has a wrong size")
            numbers = (int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big"))
            _curve_key(key, algorithm).verify(encode_dss_signature(*numbers), signed, ec.ECDSA(digest))
        elif algorithm.startswith("RS"):
            _rsa_key(key).verify(signature, signed, padding.PKCS1v15(), digest)
        else:
            _rsa_key(key).verify(
                signature, signed, padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH), digest
            )
    except InvalidSignature:
        raise RefusedToken("the token's signature is wrong") from None
    except (ValueError, KeyError):
        raise RefusedToken("the token's key in the JWKS cannot be used") from None


def _number(key: Mapping[str, object], name: str) -> int:
    return int.from_bytes(decoded(str(key[name])), "big")


def _rsa_key(key: Mapping[str, object]) -> RSAPublicKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    if key.get("kty") != "RSA":
        raise ValueError
    return RSAPublicNumbers(_number(key, "e"), _number(key, "n")).public_key()


def _curve_key(key: Mapping[str, object], algorithm: str) -> EllipticCurvePublicKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    if key.get("kty") != "EC" or key.get("crv") != _CURVES[algorithm][0]:
        raise ValueError
    curves: dict[str, ec.EllipticCurve] = {
        "ES256": ec.SECP256R1(),
        "ES384": ec.SECP384R1(),
        "ES512": ec.SECP521R1(),
    }
    return ec.EllipticCurvePublicNumbers(_number(key, "x"), _number(key, "y"), curves[algorithm]).public_key()


@dataclass(eq=False, repr=False)
class KeysOf:
    """The keys of a JWKS, verified with `find`, which returns the key of a key id or None."""

    find: Callable[[str], Mapping[str, object] | None]

    def verify(self, header: Claims, signed: bytes, signature: bytes) -> None:
        """Check a signature with the key that the header names. Raises RefusedToken."""
        kid, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(kid, str) or not isinstance(algorithm, str):
            raise RefusedToken("the token's header lacks kid or alg")
        key = self.find(kid)
        if key is None:
            raise RefusedToken("the token's key is not in the JWKS")
        verify_signature(key, algorithm, signed, signature)


@dataclass(eq=False, repr=False)
class JwksFile:
    """A JWKS file, read again when its time of change differs."""

    path: str
    _keys: KeySet = field(default_factory=dict, init=False)
    _changed_ns: int = field(default=-1, init=False)

    def load(self) -> None:
        """Read the file if it has changed. Raises OSError, ValueError."""
        changed_ns = os.stat(self.path).st_mtime_ns
        if changed_ns != self._changed_ns:
            with open(self.path, "rb") as file:
                self._keys = parse_jwks(file.read(_MOST_BYTES))
            self._changed_ns = changed_ns

    def find(self, kid: str) -> Mapping[str, object] | None:
        """The key of a key id; None without one. While the file cannot be read, the last keys count."""
        with contextlib.suppress(OSError, ValueError):
            self.load()
        return self._keys.get(kid)


@dataclass(eq=False, repr=False)
class JwksAddress:
    """A JWKS that is fetched from an address in the background."""

    url: str
    clock: Clock
    refresh_ms: int
    _keys: KeySet = field(default_factory=dict, init=False)
    _next_ms: int = field(default=0, init=False)
    _early_ms: int = field(default=0, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def refresh(self) -> None:
        """Begin to fetch the keys, unless a fetch is under way."""
        if self._thread is not None and self._thread.is_alive():
            return
        now_ms = self.clock.now_ms()
        self._next_ms, self._early_ms = now_ms + self.refresh_ms, now_ms + EARLY_MS
        self._thread = threading.Thread(target=self._fetch, name="jwks", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the fetch that is under way, for its time-out at most."""
        if self._thread is not None:
            self._thread.join(_TIMEOUT_S)

    def _fetch(self) -> None:
        from http.client import HTTPException
        from urllib.request import urlopen

        try:
            with urlopen(self.url, timeout=_TIMEOUT_S) as response:  # nosec B310
                self._keys = parse_jwks(response.read(_MOST_BYTES))
        except (OSError, ValueError, HTTPException):
            self._next_ms = min(self._next_ms, self.clock.now_ms() + EARLY_MS)

    def find(self, kid: str) -> Mapping[str, object] | None:
        """The key of a key id among the last fetched keys; None without one, and then they are fetched again."""
        key, now_ms = self._keys.get(kid), self.clock.now_ms()
        if now_ms >= self._next_ms or (key is None and now_ms >= self._early_ms):
            self.refresh()
        return key


@lru_cache(maxsize=16)
def _address(url: str, clock: Clock, refresh_ms: int) -> JwksAddress:
    """The keys of an address, fetched once for all listeners and logins of a node."""
    address = JwksAddress(url, clock, refresh_ms)
    address.refresh()
    address.wait()  # the first clients after the start must not be refused for good
    return address


def open_keys(url: str, clock: Clock, refresh_ms: int) -> KeysOf:
    """Open the keys of sasl.oauthbearer.jwks.endpoint.url. Raises ConfigError; of an address that does not answer the
    keys are fetched later."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        jwks_file = JwksFile(parts.path)
        try:
            jwks_file.load()
        except (OSError, ValueError) as error:
            raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url {url}: {error}") from None
        return KeysOf(jwks_file.find)
    if parts.scheme not in ("http", "https"):
        raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url {url} is not a file, http or https URL")
    return KeysOf(_address(url, clock, refresh_ms).find)  # type: ignore[arg-type]  # any clock can be hashed
