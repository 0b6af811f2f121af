"""The entry points of installed distributions in groups of kafkatools, such as `kafkatools.commands`.

Rules: nothing is read before a name is requested that kafkatools does not define itself. The directories of `sys.path`
are read here, since the import of importlib.metadata takes longer than most commands. As there, the first of several
distributions with the same name counts. A plugin that cannot be loaded raises PluginError, whatever it raised.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, TypeVar

from kafkatools.core.errors import PluginError

_PREFIX = "kafkatools."
_METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
T = TypeVar("T")


class EntryPoint(NamedTuple):
    """One entry point: `target` is MODULE:ATTRIBUTE, `distribution` the name and version of what installed it."""

    group: str
    name: str
    target: str
    distribution: str

    def __str__(self) -> str:
        return f"plugin {self.name} of {self.distribution} ({self.group}: {self.target})"


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name. A name occurs twice if two distributions define it."""
    points = [point for point in _installed(tuple(sys.path)) if point.group == group]
    return sorted(points, key=lambda point: (point.name, point.distribution))


def find(group: str, name: str) -> EntryPoint | None:
    """Return the entry point with this name, None if there is none. Raises PluginError if there are several."""
    points = [point for point in entry_points(group) if point.name == name]
    if len(points) > 1:
        owners = " and ".join(point.distribution for point in points)
        raise PluginError(f"plugin {name} ({group}) is in {owners}: uninstall one of them")
    return points[0] if points else None


def find_object(group: str, name: str, *kinds: type[T]) -> tuple[EntryPoint, T] | None:
    """Return the entry point with this name and its object, which is of one of these classes; None if there is none.
    Raises PluginError for several, one that cannot be imported, and an object of another class."""
    point = find(group, name)
    return None if point is None else (point, load(point, *kinds))


def load(point: EntryPoint, *kinds: type[T]) -> T:
    """Import the object of an entry point. Raises PluginError if that fails or its class is not one of `kinds`."""
    from importlib import import_module

    module, _, attribute = point.target.partition(":")
    try:
        loaded: object = import_module(module)
        for part in filter(None, attribute.split(".")):
            loaded = getattr(loaded, part)
    except (Exception, SystemExit) as error:  # the code of others: it may raise anything while it is imported
        lines = str(error).splitlines()
        raise PluginError(f"{point} cannot be loaded: {type(error).__name__}: {lines[0] if lines else ''}") from error
    if isinstance(loaded, kinds):
        return loaded
    expected = " or ".join(kind.__name__ for kind in kinds)
    raise PluginError(f"{point} cannot be used: it is a {type(loaded).__name__}, not a {expected}")


@cache
def _installed(paths: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    seen: set[str] = set()
    found: list[EntryPoint] = []
    for directory, name in _distributions(paths):
        # of a source tree on the path that is installed as well: demo.egg-info and demo-1.0.dist-info
        key = os.path.splitext(name)[0].partition("-")[0].lower()
        if key not in seen:
            seen.add(key)
            found += _read(os.path.join(directory, name))
    return tuple(found)


def _distributions(paths: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the directories with metadata of distributions: where each is, and its name."""
    for path in dict.fromkeys(filter(None, paths)):
        try:
            names = sorted(os.listdir(path))
        except OSError:  # an archive, or a directory that does not exist
            continue
        yield from ((path, name) for name in names if name.endswith(tuple(_METADATA)))


def _read(directory: str) -> list[EntryPoint]:
    text = _text(os.path.join(directory, "entry_points.txt"))
    if _PREFIX not in text:
        return []
    points: list[EntryPoint] = []
    group = distribution = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif "=" in line and group.startswith(_PREFIX) and not line.startswith(("#", ";")):
            distribution = distribution or _name_and_version(directory)
            name, _, target = line.partition("=")
            points.append(EntryPoint(group, name.strip(), target.partition("[")[0].replace(" ", ""), distribution))
    return points


def _name_and_version(directory: str) -> str:
    fields: dict[str, str] = {}
    for line in _text(os.path.join(directory, _METADATA[os.path.splitext(directory)[1]])).splitlines():
        if not line:
            break  # the description follows
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), value.strip())
    stem = os.path.basename(directory).rpartition(".")[0]
    return f"{fields.get('name') or stem} {fields.get('version', '')}".strip()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
