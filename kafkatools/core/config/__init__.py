"""Settings tables (PRODUCER, CONSUMER, ADMIN, BROKER, TOPIC) and `Config`, which holds the values of one table.

settings.txt contains the defaults; a table is made from that file on first use. A Config reads like an object:
`config.linger_ms` is the value of linger.ms.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafkatools.core.config.setting import Password, Required, Setting, Value, to_text
from kafkatools.core.errors import ConfigError

__all__ = ["Config", "Password", "Setting", "Table", "Value", "to_text"]

_TABLES = ("PRODUCER", "CONSUMER", "ADMIN", "BROKER", "TOPIC")
_PREFIXES = {"BROKER": ("listener.name.", "rlmm.config.", "rsm.config.")}


class Table:
    """The settings of one kind of client, broker or resource, by name; `table[name]` raises ConfigError for an unknown
    name. Iteration is in alphabetical order, as in Kafka's documentation."""

    def __init__(self, label: str, settings: Iterable[Setting], prefixes: tuple[str, ...] = ()) -> None:
        self.label = label
        self.prefixes = prefixes
        self.settings = {setting.name: setting for setting in settings}
        self.attributes = {name.replace(".", "_"): name for name in self.settings}

    def __iter__(self) -> Iterator[Setting]:
        return iter(sorted(self.settings.values()))

    def __getitem__(self, name: str) -> Setting:
        try:
            return self.settings[name]
        except KeyError:
            raise self.unknown(name) from None

    def __contains__(self, name: object) -> bool:
        return name in self.settings

    def default_number(self, name: str) -> int:
        """Return the default of an integer setting, for settings objects that are made without a Config. Raises
        TypeError when the default is not an integer, ConfigError for an unknown name."""
        default = self[name].default
        if not isinstance(default, int):
            raise TypeError(f"The default of {name} is not an integer")
        return default

    def unknown(self, name: str) -> ConfigError:
        """The ConfigError for a name that is not in the table; its message suggests the closest name if one is
        similar."""
        import difflib

        matches = difflib.get_close_matches(name, self.settings, n=1, cutoff=0.8)
        hint = f" Did you mean {matches[0]}?" if matches else ""
        return ConfigError(f"Unknown {self.label} config name: {name}{'.' + hint if hint else ''}")

    def is_prefixed(self, name: str) -> bool:
        """Return whether a name starts with a prefix whose settings are accepted unchecked, such as
        `listener.name.`."""
        return name.startswith(self.prefixes)


class Config:
    """The values of one settings table. An explicit value wins over `defaults`, and those win over the table's
    defaults. Reading a required setting without a value raises ConfigError.

    The constructor raises ConfigError for an invalid value and for an unknown name; with `allow_unknown` the name is
    kept in `unknown` for the caller to warn about. Names with one of the table's prefixes are kept as text in
    `prefixed`.
    """

    def __init__(
        self,
        table: Table,
        values: Mapping[str, object] | None = None,
        *,
        defaults: Mapping[str, Value] | None = None,
        allow_unknown: bool = False,
    ) -> None:
        self.table = table
        self._explicit: dict[str, Value] = {}
        self._defaults = dict(defaults or {})
        self.prefixed: dict[str, str] = {}
        self.unknown: dict[str, str] = {}
        for name, raw in (values or {}).items():
            if name in table:
                self._explicit[name] = table[name].parse(raw)
            elif table.is_prefixed(name):
                self.prefixed[name] = str(raw)
            elif allow_unknown:
                self.unknown[name] = str(raw)
            else:
                raise table.unknown(name)

    def __getitem__(self, name: str) -> Any:
        if name in self._explicit:
            return self._explicit[name]
        if name in self._defaults:
            return self._defaults[name]
        default = self.table[name].default
        if isinstance(default, Required):
            raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
        return default

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        name = self.table.attributes.get(attribute)
        if name is None:
            raise AttributeError(f"there is no {self.table.label} setting {attribute}")
        return self[name]

    def is_explicit(self, name: str) -> bool:
        """Return whether the setting has an explicit value, not a default."""
        return name in self._explicit

    def explicit(self) -> dict[str, Value]:
        """A copy of the explicit values by name, without defaults."""
        return dict(self._explicit)

    def replace(self, values: Mapping[str, object]) -> "Config":
        """Return a copy with these explicit values added or replaced. Raises ConfigError for an unknown name, even if
        the original allowed some, and for an invalid value."""
        merged = Config(self.table, {**self._explicit, **values}, defaults=self._defaults)
        merged.prefixed, merged.unknown = {**self.prefixed, **merged.prefixed}, dict(self.unknown)
        return merged


def __getattr__(name: str) -> Table:
    """Make a settings table (`config.PRODUCER`, `config.BROKER`, ...) on its first use. Raises AttributeError for any
    other name."""
    if name not in _TABLES:
        raise AttributeError(name)
    from kafkatools.core.config.notation import settings_of

    label = name.lower()
    table = Table(label, settings_of(label), _PREFIXES.get(name, ()))
    globals()[name] = table
    return table
