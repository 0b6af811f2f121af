"""`Setting`, one row of a settings table: type, default, validator, documentation, and how text becomes a value.

The messages follow Kafka's ConfigDef, because scripts and runbooks quote them. Durations are integers in milliseconds.
A list is a tuple of strings. A password hides itself in `repr` and `str`.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafkatools.core.errors import ConfigError
from kafkatools.core.java.text import java_double
from kafkatools.java_numbers import java_double as parse_double
from kafkatools.java_numbers import java_int, java_long, java_short

BOOLEAN = "BOOLEAN"
SHORT = "SHORT"
INT = "INT"
LONG = "LONG"
DOUBLE = "DOUBLE"
STRING = "STRING"
LIST = "LIST"
CLASS = "CLASS"
PASSWORD = "PASSWORD"

HIDDEN = "[hidden]"

_INTEGERS = {SHORT: java_short, INT: java_int, LONG: java_long}


class Required:
    """The type of `REQUIRED`, the default of a setting that has no default and must be set."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = Required()


class Password:
    """A secret value: `value` is the secret, `str` and `repr` return `[hidden]`."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


Value = bool | int | float | str | tuple[str, ...] | Password | None


def clear_text(value: Password | str | None) -> str | None:
    """Return the secret of a Password; return a text or None unchanged."""
    return value.value if isinstance(value, Password) else value


READ_ONLY, PER_BROKER, CLUSTER_WIDE = "read-only", "per-broker", "cluster-wide"
"""Update modes of Kafka's documentation: never, for one broker, for one or all."""


class Validator(NamedTuple):
    """A check of a parsed value. `check` returns the problem, or None for a valid value; `text` is the form shown in
    documentation, such as `[0,...]`."""

    text: str
    check: Callable[[Value], str | None]


class Synonym(NamedTuple):
    """A broker setting that is the default of a topic setting; the broker's number is multiplied by `unit_ms` to get
    the topic's milliseconds."""

    name: str
    unit_ms: int = 1


class Setting(NamedTuple):
    """One row of a settings table.

    `is_used`: whether the broker of this project acts on the setting; one without effect is named in a warning.
    `update_mode`: how a broker setting may change while the broker runs. `is_ours`: Apache Kafka 4.3 lacks the setting.
    `synonyms`: the broker settings that are the default of a topic setting, in order of precedence.
    """

    name: str
    type: str
    default: Value | Required
    doc: str
    validator: Validator | None = None
    internal: bool = False
    is_used: bool = False
    update_mode: str = READ_ONLY
    is_ours: bool = False
    synonyms: tuple[Synonym, ...] = ()

    def parse(self, raw: object) -> Value:
        """Return the typed value of `raw`, which is text or a value of the type; None only for a password or a setting
        whose default is null. Raises ConfigError with Kafka's message. A password is also remembered as a secret, to be
        hidden in output."""
        value = _PARSERS[self.type](self, raw)
        if self.validator is not None and value is not None:
            problem = self.validator.check(value)
            if problem is not None:
                shown = to_text(value) if self.type == DOUBLE else raw
                raise invalid(self.name, problem.item if isinstance(problem, ItemProblem) else shown, problem)
        return value


class ItemProblem(str):
    """The problem with one item of a list. Kafka's message shows that item instead of the whole list (ValidList)."""

    item: str

    @classmethod
    def of(cls, item: str, problem: str) -> "ItemProblem":
        """Make a problem with this text for one item of a list."""
        item_problem = cls(problem)
        item_problem.item = item
        return item_problem


def invalid(name: str, raw: object, problem: str) -> ConfigError:
    """The ConfigError with the message of Kafka's ConfigException: "Invalid value ... for configuration ...: ..."."""
    text = "null" if raw is None else raw
    return ConfigError(f"Invalid value {text} for configuration {name}: {problem}")


def _parse_boolean(setting: Setting, raw: object) -> Value:
    if isinstance(raw, bool):
        return raw
    text = str(raw).strip().lower()
    if text not in ("true", "false"):
        raise invalid(setting.name, raw, "Expected value to be either true or false")
    return text == "true"


def _parse_integer(setting: Setting, raw: object) -> Value:
    problem = f"Not a number of type {setting.type}"
    if raw is None or isinstance(raw, bool):
        return _null_or_error(setting, raw, problem)
    try:
        return _INTEGERS[setting.type](str(raw).strip())
    except ValueError:
        raise invalid(setting.name, raw, problem) from None


def _parse_double(setting: Setting, raw: object) -> Value:
    if isinstance(raw, bool):
        raise invalid(setting.name, raw, "Not a number of type DOUBLE")
    if isinstance(raw, (int, float)):
        return float(raw)
    text = str(raw).strip()
    try:
        return math.inf if text == "Infinity" else parse_double(text)
    except ValueError:
        raise invalid(setting.name, raw, "Not a number of type DOUBLE") from None


def _parse_string(setting: Setting, raw: object) -> Value:
    if raw is None:
        return _null_or_error(setting, raw, "must be non-null.")
    if isinstance(raw, str):
        return raw.strip()
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return str(raw)
    raise invalid(setting.name, raw, f"Expected value to be a string, but it was a {type(raw).__name__}")


def _parse_list(setting: Setting, raw: object) -> Value:
    if raw is None:
        return _null_or_error(setting, raw, "must be non-null.")
    if isinstance(raw, str):
        return tuple(part.strip() for part in raw.split(",")) if raw.strip() else ()
    if isinstance(raw, (list, tuple)) and all(isinstance(part, str) for part in raw):
        return tuple(raw)
    raise invalid(setting.name, raw, "Expected a comma separated list.")


