"""The layers of a broker's settings (DynamicBrokerConfig of Apache Kafka 4.3). A node id also sets broker.id.
`dynamic_checks.py` has the rules for changes."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.broker.metadata.image import BROKER_RESOURCE, MetadataImage
from kafkatools.core.config import Config, to_text
from kafkatools.core.errors import InvalidConfig

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
            table = self.static.table
            supported = {name: text for name, text in values.items() if name in table or table.is_prefixed(name)}
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


def check_min_isr(changes: Mapping[str, str | None], resource: str, features: Mapping[str, int]) -> None:
    """Check a change of a broker's or the cluster's min.insync.replicas under eligible leader replicas (KIP-966).
    Raises InvalidConfig: with them no single broker may have the setting, and the cluster's cannot be removed."""
    if MIN_ISR not in changes or features.get(ELIGIBLE_LEADER_REPLICAS, 0) < 1:
        return
    if resource:
        raise InvalidConfig("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    if changes[MIN_ISR] is None:
        raise InvalidConfig("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
