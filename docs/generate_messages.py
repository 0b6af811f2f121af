"""`kafkatools/core/protocol/kafka_messages.txt`: requests and responses, as kio has classes of them, in our notation.

kio's classes are generated from Apache Kafka's message definitions, one for each version. Here the versions of a
message become one definition with ranges of versions; definitions.py explains the notation. `make docs` writes the
file; a test fails when it is stale.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import pathlib
import pkgutil
from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

FILE = pathlib.Path(__file__).resolve().parent.parent / "kafkatools" / "core" / "protocol" / "kafka_messages.txt"
_HEAD = """\
# Apache Kafka's requests and responses in every version; definitions.py explains the notation.
# Made from kio's classes by docs/generate_messages.py.
"""
_TIMES = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64", "error_code": "int16"}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


class Found(NamedTuple):
    """A field of one version."""

    name: str
    type: str
    nullable: bool
    tag: int | None
    default: str | None
    nested: Any


def text() -> str:
    """The whole file."""
    messages = sorted(_messages(), key=lambda found: (found[0], found[1]))
    return _HEAD + "".join("\n" + "\n".join(_message(name, classes)) + "\n" for _, name, classes in messages)


def _messages() -> Iterator[tuple[int, str, dict[int, Any]]]:
    """API key, name and the classes by version of each request and response."""
    import kio.schema

    for package in pkgutil.iter_modules(kio.schema.__path__):
        if not package.ispkg:
            continue
        found: dict[str, dict[int, Any]] = {}
        versions = importlib.import_module(f"kio.schema.{package.name}")
        for version in pkgutil.iter_modules(versions.__path__):
            modules = importlib.import_module(f"kio.schema.{package.name}.{version.name}")
            for kind in pkgutil.iter_modules(modules.__path__):
                module = importlib.import_module(f"kio.schema.{package.name}.{version.name}.{kind.name}")
                top = _top(module)
                found.setdefault(top.__name__, {})[int(version.name[1:])] = top
        for name, classes in found.items():
            key = getattr(classes[max(classes)], "__api_key__", None)
            if key is not None:
                yield int(key), name, classes


def _top(module: Any) -> Any:
    """The last class of a module is the message; those before it are its structures."""
    own = [
        item for item in vars(module).values() if dataclasses.is_dataclass(item) and item.__module__ == module.__name__
    ]
    return own[-1]


def _message(name: str, classes: Mapping[int, Any]) -> Iterator[str]:
    versions = sorted(classes)
    flexible = [version for version in versions if classes[version].__flexible__]
    words = [name, f"key={int(classes[versions[-1]].__api_key__)}"]
    words.append(f"versions={versions[0]}" + (f"-{versions[-1]}" if len(versions) > 1 else ""))
    words.append(f"flexible={_versions(flexible, versions)}")
    yield " ".join(words)
    yield from _structure({version: _fields(item) for version, item in classes.items()}, versions[-1], "  ")


def _fields(entity_type: Any) -> list[Found]:
    return [_field(item) for item in dataclasses.fields(entity_type)]


def _field(item: Any) -> Found:
    nullable, inner = _without_none(item.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        _, inner = _without_none(get_args(inner)[0])
    nested = inner if dataclasses.is_dataclass(inner) else None
    kind = item.metadata.get("kafka_type", "")
    type_name = nested.__name__ if nested else _TIMES.get(kind, kind)  # type: ignore[union-attr]
    if nullable and kind in _TIMES and not is_array:  # kio's None of a time is -1
        return Found(item.name, type_name, False, item.metadata.get("tag"), "-1", None)
    nullable = nullable and (is_array or kind != "uuid")
    default = _default(item.default, nullable)
    return Found(item.name, "[]" * is_array + type_name, nullable, item.metadata.get("tag"), default, nested)


def _without_none(annotation: Any) -> tuple[bool, Any]:
    if get_origin(annotation) not in (UnionType, Union):
        return False, annotation
    return True, next(each for each in get_args(annotation) if each is not type(None))


def _default(value: Any, nullable: bool) -> str | None:
    """The default in our notation; None where it is zero, empty or a structure."""
    if value is dataclasses.MISSING or value is None:
        return "null" if nullable else None
    if isinstance(value, datetime.datetime):
        value = value - _EPOCH
    if isinstance(value, datetime.timedelta):
        value = value // _MILLISECOND
    if isinstance(value, (bool, int, float)) and value:
        return (
            str(value).lower() if isinstance(value, bool) else repr(int(value) if isinstance(value, IntEnum) else value)
        )
    if isinstance(value, (str, bytes)) and value:
        return repr(str(value) if isinstance(value, str) else bytes(value))
    return None


def _structure(versions: Mapping[int, list[Found]], newest: int, indent: str) -> Iterator[str]:
    """The lines of a structure's fields; `versions` are those in which the structure exists."""
    for name in _in_order(versions):
        by_version = {
            version: next(field for field in fields if field.name == name)
            for version, fields in versions.items()
            if any(field.name == name for field in fields)
        }
        latest = by_version[max(by_version)]
        yield indent + " ".join([name, latest.type, *_words(by_version, sorted(versions), newest)])
        if latest.nested is not None:
            nested = {version: _fields(field.nested) for version, field in by_version.items()}
            yield from _structure(nested, newest, indent + "  ")


def _words(by_version: Mapping[int, Found], parents: list[int], newest: int) -> Iterator[str]:
    present = sorted(by_version)
    if present != parents:
        yield f"versions={_versions(present, [*present, newest])}"
    nullable = [version for version in present if by_version[version].nullable]
    if nullable:
        yield f"null={_versions(nullable, [*present, newest])}"
    tagged = [version for version in present if by_version[version].tag is not None]
    if tagged:
        yield f"tag={by_version[tagged[-1]].tag}"
        if tagged != present:
            yield f"tagged={_versions(tagged, [*present, newest])}"
    defaults = {field.default for field in by_version.values() if field.default != "null" or field.nullable} - {None}
    if len(defaults) > 1:
        raise ValueError(f"{by_version} has several defaults")
    if defaults:
        yield f"default={defaults.pop()}"


def _versions(chosen: list[int], all_versions: list[int]) -> str:
    if not chosen:
        return "none"
    if chosen != list(range(chosen[0], chosen[-1] + 1)):
        raise ValueError(f"versions with a gap: {chosen}")
    if chosen[-1] == max(all_versions):
        return f"{chosen[0]}+"
    return str(chosen[0]) if len(chosen) == 1 else f"{chosen[0]}-{chosen[-1]}"


def _in_order(versions: Mapping[int, list[Found]]) -> list[str]:
    """The names of the fields of all versions in the order in which each version has its own."""
    after: dict[str, set[str]] = {}
    for version in sorted(versions, reverse=True):
        names = [field.name for field in versions[version]]
        for place, name in enumerate(names):
            after.setdefault(name, set()).update(names[:place])
    ordered: list[str] = []
    while after:
        name = next(name for name, before in after.items() if before <= set(ordered))
        ordered.append(name)
        del after[name]
    return ordered


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
