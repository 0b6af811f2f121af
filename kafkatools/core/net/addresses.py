"""Parse bootstrap.servers and resolve host names (ClientUtils.parseAndValidateAddresses, ClientUtils.resolve)."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from struct import unpack
from typing import NamedTuple, Protocol

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


class Resolver(Protocol):
    """Resolves host names. `resolve` below blocks; the resolver of an event loop looks a name up first."""

    def is_resolved(self, host: str, port: int) -> bool:
        """Return whether `resolve` would return or raise without waiting; if not, start the lookup."""

    def resolve(self, host: str, port: int) -> list[Address]:
        """Return the addresses of a host name, or raise NameResolutionFailed."""


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
    if not host or not colon or not port.isdecimal() or len(port) > 5 or not 0 < int(port) <= _MAX_PORT:
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
    try:
        results = socket.getaddrinfo(name_in_bytes(host), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise unresolved(host, port, problem) from None
    return in_order(Address(family, sockaddr) for family, _, _, _, sockaddr in results)


def name_in_bytes(host: str) -> bytes | str:
    """Return a host name for `getaddrinfo`: ASCII as bytes, because text would load the IDNA codec (5 ms)."""
    return host.encode("ascii") if host.isascii() else host


def unresolved(host: str, port: int, problem: OSError | UnicodeError) -> NameResolutionFailed:
    """Return the error of a failed lookup."""
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return NameResolutionFailed(f"The host name {host} of {HostPort(host, port)} has no address: {reason}")


def in_order(addresses: Iterable[Address]) -> list[Address]:
    """Return the different addresses of a name, those of the first one's family first."""
    found = list(dict.fromkeys(addresses))
    return sorted(found, key=lambda address: address.family != found[0].family)


def java_address(text: str) -> str:
    """Return an IP address as Java writes it (InetAddress.getHostAddress), which is the form of hosts in ACLs: an
    IPv4-mapped address as IPv4, all eight numbers of an IPv6 address. Any other text is returned unchanged."""
    if ":" not in text:
        return text
    import ipaddress

    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return text
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    _, percent, scope = text.partition("%")
    return ":".join(f"{number:x}" for number in unpack(">8H", address.packed)) + percent + scope


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a loopback address. Other names are not resolved and give False."""
    import ipaddress

    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(java_address(host)).is_loopback
    except ValueError:
        return False
