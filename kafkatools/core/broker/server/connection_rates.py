"""How many connections a broker takes per second: max.connection.creation.rate of the broker and of each listener, and
the quota connection_creation_rate of IP addresses (KIP-612, Kafka's ConnectionQuotas).

Rules: above the rate of the broker or the listener a connection is served later, and those after it on the listener
wait; above the rate of its address it is closed later. No delay is longer than a quota window. A connection that its
address may not have does not count for the broker. Other nodes do not count for the broker's rate.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.broker.metadata.controller.client_quotas import CONNECTION_CREATION_RATE, IP, ClientQuotas
from kafkatools.core.broker.server.quotas import MAX_CLIENT_IDS, Rate
from kafkatools.core.config import Config
from kafkatools.core.net.addresses import java_address

UNLIMITED = 2**31 - 1
ANY_ADDRESS = ""
BROKER = ""


def address_rates(quotas: ClientQuotas) -> dict[str, float]:
    """Return the rate of each IP address that has a quota; ANY_ADDRESS has the default of the others."""
    rates = {}
    for entity, values in quotas.by_entity.items():
        if entity[0][0] == IP and CONNECTION_CREATION_RATE in values:
            name = entity[0][1] or ANY_ADDRESS
            rates["127.0.0.1" if name == "localhost" else java_address(name)] = values[CONNECTION_CREATION_RATE]
    return rates


class ConnectionRates:
    """Counts new connections and returns their delays. Without limits nothing is counted."""

    def __init__(self) -> None:
        self._window_ms, self._windows = 1000, 11
        self._listeners: dict[str, float] = {}
        self._addresses: Mapping[str, float] = {}
        self._by_listener: dict[str, Rate] = {}
        self._by_address: dict[str, Rate] = {}

    def configure(self, config: Config, listeners: Mapping[str, float], addresses: Mapping[str, float]) -> None:
        """Apply the current rate of each listener, BROKER has that of all, and of IP addresses (`address_rates`)."""
        self._window_ms, self._windows = config.quota_window_size_seconds * 1000, config.quota_window_num
        self._listeners = {name: rate for name, rate in listeners.items() if rate < UNLIMITED}
        self._addresses = addresses
        self._by_listener = {name: rate for name, rate in self._by_listener.items() if name in self._listeners}

    def delay_ms(self, listener: str, now_ms: int, *, is_protected: bool) -> int:
        """Count a new connection of a listener; returns how long it waits in ms. A protected listener does not count
        for the broker."""
        if not self._listeners:
            return 0
        names = (listener,) if is_protected else (BROKER, listener)
        return max(self._recorded(name, now_ms) for name in names)

    def _recorded(self, name: str, now_ms: int) -> int:
        bound = self._listeners.get(name)
        if bound is None:
            return 0
        rate = self._by_listener.setdefault(name, Rate(self._window_ms, self._windows))
        rate.record(1, now_ms)
        return min(rate.throttle_ms(bound, now_ms), self._window_ms)

    def refusal_ms(self, host: str, listener: str, now_ms: int, *, is_protected: bool) -> int:
        """Count a new connection of an IP address; returns 0, or the time in ms after which it is to be closed, because
        the address has too many. That one then counts for nothing."""
        bound = self._addresses.get(host, self._addresses.get(ANY_ADDRESS))
        if bound is None:
            return 0
        if host not in self._by_address and len(self._by_address) >= MAX_CLIENT_IDS:
            self._by_address.clear()
        rate = self._by_address.setdefault(host, Rate(self._window_ms, self._windows))
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(bound, now_ms), self._window_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
            for name in (listener,) if is_protected else (BROKER, listener):
                if name in self._by_listener:
                    self._by_listener[name].record(-1, now_ms)
        return throttle_ms
