"""Settings tables of groups (`GROUP`) and of client metrics subscriptions (`CLIENT_METRICS`).

Source: GroupConfig and ClientMetricsConfigs of Apache Kafka 4.3. A group setting without a value takes the broker
setting in `GROUP_SYNONYMS`, and broker settings also limit its values.
"""

import re

from kafkatools.core.config import Config, Table
from kafkatools.core.config.notation import settings_of
from kafkatools.core.errors import ConfigError

MIN_PUSH_INTERVAL_MS, MAX_PUSH_INTERVAL_MS = 100, 3_600_000
MATCH_KEYS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


GROUP = Table("group", settings_of("group"))
CLIENT_METRICS = Table("client metrics", settings_of("client-metrics"))
GROUP_SYNONYMS = {
    setting.name: f"group.{setting.name}"
    for setting in GROUP
    if setting.name not in ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
}


def group_config(broker: Config, overrides: dict[str, str]) -> Config:
    """The configuration of a group: its overrides over the broker's defaults. Raises ConfigError with Kafka's message
    for an unknown name or invalid value."""
    defaults = {name: broker[synonym] for name, synonym in GROUP_SYNONYMS.items()}
    for name in overrides:
        if name not in GROUP:
            raise ConfigError(f"Unknown group config name: {name}")
    return Config(GROUP, overrides, defaults=defaults)


def check_group_config(broker: Config, config: Config) -> None:
    """Check a group's configuration against the broker's limits, and each session timeout against its heartbeat
    interval. Raises ConfigError with the message of GroupConfig.validateValues."""
    for name in GROUP_SYNONYMS:
        kind, _, rest = name.partition(".")
        value = config[name]
        lowest, highest = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest.removeprefix('num.')}"
        if lowest in broker.table and value < broker[lowest]:
            raise ConfigError(f"{name} must be greater than or equal to {lowest}")
        if highest in broker.table and value > broker[highest]:
            raise ConfigError(f"{name} must be less than or equal to {highest}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if config[session] <= config[heartbeat]:
            raise ConfigError(f"{session} must be greater than {heartbeat}")


def matches_clients(pattern: str) -> bool:
    """Return whether a `match` entry of a client metrics subscription is valid: `key=regex` with a known key and a
    valid regex."""
    key, equals, expression = pattern.partition("=")
    if not equals or key.strip() not in MATCH_KEYS:
        return False
    try:
        re.compile(expression.strip())
    except re.error:
        return False
    return True
