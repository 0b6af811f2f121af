"""Every line of --json is what docs/json says it is: the schemas, the pages and what the commands really print."""

from __future__ import annotations

import collections
import re

import pytest
from json_runs import JsonRuns
from support.json_schemas import COMMON, DIRECTORY, keys_of, schema_of

from kafkatools.commands import COMMANDS

ELSEWHERE = {"pipeline"}
"""Commands that run in tests of another directory, which hold their lines against the schemas themselves."""

SHARED_KEYS = {"*", "error", "note", "kind", "message", "exit", "hint"}
"""What README.md tells about for all commands."""

Seen = dict[str, collections.Counter[str]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> JsonRuns:
    runs = JsonRuns(tmp_path_factory.mktemp("json"))
    runs.everything()
    return runs


@pytest.fixture(scope="module")
def seen(runs: JsonRuns) -> Seen:
    """How often each kind of line occurs; every line is of some kind."""
    seen: Seen = {name: collections.Counter() for name in COMMANDS}
    wrong = []
    for command, _arguments, ran in runs.ran:
        for text, is_stderr in ((ran.out, False), (ran.err, True)):
            for line in text.splitlines():
                try:
                    seen[command][schema_of(command).kind_of(line, stderr=is_stderr)] += 1
                except (AssertionError, ValueError) as error:
                    wrong.append(str(error))
    assert not wrong, "\n\n".join(wrong)
    return seen


def page_of(command: str) -> str:
    return (DIRECTORY.parent / f"{schema_of(command).page}.md").read_text(encoding="utf-8")


def test_every_command_has_a_schema() -> None:
    assert {path.stem for path in DIRECTORY.glob("*.json")} == {*COMMANDS, COMMON}


@pytest.mark.slow  # runs every command
def test_every_command_is_run(seen: Seen) -> None:
    never = [name for name in COMMANDS if not seen[name] and name not in ELSEWHERE]
    assert set(never) == {"server-start", "mcp"}, "print nothing but errors, and messages of another protocol"


@pytest.mark.slow
@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ELSEWHERE])
def test_every_kind_of_line_occurs(command: str, seen: Seen) -> None:
    schema = schema_of(command)
    never = {*schema.lines, *schema.stderr} - {"error", "note"} - seen[command].keys()
    assert not never, f"json_runs.py has no run that prints {sorted(never)}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_key_stands_on_the_page(command: str) -> None:
    schema = schema_of(command)
    keys = {key for part in (schema.lines, schema.stderr) for line in part.values() for key in keys_of(line)}
    keys |= {key for table in schema.types.values() for key in keys_of(table)}
    missing = keys - set(re.findall(r"[\w.]+", page_of(command))) - SHARED_KEYS
    assert not missing, f"{schema_of(command).page}.md says nothing about {sorted(missing)}"


def test_the_index_names_every_page() -> None:
    index = (DIRECTORY.parent / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in DIRECTORY.parent.glob("*.md")} - {"README.md"}
    assert set(re.findall(r"\]\(([a-z-]+\.md)\)", index)) == pages


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("topics", '{"topic":"a"}'),
        ("topics", '{"topic":"a","created":true,"more":1}'),
        ("topics", '{"topic":null,"created":true}'),
        ("topics", '{"topic":"a","created":1}'),
        ("cluster", '{"id":true,"host":"h","port":1,"rack":null,"type":"broker"}'),
        ("cluster", '{"id":1,"host":"h","port":1,"rack":null,"type":"observer"}'),
        ("groups", "[]"),
        ("configs", '{"entity":{"topic":1},"altered":true}'),
        ("configs", '{"entity":{},"scram":{"SCRAM-SHA-256":{"iterations":"1"}}}'),
        ("server-start", "{}"),
    ],
)
def test_what_is_no_line(command: str, line: str) -> None:
    with pytest.raises(AssertionError, match=f"is no line of {command}.json"):
        schema_of(command).kind_of(line)
