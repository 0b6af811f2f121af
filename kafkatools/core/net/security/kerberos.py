"""SASL GSSAPI (Kerberos 5, RFC 4752) of a client, with tickets of a keytab or a ticket cache (Kafka's KerberosLogin).

Rules: the package gssapi, with the Kerberos library of the system and its krb5.conf, does the cryptography. The broker
has to authenticate too, and no security layer is negotiated, as in Kafka. Requests to a KDC wait, so a thread makes the
first message of each exchange and wakes the client; a later message needs no KDC. Tickets of a keytab are in memory
and renewed by the library. A ticket cache is read again for each exchange and never written: its owner renews it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import AuthenticationFailed, ConfigError, KafkaError, SaslAuthenticationFailed
from kafkatools.core.install_command import install_command
from kafkatools.core.net.security.jaas import LoginModule

if TYPE_CHECKING:
    from gssapi import SecurityContext

MECHANISM = "GSSAPI"
NO_LAYER = b"\x01\0\0\0"
"""The security layers of RFC 4752 in one byte, here none, and the largest message, here none."""
_MODULE = "Krb5LoginModule"
_USED = ("useKeyTab", "keyTab", "principal", "useTicketCache", "ticketCache", "serviceName")
_WITHOUT_EFFECT = ("storeKey", "doNotPrompt", "refreshKrb5Config", "isInitiator", "debug")
_MISSING = f"SASL GSSAPI needs the Python package gssapi: {install_command('gssapi')}"
_FRESH_MS = 30_000
_numbers = itertools.count(1)


class KerberosLogin(NamedTuple):
    """The Kerberos settings of a client or a broker: the first part of the brokers' principals, and the own principal,
    keytab and ticket cache; None for the library's default."""

    service: str
    principal: str | None
    uses_keytab: bool
    keytab: str | None
    cache: str | None


def kerberos_login(config: Config, module: LoginModule | None) -> KerberosLogin:
    """Read sasl.kerberos.service.name and the options of Krb5LoginModule; without sasl.jaas.config the default ticket
    cache is used. Raises ConfigError."""
    options: Mapping[str, str] = {} if module is None else module.options
    if module is not None and module.name.rpartition(".")[2] != _MODULE:
        raise ConfigError(f"SASL GSSAPI: sasl.jaas.config has another login module than {_MODULE}{_default(config)}")
    refused = [
        name for name, value in options.items() if name not in (*_USED, *_WITHOUT_EFFECT) and value.lower() != "false"
    ]
    if refused:
        raise ConfigError(
            f"SASL GSSAPI: {_MODULE} options of sasl.jaas.config that are not supported: {', '.join(sorted(refused))}; "
            f"those with an effect are {', '.join(_USED)}"
        )
    uses_keytab, uses_cache = (options.get(name, "").lower() == "true" for name in ("useKeyTab", "useTicketCache"))
    if module is not None and not (uses_keytab or uses_cache):
        raise ConfigError("SASL GSSAPI: sasl.jaas.config has neither useKeyTab=true nor useTicketCache=true")
    if uses_keytab and "principal" not in options:
        raise ConfigError("SASL GSSAPI: principal is not in sasl.jaas.config")
    return KerberosLogin(
        _service_name(config, options.get("serviceName")),
        options.get("principal"),
        uses_keytab,
        options.get("keyTab"),
        options.get("ticketCache"),
    )


def _default(config: Config) -> str:
    is_default = "sasl.mechanism" in config.table and not config.is_explicit("sasl.mechanism")
    return "; sasl.mechanism is not set, and GSSAPI is its default" if is_default else ""


def _service_name(config: Config, of_jaas: str | None) -> str:
    of_config: str | None = config["sasl.kerberos.service.name"]
    if of_config and of_jaas and of_config != of_jaas:
        raise ConfigError(
            f"Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file {of_jaas}, "
            f"value in Kafka config {of_config}"
        )
    service = of_jaas or of_config
    if not service:
        raise ConfigError(f"SASL GSSAPI: sasl.kerberos.service.name is not set (it is usually kafka){_default(config)}")
    return service


def gss_reason(problem: Exception) -> str:
    """The reason of a GSSError: the text of the Kerberos library, without codes."""
    minor = getattr(problem, "min_code", 0)
    describe = getattr(problem, "get_all_statuses", None)
    texts = [*describe(minor, False)] if minor and describe is not None else []
    return "; ".join(map(str, texts)) or str(problem)


class _Outcome(NamedTuple):
    """The outcome of opening an exchange: the exchange or an error."""

    made_ms: int
    exchange: GssapiExchange | None
    error: KafkaError | None


