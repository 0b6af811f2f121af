"""The tools of `kt mcp` that plan a change, and the one that carries a plan out. They need --allow-changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from kafkatools.core.secrets import is_secret_name
from kafkatools.tools.mcp.arguments import ArgumentError
from kafkatools.tools.mcp.plans import FILES, VALID_SECONDS, Change
from kafkatools.tools.mcp.tool import ARRAY, BOOLEAN, INTEGER, OBJECT, Argument, Values

_MAX_DOCUMENT = 256 * 1024
_MAX_COUNT = 100_000
_TARGETS = {
    "earliest": "--to-earliest",
    "latest": "--to-latest",
    "offset": "--to-offset",
    "shift": "--shift-by",
    "duration": "--by-duration",
    "datetime": "--to-datetime",
}
_WITHOUT_VALUE = ("earliest", "latest")


class ChangingTool(NamedTuple):
    """A tool that plans a change. `make` returns the command lines for checked arguments, or raises ArgumentError."""

    name: str
    about: str
    arguments: tuple[Argument, ...]
    make: Callable[[Values], Change]


def _apply(values: Values) -> Change:
    name = f"document.{values['format']}"
    words = ("apply", f"{FILES}{name}")
    return Change((*words, "--dry-run"), (*words, "--yes"), {name: str(values["document"])})


def _create_topic(values: Values) -> Change:
    words = ["topics", "--create", f"--topic={values['topic']}"]
    for name in ("partitions", "replication-factor"):
        count = values.get(name.replace("-", "_"))
        words += [f"--{name}={count}"] if count is not None else []
    words += [f"--config={name}={value}" for name, value in _object(values, "configs").items()]
    return Change((*words, "--dry-run"), tuple(words))


def _alter_configs(values: Values) -> Change:
    settings, removed = _object(values, "set"), _array(values, "remove")
    if not settings and not removed:
        raise ArgumentError("One of the arguments 'set' and 'remove' is needed")
    for name in (*settings, *removed):
        _check_setting(name)
    is_default = bool(values.get("default"))
    if is_default == ("entity_name" in values):
        raise ArgumentError("Give either the argument 'entity_name' or 'default'")
    if is_default and values["entity_type"] != "brokers":
        raise ArgumentError("The argument 'default' is for entity_type brokers")
    words = ["configs", "--alter", f"--entity-type={values['entity_type']}"]
    words.append("--entity-default" if is_default else f"--entity-name={values['entity_name']}")
    if settings:
        words.append(f"--add-config-file={FILES}set.properties")
    if removed:
        words.append(f"--delete-config={','.join(removed)}")
    lines = "".join(f"{name}={_property_value(value)}\n" for name, value in settings.items())
    return Change((*words, "--dry-run"), tuple(words), {"set.properties": lines} if settings else {})


def _reset_offsets(values: Values) -> Change:
    words = ("consumer-groups", "--reset-offsets", f"--group={values['group']}")
    target = str(values["to"])
    if (target in _WITHOUT_VALUE) == ("value" in values):
        needs = "takes no" if target in _WITHOUT_VALUE else "needs the"
        raise ArgumentError(f"'to' {target} {needs} argument 'value'")
    topics = [f"--topic={topic}" for topic in _array(values, "topics")] or ["--all-topics"]
    option = _TARGETS[target] if target in _WITHOUT_VALUE else f"{_TARGETS[target]}={values['value']}"
    planned = (*words, f"--from-file={FILES}offsets.jsonl")
    return Change(
        (*words, *topics, option, "--dry-run"),
        (*planned, "--execute", "--no-undo-file"),
        check=(*planned, "--dry-run"),
        rows_file="offsets.jsonl",
    )


def _object(values: Values, name: str) -> dict[str, str]:
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def _array(values: Values, name: str) -> list[str]:
    value = values.get(name)
    return value if isinstance(value, list) else []


def _check_setting(name: str) -> None:
    """Raise ArgumentError for a name that cannot be a setting, and for one that may hold a secret."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,250}", name):
        raise ArgumentError("A name in 'set' or 'remove' is not the name of a setting")
    if is_secret_name(name):
        raise ArgumentError(f"{name} may hold a secret: a person has to change it, with kt configs")


def _property_value(text: str) -> str:
    """Return a value as a properties file holds it."""
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    return re.sub(r"[\\\n\r\t\f]|^ ", lambda match: escapes.get(match[0], "\\ "), text)


CHANGING_TOOLS = (
    ChangingTool(
        "plan_apply",
        "Plan changes of topics, ACLs and quotas from a document of kt apply, in TOML or YAML. Rows list dangers, such "
        "as records that a smaller retention deletes. Nothing that the document leaves out is deleted. Users are "
        "refused, since their passwords come from files and variables.",
        (
            Argument("document", "The document.", required=True, max_text=_MAX_DOCUMENT),
            Argument("format", "Format of the document.", required=True, choices=("toml", "yaml")),
        ),
        _apply,
    ),
    ChangingTool(
        "plan_create_topic",
        "Plan a new topic.",
        (
            Argument("topic", "Name of the topic.", required=True),
            Argument(
                "partitions",
                "Number of partitions. Default: that of the brokers.",
                INTEGER,
                minimum=1,
                maximum=_MAX_COUNT,
            ),
            Argument("replication_factor", "Replicas of each partition.", INTEGER, minimum=1, maximum=32767),
            Argument("configs", "Settings of the topic: names and values, also with units (7d, 1GiB).", OBJECT),
        ),
        _create_topic,
    ),
    ChangingTool(
        "plan_alter_configs",
        "Plan other settings of a topic, broker or group. For topics plan_apply also lists dangers, such as a smaller "
        "retention, which deletes records.",
        (
            Argument("entity_type", "Type of the entity.", required=True, choices=("topics", "brokers", "groups")),
            Argument("entity_name", "Name of the entity."),
            Argument("default", "With brokers: the default of all brokers instead of an entity.", BOOLEAN),
            Argument("set", "Settings to change: names and values, also with units (7d, 1GiB).", OBJECT),
            Argument("remove", "Settings to reset to their defaults.", ARRAY),
        ),
        _alter_configs,
    ),
    ChangingTool(
        "plan_reset_offsets",
        "Plan other committed offsets of a consumer group without members. The offsets of the plan are committed, "
        "also if records arrive meanwhile.",
        (
            Argument("group", "The group.", required=True),
            Argument("topics", "Topics, or topic:0,1 for some partitions. Default: all with offsets.", ARRAY),
            Argument("to", "Where the group continues.", required=True, choices=tuple(_TARGETS)),
            Argument(
                "value",
                "Of 'to': an offset, a number to shift by, a duration before now such as 2h, or a time such as "
                "2026-01-31T13:45:00.000 (UTC).",
            ),
        ),
        _reset_offsets,
    ),
)

CARRY_OUT = "carry_out"
CARRY_OUT_ABOUT = (
    "Carry out a plan that was shown to a person and approved. The token of the plan works once, for "
    f"{VALID_SECONDS // 60} minutes, and only if the cluster is as it was when the plan was made."
)
CARRY_OUT_ARGUMENTS = (Argument("token", "The token of the plan.", required=True, max_text=64),)
