"""Settings of what is neither topic nor broker: groups of consumers (`GROUP`) and client metrics subscriptions
(`CLIENT_METRICS`).

Source: GroupConfig and ClientMetricsConfigs of Apache Kafka 4.3. A group setting that is not set takes the broker's of
the name in `GROUP_SYNONYMS`, and its limits are the broker's too.
"""

import re

from kafkatools.core.config import Config, Table
from kafkatools.core.config.setting import (
    BOOLEAN,
    INT,
    LIST,
    STRING,
    Setting,
    Validator,
    Value,
    at_least,
    one_of_any_case,
    parse_iso_duration_ms,
)
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


def _share_offset_reset() -> Validator:
    problem = (
        "Invalid value `{}` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' "
        "or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )

    def check(value: Value) -> str | None:
        text = str(value)
        prefix, colon, duration = text.partition(":")
        if text in ("earliest", "latest"):
            return None
        is_duration = prefix == "by_duration" and bool(colon) and parse_iso_duration_ms(duration) is not None
        return None if is_duration else problem.format(text)

    return Validator("[earliest, latest, by_duration:PnDTnHnMn.nS]", check)


GROUP = Table(
    "group",
    (
        Setting("consumer.assignment.interval.ms", INT, 1000, "Least time between two assignments.", at_least(0)),
        Setting("consumer.heartbeat.interval.ms", INT, 5000, "Heartbeats of consumer groups.", at_least(1)),
        Setting("consumer.session.timeout.ms", INT, 45_000, "Silence after which a consumer is gone.", at_least(1)),
        Setting("share.assignment.interval.ms", INT, 1000, "Least time between two assignments.", at_least(0)),
        Setting(
            "share.auto.offset.reset", STRING, "latest", "Where a share group begins to read.", _share_offset_reset()
        ),
        Setting("share.delivery.count.limit", INT, 5, "How often a record is delivered at most.", at_least(2)),
        Setting("share.heartbeat.interval.ms", INT, 5000, "Heartbeats of share groups.", at_least(1)),
        Setting(
            "share.isolation.level",
            STRING,
            "read_uncommitted",
            "Whether records of open and aborted transactions are delivered.",
            one_of_any_case("read_committed", "read_uncommitted"),
        ),
        Setting("share.partition.max.record.locks", INT, 2000, "Records in flight per partition.", at_least(100)),
        Setting("share.record.lock.duration.ms", INT, 30_000, "How long a record is acquired.", at_least(1000)),
        Setting("share.renew.acknowledge.enable", BOOLEAN, True, "Whether a lock may be renewed."),
        Setting("share.session.timeout.ms", INT, 45_000, "Silence after which a consumer is gone.", at_least(1)),
        Setting("streams.assignment.interval.ms", INT, 1000, "Least time between two assignments.", at_least(0)),
        Setting("streams.heartbeat.interval.ms", INT, 5000, "Heartbeats of streams groups.", at_least(1)),
        Setting("streams.initial.rebalance.delay.ms", INT, 3000, "Wait for more members at first.", at_least(0)),
        Setting("streams.num.standby.replicas", INT, 0, "Standby replicas of each task.", at_least(0)),
        Setting("streams.session.timeout.ms", INT, 45_000, "Silence after which a member is gone.", at_least(1)),
    ),
)
GROUP_SYNONYMS = {
    setting.name: f"group.{setting.name}"
    for setting in GROUP
    if setting.name not in ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
}
CLIENT_METRICS = Table(
    "client metrics",
    (
        Setting("interval.ms", INT, 300_000, "Time between two pushes of a client."),
        Setting("match", LIST, (), "Which clients are asked, as property=pattern."),
        Setting("metrics", LIST, (), "Prefixes of the metrics that are asked for; * for all."),
    ),
)


def group_config(broker: Config, overrides: dict[str, str]) -> Config:
    """The settings of a group on a broker. Raises ConfigError in Kafka's words."""
    defaults = {name: broker[synonym] for name, synonym in GROUP_SYNONYMS.items()}
    for name in overrides:
        if name not in GROUP:
            raise ConfigError(f"Unknown group config name: {name}")
    return Config(GROUP, overrides, defaults=defaults)


def check_group_config(broker: Config, config: Config) -> None:
    """Limits that the broker sets, and what does not fit together (GroupConfig.validateValues)."""
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
    """Whether a pattern of `match` names a property of clients and holds a regular expression."""
    key, equals, expression = pattern.partition("=")
    if not equals or key.strip() not in MATCH_KEYS:
        return False
    try:
        re.compile(expression.strip())
    except re.error:
        return False
    return True
