"""Make an `ssl.SSLContext` from a client's TLS settings (DefaultSslEngineFactory, SslFactory).

Certificates are always verified, host names unless ssl.endpoint.identification.algorithm is empty. As in Java, any
certificate of the truststore is a trust anchor, even one that is not a root. Without a truststore the system's own is
used. Settings that choose parts of the JVM, such as ssl.provider, have no effect.
"""

from __future__ import annotations

import ssl
from typing import NamedTuple

from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError, KeyStoreUnreadable
from kafkatools.core.net.security import cipher_suites, pem
from kafkatools.core.net.security.key_stores import Identity, identity, trusted_certificates
from kafkatools.core.net.security.private_file import private_file
from kafkatools.core.net.security.revocation import RevocationLists, revocation_lists
from kafkatools.core.net.security.warnings import warn

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")


class ClientTls(NamedTuple):
    """A TLS context, the allowed TLS 1.3 cipher suites (empty: any), which Python's SSLContext cannot restrict, and the
    revocation lists, which every new connection refreshes."""

    context: ssl.SSLContext
    suites: frozenset[str]
    revocation: RevocationLists | None = None


def client_tls(config: Config) -> ClientTls:
    """Make the TLS context of a client from its settings. Raises ConfigError, KeyStoreUnreadable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _identify_endpoint(context, config["ssl.endpoint.identification.algorithm"])
    limit_versions(context, config["ssl.enabled.protocols"])
    suites = limit_suites(context, config["ssl.cipher.suites"])
    load_trust(context, config)
    client_identity = identity(config)
    if client_identity is not None:
        load_identity(context, client_identity)
    return ClientTls(context, suites, revocation_lists(context, config))


def _identify_endpoint(context: ssl.SSLContext, algorithm: str | None) -> None:
    if algorithm:
        if algorithm.lower() != "https":
            raise ConfigError(f"ssl.endpoint.identification.algorithm may be https or empty, not {algorithm}")
        return
    context.check_hostname = False
    warn(
        "ssl.endpoint.identification.algorithm is empty: the host name in the broker's certificate is not checked, "
        "so anyone who holds a certificate of a trusted authority can pose as the broker"
    )


def limit_versions(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """Apply ssl.enabled.protocols. Raises ConfigError."""
    for name in names:
        if name not in _VERSIONS and name not in _OLD_VERSIONS:
            raise ConfigError(f"ssl.enabled.protocols: {name} is not a version of TLS")
    versions = sorted(_VERSIONS[name] for name in names if name in _VERSIONS)
    if names and not versions:
        raise ConfigError(f"ssl.enabled.protocols: {', '.join(names)} is no longer safe; use TLSv1.2 or TLSv1.3")
    context.minimum_version = versions[0] if versions else ssl.TLSVersion.TLSv1_2
    if versions:
        context.maximum_version = versions[-1]


def limit_suites(context: ssl.SSLContext, names: tuple[str, ...]) -> frozenset[str]:
    """Apply ssl.cipher.suites: restrict TLS 1.2 suites, and turn off a TLS version that has no suite in `names`. Return
    the TLS 1.3 suites in `names`, which the caller must check. Raises ConfigError."""
    newer = frozenset(name for name in names if name in cipher_suites.TLS13)
    older = [cipher_suites.openssl_name(name) for name in names if name not in newer]
    if not names:
        return newer
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return newer
    if not newer:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError:
        raise ConfigError(f"ssl.cipher.suites: none of {', '.join(names)} is known to {ssl.OPENSSL_VERSION}") from None
    return newer


def load_trust(context: ssl.SSLContext, config: Config) -> None:
    """Load the certificates of ssl.truststore.*, or without any those of the system. Raises ConfigError,
    KeyStoreUnreadable."""
    trusted = trusted_certificates(config)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(cadata=pem.certificate_chain(dict.fromkeys(trusted)))
    except (ssl.SSLError, ValueError):
        raise KeyStoreUnreadable("A certificate of the truststore (ssl.truststore.*) cannot be read") from None


def load_identity(context: ssl.SSLContext, client_identity: Identity) -> None:
    """Load a private key and its certificate chain into the context, which only accepts files."""
    password_requests = []

    def password() -> str:
        password_requests.append(True)
        return client_identity.password or ""

    try:
        with private_file((client_identity.key + client_identity.chain).encode()) as path:
            context.load_cert_chain(path, password=password)
    except (ssl.SSLError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or "not readable"
        if password_requests:
            lack = "is wrong" if client_identity.password else "is missing"
            raise KeyStoreUnreadable(
                f"{client_identity.source}: the password of the private key (ssl.key.password) {lack}"
            ) from None
        if reason == "KEY_VALUES_MISMATCH":
            reason = "the certificate is not that of the private key"
        raise KeyStoreUnreadable(f"{client_identity.source}: {reason}") from None
