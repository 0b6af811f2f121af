"""Which transport a client's connections have: plain TCP or TLS, by security.protocol."""

from __future__ import annotations

from kafkatools.core.config import Config
from kafkatools.core.net.transport import TransportFactory, plaintext_factory


def transport_for(config: Config) -> TransportFactory:
    """What security.protocol asks for. A connection is never less secure than its configuration. Raises ConfigError,
    KeyStoreUnreadable."""
    if config.security_protocol.upper() in ("PLAINTEXT", "SASL_PLAINTEXT"):
        return plaintext_factory(config)
    from kafkatools.core.net.security.tls_transport import tls_factory

    return tls_factory(config)
