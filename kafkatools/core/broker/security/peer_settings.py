"""The client settings of a node's connections to other nodes (SaslChannelBuilder and SslChannelBuilder with
ConnectionMode.CLIENT).

Rules: brokers connect to the inter-broker listener with sasl.mechanism.inter.broker.protocol, all nodes to the first
listener of controller.listener.names with sasl.mechanism.controller.protocol. TLS and login are those of the node's own
listener of that name: certificate, truststore, and username and password in its sasl.jaas.config. A broker without
controller listener has them under the prefix `listener.name.<controller's listener>`.
"""

from __future__ import annotations

from kafkatools.core import config as tables
from kafkatools.core.broker.security.listener_security import ListenerSecurity, listener_config
from kafkatools.core.broker.server.node_settings import protocol_of, security_protocols
from kafkatools.core.config import Config, Value
from kafkatools.core.errors import ConfigError, KafkaError

_SASL = "sasl.mechanism"
ClientSettings = dict[str, object]


def peer_settings(config: Config, listener: str, mechanism_setting: str) -> ClientSettings:
    """The security settings of a client that connects to a listener of other nodes; `mechanism_setting` names the
    setting with the SASL mechanism. Raises ConfigError."""
    protocol = protocol_of(security_protocols(config), listener)
    if protocol == "PLAINTEXT":
        return {}
    own = listener_config(config, listener)
    settings: dict[str, Value] = {"security.protocol": protocol}
    for setting in tables.ADMIN:
        if setting.name.startswith("ssl.") and own.is_explicit(setting.name):
            settings[setting.name] = own[setting.name]
    if protocol.startswith("SASL_"):
        mechanism = str(own[mechanism_setting])
        security = ListenerSecurity(listener, protocol, own, None)
        for setting in tables.ADMIN:
            if setting.name.startswith("sasl."):
                value = security.of_mechanism(mechanism, setting.name) if setting.name in own.table else None
                if value is not None:
                    settings[setting.name] = value
        settings[_SASL] = mechanism
    try:
        checked = Config(tables.ADMIN, {"bootstrap.servers": "127.0.0.1:1", **settings})
        _check_login(checked, protocol)
    except KafkaError as error:
        raise ConfigError(f"connections to {listener} of other nodes ({mechanism_setting}): {error}") from None
    return dict(settings)


def _check_login(config: Config, protocol: str) -> None:
    """Read certificates and login once, so that a mistake ends the start. Raises KafkaError."""
    from kafkatools.core.clock import SystemClock
    from kafkatools.core.net.security.login import login_of
    from kafkatools.core.net.security.tls_context import client_tls

    if protocol.endswith("SSL"):
        client_tls(config)
    if protocol.startswith("SASL_"):
        login_of(config, SystemClock(), lambda: None)
