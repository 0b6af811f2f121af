"""Settings of librdkafka in profiles, translated to Kafka's.

Values arrive with their references resolved: a password from the environment must be quoted as it is, since
sasl.jaas.config has quotes and escapes of its own. A setting of librdkafka next to Kafka's own setting for the same
thing is an error, so that no order of files decides which password is sent. Settings that both have under one name
pass unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from kafkatools.exit_status import CommandError

_VERIFICATION = "enable.ssl.certificate.verification"
_HOST_NAMES = "ssl.endpoint.identification.algorithm"
LIBRDKAFKA_NAMES = (
    "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location",
    "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", _VERIFICATION,
)  # fmt: skip
"""The settings of librdkafka that Kafka has under other names."""
_RENAMED = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
_INLINE = ("ssl.truststore.certificates", "ssl.keystore.key")
_TRUE = ("true", "t", "1")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def with_kafka_names(settings: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the settings of the profile file at `path` with librdkafka's settings replaced by Kafka's. Raises
    CommandError, which names file and setting, for a setting that contradicts one of Kafka's, that lacks its
    counterpart or that Kafka cannot express, and for an unreadable file of a key or certificate."""
    kept = {name: value for name, value in settings.items() if name not in LIBRDKAFKA_NAMES}
    if kept.get(_HOST_NAMES, "").lower() == "none":
        kept[_HOST_NAMES] = ""
    ours = {name: value for name, value in settings.items() if name in LIBRDKAFKA_NAMES}
    if not ours:
        return kept
    _ensure_verified(ours, path)
    for source, name, value in (
        *_renamed(ours),
        *_authority(ours, path),
        *_identity(ours, path),
        *_login(settings, path),
    ):
        if kept.get(name, value) != value:
            raise CommandError(f"{path}: {source} and {name} contradict each other: remove one of them")
        kept[name] = value
    return kept


_Setting = tuple[str, str, str]
"""The name in librdkafka, the name in Kafka, the value."""


def _ensure_verified(ours: Mapping[str, str], path: str) -> None:
    if ours.get(_VERIFICATION, "true").strip().lower() not in _TRUE:
        raise CommandError(
            f"{path}: {_VERIFICATION} cannot be switched off: certificates of brokers are always verified",
            hint="Remove it, and name the authority of the brokers in ssl.ca.location.",
        )


def _renamed(ours: Mapping[str, str]) -> list[_Setting]:
    found = [(old, name, ours[old]) for old, name in _RENAMED.items() if old in ours]
    stores = {name: name.split(".")[1] for _, name, _ in found if name in _INLINE}
    return found + [(name, f"ssl.{store}.type", "PEM") for name, store in stores.items()]


def _authority(ours: Mapping[str, str], path: str) -> list[_Setting]:
    source = "ssl.ca.location"
    if source not in ours:
        return []
    _ensure_file(source, ours[source], path)
    return [(source, "ssl.truststore.location", ours[source]), (source, "ssl.truststore.type", "PEM")]


def _ensure_file(name: str, place: str, path: str) -> None:
    """Refuse what librdkafka accepts beside a file: a directory of certificates, and `probe` for those of the system.
    Kafka's clients would take either for the path of a truststore and fail at the first connection."""
    if place == "probe":
        problem = "'probe' is known to librdkafka only"
        hint = f"Remove {name} to trust the authorities of the system, or name a file with certificates in PEM."
    elif os.path.isdir(place):
        problem = f"{place} is a directory, which Kafka's clients cannot read"
        hint = f"Join its certificates in one file (cat {os.path.join(place, '*.pem')} > ca.pem) and name that file."
    else:
        return
    raise CommandError(f"{path}: {name}: {problem}", hint=hint)


def _identity(ours: Mapping[str, str], path: str) -> list[_Setting]:
    """Kafka has one file for key and certificates; two files become the settings with their texts."""
    chain, key = "ssl.certificate.location", "ssl.key.location"
    given = {name: ours[name] for name in (chain, key) if name in ours}
    if not given:
        return []
    for name, other in ((chain, (key, "ssl.key.pem")), (key, (chain, "ssl.certificate.pem"))):
        if name in ours and not any(counterpart in ours for counterpart in other):
            raise CommandError(f"{path}: {name} needs {other[0]} too")
    targets = {chain: "ssl.keystore.certificate.chain", key: "ssl.keystore.key"}
    texts = [(name, targets[name], _text(file, name, path)) for name, file in given.items()]
    return [*texts, (next(iter(given)), "ssl.keystore.type", "PEM")]


def _text(file: str, name: str, path: str) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file in PEM"
        raise CommandError(f"{path}: {name}: {file} cannot be read: {reason}") from None


def _login(settings: Mapping[str, str], path: str) -> list[_Setting]:
    """Kafka has user and password in sasl.jaas.config, with the login module of the mechanism."""
    user, password = settings.get("sasl.username"), settings.get("sasl.password")
    if user is None and password is None:
        return []
    if user is None or password is None:
        present, absent = ("password", "username") if user is None else ("username", "password")
        raise CommandError(f"{path}: sasl.{present} needs sasl.{absent} too")
    mechanism = settings.get("sasl.mechanisms", settings.get("sasl.mechanism", ""))
    if mechanism == "PLAIN":
        module = "plain.PlainLoginModule"
    elif mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        module = "scram.ScramLoginModule"
    else:
        raise CommandError(
            f"{path}: sasl.username and sasl.password need sasl.mechanism PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
        )
    options = f'username="{user.translate(_ESCAPES)}" password="{password.translate(_ESCAPES)}"'
    return [("sasl.username", "sasl.jaas.config", f"org.apache.kafka.common.security.{module} required {options};")]
