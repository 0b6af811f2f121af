"""Read the properties files of Kafka's clients and kcat.conf, to make profiles of them.

Rules: the file stays where it is, and the profile names it as `command_config`. Profiles read that as Java does, so a
kcat.conf whose values Java would read differently is copied to the profile's own file instead. A setting that no client
of Kafka has is a Leftover with its line. Kerberos and OAuth settings that only librdkafka has are no leftovers if the
login needs them: then no profile can be made.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.exit_status import CommandError
from kafkatools.options.common import is_registry_setting
from kafkatools.options.librdkafka_names import LIBRDKAFKA_NAMES
from kafkatools.options.profile_import.kcat_conf import parse_kcat_conf
from kafkatools.options.profile_import.sources import (
    DEFAULT_PORT,
    KCAT,
    PROPERTIES,
    Leftover,
    Source,
    address_problem,
    problem_of,
    with_port,
)
from kafkatools.options.properties import parse_properties, read_bytes, read_properties
from kafkatools.options.secret_files import warn_if_others_can_read, warn_if_others_can_read_keys

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


class _File(NamedTuple):
    """A file of settings. `lines`: setting -> its line. `is_as_java`: profiles, which read files as Java does, find the
    same settings in it."""

    path: str
    format: str
    settings: Mapping[str, str]
    lines: Mapping[str, int]
    is_as_java: bool = True

    def place(self, name: str) -> str:
        return f"{self.path}, line {self.lines.get(name, 1)}, {name}"


def properties_source(path: str, file_format: str | None) -> tuple[str, Source]:
    """Return the format and the cluster of a file; the format None means that name and content decide. Raises
    CommandError for an unreadable file, for one without a setting of Kafka's clients, and without a format for one that
    kcat and Kafka's clients read differently."""
    file = _read(os.path.abspath(path), file_format)
    known = {name: value for name, value in file.settings.items() if _is_known(name)}
    if not known and not any(name in _BROKERS for name in file.settings):
        hint = "Pass --format if it is a file of another tool."
        raise CommandError(f"{file.path} has no setting of Kafka's clients, so nothing was changed", hint=hint)
    leftovers = [
        Leftover(file.place(name), "no setting of Kafka's clients; it has no effect")
        for name in file.settings
        if name not in _BROKERS and name not in known
    ]
    servers, problem = _brokers(file)
    if servers is None and not problem:
        reason = "add bootstrap_servers to the profile, or pass --bootstrap-server"
        leftovers.append(Leftover(file.path, f"there are no brokers in the file: {reason}"))
    name = os.path.splitext(os.path.basename(path))[0].lstrip(".")
    problem = problem or _reference_problem(file) or _login_problem(file) or problem_of(file.settings, file.path)
    if file.is_as_java:
        return file.format, Source(name, servers, file.path, {}, {}, leftovers, problem)
    copied = {name: value for name, value in known.items() if name not in _BROKERS}
    note = f"{file.path}: the profile has a copy of these settings, since profiles read backslashes as Java does. "
    note += "Import the file again, with --force, after it has changed."
    return file.format, Source(name, servers, None, {}, copied, leftovers, problem, note if copied else "")


def _read(path: str, file_format: str | None) -> _File:
    data = read_bytes(path)
    if file_format == KCAT or file_format is None and path.endswith(".conf"):
        return _kcat_file(path, data)
    settings = read_properties(path)
    if file_format is None and _has_names_of_librdkafka(settings):
        _ensure_unambiguous(settings, data, path)
    return _File(path, PROPERTIES, settings, _lines_of_names(data))


def _kcat_file(path: str, data: bytes) -> _File:
    conf = parse_kcat_conf(data, path)
    try:
        java = parse_properties(data.decode("utf-8-sig"))
    except CommandError:  # a malformed \u escape
        java = {}
    warn_if_others_can_read(path, conf.settings)
    warn_if_others_can_read_keys(conf.settings)
    return _File(path, KCAT, conf.settings, conf.lines, java == conf.settings)


