"""The interface of SASL mechanisms (javax.security.sasl.SaslClient), and the mechanisms PLAIN and OAUTHBEARER.

A mechanism serves one exchange and does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kafkatools.core.errors import ConfigError

_SEPARATOR = "\x01"


class Mechanism(Protocol):
    """The client's side of one SASL exchange."""

    name: str

    @property
    def is_complete(self) -> bool:
        """Return whether the exchange may end now: the server has proved what the mechanism requires."""

    def initial(self) -> bytes:
        """The client's first SASL message."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The reply to a SASL message of the server; None when the exchange is over. Raises
        SaslAuthenticationFailed."""


class Plain:
    """SASL PLAIN: user name and password in one message (RFC 4616, PlainSaslClient)."""

    name = "PLAIN"
    is_complete = True

    def __init__(self, user: str, password: str) -> None:
        if "\0" in user or "\0" in password:
            raise ConfigError("SASL PLAIN: user name and password may not contain NUL")
        self._message = f"\0{user}\0{password}".encode()

    def initial(self) -> bytes:
        """The only message of SASL PLAIN: user name and password, with an empty authorization identity."""
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """Return None: SASL PLAIN has a single message."""
        return None


class OAuthBearer:
    """SASL OAUTHBEARER: a bearer token with SASL extensions (RFC 7628, KIP-255, KIP-342; OAuthBearerSaslClient)."""

    name = "OAUTHBEARER"

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = [f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions.items())]
        self._message = ("n,," + "".join(_SEPARATOR + pair for pair in pairs) + _SEPARATOR * 2).encode()
        self.is_complete = True

    def initial(self) -> bytes:
        """The first message of SASL OAUTHBEARER: the token and the SASL extensions."""
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """None after success. After a refusal, the byte 0x01 that a server expects before it reports the error (RFC
        7628 3.2.3)."""
        if not challenge:
            return None
        self.is_complete = False
        return _SEPARATOR.encode()
