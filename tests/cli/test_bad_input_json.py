"""JSON that the parser refuses, in every file of a command line that holds JSON and in the schemas of a registry: an
error that names the file or schema, never an internal error."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence

import pytest
from support.kt import Ran, run_kt
from support.schema_registry import Answer, Request, serving

NESTED, NUMBER = "nested too deeply", "a number has more than 4300 digits"
TEXTS = {NESTED: '{"a":' * 100_000, NUMBER: '{"a": ' + "9" * 5_000 + "}"}
REASONS = list(TEXTS)


def failed(ran: Ran, reason: str, place: str) -> None:
    assert ran.status in (1, 2), ran
    assert "internal error" not in ran.err
    assert reason in ran.err and place in ran.err


@pytest.fixture(params=REASONS, ids=["nested", "digits"])
def reason(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    "command",
    [
        ("configs", "--from-file"),
        ("acls", "--from-file"),
        ("apply", "--undo"),
        ("consumer-groups", "--group", "g", "--reset-offsets", "--dry-run", "--from-file"),
        ("reassign-partitions", "--execute", "--reassignment-json-file"),
        ("leader-election", "--election-type", "preferred", "--path-to-json-file"),
        ("delete-records", "--offset-json-file"),
    ],
    ids=lambda command: command[0],
)
def test_a_file_of_a_change(bootstrap: str, tmp_path: pathlib.Path, command: Sequence[str], reason: str) -> None:
    path = tmp_path / "changes.json"
    path.write_text(TEXTS[reason] + "\n")
    failed(run_kt(command[0], "--bootstrap-server", bootstrap, *command[1:], str(path)), reason, str(path))


def test_an_offset_of_many_digits_in_a_csv_plan(bootstrap: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("t,0," + "9" * 5_000 + "\n")
    words = ("--group", "g", "--reset-offsets", "--dry-run", "--from-file", str(path))
    ran = run_kt("consumer-groups", "--bootstrap-server", bootstrap, *words)
    failed(ran, "is not a number or none", f"{path}, line 1")


@pytest.mark.parametrize("name", ["s.avsc", "s.json"])
@pytest.mark.parametrize("command", [("register", "s"), ("check", "s")], ids=["register", "check"])
def test_a_schema_file(tmp_path: pathlib.Path, name: str, command: Sequence[str], reason: str) -> None:
    path = tmp_path / name
    path.write_text(TEXTS[reason])
    with serving(lambda request: Answer(200, "{}")) as registry:
        ran = run_kt("schemas", *command, "--schema", str(path), "--schema-registry", registry.url)
        assert registry.requests == []
    failed(ran, reason, f"{path} is not JSON")


def registered(schema: str, kind: str = "JSON", references: Sequence[object] = ()) -> Answer:
    fields = {"id": 1, "version": 1, "subject": "s", "schemaType": kind, "schema": schema, "references": references}
    return Answer(200, json.dumps(fields))


def produce(bootstrap: str, url: str, line: bytes) -> Ran:
    words = ("--topic", "t", "--value-schema", "1", "--schema-registry", url)
    return run_kt("console-producer", "--bootstrap-server", bootstrap, *words, stdin=line)


def test_a_schema_of_a_registry_is_shown_as_it_is(reason: str) -> None:
    with serving(lambda request: registered(TEXTS[reason])) as registry:
        ran = run_kt("schemas", "show", "s", "--schema-registry", registry.url)
    assert ran.status == 0
    assert ran.out == TEXTS[reason] + "\n"


def test_a_schema_that_another_one_references(bootstrap: str, reason: str) -> None:
    def answer(request: Request) -> Answer:
        if "/ids/1" in request.path:
            return registered("{}", references=[{"name": "other.json", "subject": "o", "version": 1}])
        return registered(TEXTS[reason])

    with serving(answer) as registry:
        failed(produce(bootstrap, registry.url, b"1\n"), reason, "other.json, which schema 1 references, is not JSON")


def test_a_number_with_an_exponent_beyond_decimal(bootstrap: str) -> None:
    with serving(lambda request: registered('"double"', kind="AVRO")) as registry:
        ran = produce(bootstrap, registry.url, b"1e99999999999999999999\n")
    failed(ran, "not JSON: the exponent of a number is too large", "Line 1, value")
