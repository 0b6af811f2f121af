"""Parse bootstrap.servers and resolve host names (ClientUtils.parseAndValidateAddresses, ClientUtils.resolve)."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import NamedTuple

from kafkatools.core.errors import ConfigError, NameResolutionFailed

_MAX_PORT = 65535


class HostPort(NamedTuple):
    """A host name or IP address with a port; `str` gives host:port, with brackets around an IPv6 address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Address(NamedTuple):
    """An address family and a socket address, for `socket.connect`."""

    family: int
    sockaddr: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


def parse_bootstrap_servers(servers: str | Iterable[str]) -> list[HostPort]:
    """Parse a list such as `a:9092,[::1]:9093`, or an iterable of such addresses; a prefix such as `PLAINTEXT://` is
    ignored. Raises ConfigError for an invalid address or an empty list."""
    parts = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = [_parse(part.strip()) for part in parts if part.strip()]
    if not addresses:
        hint = "The list of brokers is empty: write HOST:PORT, such as localhost:9092."
        raise ConfigError("No resolvable bootstrap urls given in bootstrap.servers", hint)
    return addresses


def _parse(text: str) -> HostPort:
    address = text.split("://", 1)[-1]
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not colon or not port.isdecimal() or not 0 < int(port) <= _MAX_PORT:
        raise ConfigError(f"Invalid url in bootstrap.servers: {text}", _hint(address, host))
    return HostPort(host, int(port))


def _hint(address: str, host: str) -> str:
    address = address.removesuffix(":")
    if address and (":" not in address or address.endswith("]")):
        return f"Add the port of the broker: Kafka's default is {address}:9092, the sandbox's {address}:29092."
    if address.count(":") > 1 and not host:
        return "Write an IPv6 address in brackets: [::1]:9092."
    return f"An address is HOST:PORT with a port from 1 to {_MAX_PORT}."


def resolve(host: str, port: int) -> list[Address]:
    """Resolve a host name to its different addresses; those of the first one's family come first. Blocks while the
    system resolves it. Raises NameResolutionFailed."""
    name = host.encode("ascii") if host.isascii() else host  # as text it would load the IDNA codec, 5 ms
    try:
        results = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise NameResolutionFailed(f"The host name {host} of {HostPort(host, port)} has no address: {reason}") from None
    addresses = [Address(family, sockaddr) for family, _, _, _, sockaddr in results]
    preferred = addresses[0].family
    return sorted(dict.fromkeys(addresses), key=lambda address: address.family != preferred)
