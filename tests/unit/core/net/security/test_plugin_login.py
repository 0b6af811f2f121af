"""Logins of plugins: what they raise, and results of a wrong type, are failed logins that name the plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkatools.core.clock import SystemClock
from kafkatools.core.entry_points import EntryPoint
from kafkatools.core.errors import AuthenticationFailed, SaslAuthenticationFailed
from kafkatools.core.net.security.login import TokenLogin
from kafkatools.core.net.security.plugin_login import MechanismPlugin, PluginLogin, TokenPlugin, token_fetch
from kafkatools.core.net.security.tokens import Token

POINT = EntryPoint("kafkatools.logins", "ACME", "acme:LOGIN", "acme-tools 1.0")
NAMED = r"^plugin ACME of acme-tools 1\.0 \(kafkatools\.logins: acme:LOGIN\) failed: "


class Exchange:
    name = "DEMO"

    @property
    def is_complete(self) -> bool:
        raise ValueError("out of order")

    def initial(self) -> bytes:
        raise KeyError("user")

    def respond(self, challenge: bytes) -> bytes | None:
        raise SaslAuthenticationFailed("wrong password")


class WrongExchange:
    name = "DEMO"
    is_complete: Any = None

    def initial(self) -> Any:
        return None

    def respond(self, challenge: bytes) -> Any:
        return "text"


def login_with(exchange: Callable[[], Any]) -> PluginLogin:
    return PluginLogin(POINT, MechanismPlugin("DEMO", lambda options, host: exchange()), {})


def test_exceptions_of_a_plugin_are_failed_logins() -> None:
    exchange = login_with(Exchange).start("localhost")
    with pytest.raises(SaslAuthenticationFailed, match=f"{NAMED}KeyError: 'user'$"):
        exchange.initial()
    with pytest.raises(SaslAuthenticationFailed, match="^wrong password$"):
        exchange.respond(b"")
    with pytest.raises(SaslAuthenticationFailed, match=f"{NAMED}ValueError: out of order$"):
        _ = exchange.is_complete
    assert exchange.name == "DEMO"


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda exchange: exchange.initial(), "initial returned None, not bytes"),
        (lambda exchange: exchange.respond(b""), "respond returned a value of type str, not bytes"),
        (lambda exchange: exchange.is_complete, "is_complete returned None, not bool"),
    ],
    ids=("initial", "respond", "is_complete"),
)
def test_results_of_a_wrong_type_are_failed_logins(use: Callable[[Any], object], reason: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=f"{NAMED}{reason}$"):
        use(login_with(WrongExchange).start("localhost"))


def test_an_exchange_without_the_methods_is_a_failed_login() -> None:
    exchange = login_with(lambda: None).start("localhost")
    for use in (exchange.initial, lambda: exchange.respond(b""), lambda: exchange.is_complete):
        with pytest.raises(SaslAuthenticationFailed, match=f"{NAMED}AttributeError: 'NoneType' object"):
            use()


@pytest.mark.parametrize("error", [KeyError("user"), SystemExit("user")])
def test_a_plugin_that_does_not_start_is_a_failed_login(error: BaseException) -> None:
    def refuse() -> None:
        raise error

    with pytest.raises(SaslAuthenticationFailed, match=f"{NAMED}{type(error).__name__}: '?user'?$"):
        login_with(refuse).start("localhost")


def fails(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("fetch", "reason"),
    [
        (lambda options: fails(KeyError("url")), f"{NAMED}KeyError: 'url'$"),
        (lambda options: fails(SystemExit(3)), f"{NAMED}SystemExit: 3$"),
        (lambda options: "abc", f"{NAMED}fetch returned a value of type str, not Token$"),
        (lambda options: None, f"{NAMED}fetch returned None, not Token$"),
        (lambda options: Token(b"abc", None), f"{NAMED}fetch returned a value of type Token, not a Token of "),  # type: ignore[arg-type]
        (lambda options: Token("abc", "soon"), f"{NAMED}fetch returned a value of type Token, not a Token of "),  # type: ignore[arg-type]
        (lambda options: Token("a\x01b", None), "^an OAuth bearer token has "),
        (lambda options: fails(AuthenticationFailed("expired")), "^expired$"),
    ],
    ids=("raises", "exits", "text", "none", "bytes", "expiry", "characters", "own"),
)
def test_a_token_that_cannot_be_fetched_is_an_error_of_the_login(fetch: Any, reason: str) -> None:
    wakeups: list[bool] = []
    login = TokenLogin(token_fetch(POINT, TokenPlugin(fetch), {}), {}, SystemClock(), lambda: wakeups.append(True))
    login._run()  # what the thread runs
    assert wakeups
    with pytest.raises(AuthenticationFailed, match=reason):
        login.is_ready("localhost")
