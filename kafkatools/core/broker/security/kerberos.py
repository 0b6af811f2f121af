"""The broker's side of SASL GSSAPI (RFC 4752): the keys of a keytab, no security layer, and the principal's user name.

The package gssapi verifies tickets without a request to the KDC. As in Kafka, the principal that authenticated
counts, whatever identity the client asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kafkatools.core.broker.security.kerberos_names import KerberosNames, NoName
from kafkatools.core.broker.security.mechanisms import Exchange, InvalidMessage
from kafkatools.core.errors import ConfigError
from kafkatools.core.install_command import install_command
from kafkatools.core.net.security.jaas import LoginModule
from kafkatools.core.net.security.kerberos import NO_LAYER, gss_reason

if TYPE_CHECKING:
    from gssapi import Credentials

_MISSING = f"the Python package gssapi is not installed: {install_command('gssapi')}"


def gssapi_acceptor(module: LoginModule | None, rules: Iterable[str]) -> Callable[[], GssapiServer]:
    """Read the keytab and principal of Krb5LoginModule; the result starts an exchange. Raises ConfigError."""
    if module is None:
        raise ConfigError("sasl.jaas.config with the keytab (keyTab) and the principal of the broker is not set")
    lacking = [name for name in ("keyTab", "principal") if not module.options.get(name)]
    if lacking or module.options.get("useKeyTab", "").lower() != "true":
        raise ConfigError(f"{', '.join(lacking) or 'useKeyTab=true'} is not in sasl.jaas.config")
    try:
        import gssapi
    except ImportError:
        raise ConfigError(_MISSING) from None
    keytab, principal = module.options["keyTab"], module.options["principal"]
    try:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(
            name=name, usage="accept", mechs=[gssapi.MechType.kerberos], store={"keytab": keytab}
        )
        any_name = gssapi.Name("x", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError as problem:
        raise ConfigError(f"the key of {principal} in the keytab {keytab}: {gss_reason(problem)}") from None
    names = KerberosNames.parse(rules, str(any_name).rpartition("@")[2])
    return lambda: GssapiServer(credentials, names)


class GssapiServer(Exchange):
    """One exchange: the client's ticket, then the agreement that no security layer is used."""

    def __init__(self, credentials: Credentials, names: KerberosNames) -> None:
        import gssapi

        super().__init__()
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        self._names = names
        self._has_offered = False

    def respond(self, message: bytes) -> bytes:
        """Verify the ticket, offer no security layer, and read the choice. Raises InvalidMessage."""
        import gssapi

        try:
            if not self._context.complete:
                reply: bytes | None = self._context.step(message)
                if reply or not self._context.complete:
                    return reply or b""
            if not self._has_offered:
                self._has_offered = True
                offer: bytes = self._context.wrap(NO_LAYER, False).message
                return offer
            choice: bytes = self._context.unwrap(message).message
            principal = str(self._context.initiator_name)
        except gssapi.exceptions.GSSError as problem:
            raise InvalidMessage(gss_reason(problem)) from None
        if len(choice) < len(NO_LAYER) or choice[0] != NO_LAYER[0]:
            raise InvalidMessage("the client chose a security layer that was not offered")
        try:
            self.finish(self._names.name_of(principal), "")
        except NoName as problem:
            raise InvalidMessage(str(problem)) from None
        return b""
