"""SASL credentials of a client from sasl.mechanism, sasl.jaas.config and the OAUTHBEARER settings (LoginManager).

A `Login` makes the mechanism of each exchange. A token is fetched on a separate thread, which wakes the client when it
is done. It is renewed when sasl.login.refresh.window.factor of its lifetime is over; a token without an expiry after
sasl.login.refresh.min.period.seconds. A token that cannot be renewed is used until it expires.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import AuthenticationFailed, ConfigError, KafkaError
from kafkatools.core.net.security.jaas import LoginModule, parse_jaas_config
from kafkatools.core.net.security.mechanisms import Mechanism, OAuthBearer, Plain
from kafkatools.core.net.security.scram import HASHES, Scram
from kafkatools.core.net.security.token_settings import (
    AWS_MSK_IAM,
    makes_unsecured,
    refuse_foreign_classes,
    token_source,
)

if TYPE_CHECKING:
    from kafkatools.core.net.security.tokens import Token, TokenSource

MECHANISMS = ("PLAIN", *HASHES, "OAUTHBEARER", "GSSAPI", AWS_MSK_IAM)
_FRESH_MS = 30_000
"""How long a failed fetch counts; an older one was for a connection that was closed meanwhile."""
_EXTENSION = re.compile(r"[A-Za-z]+")


class Login(Protocol):
    """The source of credentials for SASL exchanges."""

    mechanism: str

    def is_ready(self, host: str) -> bool:
        """Return whether credentials for a host are available; if not, start to fetch them. Raises KafkaError when the
        fetch failed."""

    def start(self, host: str) -> Mechanism:
        """Make the SASL mechanism for a new exchange with a host."""


@dataclass(eq=False, repr=False)
class StaticLogin:
    """A login with user name and password (PLAIN, SCRAM)."""

    mechanism: str
    make: Callable[[], Mechanism]

    def is_ready(self, host: str) -> bool:
        return True

    def start(self, host: str) -> Mechanism:
        return self.make()


@dataclass(eq=False, repr=False)
class TokenLogin:
    """A login with an OAUTHBEARER token that is fetched and renewed in the background."""

    mechanism = "OAUTHBEARER"

    fetch: TokenSource
    extensions: Mapping[str, str]
    clock: Clock
    wakeup: Callable[[], None]
    _: KW_ONLY
    window_factor: float = 0.8
    min_period_ms: int = 60_000
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)  # guards the fields below
    _token: Token | None = field(default=None, init=False)
    _renew_at_ms: int = field(default=0, init=False)
    _error: KafkaError | None = field(default=None, init=False)
    _failed_at_ms: int = field(default=0, init=False)
    _is_fetching: bool = field(default=False, init=False)

    def is_ready(self, host: str) -> bool:
        """Return whether a token is available that needs no renewal yet; if not, start to fetch one. Raises KafkaError
        when the last fetch failed and no unexpired token is left."""
        now_ms = self.clock.wall_ms()
        with self._lock:
            if self._token is not None and now_ms < self._renew_at_ms:
                return True
            error, self._error = self._error, None
            if error is not None and self.clock.now_ms() - self._failed_at_ms <= _FRESH_MS:
                if self._token is None or self._token.expires_ms is None or now_ms >= self._token.expires_ms:
                    raise error
                self._renew_at_ms = min(now_ms + self.min_period_ms, self._token.expires_ms)
                return True
            if not self._is_fetching:
                self._is_fetching = True
                threading.Thread(target=self._run, name="kafkatools-token", daemon=True).start()
        return False

    def _run(self) -> None:
        token: Token | None = None
        error: KafkaError | None = None
        try:
            token = self.fetch()
            if token.expires_ms is not None and token.expires_ms <= self.clock.wall_ms():
                token, error = None, AuthenticationFailed("the token has expired")
        except KafkaError as problem:
            error = problem
        except Exception as problem:  # noqa: BLE001 - the top of the thread: is_ready must raise the error
            error = AuthenticationFailed(f"the token could not be fetched: {type(problem).__name__}")
        with self._lock:
            self._error, self._is_fetching = error, False
            self._failed_at_ms = self.clock.now_ms()
            if token is not None:
                self._token, self._renew_at_ms = token, self._renewal_ms(token)
        self.wakeup()

    def _renewal_ms(self, token: Token) -> int:
        now_ms = self.clock.wall_ms()
        if token.expires_ms is None:
            return now_ms + self.min_period_ms
        return now_ms + int((token.expires_ms - now_ms) * self.window_factor)

    def start(self, host: str) -> Mechanism:
        """Make the mechanism of a new exchange with the current token. Raises AuthenticationFailed without a token."""
        with self._lock:
            token = self._token
        if token is None:
            raise AuthenticationFailed("there is no token")
        return OAuthBearer(token.value, self.extensions)


def login_of(config: Config, clock: Clock, wakeup: Callable[[], None]) -> Login:
    """Make the login that a client's SASL settings describe. Raises ConfigError, and PluginError for a plugin's."""
    mechanism: str = config.sasl_mechanism
    jaas = config.sasl_jaas_config
    module = parse_jaas_config(jaas.value) if jaas is not None else None
    if mechanism not in MECHANISMS:
        return _plugin_login(config, mechanism, module, clock, wakeup)
    if mechanism in ("OAUTHBEARER", AWS_MSK_IAM):
        return _token_login(config, module, clock, wakeup)
    refuse_foreign_classes(config)
    if mechanism == "GSSAPI":
        from kafkatools.core.net.security.kerberos import TicketLogin, kerberos_login

        return TicketLogin(kerberos_login(config, module), clock, wakeup)
    if module is None:
        raise ConfigError(f"SASL {mechanism} needs user name and password: sasl.jaas.config is not set")
    return _password_login(config, mechanism, module)


def _plugin_login(
    config: Config, name: str, module: LoginModule | None, clock: Clock, wakeup: Callable[[], None]
) -> Login:
    from kafkatools.core.net.security.plugin_login import MechanismPlugin, PluginLogin, find_plugin, token_fetch

    found = find_plugin(name)
    if found is None:
        raise ConfigError(f"sasl.mechanism {name} is not built in; it may be one of {', '.join(MECHANISMS)}")
    options: Mapping[str, str] = {} if module is None else module.options
    point, plugin = found
    if isinstance(plugin, MechanismPlugin):
        return PluginLogin(point, plugin, options)
    return TokenLogin(
        token_fetch(point, plugin, options),
        {},
        clock,
        wakeup,
        window_factor=config.sasl_login_refresh_window_factor,
        min_period_ms=1000 * config.sasl_login_refresh_min_period_seconds,
    )


def _password_login(config: Config, mechanism: str, module: LoginModule) -> StaticLogin:
    user, password = (module.options.get(name) for name in ("username", "password"))
    if user is None or password is None:
        lacking = "username" if user is None else "password"
        raise ConfigError(f"SASL {mechanism}: {lacking} is not in sasl.jaas.config")
    if mechanism == "PLAIN":
        return StaticLogin(mechanism, lambda: Plain(user, password))
    is_token = module.options.get("tokenauth", "").lower() == "true"
    return StaticLogin(mechanism, lambda: Scram(mechanism, user, password, is_delegation_token=is_token))


def _token_login(config: Config, module: LoginModule | None, clock: Clock, wakeup: Callable[[], None]) -> TokenLogin:
    options: Mapping[str, str] = {} if module is None else module.options
    source = token_source(config, module, clock)
    prefix = "unsecuredLoginExtension_" if makes_unsecured(config) else "extension_"
    extensions = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    for name, value in extensions.items():
        if not _EXTENSION.fullmatch(name) or name == "auth" or not value.isprintable() and value:
            raise ConfigError(f"sasl.jaas.config: {prefix}{name} is not a valid SASL extension")
    return TokenLogin(
        source,
        extensions,
        clock,
        wakeup,
        window_factor=config.sasl_login_refresh_window_factor,
        min_period_ms=1000 * config.sasl_login_refresh_min_period_seconds,
    )
