"""Indirect settings: references such as `${file:/etc/kafka/secrets.properties:password}` in the values of settings
(ConfigTransformer, KIP-297, KIP-421).

| Provider | Reference | Value |
|---|---|---|
| file | `${file:PATH:KEY}` | a line of a properties file (FileConfigProvider); `${file:PATH}` the whole file |
| directory | `${directory:PATH:NAME}` | a file of a directory (DirectoryConfigProvider) |
| env | `${env:NAME}` | an environment variable (EnvVarConfigProvider) |
| prompt | `${prompt:LABEL}` | typed on the terminal |
| keyring | `${keyring:SERVICE:USER}` | a password of the system's keyring |
| command | `${command:PROGRAM ARGUMENTS}` | the first line that a program prints; run without a shell |

The first three are Kafka's, with their parameters allowed.paths and allowlist.pattern. A reference to another provider
stays as it is, as in Kafka; one without a value is an error, where Kafka keeps its text. Line ends at the end of a file
are no part of a value. Each reference is read once. Between quotes in sasl.jaas.config, quotes and backslashes of the
last three and of a whole file are escaped; Kafka's own are inserted as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.errors import ConfigError
from kafkatools.core.install_command import install_command
from kafkatools.core.java.properties_text import MalformedEscape, parse_properties
from kafkatools.core.secrets import redacted, remember

SETTING = "config.providers"
_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:]*):(?:(?P<path>[^}:]*):)?(?P<key>[^}]*)\}")
_KAFKAS_PACKAGE = "org.apache.kafka.common.config.provider."
_CLASSES = {"FileConfigProvider": "file", "DirectoryConfigProvider": "directory", "EnvVarConfigProvider": "env"}
_PARAMETERS = {"file": "allowed.paths", "directory": "allowed.paths", "env": "allowlist.pattern"}
KINDS = ("file", "directory", "env", "prompt", "keyring", "command")
_OURS = ("prompt", "keyring", "command")
_COMMAND_TIMEOUT_S = 120


class Surroundings(NamedTuple):
    """The sources of references: the environment, and `ask`, which prompts for a password and raises ConfigError (None:
    there is no terminal)."""

    environ: Mapping[str, str]
    ask: Callable[[str], str] | None


class _Provider(NamedTuple):
    """A provider of a configuration: its kind, and the value of its parameter, None without one."""

    kind: str
    limit: str | None = None


def has_reference(value: str) -> bool:
    """Return whether a value refers to one of the built-in providers."""
    return any(match["provider"] in KINDS for match in _REFERENCE.finditer(value))


class Providers:
    """Resolves the references in settings. `known`: providers without an entry in config.providers."""

    def __init__(self, around: Surroundings, known: Iterable[str] = KINDS) -> None:
        self._around = around
        self._known = {name: _Provider(name) for name in known}
        self._values: dict[tuple[_Provider, str | None, str], str] = {}

    def resolved(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings with the values of all references, without those of config.providers. Raises ConfigError,
        which names the setting and shows no value."""
        providers = self._known | _configured(settings)
        found = {}
        for name, value in settings.items():
            if name == SETTING or name.startswith(f"{SETTING}."):
                continue
            try:
                found[name] = self._replace(name, value, providers) if "${" in value else value
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from None
        return found

    def _replace(self, name: str, value: str, providers: Mapping[str, _Provider]) -> str:
        is_jaas = name.endswith("sasl.jaas.config")

        def text(match: re.Match[str]) -> str:
            provider = providers.get(match["provider"])
            if provider is None:
                return match[0]
            found = self._value(provider, match["path"], match["key"])
            is_ours = provider.kind in _OURS or (provider.kind == "file" and match["path"] is None)
            is_quoted = is_jaas and value[: match.start()].endswith('"')
            return found.replace("\\", "\\\\").replace('"', '\\"') if is_quoted and is_ours else found

        return _REFERENCE.sub(text, value)

    def _value(self, provider: _Provider, path: str | None, key: str) -> str:
        place = provider, path, key
        if place not in self._values:
            self._values[place] = self._read(provider, path, key)
        return self._values[place]

    def _read(self, provider: _Provider, path: str | None, key: str) -> str:
        kind = provider.kind
        if kind in ("file", "directory"):
            return self._of_file(provider, path, key)
        if kind == "env":
            return self._of_environment(provider, path, key)
        if kind == "keyring":
            secret = _of_keyring(path, key)
        elif kind == "command":
            secret = _of_command(key if path is None else f"{path}:{key}")
        else:
            secret = self._typed(key if path is None else f"{path}: {key}")
        remember(secret)
        return secret

    def _of_file(self, provider: _Provider, path: str | None, key: str) -> str:
        if provider.kind == "directory":
            if path is None or "/" in key or key in ("", ".", ".."):
                raise ConfigError(f"{_shown(provider, path, key)} must be ${{directory:PATH:FILE NAME}}")
            return _contents(os.path.join(path, key), provider).rstrip("\r\n")
        if path is None:
            secret = _contents(key, provider).rstrip("\r\n")
            remember(secret)
            return secret
        try:
            settings = parse_properties(_contents(path, provider))
        except MalformedEscape as error:
            raise ConfigError(f"{path}: {error}") from None
        if key not in settings:
            raise ConfigError(f"{_shown(provider, path, key)}: there is no key {key} in {path}")
        return settings[key]

    def _of_environment(self, provider: _Provider, path: str | None, key: str) -> str:
        if path:
            raise ConfigError(f"{_shown(provider, path, key)} must be ${{env:NAME}}")
        is_allowed = provider.limit is None or re.fullmatch(provider.limit, key)
        if not is_allowed or key not in self._around.environ:
            reason = "is not set" if is_allowed else "is not allowed by allowlist.pattern"
            raise ConfigError(f"the environment variable {key} {reason}")
        return self._around.environ[key]

    def _typed(self, label: str) -> str:
        if self._around.ask is None:
            raise ConfigError(f"there is no terminal to prompt on for ${{prompt:{label}}}")
        return self._around.ask(label)


