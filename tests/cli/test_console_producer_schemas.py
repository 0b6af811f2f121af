"""kt console-producer --value-schema: recorded answers of a real registry, and lines that a schema does not allow."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.schema_registry import Answer, Request, recorded, serving
from support.schema_stories import ORDER, Story

pytest.importorskip("fastavro")


def respond(request: Request) -> Answer:
    schema = json.dumps(ORDER)
    if request.path == "/subjects/orders-value":
        return Answer(200, json.dumps({"subject": "orders-value", "version": 1, "id": 1, "schema": schema}))
    is_known = request.path in ("/schemas/ids/1", "/subjects/s/versions/2")
    return Answer(200, json.dumps({"id": 1, "schema": schema})) if is_known else Answer(404, '{"error_code": 40403}')


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(respond) as server:
        yield server.url


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("data")) as address:
        yield address


def produce(bootstrap: str, url: str, topic: str, *words: str, stdin: object, home: pathlib.Path) -> Ran:
    server = ("--bootstrap-server", bootstrap, "--topic", topic, "--schema-registry", url)
    return run_kt("console-producer", *server, *words, stdin=stdin, cwd=home, environ={"KT_HOME": str(home)})


def values(bootstrap: str, topic: str) -> list[bytes]:
    words = ("--topic", topic, "--from-beginning", "--exit-at-end", "--formatter-property", "print.key=true")
    return run_kt("console-consumer", "--bootstrap-server", bootstrap, *words).stdout.split(b"\n")[:-1]


@pytest.mark.slow
def test_files_of_schemas_against_a_recorded_registry(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("google.protobuf")
    pytest.importorskip("jsonschema")
    with recorded("encoding") as registry:
        Story(registry.url, tmp_path).encoding()


def test_keys_values_nulls_and_json_lines(bootstrap: str, url: str, tmp_path: pathlib.Path) -> None:
    reader = [f"--reader-property={one}" for one in ("parse.key=true", "null.marker=NULL", "key.separator=|")]
    stdin = b'{"id":1}|{"id":2}\n{"id":1}|NULL\n'
    ran = produce(
        bootstrap, url, "pairs", "--key-schema", "1", "--value-schema", "s:2", *reader, stdin=stdin, home=tmp_path
    )
    assert ran.status == 0, ran
    head = b"\0\0\0\0\1"
    assert values(bootstrap, "pairs") == [head + b"\2\0\t" + head + b"\4\0", head + b"\2\0\tnull"]
    line = json.dumps({"key": "plain", "value": '{"id": 3, "note": {"string": "x"}}', "headers": [["h", "1"]]}).encode()
    assert produce(bootstrap, url, "j", "--json", "--value-schema", "1", stdin=line, home=tmp_path).status == 0
    assert values(bootstrap, "j") == [b"plain\t" + head + b"\6\2\2x"]


@pytest.mark.slow
def test_an_invalid_line_of_a_file_sends_nothing(bootstrap: str, url: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "lines.json"
    path.write_bytes(b'{"id": 1}\n' * 50_000 + b'{"id": "x"}\n')
    with open(path, "rb") as file:
        ran = produce(bootstrap, url, "file", "--value-schema", "1", stdin=file, home=tmp_path)
    assert ran.status == 1 and "Line 50001, value: field id: expected a long, not a string" in ran.err
    assert "0 sent, 0 failed" in ran.err


def test_an_invalid_line_of_a_pipe_sends_none_of_those_read_with_it(
    bootstrap: str, url: str, tmp_path: pathlib.Path
) -> None:
    stdin = b'{"id": 1}\n{"id": 2, "nix": 1}\n{"id": 3}\n'
    ran = produce(bootstrap, url, "pipe", "--value-schema", "1", stdin=stdin, home=tmp_path)
    assert ran.status == 1 and 'Line 2, value: shop.Order has no field "nix"' in ran.err and "0 sent" in ran.err
    ignoring = ("--value-schema", "1", "--reader-property", "ignore.error=true")
    ran = produce(bootstrap, url, "pipe", *ignoring, stdin=stdin, home=tmp_path)
    assert ran.status == 1 and "2 sent, 1 failed" in ran.err and "Line 2, value" in ran.err


@pytest.mark.parametrize(
    ("words", "error", "status"),
    [
        (("--value-schema", "9"), "The registry has no schema 9", 1),
        (("--value-schema", "nix"), "The registry has no subject nix", 1),
        (("--value-schema", "s:3"), "The registry has no version 3 of s", 1),
        (("--value-schema", "gone.avsc"), "gone.avsc cannot be read: No such file", 1),
        (("--value-schema", "broken.avsc"), "broken.avsc is not JSON", 1),
        (("--value-schema", "wrong.avsc"), "wrong.avsc is not a valid Avro schema", 1),
        (("--value-schema", "int.avsc", "--subject-strategy", "record"), "int.avsc has no record name", 2),
        (("--value-schema", "int.avsc", "--subject-strategy", "most"), "--subject-strategy may be", 2),
        (("--key-schema", "1"), "--key-schema needs lines with keys", 2),
        (("--register-schemas",), "--schema-registry needs --value-schema or --key-schema", 2),
    ],
)
def test_schemas_that_are_not_there(
    bootstrap: str, url: str, tmp_path: pathlib.Path, words: tuple[str, ...], error: str, status: int
) -> None:
    for name, text in (("broken.avsc", "{"), ("wrong.avsc", '{"type": "nix"}'), ("int.avsc", '"int"')):
        (tmp_path / name).write_text(text)
    ran = produce(bootstrap, url, "none", *words, stdin=b"1\n", home=tmp_path)
    assert (ran.status, error in ran.err) == (status, True), ran
    assert "sent" not in ran.err


def test_a_registry_that_is_down_sends_nothing(bootstrap: str, tmp_path: pathlib.Path) -> None:
    ran = produce(bootstrap, "http://127.0.0.1:1", "none", "--value-schema", "1", stdin=b"1\n", home=tmp_path)
    assert ran.status == 1 and "http://127.0.0.1:1 does not answer: Connection refused" in ran.err
    words = ("--bootstrap-server", bootstrap, "--topic", "none", "--value-schema", "1")
    assert run_kt("console-producer", *words).status == 2
