"""Client settings as a caller passes them: a Config, a mapping with Kafka's dotted names, or keyword arguments.

Rules: a keyword argument is the name with underscores and wins over the mapping. An unknown name raises ConfigError
with the closest name. Python objects where Kafka expects a class name (a serializer, a partitioner) are not settings:
`take_objects` removes them from the mapping first. With config.providers, references in values are resolved, as in
Kafka; that setting alone makes core read the environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkatools.core import config as tables
from kafkatools.core.config import Config, Password, Table, to_text
from kafkatools.core.errors import ConfigError

Settings = Config | Mapping[str, object]
_PROVIDERS = "config.providers"
_SENT_NAMES = ("client.id", "client.rack", "group.id", "group.instance.id", "transactional.id")
_MOST_SENT_BYTES = 2**15 - 1


def config_of(table: Table, settings: Settings | None, keywords: Mapping[str, object]) -> Config:
    """Make the Config of a client from its settings argument and keyword arguments, which win. Raises ConfigError for
    an unknown or invalid setting, for a name that no request can hold and for a Config of another table, TypeError when
    `settings` is neither a Config nor a mapping, UnicodeEncodeError for a name with lone surrogates: each request with
    it would fail."""
    config = _config_of(table, settings, keywords)
    for name in _SENT_NAMES:
        size = len(str(config[name]).encode()) if name in table else 0
        if size > _MOST_SENT_BYTES:
            raise ConfigError(f"{name} has {size:,} bytes; a text in a request has at most {_MOST_SENT_BYTES:,}")
    return config


def _config_of(table: Table, settings: Settings | None, keywords: Mapping[str, object]) -> Config:
    overrides = {_dotted(table, keyword): value for keyword, value in keywords.items()}
    if isinstance(settings, Config):
        if settings.table.label != table.label:
            raise ConfigError(f"Expected {table.label} settings, not {settings.table.label} settings")
        return settings.replace(overrides) if overrides else settings
    return Config(table, {**_direct(_checked(table, settings)), **overrides})


def take_objects(settings: Settings | None, names: Iterable[str]) -> tuple[Settings | None, dict[str, Any]]:
    """Split off the settings of these names whose value is an object instead of text: (remaining settings, objects by
    name). A Config or None is returned unchanged, without objects."""
    if not isinstance(settings, Mapping):
        return settings, {}
    objects = {name: settings[name] for name in names if not isinstance(settings.get(name), (str, type(None)))}
    return {name: value for name, value in settings.items() if name not in objects}, objects


def _checked(table: Table, settings: Mapping[str, object] | None) -> Mapping[str, object]:
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise TypeError(
            f'{table.label} settings are a mapping such as {{"bootstrap.servers": "localhost:9092"}}, '
            f"or keyword arguments, not {type(settings).__name__}"
        )
    for name in settings:
        if not isinstance(name, str):
            raise ConfigError(f"The name of a {table.label} setting is text, not {name!r}")
    return settings


def _direct(settings: Mapping[str, object]) -> Mapping[str, object]:
    """Settings with the values of their references, if config.providers names providers. Raises ConfigError."""
    if _PROVIDERS not in settings:
        return settings
    import os

    from kafkatools.core.config.providers import Providers, Surroundings

    texts = {name: value for name, value in settings.items() if isinstance(value, str)}
    others = {name: value for name, value in settings.items() if name not in texts}
    environ = os.environ  # noqa: TID251 - the program asks for a variable by ${env:NAME}
    return others | Providers(Surroundings(environ, None), known=()).resolved(texts)


def _dotted(table: Table, keyword: str) -> str:
    name = table.attributes.get(keyword)
    if name is None:
        raise table.unknown(keyword.replace("_", "."))
    return name


def settings_text(label: str, settings: Mapping[str, object] | None, keywords: Mapping[str, object]) -> dict[str, str]:
    """Check settings and keyword arguments and return the explicit ones as text by name, for another process; null
    becomes empty text. `label`: the table's name, such as `broker`. Passwords are in clear text. Raises ConfigError,
    TypeError as `config_of`."""
    table: Table = getattr(tables, label.upper())
    config = config_of(table, settings, keywords)
    values = {name: value.value if isinstance(value, Password) else value for name, value in config.explicit().items()}
    return {name: to_text(value) or "" for name, value in values.items()} | config.prefixed