@dataclass(eq=False, repr=False)
class TicketLogin:
    """A login with Kerberos tickets; a thread opens the exchange with each host."""

    mechanism = MECHANISM

    login: KerberosLogin
    clock: Clock
    wakeup: Callable[[], None]
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)  # guards the fields below
    _outcomes: dict[str, list[_Outcome]] = field(default_factory=dict, init=False)
    _opening: set[str] = field(default_factory=set, init=False)
    _memory_cache: str = field(default_factory=lambda: f"MEMORY:kafkatools-{next(_numbers)}", init=False)

    def __post_init__(self) -> None:
        try:
            import gssapi  # noqa: F401
        except ImportError:
            raise ConfigError(_MISSING) from None

    def is_ready(self, host: str) -> bool:
        """Return whether an exchange with the host is open; if not, start to open one. Raises AuthenticationFailed when
        that failed."""
        with self._lock:
            outcome = self._fresh_outcome(host)
            if outcome is not None:
                if outcome.error is None:
                    return True
                self._outcomes[host].remove(outcome)
                raise outcome.error
            if host not in self._opening:
                self._opening.add(host)
                threading.Thread(target=self._run, args=(host,), name="kafkatools-kerberos", daemon=True).start()
        return False

    def _run(self, host: str) -> None:
        opened: GssapiExchange | None = None
        error: KafkaError | None = None
        try:
            opened = self._open(host)
        except KafkaError as problem:
            error = problem
        except Exception as problem:  # noqa: BLE001 - the top of the thread: is_ready must raise the error
            error = AuthenticationFailed(f"no ticket for {self.login.service}@{host}: {type(problem).__name__}")
        with self._lock:
            self._opening.discard(host)
            self._outcomes.setdefault(host, []).append(_Outcome(self.clock.now_ms(), opened, error))
        self.wakeup()

    def _fresh_outcome(self, host: str) -> _Outcome | None:
        """The oldest outcome for a host after those that are too old are dropped: their connection was closed before it
        could use them. A ticket is bound to the time of its message."""
        oldest_ms = self.clock.now_ms() - _FRESH_MS
        fresh = [outcome for outcome in self._outcomes.get(host, ()) if outcome.made_ms >= oldest_ms]
        self._outcomes[host] = fresh
        return fresh[0] if fresh else None

    def start(self, host: str) -> GssapiExchange:
        """Take the exchange that was opened for the host. Raises AuthenticationFailed without one."""
        with self._lock:
            outcome = self._fresh_outcome(host)
            if outcome is None or outcome.exchange is None:
                raise AuthenticationFailed("there is no ticket")
            self._outcomes[host].remove(outcome)
            return outcome.exchange

    def _open(self, host: str) -> GssapiExchange:
        """Get the tickets and make the first message; waits for the KDC. Raises AuthenticationFailed."""
        import gssapi

        login = self.login
        source = _source_of(login)
        store: dict[str, str] = {}
        if login.uses_keytab:
            store["ccache"] = self._memory_cache
            if login.keytab is not None:
                store["client_keytab"] = login.keytab
        elif login.cache is not None:
            store["ccache"] = login.cache
        try:
            name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal) if login.principal else None
            credentials = gssapi.Credentials(
                name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store or None
            )
        except gssapi.exceptions.GSSError as problem:
            raise AuthenticationFailed(f"no ticket of {source}: {gss_reason(problem)}") from None
        try:
            context = gssapi.SecurityContext(
                name=gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service),
                creds=credentials,
                mech=gssapi.MechType.kerberos,
                flags=gssapi.RequirementFlag.mutual_authentication,
                usage="initiate",
            )
            first: bytes = context.step() or b""
        except gssapi.exceptions.GSSError as problem:
            raise AuthenticationFailed(
                f"no ticket for {login.service}/{host} with {source}: {gss_reason(problem)}"
            ) from None
        return GssapiExchange(context, first)


def _source_of(login: KerberosLogin) -> str:
    owner = f"{login.principal} from " if login.principal else ""
    if login.uses_keytab:
        return f"{owner}the keytab {login.keytab or 'of krb5.conf'}"
    return f"{owner}the ticket cache {login.cache or '(KRB5CCNAME, or that of krb5.conf)'}"


class GssapiExchange:
    """One exchange: AP-REQ, AP-REP, and the agreement that no security layer is used."""

    name = MECHANISM

    def __init__(self, context: SecurityContext, first: bytes) -> None:
        self._context = context
        self._first = first
        self.is_complete = False

    def initial(self) -> bytes:
        """The first message, with the ticket."""
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        """Check the broker's proof, then choose no security layer. Raises SaslAuthenticationFailed."""
        import gssapi

        if self.is_complete:
            return None
        try:
            if not self._context.complete:
                reply: bytes = self._context.step(challenge) or b""
                return reply
            if gssapi.RequirementFlag.mutual_authentication not in self._context.actual_flags:
                raise SaslAuthenticationFailed("the server has not proved its identity")
            offer: bytes = self._context.unwrap(challenge).message
            if len(offer) != len(NO_LAYER) or not offer[0] & NO_LAYER[0]:
                raise SaslAuthenticationFailed("the server requires a security layer, which Kafka does not have")
            reply = self._context.wrap(NO_LAYER, False).message
        except gssapi.exceptions.GSSError as problem:
            raise SaslAuthenticationFailed(
                f"the server's message is not valid for its ticket: {gss_reason(problem)}"
            ) from None
        self.is_complete = True
        return reply
