"""Logins of plugins, which sasl.mechanism names: a source of OAUTHBEARER tokens, or a SASL mechanism of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkatools.core.entry_points import EntryPoint, find, load
from kafkatools.core.errors import KafkaError, PluginError, SaslAuthenticationFailed
from kafkatools.core.net.security.mechanisms import Mechanism
from kafkatools.core.net.security.tokens import Token, TokenSource, checked_token
from kafkatools.core.plugin_calls import PluginCalls

PLUGIN_GROUP = "kafkatools.logins"


class TokenPlugin(NamedTuple):
    """A source of OAUTHBEARER tokens. `fetch` takes the options of sasl.jaas.config and returns a token, or raises
    AuthenticationFailed; a thread calls it whenever a token is needed, so it may wait for a service."""

    fetch: Callable[[Mapping[str, str]], Token]


class MechanismPlugin(NamedTuple):
    """A SASL mechanism. `mechanism` is its name for the broker; `start` takes the options of sasl.jaas.config and the
    broker's host and returns a new exchange. Neither `start` nor the exchange may wait."""

    mechanism: str
    start: Callable[[Mapping[str, str], str], Mechanism]


class PluginLogin:
    """The login with a plugin's SASL mechanism, which needs no preparation."""

    def __init__(self, point: EntryPoint, plugin: MechanismPlugin, options: Mapping[str, str]) -> None:
        self.mechanism = plugin.mechanism
        self._calls = _calls(point)
        self._start = plugin.start
        self._options = options

    def is_ready(self, host: str) -> bool:
        """Return True: there is nothing to fetch."""
        return True

    def start(self, host: str) -> Mechanism:
        """Start an exchange with a host. Raises SaslAuthenticationFailed."""
        exchange = self._calls.call(self._start, self._options, host)
        return _GuardedMechanism(self.mechanism, exchange, self._calls)


class _GuardedMechanism:
    """An exchange of a plugin. Its exceptions, and results of a wrong type, become SaslAuthenticationFailed. Attributes
    are read within the call, as reading one may fail too."""

    def __init__(self, name: str, exchange: Mechanism, calls: PluginCalls) -> None:
        self.name = name
        self._exchange = exchange
        self._calls = calls

    @property
    def is_complete(self) -> bool:
        return self._calls.checked("is_complete", self._calls.call(lambda: self._exchange.is_complete), bool)

    def initial(self) -> bytes:
        return self._calls.checked("initial", self._calls.call(lambda: self._exchange.initial()), bytes)

    def respond(self, challenge: bytes) -> bytes | None:
        reply = self._calls.call(lambda: self._exchange.respond(challenge))
        return None if reply is None else self._calls.checked("respond", reply, bytes)


def _calls(point: EntryPoint) -> PluginCalls:
    return PluginCalls(point, SaslAuthenticationFailed, passes=(KafkaError,))


def find_plugin(name: str) -> tuple[EntryPoint, TokenPlugin | MechanismPlugin] | None:
    """Return the login plugin that sasl.mechanism names, with its entry point; None without one. Raises PluginError."""
    point = find(PLUGIN_GROUP, name)
    if point is None:
        return None
    kinds: tuple[type[TokenPlugin | MechanismPlugin], ...] = (TokenPlugin, MechanismPlugin)
    plugin = load(point, *kinds)
    if isinstance(plugin, MechanismPlugin) and not (isinstance(plugin.mechanism, str) and plugin.mechanism):
        raise PluginError(f"{point} cannot be used: mechanism is not the name of a SASL mechanism")
    return point, plugin


def token_fetch(point: EntryPoint, plugin: TokenPlugin, options: Mapping[str, str]) -> TokenSource:
    """Return the source of a plugin's tokens, which are hidden in messages from then on. The source raises
    SaslAuthenticationFailed for a failure of the plugin."""
    calls = _calls(point)

    def fetch() -> Token:
        token = calls.checked("fetch", calls.call(plugin.fetch, options), Token)
        if not isinstance(token.value, str) or not isinstance(token.expires_ms, int | None):
            raise calls.wrong("fetch", token, "a Token of a str and an int or None")
        return checked_token(token)

    return fetch
