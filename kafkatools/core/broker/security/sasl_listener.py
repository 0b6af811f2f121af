"""SASL of a listener from its settings: the enabled mechanisms and their logins (SaslChannelBuilder).

Rules: PLAIN takes the passwords `user_NAME` of `listener.name.<name>.plain.sasl.jaas.config`, GSSAPI the keytab and the
principal of the broker. SCRAM needs no login, as its credentials are in the metadata log. OAUTHBEARER takes tokens
without a signature unless sasl.server.callback.handler.class is Kafka's OAuthBearerValidatorCallbackHandler. No class
is loaded by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkatools.core.broker.security.bearer_tokens import SignedTokenRules, signed_validator, unsecured_validator
from kafkatools.core.broker.security.listener_security import ListenerSecurity
from kafkatools.core.broker.security.mechanisms import (
    HASHES,
    Bearer,
    Credentials,
    OAuthBearerServer,
    PlainServer,
    ScramServer,
    ServerMechanism,
)
from kafkatools.core.clock import Clock
from kafkatools.core.config import Password, Value
from kafkatools.core.errors import ConfigError, KafkaError
from kafkatools.core.net.security.jaas import LoginModule, parse_jaas_config
from kafkatools.core.secrets import remember

SUPPORTED = ("PLAIN", *HASHES, "OAUTHBEARER", "GSSAPI")
_HANDLER = "sasl.server.callback.handler.class"
_SIGNED = "OAuthBearerValidatorCallbackHandler"
_BUILT_IN = (
    "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler",
    "org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    f"org.apache.kafka.common.security.oauthbearer.{_SIGNED}",
)
_MODULES = {"PLAIN": "PlainLoginModule", "OAUTHBEARER": "OAuthBearerLoginModule", "GSSAPI": "Krb5LoginModule"}
_USER = "user_"
Start = Callable[[Credentials], ServerMechanism]


@dataclass(frozen=True, slots=True)
class SaslListener:
    """SASL of one listener: a function that starts each enabled mechanism, the longest session of each in ms (0: no
    end), the delay of a refusal in ms, and the largest request of a client that has not authenticated."""

    mechanisms: Mapping[str, Start]
    max_session_ms: Mapping[str, int]
    refusal_delay_ms: int
    max_request_bytes: int


def sasl_listener(security: ListenerSecurity, clock: Clock) -> SaslListener:
    """Read the SASL settings of a listener. Raises ConfigError, which names the listener."""
    config = security.config
    enabled: tuple[str, ...] = config["sasl.enabled.mechanisms"]
    prefix = f"listener.name.{security.name.lower()}"
    foreign = [mechanism for mechanism in enabled if mechanism not in SUPPORTED]
    if foreign or not enabled:
        raise ConfigError(
            f"listener {security.name}: the mechanism {', '.join(foreign) or 'none'} of sasl.enabled.mechanisms is not "
            f"supported; set {prefix}.sasl.enabled.mechanisms to some of {', '.join(SUPPORTED)}"
        )
    mechanisms: dict[str, Start] = {}
    sessions: dict[str, int] = {}
    for mechanism in enabled:
        try:
            mechanisms[mechanism] = _start(security, mechanism, clock)
            limit = security.of_mechanism(mechanism, "connections.max.reauth.ms")
        except KafkaError as error:
            where = f"{prefix}.{mechanism.lower()}"
            is_default = not config.is_explicit("sasl.enabled.mechanisms")
            hint = (
                f"; {prefix}.sasl.enabled.mechanisms is not set, and {mechanism} is its default" if is_default else ""
            )
            raise ConfigError(f"listener {security.name}, {mechanism} ({where}.*): {error}{hint}") from None
        sessions[mechanism] = limit if isinstance(limit, int) else 0
    delay_ms: int = config["connection.failed.authentication.delay.ms"]
    return SaslListener(mechanisms, sessions, delay_ms, config["sasl.server.max.receive.size"])


def _start(security: ListenerSecurity, mechanism: str, clock: Clock) -> Start:
    handler = security.of_mechanism(mechanism, _HANDLER)
    if handler is not None and handler not in _BUILT_IN:
        raise ConfigError(f"{_HANDLER}: the Java class {handler} cannot be used here")
    module = _login_module(security, mechanism)
    if mechanism in HASHES:
        return lambda credentials: ScramServer(mechanism, credentials)
    if mechanism == "PLAIN":
        if module is None:
            raise ConfigError('sasl.jaas.config with the users (user_NAME="password") is not set')
        options = module.options
        passwords = {name.removeprefix(_USER): value for name, value in options.items() if name.startswith(_USER)}
        remember(*passwords.values())
        return lambda _: PlainServer(passwords)
    if mechanism == "GSSAPI":
        return _gssapi(security, module)
    validate = _validator(security, module, clock, is_signed=str(handler).endswith(f".{_SIGNED}"))
    return lambda _: OAuthBearerServer(validate)


def _gssapi(security: ListenerSecurity, module: LoginModule | None) -> Start:
    from kafkatools.core.broker.security.kerberos import gssapi_acceptor

    rules = security.of_mechanism("GSSAPI", "sasl.kerberos.principal.to.local.rules")
    start = gssapi_acceptor(module, rules if isinstance(rules, tuple) else ("DEFAULT",))
    return lambda _: start()


def _login_module(security: ListenerSecurity, mechanism: str) -> LoginModule | None:
    """The login module of a mechanism's sasl.jaas.config; None without one. As in Kafka, a setting without the
    mechanism's prefix does not count. Raises ConfigError."""
    name = f"listener.name.{security.name.lower()}.{mechanism.lower()}.sasl.jaas.config"
    if name not in security.config.prefixed:
        return None
    value = security.of_mechanism(mechanism, "sasl.jaas.config")
    module = parse_jaas_config(value.value if isinstance(value, Password) else "")
    expected = _MODULES.get(mechanism, "ScramLoginModule")
    if module.name.rpartition(".")[2] != expected:
        raise ConfigError(f"sasl.jaas.config has another login module than {expected}")
    return module


def _validator(
    security: ListenerSecurity, module: LoginModule | None, clock: Clock, *, is_signed: bool
) -> Callable[[str], Bearer]:
    url = security.of_mechanism("OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url")
    if not is_signed:
        if url is not None:
            raise ConfigError(
                "sasl.oauthbearer.jwks.endpoint.url has no effect, and tokens without a signature would be accepted: "
                f"set {_HANDLER} to {_BUILT_IN[-1]}"
            )
        return unsecured_validator({} if module is None else module.options, clock)
    from kafkatools.core.broker.security.jwks import open_keys

    def setting(name: str) -> Value:
        return security.of_mechanism("OAUTHBEARER", f"sasl.oauthbearer.{name}")

    if not isinstance(url, str) or not url:
        raise ConfigError("sasl.oauthbearer.jwks.endpoint.url, the keys that verify tokens, is not set")
    audiences, issuer, skew_s = setting("expected.audience"), setting("expected.issuer"), setting("clock.skew.seconds")
    refresh_ms = setting("jwks.endpoint.refresh.ms")
    rules = SignedTokenRules(
        audiences if isinstance(audiences, tuple) else (),
        None if issuer is None else str(issuer),
        1000 * skew_s if isinstance(skew_s, int) else 0,
        str(setting("sub.claim.name")),
    )
    keys = open_keys(url, clock, refresh_ms if isinstance(refresh_ms, int) else 0)
    return signed_validator(keys, rules, clock)
