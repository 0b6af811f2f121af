"""Parser of settings.txt, the source of every settings table: `[section]` lines, then one row for each setting and its
documentation below.

    [topic]
    @compression
    retention.ms long 604_800_000 min=-1
      Age beyond which segments go; -1 no limit.

A row is name, type and default (`null`, `required`, `""` for empty), then words in any order. `@section` includes the
rows of another section.

| Word | Meaning |
|---|---|
| `min=`, `max=` | the limits of a number, both included |
| `values=`, `any-case=` | the allowed texts, in the same case or in any case |
| `items=` | the allowed items of a list, each at most once |
| `form=` | a validator of `_FORMS` |
| `internal` | Kafka leaves the setting out of its documentation |
| `used` | this project's broker acts on the setting; a value for another one has no effect and causes a warning |
| `per-broker`, `cluster-wide` | the setting can change while a broker runs: for one broker, for one or all |
| `ours` | Apache Kafka 4.3 lacks the setting |
| `broker=` | broker settings, comma-separated: the first non-null one is the topic setting's default; `*` scales it |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from kafkatools.core.config.setting import (
    CLUSTER_WIDE,
    PER_BROKER,
    READ_ONLY,
    REQUIRED,
    Setting,
    Synonym,
    Validator,
    at_least,
    between,
    gzip_level,
    non_empty,
    offset_reset,
    one_of,
    one_of_any_case,
    throttled_replicas,
    words_of,
)
from kafkatools.core.package_files import package_text

_CHOICES: dict[str, Callable[..., Validator]] = {
    "values": one_of,
    "any-case": one_of_any_case,
    "items": words_of,
}
_FORMS: dict[str, Callable[[str], Validator]] = {
    "gzip-level": lambda _: gzip_level(),
    "non-empty": lambda _: non_empty(),
    "offset-reset": offset_reset,
    "throttled-replicas": throttled_replicas,
}


def settings_of(section: str) -> Iterator[Setting]:
    """The settings of one section of settings.txt, in file order, with the rows of included sections."""
    lines = iter(_sections()[section])
    for row in lines:
        if row.startswith("@"):
            yield from settings_of(row[1:])
        else:
            yield _setting(*row.split(), doc=next(lines))


@cache
def _sections() -> dict[str, list[str]]:
    """The lines of settings.txt by section: a row, then its documentation joined into one line."""
    sections: dict[str, list[str]] = {}
    for line in package_text(__name__, "settings.txt").splitlines():
        if line.startswith("["):
            rows = sections.setdefault(line.strip("[]"), [])
        elif line.startswith("  ") and rows[-1].startswith("  "):
            rows[-1] += line[1:]
        elif line and not line.startswith("#"):
            rows.append(line)
    return sections


def _setting(name: str, kind: str, default: str, *words: str, doc: str) -> Setting:
    values = dict(word.split("=", 1) for word in words if "=" in word)
    setting = Setting(
        name,
        kind.upper(),
        None,
        doc.strip(),
        _validator(name, values),
        internal="internal" in words,
        is_used="used" in words,
        update_mode=next((mode for mode in (PER_BROKER, CLUSTER_WIDE) if mode in words), READ_ONLY),
        is_ours="ours" in words,
        synonyms=tuple(map(_synonym, filter(None, values.get("broker", "").split(",")))),
    )
    if default in ("null", "required"):
        return setting._replace(default=REQUIRED) if default == "required" else setting
    if kind in ("short", "int", "long"):
        return setting._replace(default=_number(default))
    return setting._replace(default=setting.parse("" if default == '""' else default))


def _validator(name: str, values: dict[str, str]) -> Validator | None:
    for word, validator in _CHOICES.items():
        if word in values:
            return validator(*values[word].split(","))
    if "form" in values:
        return _FORMS[values["form"]](name)
    if "max" in values:
        return between(_number(values["min"]), _number(values["max"]))
    return at_least(_number(values["min"])) if "min" in values else None


def _synonym(text: str) -> Synonym:
    name, _, unit = text.partition("*")
    return Synonym(name, int(unit or 1))


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)
