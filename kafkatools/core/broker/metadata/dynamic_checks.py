"""The checks of a change of dynamic broker settings, with Kafka's messages.

Source: DynamicBrokerConfig, KafkaConfig.validateValues, DynamicThreadPool, LogCleaner and DynamicLogConfig of Apache
Kafka 4.3. Rules: all settings that the resource has after the change are checked, so a setting can be removed that
could not be set. First names and types count, then the settings together with those of the other layers. Unlike in
Kafka, `listeners`, `advertised.listeners` and `listener.security.protocol.map` are not dynamic, and no Java class can
be set. A setting of an unknown name is stored unchecked, as are those of the authorizer, which read them at its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
from kafkatools.core.config import Config, Setting, Table, Value, to_text
from kafkatools.core.config.setting import CLASS, LONG, PER_BROKER, READ_ONLY, at_least, invalid
from kafkatools.core.errors import ConfigError, InvalidRequest

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
THREADS = (
    "num.network.threads",
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
OF_ALL_LISTENERS = ("max.connection.creation.rate", "max.connections", "num.network.threads")
"""Settings of a listener that may be set for all brokers."""
UNCHECKED = frozenset(("allow.everyone.if.no.acl.found", "config.providers", "super.users"))
THROTTLES = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
_THROTTLE = {name: Setting(name, LONG, None, "", at_least(0)) for name in THROTTLES}
_MECHANISM_SETTINGS = ("sasl.jaas.config", "connections.max.reauth.ms", "sasl.server.callback.handler.class")
_REPORTERS = "metric.reporters"
_JMX = "org.apache.kafka.common.metrics.JmxReporter"
_PREFIX = "listener.name."
_MIB = 1 << 20


def base_name(name: str) -> str | None:
    """Return the setting behind the prefix of a listener (`listener.name.<listener>.`); None for another name."""
    listener, _, base = name.removeprefix(_PREFIX).partition(".")
    return base if name.startswith(_PREFIX) and listener and base else None


def setting_of_listener(table: Table, name: str) -> str | None:
    """Return the setting that a name with a listener's prefix, and perhaps a SASL mechanism's, is about; None for
    another name."""
    base = base_name(name)
    if base is None or base in table:
        return base
    return next((setting for setting in _MECHANISM_SETTINGS if base.endswith(f".{setting}")), None)


def check_broker_configs(remaining: Mapping[str, str], settings: BrokerSettings, *, is_default: bool) -> None:
    """Check the dynamic settings that a broker, or with `is_default` the cluster, has after a change. Raises
    InvalidRequest."""
    table = settings.static.table
    names = [name for name in remaining if name in table and name not in UNCHECKED]
    _refuse("Cannot update these configs dynamically", (n for n in names if table[n].update_mode == READ_ONLY))
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (name for name in names if name in SECURITY),
    )
    try:
        _check_types(table, remaining)
        if is_default:
            _refuse(
                "Cannot update these configs at default cluster level, broker id must be specified",
                (name for name in remaining if _is_of_one_broker(table, name)),
            )
        others = settings.dynamic() if is_default else settings.dynamic_default()
        layers = [others, remaining] if not is_default else [remaining, others]
        new = settings.static.replace(supported(table, {**layers[0], **layers[1]}))
        check_together(new, settings)
    except ConfigError as error:
        raise InvalidRequest(str(error)) from None
    try:
        _check_reconfiguration(new, settings)
    except ConfigError as error:
        cause = f"org.apache.kafka.common.config.ConfigException: {error}"
        raise InvalidRequest(f"Invalid value {cause} for configuration Invalid dynamic configuration") from None


def supported(table: Table, values: Mapping[str, str]) -> dict[str, str]:
    """Return the dynamic values that a Config of the broker's settings accepts: those of its table and of listeners."""
    return {name: value for name, value in values.items() if name in table or base_name(name) is not None}


def _refuse(problem: str, names: Iterable[str]) -> None:
    refused = list(names)
    if refused:
        raise InvalidRequest(f"{problem}: [{', '.join(refused)}]")


def _is_of_one_broker(table: Table, name: str) -> bool:
    base = base_name(name)
    if base is not None:
        return base not in OF_ALL_LISTENERS
    return name in table and name not in UNCHECKED and table[name].update_mode == PER_BROKER


