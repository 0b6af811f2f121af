"""The layers of a broker's settings, and the rules for changing them at runtime.

Source: DynamicBrokerConfig and DynamicThreadPool of Apache Kafka 4.3. Unlike in Kafka, `listeners` and
`listener.security.protocol.map` are not dynamic. A node id also sets broker.id.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.broker.metadata.image import BROKER_RESOURCE, MetadataImage
from kafkatools.core.config import Config, to_text
from kafkatools.core.config.setting import PER_BROKER, READ_ONLY
from kafkatools.core.errors import ConfigError, InvalidConfig, InvalidRequest

(
    TOPIC_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    STATIC_BROKER_CONFIG,
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_LOGGER_CONFIG,
    CLIENT_METRICS_CONFIG,
    GROUP_CONFIG,
) = range(1, 9)
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"
SECURITY = frozenset(
    (
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
)
THREADS = frozenset(
    (
        "background.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    )
)
SYNONYM_GROUPS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)


class BrokerSettings:
    """A broker's settings in layers: dynamic of this broker, dynamic of all brokers, its properties file, defaults."""

    def __init__(self, static: Config, image: MetadataImage, node_id: int) -> None:
        self.static = static if static.is_explicit("broker.id") else static.replace({"broker.id": node_id})
        self.node_id = node_id
        self._image = image
        self._effective: Config | None = None
        self._effective_of: dict[str, str] = {}

    def dynamic(self) -> dict[str, str]:
        """Return the dynamic settings of this broker."""
        return self._image.configs.get((BROKER_RESOURCE, str(self.node_id)), {})

    def dynamic_default(self) -> dict[str, str]:
        """Return the dynamic settings of all brokers (the cluster-wide default)."""
        return self._image.configs.get((BROKER_RESOURCE, ""), {})

    def throttle(self, name: str) -> int | None:
        """Return the current value of a dynamic throttle in bytes per second, of this broker or else the default of
        all; None when neither is set."""
        text = self.dynamic().get(name, self.dynamic_default().get(name))
        return None if text is None else int(text)

    def unknown(self) -> list[str]:
        """Return the names of dynamic settings that are no known broker settings."""
        return [name for name in {**self.dynamic_default(), **self.dynamic()} if name not in self.static.table]

    def effective(self) -> Config:
        """Return the configuration that all layers give together."""
        values = {**self.dynamic_default(), **self.dynamic()}
        if self._effective is None or values != self._effective_of:
            supported = {name: value for name, value in values.items() if name in self.static.table}
            self._effective, self._effective_of = self.static.replace(supported), values
        return self._effective

    def layers(self, name: str) -> list[tuple[str, str | None, int]]:
        """Return (name, value, source) of each layer that sets a setting or a synonym, the one in effect first
        (configSynonyms). Synonyms before the setting's own first entry are left out."""
        names = next((group for group in SYNONYM_GROUPS if name in group), (name,))  # brokerConfigSynonyms
        table = self.static.table
        layers: list[tuple[str, str | None, int]] = []
        for values, source in (
            (self.dynamic(), DYNAMIC_BROKER_CONFIG),
            (self.dynamic_default(), DYNAMIC_DEFAULT_BROKER_CONFIG),
        ):
            layers += [(synonym, values[synonym], source) for synonym in names if synonym in values]
        synonyms = [synonym for synonym in names if synonym in table]
        layers += [
            (synonym, to_text(self.static[synonym]), STATIC_BROKER_CONFIG)
            for synonym in synonyms
            if self.static.is_explicit(synonym)
        ]
        for synonym in synonyms:
            default = to_text(table[synonym].default)
            if default is not None:
                layers.append((synonym, default, DEFAULT_CONFIG))
        first = next((index for index, layer in enumerate(layers) if layer[0] == name), len(layers))
        return layers[first:]


def check_broker_configs(
    changes: Mapping[str, str | None], remaining: Mapping[str, str], settings: BrokerSettings, *, is_default: bool
) -> None:
    """Check a change of dynamic broker settings; `remaining` has the values after it. Raises InvalidRequest."""
    names = [name for name in changes if name in settings.static.table]
    secret = [name for name in names if name in SECURITY]
    if secret:
        raise InvalidRequest(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(secret)}]"
        )
    table = settings.static.table
    fixed = [name for name in names if table[name].update_mode == READ_ONLY]
    if fixed:
        raise InvalidRequest(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    single = [name for name in names if table[name].update_mode == PER_BROKER]
    if single and is_default:
        raise InvalidRequest(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(single)}]"
        )
    try:
        config = settings.static.replace({name: value for name, value in remaining.items() if name in names})
    except ConfigError as error:
        raise InvalidRequest(str(error)) from None
    for name in names:
        if name in THREADS:
            _check_threads(name, config[name], settings.effective()[name])


def _check_threads(name: str, value: int, current: int) -> None:
    problem = ""
    if value > current * 2:
        problem = f"value should not be greater than double the current value {current}"
    elif value < current / 2:
        problem = f"value should be at least half the current value {current}"
    if problem:
        raise InvalidRequest(
            "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation "
            f"failed for {name}={value}, {problem} for configuration Invalid dynamic configuration"
        )


def check_min_isr(changes: Mapping[str, str | None], resource: str, features: Mapping[str, int]) -> None:
    """Check a change of a broker's or the cluster's min.insync.replicas under eligible leader replicas (KIP-966).
    Raises InvalidConfig: with them no single broker may have the setting, and the cluster's cannot be removed."""
    if MIN_ISR not in changes or features.get(ELIGIBLE_LEADER_REPLICAS, 0) < 1:
        return
    if resource:
        raise InvalidConfig("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    if changes[MIN_ISR] is None:
        raise InvalidConfig("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
