"""Logins of plugins: what they raise is a failed login."""

from __future__ import annotations

import pytest

from kafkatools.core.errors import SaslAuthenticationFailed
from kafkatools.core.net.security.plugin_login import MechanismPlugin, PluginLogin


class Exchange:
    name = "DEMO"
    is_complete = False

    def initial(self) -> bytes:
        raise KeyError("user")

    def respond(self, challenge: bytes) -> bytes | None:
        raise SaslAuthenticationFailed("wrong password")


def test_exceptions_of_a_plugin_are_failed_logins() -> None:
    login = PluginLogin(MechanismPlugin("DEMO", lambda options, host: Exchange()), {})
    exchange = login.start("localhost")
    with pytest.raises(SaslAuthenticationFailed, match="the plugin failed: KeyError: 'user'"):
        exchange.initial()
    with pytest.raises(SaslAuthenticationFailed, match="^wrong password"):
        exchange.respond(b"")
    assert (exchange.name, exchange.is_complete) == ("DEMO", False)


def test_a_plugin_that_does_not_start_is_a_failed_login() -> None:
    login = PluginLogin(MechanismPlugin("DEMO", lambda options, host: options["user"]), {})  # type: ignore[arg-type, return-value]
    with pytest.raises(SaslAuthenticationFailed, match="KeyError"):
        login.start("localhost")