def _configured(settings: Mapping[str, str]) -> dict[str, _Provider]:
    """The providers of config.providers by name. Raises ConfigError for a class that is not built in."""
    found = {}
    for name in filter(None, (part.strip() for part in settings.get(SETTING, "").split(","))):
        setting = f"{SETTING}.{name}.class"
        given = settings.get(setting, "")
        if not given and name not in KINDS:
            raise ConfigError(f"{setting} is not set")
        kind = _CLASSES.get(given.removeprefix(_KAFKAS_PACKAGE)) if given else name
        if kind is None:
            known = ", ".join(_KAFKAS_PACKAGE + known for known in _CLASSES)
            raise ConfigError(f"{setting}: the Java class {given} cannot be used here; it may be one of {known}")
        found[name] = _Provider(kind, settings.get(f"{SETTING}.{name}.param.{_PARAMETERS.get(kind, '')}"))
    return found


def _shown(provider: _Provider, path: str | None, key: str) -> str:
    return "${" + ":".join((provider.kind, *([] if path is None else [path]), key)) + "}"


def _contents(path: str, provider: _Provider) -> str:
    if "\0" in path:
        raise ConfigError("a file name of the provider has a null character")
    if provider.limit is not None:
        real = os.path.realpath(path)
        allowed = [os.path.realpath(part.strip()) for part in provider.limit.split(",") if part.strip()]
        if not any(real == place or real.startswith(place.rstrip("/") + "/") for place in allowed):
            raise ConfigError(f"{path} is not in allowed.paths of the provider {provider.kind}")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8") from None
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror or problem}") from None


def _of_keyring(service: str | None, user: str) -> str:
    if not service:
        raise ConfigError(f"${{keyring:{user}}} must be ${{keyring:SERVICE:USER}}")
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise ConfigError(f"the keyring needs the Python package keyring: {install_command('keyring')}") from None
    try:
        secret: str | None = keyring.get_password(service, user)
    except KeyringError as problem:
        reason = str(problem).strip().splitlines()[:1]
        raise ConfigError(f"the keyring cannot be read: {redacted(''.join(reason))[:200]}") from None
    if secret is None:
        raise ConfigError(f"the keyring has no password of {user} for {service}; try: keyring set {service} {user}")
    return secret


def _of_command(text: str) -> str:
    import shlex  # imported late, as subprocess: most references name no program
    import subprocess

    try:
        words = shlex.split(text)
    except ValueError as problem:
        raise ConfigError(f"${{command:...}} cannot be read: {problem}") from None
    if not words:
        raise ConfigError("${command:} names no program")
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"the program {words[0]} did not end within {_COMMAND_TIMEOUT_S} s") from None
    except OSError as problem:
        raise ConfigError(f"the program {words[0]} could not be run: {problem.strerror or problem}") from None
    if done.returncode:
        stderr_lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = f": {redacted(stderr_lines[-1])[:200]}" if stderr_lines else ""
        raise ConfigError(f"the program {words[0]} ended with {done.returncode}{reason}")
    try:
        first = done.stdout.decode().split("\n", 1)[0].rstrip("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"the program {words[0]} did not print UTF-8") from None
    if not first:
        raise ConfigError(f"the program {words[0]} printed no secret")
    return first
