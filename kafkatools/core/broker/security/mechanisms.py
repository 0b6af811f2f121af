"""The broker's side of SASL: PLAIN, SCRAM and OAUTHBEARER (PlainSaslServer, ScramSaslServer, OAuthBearerSaslServer).

A mechanism serves one exchange and does no I/O. Its errors have the messages that Kafka sends to clients: a
SaslAuthenticationFailed is sent as it is, an InvalidMessage becomes the one text that does not name the reason.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from kafkatools.core.errors import SaslAuthenticationFailed

HASHES = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
"""The type of each SCRAM mechanism in the metadata log, and its hash."""
MIN_ITERATIONS = 4096
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_EXTENSIONS = r"(?P<extensions>(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*)"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,"
    rf"(?P<bare>(?:m=[\x01-\x2b\x2d-\x7f]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+){_EXTENSIONS})"
)
_FINAL = re.compile(
    r"(?P<unsigned>c=[A-Za-z0-9+/=]+,r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+?)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_BEARER = re.compile(rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.~+/=a-zA-Z0-9]+)", re.ASCII)
_CONTROL_A = b"\x01"


class InvalidMessage(Exception):
    """A message or a credential that is not valid (SaslException). Its text stays in the broker."""


class Credential(NamedTuple):
    """A SCRAM credential as a broker stores it: salt, stored key, server key and iterations."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class TokenCredential(NamedTuple):
    """A delegation token: the name of its owner, its SCRAM credential, and its expiry in ms since 1970."""

    owner: str
    credential: Credential
    expires_ms: int


class Credentials(Protocol):
    """The credentials in the metadata log."""

    def scram(self, mechanism: str, user: str) -> Credential | None:
        """A user's credential of a SCRAM mechanism; None without one."""

    def token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """A delegation token that has not expired; None for any other id."""


class ServerMechanism(Protocol):
    """The broker's side of one SASL exchange. `user` and `expires_ms`, the end of the client's credential in ms since
    1970, are known when it is complete. `reason` is that of a refusal, for the broker's log."""

    is_complete: bool
    user: str
    reason: str
    expires_ms: int | None
    is_delegation_token: bool

    def respond(self, message: bytes) -> bytes:
        """The reply to a message of the client. Raises SaslAuthenticationFailed, InvalidMessage."""


class Exchange:
    """The state that all mechanisms share; `finish` ends an exchange with the name of its user."""

    def __init__(self) -> None:
        self.is_complete = self.is_delegation_token = False
        self.user = self.reason = ""
        self.expires_ms: int | None = None

    def finish(self, user: str, authorization: str) -> None:
        """End the exchange. Raises SaslAuthenticationFailed when the client asks for another identity."""
        if authorization and authorization != user:
            raise SaslAuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user, self.is_complete = user, True


