"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84; ScramSaslClient), also with delegation tokens (KIP-48).

The server's signature is checked, which proves that it knows the password too. 4096 to 1,000,000 iterations are
accepted: fewer would make a captured exchange cheap to break, more would block the client. As in Kafka, user names and
passwords are used without SASLprep.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Callable

from kafkatools.core.errors import SaslAuthenticationFailed

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000
_GS2_HEADER = "n,,"


def random_nonce() -> str:
    """A random nonce of 160 bits as hexadecimal text."""
    return os.urandom(20).hex()


class Scram:
    """One SCRAM exchange: client-first, server-first, client-final, server-final."""

    def __init__(
        self,
        name: str,
        user: str,
        password: str,
        *,
        is_delegation_token: bool = False,
        nonce: Callable[[], str] = random_nonce,
    ) -> None:
        self.name = name
        self._hash = HASHES[name]
        self._password = password
        self._nonce = nonce()
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if is_delegation_token else ""
        self._client_first_bare = f"n={escaped},r={self._nonce}{extension}"
        self._server_signature: bytes | None = None
        self.is_complete = False

    def initial(self) -> bytes:
        """The client-first message of SCRAM."""
        return (_GS2_HEADER + self._client_first_bare).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """The client-final message after server-first; None after server-final. Raises SaslAuthenticationFailed."""
        if self._server_signature is None:
            return self._client_final(challenge)
        self._check_server_final(challenge)
        self.is_complete = True
        return None

    def _client_final(self, challenge: bytes) -> bytes:
        fields = _fields(challenge)
        nonce, salt, iterations = fields.get("r", ""), _base64(fields.get("s", "")), _int(fields.get("i", ""))
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not salt or iterations is None:
            raise SaslAuthenticationFailed("the server's first SCRAM message is not valid")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise SaslAuthenticationFailed(
                f"the server asks for {iterations} iterations of {self.name}; "
                f"{MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
            )
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"c={base64.b64encode(_GS2_HEADER.encode()).decode()},r={nonce}"
        signed = f"{self._client_first_bare},{challenge.decode()},{without_proof}".encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _check_server_final(self, challenge: bytes) -> None:
        fields = _fields(challenge)
        if "e" in fields:
            raise SaslAuthenticationFailed(f"the server refused the proof of the password: {fields['e']}")
        if not hmac.compare_digest(_base64(fields.get("v", "")), self._server_signature or b"-"):
            raise SaslAuthenticationFailed("the server does not know the password itself: its signature is wrong")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        return {}
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _int(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= 10 else None
