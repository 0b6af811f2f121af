"""The settings of a node of a cluster; the words of refusals are those of KafkaConfig and QuorumConfig 4.3."""

from __future__ import annotations

import pytest

from kafkatools.core import config as tables
from kafkatools.core.broker.metadata.cluster_settings import cluster_settings, is_clustered, parse_voters
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError

BASE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@other:9093",
    "log.dirs": "/nowhere",
}
FORM = "Each entry should be in the form `{id}@{host}:{port}`."


def config(**changes: str) -> Config:
    return Config(tables.BROKER, {**BASE, **{name.replace("_", "."): value for name, value in changes.items()}})


def test_a_node_of_several() -> None:
    settings = cluster_settings(
        config(
            listeners="INSIDE://127.0.0.1:1,CONTROLLER://127.0.0.1:2,OUTSIDE://0.0.0.0:3",
            advertised_listeners="INSIDE://inner:1,OUTSIDE://outer:30",
            listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            inter_broker_listener_name="INSIDE",
            broker_rack="r1",
        ),
        1,
    )
    assert settings.voters == {1: ("127.0.0.1", 9093), 2: ("other", 9093)}
    assert [(point.name, point.advertised_host, point.advertised_port) for point in settings.listeners] == [
        ("INSIDE", "inner", 1),
        ("OUTSIDE", "outer", 30),
        ("CONTROLLER", "127.0.0.1", 2),
    ]
    assert (settings.inter_broker_listener, settings.rack) == ("INSIDE", "r1")
    assert (settings.is_broker, settings.is_controller) == (True, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"listener_security_protocol_map": "INSIDE:SSL"}, "No security protocol defined for listener CONTROLLER"),
        (
            {"listener_security_protocol_map": "INSIDE:TLS,CONTROLLER:SSL"},
            "Invalid security protocol `TLS` defined in listener.security.protocol.map",
        ),
        (
            {
                "listener_security_protocol_map": "INSIDE:SSL,CONTROLLER:SSL",
                "inter_broker_listener_name": "INSIDE",
                "security_inter_broker_protocol": "SSL",
            },
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
    ],
)
def test_listeners_without_a_clear_protocol_are_refused(changes: dict[str, str], message: str) -> None:
    named = config(listeners="INSIDE://127.0.0.1:1,CONTROLLER://127.0.0.1:2", **changes)
    with pytest.raises(ConfigError) as refused:
        cluster_settings(named, 1)
    assert str(refused.value) == message


def test_listeners_with_tls_and_sasl() -> None:
    named = config(
        listeners="SSL://127.0.0.1:1,SASL_SSL://127.0.0.1:2,CONTROLLER://127.0.0.1:3",
        listener_security_protocol_map="SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:SSL",
        security_inter_broker_protocol="SASL_SSL",
    )
    settings = cluster_settings(named, 1)
    assert [point.protocol for point in settings.listeners] == ["SSL", "SASL_SSL", "SSL"]
    assert settings.inter_broker_listener == "SASL_SSL"


@pytest.mark.parametrize(
    ("voters", "roles", "several"),
    [
        ("1@127.0.0.1:9093", "broker,controller", False),
        ("1@127.0.0.1:9093,2@127.0.0.1:9094", "broker,controller", True),
        ("2@127.0.0.1:9094", "broker", True),
        ("1@127.0.0.1:9093", "controller", True),
    ],
)
def test_who_has_others(voters: str, roles: str, several: bool) -> None:
    values = {**BASE, "controller.quorum.voters": voters, "process.roles": roles}
    assert is_clustered(Config(tables.BROKER, values)) is several
    values["controller.quorum.bootstrap.servers"] = "127.0.0.1:9093"  # brokers are told where the controller is
    assert is_clustered(Config(tables.BROKER, values)) is True


def test_without_voters_a_node_is_alone() -> None:
    values = {name: value for name, value in BASE.items() if name != "controller.quorum.voters"}
    assert is_clustered(Config(tables.BROKER, values)) is False


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("127.0.0.1:9093", f"Invalid configuration value controller.quorum.voters. {FORM}"),
        ("one@127.0.0.1:9093", "Failed to parse voter ID as an integer from one"),
        ("1@:9093", f"Failed to parse host name from entry 1@:9093 for the configuration {{}}. {FORM}"),
        ("1@host:port", f"Failed to parse host port from entry 1@host:port for the configuration {{}}. {FORM}"),
    ],
)
def test_voters_that_cannot_be_read(entry: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_voters([entry])
    assert str(refused.value) == message.replace("{}", "controller.quorum.voters")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"node_id": "3"},
            "If process.roles contains the 'controller' role, the node id 3 must be included in the set of voters "
            "controller.quorum.voters=Set(1, 2)",
        ),
        (
            {"process_roles": "broker"},
            "If process.roles contains just the 'broker' role, the node id 1 must not be included in the set of voters "
            "controller.quorum.voters=Set(1, 2)",
        ),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:9092"},
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when "
            "running the KRaft controller role",
        ),
        (
            {"listeners": "CONTROLLER://127.0.0.1:9093"},
            "There must be at least one broker advertised listener. Perhaps all listeners appear in "
            "controller.listener.names?",
        ),
        (
            {"process_roles": "controller"},
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        ),
        (
            {"inter_broker_listener_name": "MISSING"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            "based on currently configured listeners are PLAINTEXT",
        ),
        (
            {"inter_broker_listener_name": "CONTROLLER"},
            "controller.listener.names must not contain an explicitly set inter.broker.listener.name configuration "
            "value when process.roles=broker,controller",
        ),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9092"},
            "Each listener must have a different port, listeners: PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9092",
        ),
    ],
)
def test_refusals(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cluster_settings(config(**changes), int(changes.get("node_id", "1")))
    assert str(refused.value) == message
