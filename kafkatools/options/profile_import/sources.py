"""A cluster of another tool's file, as it becomes a profile, and the checks that all formats share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.exit_status import CommandError
from kafkatools.options.librdkafka_names import with_kafka_names

PROPERTIES, KCAT, RPK, KAFKACTL, KCL = FORMATS = ("properties", "kcat", "rpk", "kafkactl", "kcl")
DEFAULT_PORT = 9092
"""The port of a broker without one, in librdkafka and in franz-go, the client of rpk and kcl."""


class Leftover(NamedTuple):
    """A value that a profile cannot hold: its place, and why or what to do instead."""

    place: str
    reason: str


class Source(NamedTuple):
    """A cluster in a file of another tool. `secrets` are settings for a file that only its owner can read. `problem`:
    why no profile can be made of it, empty if one can. `note`: what to know about its profile."""

    name: str
    bootstrap_servers: str | None
    command_config: str | None
    settings: Mapping[str, str]
    secrets: Mapping[str, str]
    leftovers: list[Leftover]
    problem: str = ""
    note: str = ""


def with_port(address: str, port: int) -> str:
    """Return the address of a broker with this port if it has none, and with brackets around an IPv6 address."""
    protocol, separator, host = address.rpartition("://")
    if ":" not in host or host.endswith("]"):
        return f"{address}:{port}"
    if host.count(":") > 1 and "]" not in host:
        return f"{protocol}{separator}[{host}]:{port}"
    return address


def address_problem(address: str) -> str:
    """Return why this is no address of a broker and what to write; empty if it is one."""
    from kafkatools.core.errors import ConfigError
    from kafkatools.core.net.addresses import parse_bootstrap_servers

    try:
        parse_bootstrap_servers([address])
    except ConfigError as error:
        return f"'{address}' is not the address of a broker. {error.hint}"
    return ""


def problem_of(settings: Mapping[str, str], path: str) -> str:
    """Return why clients would refuse these settings and what to do, as far as it is known without the values of
    references; empty if they would accept them."""
    if any("${" in value for value in settings.values()):
        return ""
    try:
        with_kafka_names(settings, path)
    except CommandError as error:
        return f"{error}. {error.hint}" if error.hint else str(error)
    return ""
