"""What a SASL mechanism says and hears (javax.security.sasl.SaslClient), and the two that need no more than a line.

A mechanism is made anew for every exchange. It does no I/O: `initial` is the first message to the server, `respond` the
answer to each of the server's, None when there is nothing more to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kafkatools.core.errors import ConfigError

_SEPARATOR = "\x01"


class Mechanism(Protocol):
    name: str

    @property
    def is_complete(self) -> bool:
        """Whether the server has said all it has to say for us to believe it."""

    def initial(self) -> bytes:
        """The first message."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a message of the server. Raises SaslAuthenticationFailed."""


class Plain:
    """User name and password in one message (RFC 4616, PlainSaslClient)."""

    name = "PLAIN"
    is_complete = True

    def __init__(self, user: str, password: str) -> None:
        if "\0" in user or "\0" in password:
            raise ConfigError("SASL PLAIN: user name and password may not contain NUL")
        self._message = f"\0{user}\0{password}".encode()

    def initial(self) -> bytes:
        """No authorisation identity: the one of the user."""
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """The server has nothing to say."""
        return None


class OAuthBearer:
    """A token (RFC 7628, KIP-255; OAuthBearerSaslClient). Extensions go along with it (KIP-342)."""

    name = "OAUTHBEARER"

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = [f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions.items())]
        self._message = ("n,," + "".join(_SEPARATOR + pair for pair in pairs) + _SEPARATOR * 2).encode()
        self.is_complete = True

    def initial(self) -> bytes:
        """The token and the extensions."""
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """A server that refuses tells why, and wants to hear one byte before it says so in the protocol's own way."""
        if not challenge:
            return None
        self.is_complete = False
        return _SEPARATOR.encode()
