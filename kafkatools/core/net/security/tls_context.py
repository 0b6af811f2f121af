"""The TLS settings of a client as an `ssl.SSLContext` (DefaultSslEngineFactory, SslFactory).

Certificates are always verified, host names unless ssl.endpoint.identification.algorithm is empty. Any certificate of
the truststore is an anchor, as for Java, also one that is no root. Without a truststore the system's own is taken. The
settings that choose parts of the JVM (ssl.provider and the like) have no meaning here.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Iterator
from typing import NamedTuple

from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError, KeyStoreUnreadable
from kafkatools.core.net.security import cipher_suites, pem
from kafkatools.core.net.security.key_stores import Identity, identity, trusted_certificates
from kafkatools.core.net.security.warnings import warn

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")


class ClientTls(NamedTuple):
    """A context, and the suites of TLS 1.3 that may come out (empty: any), which the context cannot be told."""

    context: ssl.SSLContext
    suites: frozenset[str]


def client_tls(config: Config) -> ClientTls:
    """Raises ConfigError, KeyStoreUnreadable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _identify_endpoint(context, config["ssl.endpoint.identification.algorithm"])
    _limit_versions(context, config["ssl.enabled.protocols"])
    suites = _limit_suites(context, config["ssl.cipher.suites"])
    _trust(context, config)
    own = identity(config)
    if own is not None:
        _show(context, own)
    return ClientTls(context, suites)


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


def _limit_versions(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    for name in names:
        if name not in _VERSIONS and name not in _OLD_VERSIONS:
            raise ConfigError(f"ssl.enabled.protocols: {name} is not a version of TLS")
    versions = sorted(_VERSIONS[name] for name in names if name in _VERSIONS)
    if names and not versions:
        raise ConfigError(f"ssl.enabled.protocols: {', '.join(names)} is no longer safe; use TLSv1.2 or TLSv1.3")
    context.minimum_version = versions[0] if versions else ssl.TLSVersion.TLSv1_2
    if versions:
        context.maximum_version = versions[-1]


def _limit_suites(context: ssl.SSLContext, names: tuple[str, ...]) -> frozenset[str]:
    """Limit what is offered; the suites of TLS 1.3 among which the outcome must be."""
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


def _trust(context: ssl.SSLContext, config: Config) -> None:
    trusted = trusted_certificates(config)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(cadata=pem.certificate_chain(dict.fromkeys(trusted)))
    except (ssl.SSLError, ValueError):
        raise KeyStoreUnreadable("A certificate of the truststore (ssl.truststore.*) cannot be read") from None


def _show(context: ssl.SSLContext, own: Identity) -> None:
    """Give the context the client's key and chain. It takes files only."""
    asked = []

    def password() -> str:
        asked.append(True)
        return own.password or ""

    try:
        with _private_file((own.key + own.chain).encode()) as path:
            context.load_cert_chain(path, password=password)
    except (ssl.SSLError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or "not readable"
        if asked:
            lack = "is wrong" if own.password else "is missing"
            raise KeyStoreUnreadable(
                f"{own.source}: the password of the private key (ssl.key.password) {lack}"
            ) from None
        if reason == "KEY_VALUES_MISMATCH":
            reason = "the certificate is not that of the private key"
        raise KeyStoreUnreadable(f"{own.source}: {reason}") from None


@contextlib.contextmanager
def _private_file(data: bytes) -> Iterator[str]:
    """A file that nobody else can read: in memory where the system has that, else one that is removed at once."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("kafkatools-key")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    import tempfile  # late: it would cost every start 10 ms

    descriptor, path = tempfile.mkstemp(prefix="kafkatools-key-")
    try:
        os.write(descriptor, data)
        yield path
    finally:
        os.close(descriptor)
        os.unlink(path)
