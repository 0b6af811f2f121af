"""Limits on a broker's connections: max.connections of the broker and of each listener, max.connections.per.ip with
its overrides (Kafka's ConnectionQuotas), and the process's limit of open files.

Rules: a connection above max.connections waits until another one is closed, and with it those after it on the listener.
A connection above another limit is accepted, closed at once and counted. At most once a minute per limit a line
reports how many were refused, why, and what to change. A protected listener, where only other nodes connect, is exempt
from all limits but max.connections.per.ip and its own max.connections. For its connection the least recently used one
of another listener is closed; without any it is refused. `connection_rates.py` has the limits per second.

Log files and each other node (NODE_DESCRIPTORS) have reserved descriptors; clients get the rest. A client that reads
slowly also holds descriptors of log files. When none is left for it, it is disconnected.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from kafkatools.core.broker.metadata.dynamic_checks import listener_names, of_listener
from kafkatools.core.broker.server.connection_rates import BROKER, ConnectionRates
from kafkatools.core.broker.server.requests import FileRegion
from kafkatools.core.config import Config
from kafkatools.core.log.files import MAX_OPEN_FILES
from kafkatools.core.net.addresses import java_address

UNLIMITED = 2**31 - 1
LEAST_LOG_FILES = 16
PROCESS_DESCRIPTORS = 24
"""Reserved for listening sockets, locks, the selector and short-lived files."""
NODE_DESCRIPTORS = 12
"""Reserved for the connections to and from one other node."""
REPORT_INTERVAL_MS = 60_000
MAX_RAISED_LIMIT = 1 << 20
PER_IP = "max.connections.per.ip"
WAITING = "waiting"


class Connected(Protocol):
    """A connection as the limits see it; `Connection` documents the members."""

    last_active_ms: int

    @property
    def is_protected(self) -> bool: ...
    def close(self) -> None: ...


def descriptor_limit() -> int:
    """The process's limit of open files (the soft RLIMIT_NOFILE); UNLIMITED if it has none."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard limit, at most to MAX_RAISED_LIMIT, as the JVM does (MaxFDLimit).
    A higher limit stays."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_RAISED_LIMIT if hard == resource.RLIM_INFINITY else min(hard, MAX_RAISED_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def max_log_files(limit: int) -> int:
    """The maximum number of open log files for a limit of open files: half of it, but at least LEAST_LOG_FILES and at
    most MAX_OPEN_FILES."""
    return max(LEAST_LOG_FILES, min(MAX_OPEN_FILES, limit // 2))


class ConnectionLimits:
    """Counts a broker's connections and decides which are admitted."""

    def __init__(
        self, descriptors: int = UNLIMITED, log_files: int = 0, report: Callable[[str], None] | None = None
    ) -> None:
        """`descriptors` is the limit of open files, `log_files` how many of them log files may hold. Without
        `descriptors` only the limits of `configure` apply."""
        self._descriptors = descriptors
        self._report = report or (lambda line: None)
        self._reserve = log_files + PROCESS_DESCRIPTORS + (_open_now() if descriptors < UNLIMITED else 0)
        self._other_nodes = 0
        self._max_connections = self._per_ip = UNLIMITED
        self._listener_max: dict[str, int] = {}
        self._by_listener: Counter[str] = Counter()
        self.rates = ConnectionRates()
        self._overrides_text = ""
        self._overrides: dict[str, int] = {}
        self._by_host: Counter[str] = Counter()
        self._owned = 0
        self._refused: dict[str, int] = {}
        self._reasons: dict[str, str] = {}
        self._reported_ms: dict[str, int] = {}

    def configure(self, config: Config, other_nodes: int = 0, address_rates: Mapping[str, float] | None = None) -> None:
        """Apply the current settings, the number of other nodes in the cluster, and the quotas of IP addresses."""
        names = list(listener_names(config))
        self._listener_max = {name: _number(config, name, "max.connections") for name in names}
        rates = {name: float(_number(config, name, "max.connection.creation.rate")) for name in names}
        rates[BROKER] = config.max_connection_creation_rate
        self.rates.configure(config, rates, address_rates or {})
        self._other_nodes = other_nodes
        self._max_connections = config.max_connections
        self._per_ip = config.max_connections_per_ip
        if config.max_connections_per_ip_overrides != self._overrides_text:
            self._overrides_text = config.max_connections_per_ip_overrides
            self._overrides = _overrides(self._overrides_text)

    @property
    def reserved_count(self) -> int:
        """The number of descriptors that are not for clients: those open at the start, and those reserved for the
        process, log files and other nodes."""
        return self._reserve + self._other_nodes * NODE_DESCRIPTORS

    @property
    def room(self) -> int:
        """The number of descriptors for clients, at least 1: their connections, and log files of responses in the
        output queue."""
        return max(1, self._descriptors - self.reserved_count)

    # -- connections -----------------------------------------------------------------------------------------------
    def has_slot(self, listener: str, count: int, *, is_protected: bool) -> bool:
        """Return whether max.connections of a listener and of the broker, which has `count` connections, leave room for
        one more."""
        if self._by_listener[listener] >= self._listener_max.get(listener, UNLIMITED):
            return False
        return is_protected or count < self._max_connections

    def close_excess(self, connections: Collection[Connected]) -> None:
        """Close the least recently used connection of a client if max.connections was lowered below their number."""
        if len(connections) > self._max_connections:
            _make_room(connections)

    def admit(
        self, connections: Collection[Connected], host: str, now_ms: int, *, is_protected: bool, listener: str = ""
    ) -> bool:
        """Return whether to accept a new connection from `host`, which then counts until `forget`. A refused one is
        counted for the next report. For a protected one the least recently used connection of a client may be
        closed."""
        reason = self._excess(len(connections), host)
        if reason and is_protected and reason[0] != PER_IP and _make_room(connections):
            reason = None
        if reason is None:
            self._by_host[host] += 1
            self._by_listener[listener] += 1
            return True
        setting, text = reason
        self._refused[setting] = self._refused.get(setting, 0) + 1
        self._reasons[setting] = text
        self.report_refused(now_ms)
        return False

    def forget(self, host: str, listener: str = "") -> None:
        """Count a connection from this address to this listener as closed."""
        self._by_listener[listener] -= 1
        self._by_host[host] -= 1
        if self._by_host[host] <= 0:
            del self._by_host[host]

    def _excess(self, count: int, host: str) -> tuple[str, str] | None:
        """The (setting, reason) of the limit that one more connection would exceed; None when there is room."""
        if count + self._owned >= self.room:
            return "ulimit", (
                f"{count} are open, and of the limit of {self._descriptors} open files {self.reserved_count} are "
                "reserved for log files and other nodes. Raise the limit (ulimit -n)"
            )
        if count >= self._max_connections:
            return "max.connections", f"{count} are open, as many as max.connections allows"
        most = self._overrides.get(host, self._per_ip)
        if self._by_host[host] >= most:
            return PER_IP, f"{host} has {most} open, as many as {PER_IP} allows"
        return None

    # -- what a slow reader holds ----------------------------------------------------------------------------------
    def duplicate(self, descriptor: int, connections: int) -> OwnedDescriptor | None:
        """Duplicate a log file's descriptor for a response that waits for a slow client; None when the limits leave no
        room. Raises OSError when the system has no descriptor left."""
        if connections + self._owned >= self.room:
            return None
        owned = OwnedDescriptor(os.dup(descriptor), self)
        self._owned += 1
        return owned

    def give_back(self) -> None:
        """Count a duplicated descriptor as closed."""
        self._owned -= 1

    # -- reporting -------------------------------------------------------------------------------------------------
    def report_waiting(self, count: int, now_ms: int) -> None:
        """Report that new connections wait for a free slot of `count` used ones, at most once a minute."""
        reported_ms = self._reported_ms.get(WAITING)
        if reported_ms is None or now_ms - reported_ms >= REPORT_INTERVAL_MS:
            self._reported_ms[WAITING] = now_ms
            self._report(f"WARN New connections wait: {count} are open, as many as max.connections allows")

    def report_refused(self, now_ms: int) -> None:
        """Report the refused connections since the last report, at most one line a minute for each limit."""
        for setting, count in list(self._refused.items()):
            reported_ms = self._reported_ms.get(setting)
            if reported_ms is not None and now_ms - reported_ms < REPORT_INTERVAL_MS:
                continue
            self._reported_ms[setting] = now_ms
            del self._refused[setting]
            connections = "1 connection was" if count == 1 else f"{count} connections were"
            self._report(f"WARN {connections} refused: {self._reasons[setting]}")


class OwnedDescriptor:
    """A duplicate of a segment file's descriptor, which counts against the connection limits until it is closed."""

    __slots__ = ("_limits", "fd")

    def __init__(self, fd: int, limits: ConnectionLimits) -> None:
        self.fd = fd
        self._limits = limits

    def fileno(self) -> int:
        """The number of the descriptor."""
        return self.fd

    def close(self) -> None:
        """Close the descriptor and give it back to the limits."""
        os.close(self.fd)
        self._limits.give_back()


def release_region(region: FileRegion) -> None:
    """Close the duplicated descriptor of a file region, if it has one."""
    if isinstance(region.file, OwnedDescriptor):
        region.file.close()


def _make_room(connections: Collection[Connected]) -> bool:
    """Close the least recently used connection of an unprotected listener and return True; False when there is none."""
    clients = [connection for connection in connections if not connection.is_protected]
    if not clients:
        return False
    min(clients, key=lambda connection: connection.last_active_ms).close()
    return True


def _open_now() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def _number(config: Config, listener: str, name: str) -> int:
    value = of_listener(config, listener, name)
    return value if isinstance(value, int) else UNLIMITED


def _overrides(text: str) -> dict[str, int]:
    """Parse max.connections.per.ip.overrides (`host:count,...`) into the limit by IP address; ignores entries without a
    count and names that do not resolve."""
    limits: dict[str, int] = {}
    for part in text.split(","):
        host, _, count = part.strip().rpartition(":")
        if not count.isdigit():
            continue
        try:
            addresses = socket.getaddrinfo(host.strip("[]"), None)
        except OSError:
            continue
        limits.update((java_address(str(address[4][0])), int(count)) for address in addresses)
    return limits
