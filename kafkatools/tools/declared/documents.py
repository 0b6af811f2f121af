"""Read TOML and YAML files to trees of nodes that know their lines.

YAML is composed, not loaded: nodes have line numbers, a key that occurs twice is an error, and nothing in a file can
create objects. TOML's parser gives no line numbers, except in its own errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.install_command import install_command
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.tools.declared.model import Place

if TYPE_CHECKING:
    from yaml import Node as YamlNode
    from yaml import SafeLoader
    from yaml.events import Event

TOML, YAML = "toml", "yaml"
_MOST_LEVELS = 100
SUFFIXES = {".toml": TOML, ".yaml": YAML, ".yml": YAML}


class Node(NamedTuple):
    """A value with its place. `value`: a dict of nodes, a list of nodes, or a scalar of Python."""

    value: object
    place: Place

    def error(self, problem: str, hint: str = "") -> CommandError:
        """The error that this value is invalid, with its place."""
        return invalid(f"{self.place}: {problem}", hint)


def invalid(message: str, hint: str = "") -> CommandError:
    """The error of a file: exit status 2, since nothing was changed."""
    return CommandError(message, ExitStatus.USAGE, hint, kind="CONFIG_ERROR")


def read_documents(path: str) -> list[Node]:
    """The documents of a file, without empty ones. Raises CommandError that names file and line for an unreadable or
    invalid file, an unknown suffix and a missing YAML library."""
    suffix = path[path.rfind(".") :].lower() if "." in path else ""
    if suffix not in SUFFIXES:
        raise invalid(f"{path}: the name must end in .toml, .yaml or .yml")
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except OSError as error:
        raise invalid(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise invalid(f"{path} is not UTF-8 text: byte {error.start}") from None
    return list(_toml(path, text) if SUFFIXES[suffix] == TOML else _yaml(path, text))


def child_path(path: str, key: str) -> str:
    """The path of a key below a path; keys with other characters than letters, digits, `_` and `-` are quoted."""
    plain = key if key and key.replace("-", "").replace("_", "").isalnum() else f'"{key}"'
    return f"{path}.{plain}" if path else plain


# -- TOML --


def _toml(path: str, text: str) -> Iterator[Node]:
    import tomllib

    try:
        tree = tomllib.loads(text)
        if tree:
            yield _of_toml(path, "", tree)
    except tomllib.TOMLDecodeError as error:
        raise invalid(f"{path}: {error}") from None
    except RecursionError:
        raise invalid(f"{path}: the values are nested too deeply") from None


def _of_toml(file: str, path: str, value: object) -> Node:
    place = Place(file, None, path)
    if isinstance(value, dict):
        return Node({key: _of_toml(file, child_path(path, key), item) for key, item in value.items()}, place)
    if isinstance(value, list):
        return Node([_of_toml(file, f"{path}[{index}]", item) for index, item in enumerate(value)], place)
    return Node(value, place)


# -- YAML --


def _yaml(path: str, text: str) -> Iterator[Node]:
    try:
        import yaml
    except ImportError:
        raise invalid(f"{path}: YAML needs the Python package PyYAML: {install_command('yaml')}") from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        _ensure_shallow(path, yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        while loader.check_node():
            root = loader.get_node()
            if not (isinstance(root, yaml.ScalarNode) and loader.construct_object(root) is None):
                yield _YamlTree(path, loader).node(root, "")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # Newer versions of PyYAML have a bound of their own.
        if mark is not None and "nesting depth" in str(error.problem):
            raise _too_deep(path, mark.line) from None
        line = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        raise invalid(f"{path}{line}: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise invalid(f"{path}: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise invalid(f"{path}: the values are nested too deeply") from None
    finally:
        loader.dispose()


def _ensure_shallow(path: str, events: Iterable[Event]) -> None:
    """Raise the error of values that are nested too deeply: the library composes nodes by recursion in C, so a file of
    brackets would end the process."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind in ("MappingStartEvent", "SequenceStartEvent")
        depth -= kind in ("MappingEndEvent", "SequenceEndEvent")
        if depth > _MOST_LEVELS:
            raise _too_deep(path, event.start_mark.line)


def _too_deep(path: str, line: int) -> CommandError:
    return invalid(f"{path}, line {line + 1}: the values are nested too deeply")


class _YamlTree:
    """Converts the composed nodes of one YAML document. An alias is converted once for each use, so that each use has
    its own path. Their number is bounded, since aliases of aliases grow without bound."""

    _MOST_REPEATS = 100_000

    def __init__(self, file: str, loader: SafeLoader) -> None:
        self._file = file
        self._loader = loader
        self._seen: set[int] = set()  # ids of nodes
        self._repeats = 0
        self._flattened: set[int] = set()  # ids of mappings whose `<<` is replaced by the merged keys

    def node(self, node: YamlNode, path: str) -> Node:
        """Convert a node and its children."""
        place = Place(self._file, node.start_mark.line + 1, path)
        self._repeats += id(node) in self._seen
        self._seen.add(id(node))
        if self._repeats > self._MOST_REPEATS:
            raise invalid(f"{self._file}: its aliases stand for more than {self._MOST_REPEATS} values")
        if node.id == "mapping":
            if id(node) not in self._flattened:  # else its merged keys look like keys of its own
                self._ensure_distinct_keys(node, place)
                self._loader.flatten_mapping(node)
                self._flattened.add(id(node))
            pairs = ((self._key(key, place), item) for key, item in node.value)
            return Node({key: self.node(item, child_path(path, key)) for key, item in pairs}, place)
        if node.id == "sequence":
            items = enumerate(node.value)
            return Node([self.node(item, f"{path}[{index}]") for index, item in items], place)
        try:
            return Node(self._loader.construct_object(node), place)
        except ValueError as error:  # such as the date 2026-02-31
            raise invalid(f"{place}: {error}") from None

    def _ensure_distinct_keys(self, node: YamlNode, place: Place) -> None:
        """Raise the error of a key that a mapping has twice; keys that `<<` merges may be overridden."""
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            name, line = self._key(key, place), key.start_mark.line + 1
            if name in lines:
                where = Place(self._file, line, child_path(place.path, name))
                raise invalid(f"{where}: the key is already in line {lines[name]}")
            lines[name] = line

    def _key(self, key: YamlNode, place: Place) -> str:
        """The text of a key as it is written: a topic may be called 1 or yes."""
        if key.id != "scalar":
            line = key.start_mark.line + 1
            raise invalid(f"{Place(self._file, line, place.path)}: a key must be text")
        return str(key.value)
