"""Read properties files of Kafka and librdkafka, to make profiles of them.

Rules: the file stays where it is, and the profile names it as `command_config`. A setting that no client of Kafka has
is a Leftover with its line. Kerberos and OAuth settings that only librdkafka has are no leftovers if the login needs
them: then no profile can be made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from kafkatools.exit_status import CommandError
from kafkatools.options.common import is_registry_setting
from kafkatools.options.librdkafka_names import LIBRDKAFKA_NAMES
from kafkatools.options.profile_import.sources import (
    DEFAULT_PORT,
    Leftover,
    Source,
    address_problem,
    problem_of,
    with_port,
)
from kafkatools.options.properties import parse_properties, read_properties

_BROKERS = ("bootstrap.servers", "metadata.broker.list")
"""The setting with the brokers, in Kafka and in librdkafka."""
_UNTRANSLATED = {
    "GSSAPI": ("sasl.kerberos.principal", "sasl.kerberos.keytab"),
    "OAUTHBEARER": (
        "sasl.oauthbearer.config", "sasl.oauthbearer.method", "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret", "sasl.oauthbearer.extensions", "sasl.oauthbearer.grant.type",
        "sasl.oauthbearer.assertion.private.key.pem", "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.metadata.authentication.type", "enable.sasl.oauthbearer.unsecure.jwt",
    ),
}  # fmt: skip
"""SASL mechanism -> librdkafka's settings of its login that Kafka's clients do not have."""
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_BY_DEFAULT = ("sasl.oauthbearer.method", "sasl.oauthbearer.grant.type")


def properties_source(path: str) -> Source:
    """Return the cluster of a properties file. Raises CommandError for an unreadable file and for one without a setting
    of Kafka's clients."""
    path = os.path.abspath(path)
    settings = read_properties(path)
    lines = _lines_of_names(path)
    leftovers = [
        Leftover(f"{path}, line {lines.get(name, 1)}, {name}", "no setting of Kafka's clients; it has no effect")
        for name in settings
        if name not in _BROKERS and not _is_known(name)
    ]
    if not any(name in _BROKERS or _is_known(name) for name in settings):
        hint = "Pass --format if it is a file of another tool."
        raise CommandError(f"{path} has no setting of Kafka's clients, so nothing was changed", hint=hint)
    servers, problem = _brokers(settings, lines, path)
    if servers is None and not problem:
        reason = "add bootstrap_servers to the profile, or pass --bootstrap-server"
        leftovers.append(Leftover(path, f"there are no brokers in the file: {reason}"))
    name = os.path.splitext(os.path.basename(path))[0].lstrip(".")
    problem = problem or _login_problem(settings, lines, path) or problem_of(settings, path)
    return Source(name, servers, path, {}, {}, leftovers, problem)


def _brokers(settings: Mapping[str, str], lines: Mapping[str, int], path: str) -> tuple[str | None, str]:
    """The brokers of a file, None without any and for a reference, and why they cannot be used, empty if they can. Only
    librdkafka accepts a broker without a port."""
    present = [name for name in _BROKERS if settings.get(name, "").strip()]
    if not present or any("${" in settings[name] for name in present):
        return None, ""
    if len({settings[name].strip() for name in present}) > 1:
        places = " and ".join(f"{name} (line {lines.get(name, 1)})" for name in present)
        return None, f"{path}: {places} contradict each other: remove one of them"
    is_of_librdkafka = path.endswith(".conf") or any(name in (_BROKERS[1], *LIBRDKAFKA_NAMES) for name in settings)
    addresses = []
    for text in filter(None, map(str.strip, settings[present[0]].split(","))):
        address = with_port(text, DEFAULT_PORT) if is_of_librdkafka else text
        problem = address_problem(address)
        if problem:
            return None, f"{path}, line {lines.get(present[0], 1)}, {present[0]}: {problem}"
        addresses.append(address)
    return ",".join(addresses) or None, ""


def _login_problem(settings: Mapping[str, str], lines: Mapping[str, int], path: str) -> str:
    """Name the settings without which the login cannot work and which only librdkafka has; empty without them."""
    is_sasl = settings.get("security.protocol", "").strip().upper().startswith("SASL_")
    default = "GSSAPI" if is_sasl else ""
    mechanism = settings.get("sasl.mechanisms", settings.get("sasl.mechanism", default)).strip().upper()
    names = [name for name in settings if name in _UNTRANSLATED.get(mechanism, ())]
    if _CLIENT_ID in settings:  # Kafka's clients log in with client credentials without these two
        names = [name for name in names if name not in _BY_DEFAULT]
    if not names or "sasl.jaas.config" in settings:
        return ""
    places = ", ".join(f"{name} (line {lines.get(name, 1)})" for name in names)
    return (
        f"{path}: the login by SASL {mechanism} has settings that only librdkafka knows: {places}. "
        "Write the login with Kafka's settings, as security.md shows, and import the file again."
    )


def _lines_of_names(path: str) -> dict[str, int]:
    with open(path, encoding="utf-8", errors="replace") as file:
        numbered = list(enumerate(file, 1))
    lines: dict[str, int] = {}
    for number, line in numbered:
        name = next(iter(parse_properties(line.partition("\\u")[0])), None)
        if name is not None:
            lines[name] = number
    return lines


def _is_known(name: str) -> bool:
    from kafkatools.core.config import ADMIN, CONSUMER, PRODUCER

    tables = (ADMIN, CONSUMER, PRODUCER)
    is_setting = any(name in table or table.is_prefixed(name) for table in tables)
    return is_setting or name in LIBRDKAFKA_NAMES or is_registry_setting(name)