def _check_types(table: Table, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        base = base_name(name) or name
        if base in _THROTTLE:
            _THROTTLE[base].parse(value)
        elif base in table and base not in UNCHECKED:
            table[base].parse(value)
            if base == name and table[base].type == CLASS and value != to_text(table[base].default):
                raise ConfigError(f"Invalid value {value} for configuration {base}: Class {value} could not be found.")


# -- settings that depend on each other (KafkaConfig.validateValues) ---------------------------------------------------
def check_together(config: Config, settings: BrokerSettings) -> None:
    """Check a broker's settings against each other. Raises ConfigError."""
    _parse_overrides(config.max_connections_per_ip_overrides)
    required = (
        (config["log.roll.ms"] is None or config["log.roll.ms"] >= 1, "log.roll.ms must be greater than or equal to 1"),
        (
            config["log.roll.jitter.ms"] is None or config["log.roll.jitter.ms"] >= 0,
            "log.roll.jitter.ms must be greater than or equal to 0",
        ),
        (
            config["log.retention.ms"] != 0,
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            config.max_connections_per_ip > 0 or bool(config.max_connections_per_ip_overrides),
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
    )
    for is_met, text in required:
        if not is_met:
            raise ConfigError(f"requirement failed: {text}")
    threads = config.log_cleaner_threads
    if config.log_cleaner_enable and threads == 0 and settings.effective().log_cleaner_threads:
        raise ConfigError("/ by zero")  # what Kafka divides before it checks
    if threads and config.log_cleaner_dedupe_buffer_size // threads <= _MIB:
        raise ConfigError("requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
    if settings.node_id == settings.static["broker.id"]:  # another broker has its own directories
        _check_cordoned(config)
    for kind in ("consumer", "share", "streams"):
        name, highest = f"group.{kind}.assignment.interval.ms", f"group.{kind}.max.assignment.interval.ms"
        lowest = f"group.{kind}.min.assignment.interval.ms"
        if config[name] < config[lowest]:
            raise ConfigError(f"{name} must be greater than or equal to {lowest}")
        if config[name] > config[highest]:
            raise ConfigError(f"{name} must be less than or equal to {highest}")


def _check_cordoned(config: Config) -> None:
    directories = config.log_dirs or config.log_dir
    missing = [path for path in config["cordoned.log.dirs"] if path not in directories and path != "*"]
    if missing:
        raise ConfigError(
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}"
        )


def _parse_overrides(text: str) -> None:
    """Check max.connections.per.ip.overrides (`host:count,...`); the messages are those of Java's parsers."""
    for part in filter(None, (part.strip() for part in text.split(","))):
        _, colon, count = part.rpartition(":")
        if not colon:
            raise ConfigError(
                "Error parsing configuration property 'max.connections.per.ip.overrides': "
                f"begin 0, end -1, length {len(part)}"
            )
        digits = count.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            raise ConfigError(f'For input string: "{count.strip()}"')


# -- settings that a running broker may refuse (validateReconfiguration) -----------------------------------------------
def _check_reconfiguration(new: Config, settings: BrokerSettings) -> None:
    current = settings.effective()
    for listener in listener_names(new):
        _check_listener(new, current, listener)
    if new[_REPORTERS] != current[_REPORTERS] and any(name != _JMX for name in new[_REPORTERS]):
        raise ConfigError(
            f"Validation of dynamic config update of Set({_REPORTERS}) failed with class class "
            "kafka.server.DynamicMetricsReporters"
        )
    for name in THREADS[1:]:
        _check_threads(name, new[name], current[name])
    _check_cleaner_threads(new.log_cleaner_threads, current.log_cleaner_threads)
    for kind in ("ms", "bytes"):
        _check_local_retention(new, kind)


def listener_names(config: Config) -> Iterator[str]:
    """Yield the names of a broker's listeners in upper case."""
    for text in config.listeners:
        yield text.partition("://")[0].strip().upper()


def of_listener(config: Config, listener: str, name: str) -> Value:
    """Return a setting of a listener: its own value, else that of all listeners."""
    own = config.prefixed.get(f"{_PREFIX}{listener.lower()}.{name}")
    value: Value = config[name] if own is None else config.table[name].parse(own)
    return value


def _check_listener(new: Config, current: Config, listener: str) -> None:
    for name in ("max.connections", "max.connection.creation.rate"):
        if of_listener(new, listener, name) == 0:
            raise ConfigError(f"Invalid {name} 0")
    name = "num.network.threads"
    before, after = of_listener(current, listener, name), of_listener(new, listener, name)
    if isinstance(before, int) and isinstance(after, int):
        _check_threads(name, after, before)
    prefix = f"{_PREFIX}{listener.lower()}."
    for full, value in new.prefixed.items():
        base = next((n for n in _MECHANISM_SETTINGS if full.startswith(prefix) and full.endswith(f".{n}")), None)
        if base is not None:
            new.table[base].parse(value)
            if new.table[base].type == CLASS and full not in current.prefixed:
                raise invalid(base, value, f"Class {value} could not be found.")


def _check_threads(name: str, value: int, current: int) -> None:
    if value == current:
        return
    problem = ""
    if value <= 0:
        problem = "value should be at least 1"
    elif value < current // 2:
        problem = f"value should be at least half the current value {current}"
    elif value > current * 2:
        problem = f"value should not be greater than double the current value {current}"
    if problem:
        raise ConfigError(f"Dynamic thread count update validation failed for {name}={value}, {problem}")


def _check_cleaner_threads(value: int, current: int) -> None:
    if value == current:
        return
    if value < 1:
        raise ConfigError(f"Log cleaner threads should be at least 1, value is {value}")
    if value < current // 2:
        raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {current}")
    if value > current * 2:
        raise ConfigError(f"Log cleaner threads cannot be increased to more than double the current value {current}")


def _check_local_retention(config: Config, kind: str) -> None:
    """Check log.local.retention.ms or .bytes against the retention (DynamicLogConfig)."""
    name, whole_name = f"log.local.retention.{kind}", f"log.retention.{kind}"
    local, whole = config[name], config[whole_name]
    if kind == "ms" and whole is None:
        minutes = config["log.retention.minutes"]
        whole = 60_000 * (minutes if minutes is not None else 60 * config["log.retention.hours"])
        whole = max(whole, -1)
    if whole < 0 or local == -2:
        return
    if local == -1:
        raise invalid(name, local, f"Value must not be -1 as {whole_name} value is set as {whole}.")
    if local > whole:
        raise invalid(name, local, f"Value must not be more than {whole_name} property value: {whole}")