class PlainServer(Exchange):
    """SASL PLAIN with the passwords of sasl.jaas.config by user name."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        super().__init__()
        self._passwords = passwords

    def respond(self, message: bytes) -> bytes:
        """Check user name and password; the reply is empty."""
        tokens = message.decode("utf-8", errors="replace").split("\0", 3)
        if len(tokens) != 3:
            raise SaslAuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization, user, password = tokens
        for value, label in ((user, "username"), (password, "password")):
            if not value:
                raise SaslAuthenticationFailed(f"Authentication failed: {label} not specified")
        expected = self._passwords.get(user)
        if expected is None or not hmac.compare_digest(expected.encode(), password.encode()):
            raise SaslAuthenticationFailed("Authentication failed: Invalid username or password")
        self.finish(user, authorization)
        return b""


class ScramServer(Exchange):
    """SCRAM against the credentials in the metadata log, also with delegation tokens (`tokenauth=true`)."""

    def __init__(self, mechanism: str, credentials: Credentials) -> None:
        super().__init__()
        self._mechanism, self._hash = mechanism, HASHES[mechanism][1]
        self._credentials = credentials
        self._credential: Credential | None = None
        self._nonce = self._signed = ""

    def respond(self, message: bytes) -> bytes:
        """The server-first message with salt and iterations, then the server-final one with the broker's signature."""
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise InvalidMessage("a SCRAM message that is not UTF-8") from None
        return self._first(text) if self._credential is None else self._final(text, self._credential)

    def _first(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise InvalidMessage("Invalid SCRAM client first message format")
        name = match["name"].replace("=2C", ",").replace("=3D", "=")
        user = name
        extensions = dict(pair.split("=", 1) for pair in match["extensions"].split(",")[1:])
        if extensions.get("tokenauth", "").lower() == "true":
            token = self._credentials.token(self._mechanism, name)
            if token is None:
                raise InvalidMessage("Token Authentication failed: Invalid tokenId")
            user, credential, self.expires_ms = token.owner, token.credential, token.expires_ms
            self.is_delegation_token = True
        else:
            known = self._credentials.scram(self._mechanism, name)
            if known is None:
                raise InvalidMessage("Authentication failed: Invalid user credentials")
            credential = known
        if match["authorization"] and match["authorization"] != name:
            raise SaslAuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if credential.iterations < MIN_ITERATIONS:
            raise InvalidMessage(f"{credential.iterations} iterations are less than the minimum {MIN_ITERATIONS}")
        self.user, self._credential = user, credential
        self._nonce = match["nonce"] + os.urandom(20).hex()
        salt = base64.b64encode(credential.salt).decode()
        reply = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._signed = f"{match['bare']},{reply}"
        return reply.encode()

    def _final(self, text: str, credential: Credential) -> bytes:
        match = _FINAL.fullmatch(text)
        if match is None:
            raise InvalidMessage("Invalid SCRAM client final message format")
        if match["nonce"] != self._nonce:
            raise InvalidMessage("Invalid client nonce in the final client message.")
        signed = f"{self._signed},{match['unsigned']}".encode()
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        try:
            proof = base64.b64decode(match["proof"], validate=True)
        except (binascii.Error, ValueError):
            raise InvalidMessage("Invalid SCRAM client final message format") from None
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        if len(proof) != len(signature) or not hmac.compare_digest(
            hashlib.new(self._hash, client_key).digest(), credential.stored_key
        ):
            raise InvalidMessage("Invalid client credentials")
        self.is_complete = True
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, self._hash))


class Bearer(NamedTuple):
    """A valid bearer token: the principal's name and its expiry in ms since 1970."""

    name: str
    expires_ms: int


class RefusedToken(Exception):
    """A bearer token that is not valid. The text is for the broker's log; `status` and `scope` are sent."""

    def __init__(self, reason: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status, self.scope = status, scope


class OAuthBearerServer(Exchange):
    """SASL OAUTHBEARER; `validate` returns the content of a token or raises RefusedToken."""

    def __init__(self, validate: Callable[[str], Bearer]) -> None:
        super().__init__()
        self._validate = validate
        self._refusal: str | None = None

    def respond(self, message: bytes) -> bytes:
        """Check the token; the reply is empty, or JSON with the error, which the client acknowledges with 0x01."""
        if message == _CONTROL_A and self._refusal is not None:
            raise SaslAuthenticationFailed(self._refusal)
        match = _BEARER.fullmatch(message.decode("utf-8", errors="replace"))
        if match is None:
            raise InvalidMessage("Invalid OAUTHBEARER client first message")
        pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
        auth = _AUTH.fullmatch(pairs.get("auth", ""))
        if auth is None or auth["scheme"].lower() != "bearer":
            raise InvalidMessage("Invalid OAUTHBEARER client first message: no bearer token in 'auth'")
        try:
            bearer = self._validate(auth["token"])
        except RefusedToken as refused:
            scope = "" if refused.scope is None else f', "scope":"{refused.scope}"'
            self._refusal, self.reason = f'{{"status":"{refused.status}"{scope}}}', str(refused)
            return self._refusal.encode()
        authorization = match["authorization"] or ""
        if authorization and authorization != bearer.name:
            raise SaslAuthenticationFailed(
                f"Authentication failed: Client requested an authorization id ({authorization}) that is different from "
                f"the token's principal name ({bearer.name})"
            )
        self.expires_ms = bearer.expires_ms
        self.finish(bearer.name, authorization)
        return b""
