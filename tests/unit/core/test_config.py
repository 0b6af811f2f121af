"""The settings tables against those recorded from Apache Kafka, and how values are read."""

from pathlib import Path

import pytest

from kafkatools.core import config as config_module
from kafkatools.core.config import Config, Password, Table, to_text
from kafkatools.core.config.setting import REQUIRED, parse_iso_duration_ms
from kafkatools.core.config.topic import TOPIC_SYNONYMS, topic_config
from kafkatools.core.errors import ConfigError

GOLDEN = Path(__file__).parents[2] / "golden/config"
BYTES_BY_DEFAULT = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
OF_THE_AUTHORIZER = {"allow.everyone.if.no.acl.found", "super.users"}
"""Settings that Kafka's authorizer reads by itself, so that they are in no table of Kafka's."""
DIFFERENT_DEFAULTS = {("CONSUMER", "allow.auto.create.topics"): "false"}
"""Reading never creates a topic: docs/differences.md, `consumer-creates`."""


def rows(name: str) -> list[list[str]]:
    lines = (GOLDEN / name).read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def table(label: str) -> Table:
    return getattr(config_module, label)


@pytest.mark.parametrize("label", ["PRODUCER", "CONSUMER", "ADMIN", "BROKER", "TOPIC"])
def test_table_has_every_setting_of_kafka_and_no_other(label: str) -> None:
    recorded = {row[1] for row in rows("settings.tsv") if row[0] == label}
    ours = {setting.name for setting in table(label) if setting.is_ours}
    assert set(table(label).settings) - ours - OF_THE_AUTHORIZER == recorded
    assert not ours & recorded


@pytest.mark.parametrize("row", rows("settings.tsv"), ids=lambda row: f"{row[0]}-{row[1]}")
def test_setting_has_kafkas_type_and_default(row: list[str]) -> None:
    label, name, type_, default, internal = row
    default = DIFFERENT_DEFAULTS.get((label, name), default)
    setting = table(label)[name]
    assert setting.type == type_
    assert setting.internal == (internal == "true")
    assert len(setting.doc) > 10
    if default == "<REQUIRED>":
        assert setting.default is (None if name in BYTES_BY_DEFAULT else REQUIRED)
    elif default == "<null>":
        assert setting.default is None
    else:
        expected = default.replace("class ", "").strip("[]").replace(", ", ",")
        assert to_text(setting.default) == expected


@pytest.mark.parametrize("label", ["PRODUCER", "CONSUMER", "ADMIN", "BROKER", "TOPIC"])
def test_every_default_passes_its_own_validator(label: str) -> None:
    for setting in table(label):
        if setting.default is not None and setting.default is not REQUIRED:
            assert setting.parse(setting.default) == setting.default


def test_topic_synonyms_are_kafkas_in_kafkas_order() -> None:
    assert {row[0]: row[1].split(",") for row in rows("synonyms.tsv")} == {
        name: [synonym.name for synonym in synonyms]
        for name, synonyms in TOPIC_SYNONYMS.items()
        if not table("TOPIC")[name].is_ours
    }


def test_values_are_read_from_text() -> None:
    config = Config(
        table("PRODUCER"), {"linger.ms": " 7 ", "bootstrap.servers": "a:1, b:2", "enable.idempotence": "FALSE"}
    )
    assert config.linger_ms == 7
    assert config.bootstrap_servers == ("a:1", "b:2")
    assert config.enable_idempotence is False
    assert config.acks == "all"
    assert config.is_explicit("linger.ms")
    assert not config.is_explicit("acks")


