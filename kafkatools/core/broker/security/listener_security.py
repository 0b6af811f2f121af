"""The security of each listener from the broker's settings (ChannelBuilders, ListenerName.configPrefix).

Rules: `listener.name.<name>.<setting>` wins over the setting itself, and `listener.name.<name>.<mechanism>.<setting>`
belongs to one SASL mechanism, both with names in lower case. Certificates, keys and logins are read here, so that a
wrong one ends the start of the node before a socket is bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.config import Config
from kafkatools.core.config.setting import Value
from kafkatools.core.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.security.server_tls import ServerTls

PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""The security protocols with their ids in registrations."""
_PREFIX = "listener.name."


class NamedListener(Protocol):
    """A listener's name and security protocol."""

    @property
    def name(self) -> str: ...
    @property
    def protocol(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """The security of one listener: its protocol, its settings, and its TLS, None without."""

    name: str
    protocol: str
    config: Config
    tls: ServerTls | None

    @property
    def has_sasl(self) -> bool:
        """Return whether clients of the listener authenticate with SASL."""
        return self.protocol.startswith("SASL_")

    def of_mechanism(self, mechanism: str, setting: str) -> Value:
        """The value of a setting for one SASL mechanism: its own, else that of the listener. Raises ConfigError."""
        own = self.config.prefixed.get(f"{_PREFIX}{self.name.lower()}.{mechanism.lower()}.{setting}")
        value: Value = self.config[setting] if own is None else self.config.table[setting].parse(own)
        return value


def listener_config(config: Config, name: str) -> Config:
    """The settings of a listener: those with its prefix over the others. Raises ConfigError."""
    prefix = f"{_PREFIX}{name.lower()}."
    own = {key.removeprefix(prefix): value for key, value in config.prefixed.items() if key.startswith(prefix)}
    return config.replace({key: value for key, value in own.items() if key in config.table})


def security_of(config: Config, listeners: Iterable[NamedListener]) -> dict[str, ListenerSecurity]:
    """The security of the listeners by name. Raises ConfigError, which names the listener."""
    return {listener.name: _security(config, listener.name, listener.protocol) for listener in listeners}


def _security(config: Config, name: str, protocol: str) -> ListenerSecurity:
    if protocol == "PLAINTEXT":
        return ListenerSecurity(name, protocol, config, None)
    own = listener_config(config, name)
    if protocol == "SASL_SSL":  # the principal is that of SASL: a subject to which no rule applies must not be refused
        own = own.replace({"ssl.principal.mapping.rules": "DEFAULT"})
    tls = None
    if protocol.endswith("SSL"):
        from kafkatools.core.broker.security.server_tls import server_tls

        try:
            tls = server_tls(own, name, _client_auth(own, name, protocol))
        except KafkaError as error:
            raise ConfigError(f"listener {name}: {error}") from None
    return ListenerSecurity(name, protocol, own, tls)


def _client_auth(config: Config, name: str, protocol: str) -> str:
    """The listener's ssl.client.auth; a listener with SASL takes only its own (KIP-684)."""
    is_own = f"{_PREFIX}{name.lower()}.ssl.client.auth" in config.prefixed
    return str(config["ssl.client.auth"]) if is_own or protocol == "SSL" else "none"


def ignored_prefixed(config: Config, listeners: Iterable[NamedListener]) -> list[str]:
    """The names of `listener.name.` settings, and others with a prefix, that have no effect: of an unknown listener,
    or of a setting that this broker does not use."""
    prefixes = tuple(f"{_PREFIX}{listener.name.lower()}." for listener in listeners)
    ignored = []
    for name in config.prefixed:
        rest = next((name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)), "")
        setting = rest if rest in config.table else rest.partition(".")[2]
        if setting not in config.table or not config.table[setting].is_used:
            ignored.append(name)
    return ignored
