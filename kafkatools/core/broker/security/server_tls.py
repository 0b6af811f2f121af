"""Make the `ssl.SSLContext` of a listener from its settings (DefaultSslEngineFactory with ConnectionMode.SERVER)."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from kafkatools.core.broker.security.principals import PrincipalRules, subject_of
from kafkatools.core.broker.server.requests import ANONYMOUS
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError
from kafkatools.core.net.security.key_stores import identity
from kafkatools.core.net.security.revocation import RevocationLists, revocation_lists
from kafkatools.core.net.security.tls_context import limit_suites, limit_versions, load_identity, load_trust

_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class ServerTls(NamedTuple):
    """The TLS of a listener: the context, the allowed TLS 1.3 cipher suites (empty: any), which Python's SSLContext
    cannot restrict, the rules that make a principal of a certificate's subject, and the revocation lists, which every
    new connection refreshes."""

    context: ssl.SSLContext
    suites: frozenset[str]
    rules: PrincipalRules
    revocation: RevocationLists | None = None

    def principal_of(self, certificate: bytes | None) -> str:
        """The principal of a client's certificate in DER; `User:ANONYMOUS` without one. Raises
        SslAuthenticationFailed when no rule applies to its subject."""
        return ANONYMOUS if certificate is None else f"User:{self.rules.name_of(subject_of(certificate))}"


def server_tls(config: Config, name: str, client_auth: str) -> ServerTls:
    """Make the TLS of the listener `name` from its own settings; `client_auth` is none, requested or required. Raises
    ConfigError, KeyStoreUnreadable."""
    own = identity(config)
    if own is None:
        raise ConfigError(
            f"Listener {name} needs a certificate: ssl.keystore.location is not set "
            f"(or listener.name.{name.lower()}.ssl.keystore.location)"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = _VERIFY[client_auth]
    limit_versions(context, config["ssl.enabled.protocols"])
    suites = limit_suites(context, config["ssl.cipher.suites"])
    revocation = None
    if context.verify_mode is not ssl.CERT_NONE:
        # A resumed session does not verify the client's certificate again. Without tickets TLS 1.3 has none, and
        # TLS 1.2 only those that OpenSSL keeps: `TlsStream` refuses them.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        load_trust(context, config)
        revocation = revocation_lists(context, config)
    load_identity(context, own)
    return ServerTls(context, suites, PrincipalRules.parse(config["ssl.principal.mapping.rules"]), revocation)
