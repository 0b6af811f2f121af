"""The transport of a client's connections by its security.protocol."""

from __future__ import annotations

from kafkatools.core.config import Config
from kafkatools.core.net.transport import TransportFactory, plaintext_factory


def transport_for(config: Config) -> TransportFactory:
    """The transport factory for security.protocol: TCP for PLAINTEXT and SASL_PLAINTEXT, TLS for any other value.
    Raises ConfigError and KeyStoreUnreadable for invalid TLS settings."""
    if config.security_protocol.upper() in ("PLAINTEXT", "SASL_PLAINTEXT"):
        return plaintext_factory(config)
    from kafkatools.core.net.security.tls_transport import tls_factory

    return tls_factory(config)