def _ensure_unambiguous(settings: Mapping[str, str], data: bytes, path: str) -> None:
    """Refuse a file with librdkafka's settings whose values depend on the reader: a guess could send a wrong
    password."""
    try:
        conf = parse_kcat_conf(data, path)
    except CommandError:
        return  # kcat cannot read the file
    differing = (name for name, value in conf.settings.items() if settings.get(name) != value)
    name = next((name for name in differing if name not in _BROKERS), None)  # blanks around brokers do not count
    if name is not None:
        raise CommandError(
            f"{path}, line {conf.lines[name]}, {name}: kcat and Kafka's clients read this value differently",
            hint="Pass --format kcat for a file of kcat, --format properties for one of Kafka's clients.",
        )


def _reference_problem(file: _File) -> str:
    from kafkatools.core.config.providers import has_reference

    name = next((name for name, value in file.settings.items() if has_reference(value)), None)
    if file.format != KCAT or name is None:
        return ""
    return (
        f"{file.place(name)}: kcat sends ${{...}} as it is, but a profile would replace it. "
        "If the file is one of Kafka's clients, pass --format properties."
    )


def _brokers(file: _File) -> tuple[str | None, str]:
    """The brokers of a file, None without any and for a reference, and why they cannot be used, empty if they can. Only
    librdkafka accepts a broker without a port."""
    settings = file.settings
    present = [name for name in _BROKERS if settings.get(name, "").strip()]
    if not present or any("${" in settings[name] for name in present):
        return None, ""
    if len({settings[name].strip() for name in present}) > 1:
        places = " and ".join(f"{name} (line {file.lines.get(name, 1)})" for name in present)
        return None, f"{file.path}: {places} contradict each other: remove one of them"
    is_of_librdkafka = file.format == KCAT or _has_names_of_librdkafka(settings)
    addresses = []
    for text in filter(None, map(str.strip, settings[present[0]].split(","))):
        address = with_port(text, DEFAULT_PORT) if is_of_librdkafka else text
        problem = address_problem(address)
        if problem:
            return None, f"{file.place(present[0])}: {problem}"
        addresses.append(address)
    return ",".join(addresses) or None, ""


def _login_problem(file: _File) -> str:
    """Name the settings without which the login cannot work and which only librdkafka has; empty without them."""
    settings = file.settings
    is_sasl = settings.get("security.protocol", "").strip().upper().startswith("SASL_")
    default = "GSSAPI" if is_sasl else ""
    mechanism = settings.get("sasl.mechanisms", settings.get("sasl.mechanism", default)).strip().upper()
    names = [name for name in settings if name in _UNTRANSLATED.get(mechanism, ())]
    if _CLIENT_ID in settings:  # Kafka's clients log in with client credentials without these two
        names = [name for name in names if name not in _BY_DEFAULT]
    if not names or "sasl.jaas.config" in settings:
        return ""
    places = ", ".join(f"{name} (line {file.lines.get(name, 1)})" for name in names)
    return (
        f"{file.path}: the login by SASL {mechanism} has settings that only librdkafka knows: {places}. "
        "Write the login with Kafka's settings, as security.md shows, and import the file again."
    )


def _lines_of_names(data: bytes) -> dict[str, int]:
    lines: dict[str, int] = {}
    for number, line in enumerate(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", errors="replace"), 1):
        name = next(iter(parse_properties(line.partition("\\u")[0])), None)
        if name is not None:
            lines[name] = number
    return lines


def _has_names_of_librdkafka(settings: Mapping[str, str]) -> bool:
    return any(name in (_BROKERS[1], *LIBRDKAFKA_NAMES) for name in settings)


def _is_known(name: str) -> bool:
    from kafkatools.core.config import ADMIN, CONSUMER, PRODUCER

    tables = (ADMIN, CONSUMER, PRODUCER)
    is_setting = any(name in table or table.is_prefixed(name) for table in tables)
    return is_setting or name in LIBRDKAFKA_NAMES or is_registry_setting(name)
