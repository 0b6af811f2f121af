"""Logins of plugins, which sasl.mechanism names: a source of OAUTHBEARER tokens, or a SASL mechanism of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, ParamSpec, TypeVar

from kafkatools.core.entry_points import find, load
from kafkatools.core.errors import KafkaError, SaslAuthenticationFailed
from kafkatools.core.net.security.mechanisms import Mechanism
from kafkatools.core.net.security.tokens import Token, TokenSource
from kafkatools.core.secrets import remember

PLUGIN_GROUP = "kafkatools.logins"
P = ParamSpec("P")
R = TypeVar("R")


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

    def __init__(self, plugin: MechanismPlugin, options: Mapping[str, str]) -> None:
        self.mechanism = plugin.mechanism
        self._start = plugin.start
        self._options = options

    def is_ready(self, host: str) -> bool:
        """Return True: there is nothing to fetch."""
        return True

    def start(self, host: str) -> Mechanism:
        """Start an exchange with a host. Raises SaslAuthenticationFailed."""
        return _GuardedMechanism(self.mechanism, guarded(self._start, self._options, host))


class _GuardedMechanism:
    """An exchange of a plugin, whose exceptions become SaslAuthenticationFailed."""

    def __init__(self, name: str, exchange: Mechanism) -> None:
        self.name = name
        self._exchange = exchange

    @property
    def is_complete(self) -> bool:
        return self._exchange.is_complete

    def initial(self) -> bytes:
        return guarded(self._exchange.initial)

    def respond(self, challenge: bytes) -> bytes | None:
        return guarded(self._exchange.respond, challenge)


def guarded(function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Call a function of a plugin. Raises its KafkaError, and SaslAuthenticationFailed for all other exceptions."""
    try:
        return function(*arguments, **named)
    except KafkaError:
        raise
    except Exception as error:
        raise SaslAuthenticationFailed(f"the plugin failed: {type(error).__name__}: {error}") from error


def find_plugin(name: str) -> TokenPlugin | MechanismPlugin | None:
    """Return the login plugin that sasl.mechanism names, None without one. Raises PluginError."""
    point = find(PLUGIN_GROUP, name)
    kinds: tuple[type[TokenPlugin | MechanismPlugin], ...] = (TokenPlugin, MechanismPlugin)
    return None if point is None else load(point, *kinds)


def token_fetch(plugin: TokenPlugin, options: Mapping[str, str]) -> TokenSource:
    """Return the source of a plugin's tokens, which are hidden in messages from then on."""

    def fetch() -> Token:
        token = plugin.fetch(options)
        remember(token.value)
        return token

    return fetch