@pytest.mark.parametrize(
    ("label", "name", "raw", "message"),
    [
        ("PRODUCER", "linger.ms", "soon", "Invalid value soon for configuration linger.ms: Not a number of type LONG"),
        ("PRODUCER", "batch.size", "-1", "Invalid value -1 for configuration batch.size: Value must be at least 0"),
        ("PRODUCER", "batch.size", 2**31, "Not a number of type INT"),
        ("PRODUCER", "acks", "2", "Invalid value 2 for configuration acks: String must be one of: all, -1, 0, 1"),
        ("PRODUCER", "enable.idempotence", "yes", "Expected value to be either true or false"),
        ("CONSUMER", "security.protocol", "TLS", "String must be one of \\(case insensitive\\)"),
        ("CONSUMER", "auto.offset.reset", "first", "must be either 'earliest', 'latest', 'none'"),
        ("TOPIC", "cleanup.policy", "keep", "String must be one of: compact, delete"),
        ("TOPIC", "cleanup.policy", "delete,delete", "values must not be duplicated"),
        ("TOPIC", "min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("TOPIC", "compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("TOPIC", "min.cleanable.dirty.ratio", "0_1.5", "Not a number of type DOUBLE"),
        ("TOPIC", "retention.ms", "1_000", "Not a number of type LONG"),
        ("TOPIC", "retention.ms", None, "Not a number of type LONG"),
        ("TOPIC", "leader.replication.throttled.replicas", "1-2", "must be the literal"),
    ],
)
def test_bad_value_is_an_error_that_names_the_setting(label: str, name: str, raw: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        Config(table(label), {name: raw})
    assert name in str(raised.value)


@pytest.mark.parametrize(("text", "value"), [("0.2f", 0.2), (" 2e-1D ", 0.2), ("1", 1.0)])
def test_fractions_are_read_as_java_reads_them(text: str, value: float) -> None:
    assert Config(table("TOPIC"), {"min.cleanable.dirty.ratio": text}).min_cleanable_dirty_ratio == value
    assert Config(table("BROKER"), {"log.cleaner.io.max.bytes.per.second": "Infinity"})


@pytest.mark.parametrize("value", ["*", "", "0:1,1:2"])
def test_throttled_replicas_take_pairs_or_all(value: str) -> None:
    config = Config(table("TOPIC"), {"leader.replication.throttled.replicas": value})
    assert to_text(config.leader_replication_throttled_replicas) == value


def test_unknown_name_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="Unknown producer config name: lingr.ms. Did you mean linger.ms?"):
        Config(table("PRODUCER"), {"lingr.ms": "1"})


def test_unknown_names_may_be_kept_for_a_warning() -> None:
    config = Config(table("BROKER"), {"node.id": "1", "zookeeper.connect": "a"}, allow_unknown=True)
    assert config.unknown == {"zookeeper.connect": "a"}


def test_listener_settings_are_kept_as_they_are() -> None:
    config = Config(table("BROKER"), {"listener.name.internal.ssl.keystore.location": "/k"})
    assert config.prefixed == {"listener.name.internal.ssl.keystore.location": "/k"}


def test_required_setting_without_a_value_says_so_when_read() -> None:
    with pytest.raises(ConfigError, match='Missing required configuration "node.id" which has no default value.'):
        Config(table("BROKER")).node_id  # noqa: B018


def test_attribute_that_is_no_setting_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="there is no topic setting linger_ms"):
        Config(table("TOPIC")).linger_ms  # noqa: B018


def test_password_does_not_show() -> None:
    config = Config(table("ADMIN"), {"ssl.key.password": "secret"})
    assert config.ssl_key_password == Password("secret")
    assert "secret" not in f"{config.ssl_key_password!r} {config.ssl_key_password} {config.explicit()}"


def test_topic_takes_the_first_broker_synonym_that_is_set() -> None:
    broker = table("BROKER")
    assert topic_config(Config(broker)).retention_ms == 168 * 3_600_000
    assert topic_config(Config(broker, {"log.retention.minutes": 3})).retention_ms == 180_000
    both = Config(broker, {"log.retention.minutes": 3, "log.retention.ms": 5, "message.max.bytes": 99})
    assert topic_config(both).retention_ms == 5
    assert topic_config(both).max_message_bytes == 99
    assert topic_config(both, {"retention.ms": "6"}).retention_ms == 6
    assert topic_config(Config(broker, {"log.retention.hours": -1})).retention_ms == -1


def test_replace_keeps_what_was_given() -> None:
    config = Config(table("TOPIC"), {"retention.ms": 1}).replace({"segment.ms": "2"})
    assert (config.retention_ms, config.segment_ms) == (1, 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt0.001s", 1),
        ("P2D", 172_800_000),
        ("PT", None),
        ("1h", None),
        ("P", None),
        ("P1DT", None),
    ],
)
def test_iso_durations(text: str, expected: int | None) -> None:
    assert parse_iso_duration_ms(text) == expected


def test_values_print_as_kafka_prints_them() -> None:
    assert [to_text(value) for value in (True, None, ("a", "b"), 0.5, 1e-4, 5, "x", 1.7976931348623157e308)] == [
        "true", None, "a,b", "0.5", "1.0E-4", "5", "x", "1.7976931348623157E308",
    ]  # fmt: skip