def _parse_password(setting: Setting, raw: object) -> Value:
    if raw is None or isinstance(raw, Password):
        return raw
    if isinstance(raw, str):
        from kafkatools.core.secrets import remember

        remember(raw.strip())
        return Password(raw.strip())
    raise invalid(setting.name, HIDDEN, f"Expected value to be a string, but it was a {type(raw).__name__}")


def _null_or_error(setting: Setting, raw: object, problem: str) -> Value:
    if raw is None and setting.default is None:
        return None
    raise invalid(setting.name, raw, problem)


_PARSERS: dict[str, Callable[[Setting, object], Value]] = {
    BOOLEAN: _parse_boolean,
    SHORT: _parse_integer,
    INT: _parse_integer,
    LONG: _parse_integer,
    DOUBLE: _parse_double,
    STRING: _parse_string,
    CLASS: _parse_string,
    LIST: _parse_list,
    PASSWORD: _parse_password,
}


def to_text(value: Value | Required) -> str | None:
    """Format a value as Kafka prints a setting (`true`, `a,b`, `0.5`); None for null and for a required setting. A
    password becomes `[hidden]`."""
    if value is None or isinstance(value, Required):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return java_double(value)
    return str(value)


def _validator(text: str, is_valid: Callable[[Value], bool], problem: str) -> Validator:
    return Validator(text, lambda value: None if is_valid(value) else problem)


def at_least(low: float) -> Validator:
    """A validator for numbers of at least `low`."""
    return _validator(
        f"[{low},...]", lambda value: isinstance(value, (int, float)) and value >= low, f"Value must be at least {low}"
    )


def between(low: float, high: float) -> Validator:
    """A validator for numbers from `low` to `high`, both included."""

    def check(value: Value) -> str | None:
        if not isinstance(value, (int, float)) or value < low:
            return f"Value must be at least {low}"
        return None if value <= high else f"Value must be no more than {high}"

    return Validator(f"[{low},...,{high}]", check)


def one_of(*choices: str) -> Validator:
    """A validator for strings: one of the choices, in the same case."""
    names = ", ".join(choices)
    return _validator(f"[{names}]", lambda value: value in choices, f"String must be one of: {names}")


def one_of_any_case(*choices: str) -> Validator:
    """A validator for strings: one of the choices, in any case."""
    upper, names = {choice.upper() for choice in choices}, ", ".join(choices)
    return _validator(
        f"(case insensitive) [{names}]",
        lambda value: isinstance(value, str) and value.upper() in upper,
        f"String must be one of (case insensitive): {names}",
    )


def words_of(*choices: str) -> Validator:
    """A validator for lists: only these words, each at most once."""

    def check(value: Value) -> str | None:
        words: Iterable[str] = value if isinstance(value, tuple) else ()
        earlier_words: set[str] = set()
        for word in words:
            if word not in choices:
                return ItemProblem.of(word, f"String must be one of: {', '.join(choices)}")
            if word in earlier_words:
                return "values must not be duplicated."
            earlier_words.add(word)
        return None

    return Validator(f"[{', '.join(choices)}]", check)


def non_empty() -> Validator:
    """A validator for strings and lists that must not be empty."""
    return _validator("non-empty", bool, "String must be non-empty")


def gzip_level() -> Validator:
    """A validator for gzip compression levels: 1 to 9, or -1 for the default of zlib."""
    return _validator(
        "[1,...,9] or -1",
        lambda value: isinstance(value, int) and (value == -1 or 1 <= value <= 9),
        "Value must be between 1 and 9 or equal to -1",
    )


def offset_reset(name: str) -> Validator:
    """A validator for auto.offset.reset: earliest, latest or by_duration:<ISO 8601 duration>, and none except for share
    groups. Source: AutoOffsetResetStrategy and ShareGroupAutoOffsetResetStrategy, whose messages differ slightly."""
    is_share = name.startswith("share.")
    words = ("earliest", "latest") if is_share else ("earliest", "latest", "none")
    form, text = ("PnDTnHnMn.nS", "earliest, latest") if is_share else ("PnDTnHnMn.nS.", "latest, earliest, none")
    names = ", ".join(f"'{word}'" for word in words)

    def check(value: Value) -> str | None:
        prefix, _, duration = str(value).partition(":")
        if value in words or (prefix == "by_duration" and parse_iso_duration_ms(duration) is not None):
            return None
        problem = f"The value must be either {names} or of the format 'by_duration:<{form}>'."
        return f"Invalid value `{value}` for configuration {name}. {problem}"

    return Validator(f"[{text}, by_duration:PnDTnHnMn.nS]", check)


def parse_iso_duration_ms(text: str) -> int | None:
    """Milliseconds, rounded down, of an ISO 8601 duration in the form PnDTnHnMn.nS (java.time.Duration); None for any
    other text."""
    import re

    match = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{0,9}))?S)?)?", text, re.IGNORECASE)
    if match is None or not any(match.groups()) or text.upper().endswith("T"):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    fraction_ms = int(((match.group(5) or "") + "000")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + fraction_ms


def throttled_replicas(name: str) -> Validator:
    """A validator for lists of throttled replicas: `*`, `none`, an empty list or partition:broker pairs. Source:
    ThrottledReplicaListValidator. Kafka's message contains the setting's name."""
    form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

    def check(value: Value) -> str | None:
        words = value if isinstance(value, tuple) else ()
        if not words or words == ("*",) or words == ("none",):
            return None
        for word in words:
            partition, colon, broker = word.partition(":")
            if not (colon and partition.isdigit() and broker.isdigit()):
                problem = f"{name} must be the literal '*' or a list of replicas in the following format: {form}"
                return ItemProblem.of(f"[{', '.join(words)}]", problem)
        return None

    return Validator(form, check)
