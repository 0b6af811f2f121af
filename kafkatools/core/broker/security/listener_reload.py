"""Certificates and logins of listeners that change while the broker runs (KIP-226, Kafka's SslFactory).

Rules: of the dynamic settings of a listener only those of its key store, trust store and JAAS configuration count; the
others need a new start. New connections get them, open ones keep theirs. Each change of the broker's own settings reads
the files again, so setting a location to its present value reloads a replaced file. What cannot be read is reported,
and the listener keeps what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.broker.metadata.dynamic_checks import SECURITY
from kafkatools.core.broker.security.listener_security import (
    ListenerSecurity,
    NamedListener,
    security_of,
)
from kafkatools.core.broker.server.acceptor import Acceptor
from kafkatools.core.broker.server.node_listener import secure_by
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError, KafkaError
from kafkatools.core.net.security.jaas import parse_jaas_config

if TYPE_CHECKING:
    from kafkatools.core.broker.security.sasl_listener import SaslListener

_JAAS = ".sasl.jaas.config"


class Authenticator(Protocol):
    """The request handler of a listener with SASL (`AuthenticatingDispatcher`)."""

    def use(self, sasl: SaslListener) -> None: ...


def reloaded_security(
    static: Config, current: Config, listeners: Sequence[NamedListener]
) -> dict[str, ListenerSecurity]:
    """Return the security of the listeners with the settings of `current` that may change at run time, and the others
    of `static`. Raises ConfigError, which names the listener."""
    dynamic = {
        name: value
        for name, value in current.prefixed.items()
        if name.endswith(_JAAS) or name.split(".", 3)[-1] in SECURITY
    }
    for name, value in dynamic.items():
        if name.endswith(_JAAS):
            try:
                parse_jaas_config(value)
            except KafkaError as error:
                raise ConfigError(f"{name}: {error}") from None
    return security_of(static.replace({**static.prefixed, **dynamic}), listeners)


class ListenerReload:
    """Gives changed certificates and logins to the listeners of a node."""

    def __init__(
        self,
        static: Config,
        listeners: Sequence[NamedListener],
        acceptors: Sequence[Acceptor],
        authenticators: Mapping[str, Authenticator],
        clock: Clock,
        report: Callable[[str], None],
    ) -> None:
        self._static = static
        self._listeners = listeners
        self._acceptors = acceptors
        self._authenticators = authenticators
        self._clock = clock
        self._report = report
        self._changes = 0

    def maybe_apply(self, changes: int, current: Callable[[], Config]) -> None:
        """Read the files again if the number of changes of broker settings is another one than before."""
        if changes != self._changes:
            self._changes = changes
            self.apply(current())

    def apply(self, current: Config) -> None:
        """Read the key stores, trust stores and logins again, for new connections."""
        try:
            security = reloaded_security(self._static, current, self._listeners)
            sasl = self._logins(security)
        except KafkaError as error:
            self._report(f"WARN Changed certificates or logins are not used: {error}")
            return
        for acceptor in self._acceptors:
            acceptor.secure = secure_by(security[acceptor.name])
        for name, authenticator in self._authenticators.items():
            authenticator.use(sasl[name])

    def _logins(self, security: Mapping[str, ListenerSecurity]) -> dict[str, SaslListener]:
        if not self._authenticators:
            return {}
        from kafkatools.core.broker.security.sasl_listener import sasl_listener

        return {name: sasl_listener(security[name], self._clock) for name in self._authenticators}
