"""Read the clusters of other tools' files, to make profiles of them.

Rules: from files of YAML and TOML, brokers, TLS and SASL become settings under librdkafka's names, which profiles
translate. A value that cannot be taken over is a Leftover with its place, never dropped silently; values that say
nothing (empty, false, 0) and those that no client of Kafka needs are no leftovers. A profile that could not log in has
a `problem`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkatools.options.profile_import.properties_files import properties_source
from kafkatools.options.profile_import.sources import (
    DEFAULT_PORT,
    FORMATS,
    KAFKACTL,
    KCAT,
    KCL,
    PROPERTIES,
    RPK,
    Leftover,
    Source,
    address_problem,
    problem_of,
    with_port,
)
from kafkatools.tools.declared.documents import Node, child_path, invalid, read_documents


class _Layout(NamedTuple):
    """Where a tool keeps its values. `settings`: path below a cluster -> the setting, or "brokers".
    `tls` and `sasl`: the parents of their paths. `mechanism`: the tool's default. `has_switches`: TLS and SASL are off
    without `enabled: true`. `port`: the port of a broker without one; None if the tool refuses such a broker."""

    settings: Mapping[str, str]
    tls: str
    sasl: str
    mechanism: str
    unneeded: tuple[str, ...] = ()
    has_switches: bool = False
    port: int | None = DEFAULT_PORT


_UNNEEDED = ("version", "current_cloud_auth_org_id", "current_cloud_auth_kind")
_BROKERS, _MECHANISM = "brokers", "sasl.mechanism"
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_CA, _CERTIFICATE, _KEY = _FILES
_USER, _PASSWORD = "sasl.username", "sasl.password"  # noqa: S105 - the name of a setting
_LAYOUTS = {
    RPK: _Layout(
        {
            "kafka_api.brokers": _BROKERS,
            "kafka_api.tls.ca_file": _CA,
            "kafka_api.tls.truststore_file": _CA,
            "kafka_api.tls.cert_file": _CERTIFICATE,
            "kafka_api.tls.key_file": _KEY,
            "kafka_api.sasl.user": _USER,
            "kafka_api.sasl.password": _PASSWORD,
            "kafka_api.sasl.mechanism": _MECHANISM,
            "kafka_api.sasl.type": _MECHANISM,
        },
        "kafka_api.tls",
        "kafka_api.sasl",
        "SCRAM-SHA-256",
        ("name", "description", "prompt", "license_check"),
    ),
    KAFKACTL: _Layout(
        {
            "brokers": _BROKERS,
            "tls.ca": _CA,
            "tls.cert": _CERTIFICATE,
            "tls.certKey": _KEY,
            "sasl.username": _USER,
            "sasl.password": _PASSWORD,
            "sasl.mechanism": _MECHANISM,
            "clientID": "client.id",
        },
        "tls",
        "sasl",
        "PLAIN",
        ("kafkaVersion",),
        has_switches=True,
        port=None,
    ),
    KCL: _Layout(
        {
            "seed_brokers": _BROKERS,
            "tls.ca_cert_path": _CA,
            "tls.client_cert_path": _CERTIFICATE,
            "tls.client_key_path": _KEY,
            "sasl.user": _USER,
            "sasl.pass": _PASSWORD,
            "sasl.method": _MECHANISM,
        },
        "tls",
        "sasl",
        "",
    ),
}
_MECHANISMS = {
    "plain": "PLAIN",
    "plaintext": "PLAIN",
    "scramsha256": "SCRAM-SHA-256",
    "scramsha512": "SCRAM-SHA-512",
}
_REASONS = {
    "insecure": "certificates of brokers are always verified",
    "insecure_skip_verify": "certificates of brokers are always verified",
    "schema_registry": "set schema.registry.url in the profile's settings",
    "schemaRegistry": "set schema.registry.url in the profile's settings",
    "avro": "set schema.registry.url in the profile's settings",
    "current_profile": 'the default of the profile file stays as it is: default = "NAME"',
    "current-context": 'the default of the profile file stays as it is: default = "NAME"',
}
"""By a key of the path, for those with an answer of their own."""


def read_sources(path: str, file_format: str | None) -> tuple[str, list[Source], list[Leftover]]:
    """Return the format of a file, its clusters, and what stands beside them and cannot be taken over. Raises
    CommandError for an unreadable or invalid file, and for one whose format is not known."""
    suffix = os.path.splitext(path)[1].lower()
    if file_format in (PROPERTIES, KCAT) or file_format is None and suffix not in (".yaml", ".yml", ".toml"):
        found, source = properties_source(path, file_format)
        return found, [source], []
    root = next(iter(read_documents(path)), None)
    if root is None:
        raise invalid(f"{path}: the file is empty, so nothing was changed")
    if not isinstance(root.value, dict):
        raise invalid(f"{path}: there are no clusters in this file")
    keys = root.value
    named = file_format or _format(keys, suffix)
    if named is None:
        raise invalid(
            f"{path}: this is no file of rpk (profiles), kafkactl (contexts) or kcl (seed_brokers)",
            f"Name its format with --format: {', '.join(FORMATS)}.",
        )
    if named == KCL and "profiles" not in keys:
        return KCL, [_cluster("kcl", root, path, _LAYOUTS[KCL])], []
    section = "contexts" if named == KAFKACTL else "profiles"
    clusters = list(_named(keys[section])) if section in keys else []
    if not clusters:
        raise invalid(f"{path}: there are no {section} in this file")
    rest = Node({key: node for key, node in keys.items() if key not in (section, *_UNNEEDED)}, root.place)
    sources = [_cluster(name, node, path, _LAYOUTS[named]) for name, node in clusters]
    return named, sources, [_leftover(place, node) for place, node in _leaves(rest) if _says_something(node)]


def _format(keys: Mapping[str, Node], suffix: str) -> str | None:
    if suffix != ".toml":
        return KAFKACTL if "contexts" in keys else RPK if "profiles" in keys else None
    profiles = keys["profiles"].value if "profiles" in keys else {}
    clusters = [keys, *(node.value for node in profiles.values())] if isinstance(profiles, dict) else [keys]
    return KCL if any(isinstance(cluster, dict) and "seed_brokers" in cluster for cluster in clusters) else None


def _named(section: Node) -> Iterator[tuple[str, Node]]:
    """The clusters of a section: kafkactl and kcl have a mapping, rpk a list whose members have a name."""
    if isinstance(section.value, dict):
        yield from section.value.items()
    elif isinstance(section.value, list):
        for node in section.value:
            name = node.value.get("name") if isinstance(node.value, dict) else None
            if name is None or not isinstance(name.value, str) or not name.value:
                raise node.error("the profile has no name")
            yield name.value, node
    else:
        raise section.error("this must be a list or a mapping")


# -- YAML and TOML --


def _leaves(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """The values below a node with their paths; a list and an empty mapping are values."""
    if isinstance(node.value, dict) and node.value:
        for key, child in node.value.items():
            yield from _leaves(child, child_path(path, key))
    elif path:
        yield path, node


def _says_something(node: Node) -> bool:
    return bool(node.value) and node.value != "0s"


def _leftover(path: str, node: Node) -> Leftover:
    reason = next((_REASONS[key] for key in path.split(".") if key in _REASONS), "a profile has nothing like it")
    return Leftover(str(node.place), reason)


def _cluster(name: str, node: Node, path: str, layout: _Layout) -> Source:
    leaves = dict(_leaves(node))
    has_tls, has_sasl = (_is_enabled(leaves, prefix, layout) for prefix in (layout.tls, layout.sasl))
    off = [f"{prefix}." for prefix, on in ((layout.tls, has_tls), (layout.sasl, has_sasl)) if not on]
    settings: dict[str, str] = {}
    leftovers = []
    servers, problem = "", f"{node.place}: there are no brokers"
    for place, leaf in leaves.items():
        setting = layout.settings.get(place)
        if place.startswith(tuple(off)) or place in (f"{layout.tls}.enabled", f"{layout.sasl}.enabled"):
            continue
        if setting == _BROKERS and _says_something(leaf):
            servers, problem = _brokers(leaf, layout)
        elif setting is not None and _says_something(leaf):
            settings[setting] = _text(leaf)
        elif _says_something(leaf) and place.partition(".")[0] not in layout.unneeded:
            leftovers.append(_leftover(place, leaf))
    has_login = has_sasl and (layout.has_switches or any(name in settings for name in (_USER, _PASSWORD, _MECHANISM)))
    problem = problem or _complete(settings, node, path, layout, has_tls=has_tls, has_login=has_login)
    secrets = {_PASSWORD: settings.pop(_PASSWORD)} if _PASSWORD in settings else {}
    return Source(name, servers or None, None, settings, secrets, leftovers, problem)


def _brokers(node: Node, layout: _Layout) -> tuple[str, str]:
    """The brokers of a cluster, joined by commas, and why they cannot be used, empty if they can. Raises CommandError
    for a value that is no text."""
    parts = node.value if isinstance(node.value, list) else [node]
    addresses = []
    for part in parts:
        for text in filter(None, map(str.strip, _text(part).split(","))):
            address = text if layout.port is None else with_port(text, layout.port)
            problem = address_problem(address)
            if problem:
                return "", f"{part.place}: {problem}"
            addresses.append(address)
    return ",".join(addresses), "" if addresses else f"{node.place}: there are no brokers"


def _complete(
    settings: dict[str, str], node: Node, path: str, layout: _Layout, *, has_tls: bool, has_login: bool
) -> str:
    """Add what the settings of a cluster need: absolute paths, Kafka's name of the mechanism, the protocol. Return why
    clients would refuse them, else an empty text."""
    for setting in _FILES:
        if setting in settings:
            beside = os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(settings[setting]))
            settings[setting] = os.path.normpath(beside)
    if has_login:
        mechanism = settings.get(_MECHANISM, layout.mechanism)
        plain = mechanism.lower().replace("-", "").replace("_", "")
        if plain not in _MECHANISMS:
            return f"{node.place}: " + (f"SASL {mechanism} cannot be imported" if mechanism else "no SASL mechanism")
        if _USER not in settings:
            return f"{node.place}: SASL is on, but there is no user"
        settings[_MECHANISM] = _MECHANISMS[plain]
    if has_tls or has_login:
        settings["security.protocol"] = ("SASL_" if has_login else "") + ("SSL" if has_tls else "PLAINTEXT")
    if any("${" in value for value in settings.values()):
        return f"{node.place}: a value contains ${{, which would be a reference in a profile"
    return problem_of(settings, str(node.place))


def _is_enabled(leaves: Mapping[str, Node], prefix: str, layout: _Layout) -> bool:
    switch = leaves.get(f"{prefix}.enabled")
    if switch is not None or layout.has_switches:
        return switch is not None and switch.value is True
    present = [node for place, node in leaves.items() if place == prefix or place.startswith(f"{prefix}.")]
    return any(node.value is not None for node in present)


def _text(node: Node) -> str:
    """A text, or a list of texts joined by commas. Raises CommandError with the place of any other value: a number is
    not taken, since YAML has already changed its spelling (0123 is 83), and it may be a password."""
    if isinstance(node.value, str):
        return node.value
    parts = node.value if isinstance(node.value, list) else []
    texts = [part.value.strip() for part in parts if isinstance(part.value, str)]
    if not parts or len(texts) < len(parts):
        raise node.error("this must be a text or a list of texts; put it in quotes")
    return ",".join(texts)
