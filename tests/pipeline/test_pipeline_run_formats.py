"""Values in Avro and Protobuf, written by their own libraries, from a topic through SQL: by a schema registry that asks
for a password, and by schema files."""

from __future__ import annotations

import base64
import json
import pathlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from support.avro_values import registered_value
from support.embedded import embedded_broker
from support.kt import Ran, run_kt

import kafkatools

pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf")

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
PROTO = 'syntax = "proto3";\nmessage Order { int64 id = 1; repeated string tags = 2; }\n'
USER = "reader:p@ss/word"


class Registry(BaseHTTPRequestHandler):
    """Schemas 1 and 2."""

    def do_GET(self) -> None:
        expected = f"Basic {base64.b64encode(USER.encode()).decode()}"
        schemas = {"/schemas/ids/1": OLD, "/schemas/ids/2": NEW}
        status, body = 404, {"error_code": 40403}
        if self.headers.get("Authorization") != expected:
            status, body = 401, {"error_code": 401}
        elif self.path in schemas:
            status, body = 200, {"schema": json.dumps(schemas[self.path])}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def bootstrap(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    order = b"\x08\x05\x12\x01a\x12\x01b"  # by protoc --encode: id: 5 tags: "a" tags: "b"
    with embedded_broker(tmp_path_factory.mktemp("formats")) as address:
        with kafkatools.Producer(bootstrap_servers=address) as producer:
            for value in (
                registered_value(1, OLD, {"id": 1}),
                registered_value(2, NEW, {"id": 2, "note": "x"}),
                b"\0\0\0\0\x09zz",
                b"plain",
                None,
            ):
                producer.send("avro", value)
            for value in (order, b"\xff\xff"):
                producer.send("proto", value)
        yield address


def run(bootstrap: str, directory: pathlib.Path, *words: str, status: int = 0) -> Ran:
    server = ("--bootstrap-server", bootstrap)
    ran = run_kt("pipeline", "run", *server, *words, "--to", "console:", "--json", cwd=directory)
    assert ran.status == status, ran
    return ran


def test_avro_by_a_registry(bootstrap: str, registry: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "user.properties").write_text(f"basic.auth.user.info={USER}\n")
    (tmp_path / "user.properties").chmod(0o600)
    words = ("--from", "topic:avro", "--value", "avro", "--schema-registry", f"http://{registry}")
    sql = ("--sql", "SELECT value.* FROM input ORDER BY offset")
    ran = run(bootstrap, tmp_path, *words, "--command-config", "user.properties", *sql)
    rows = [json.loads(line) for line in ran.out.splitlines()]
    nothing = {"id": None, "note": None}
    assert rows == [{"id": 1, "note": None}, {"id": 2, "note": "x"}, nothing, nothing, nothing]
    (source,) = json.loads(ran.err)["sources"]
    assert (source["bad_values"], source["values_with_unknown_fields"]) == (2, 0)
    refused = run(bootstrap, tmp_path, *words, *sql, status=1)
    assert json.loads(refused.err)["error"]["message"].startswith(f"http://{registry}/schemas/ids/")
    assert ": 401 " in refused.err
    strict = run(bootstrap, tmp_path, *words, "--command-config", "user.properties", *sql, "--strict", status=1)
    assert json.loads(strict.err)["error"]["message"] == "the value of avro-0 at offset 2 cannot be decoded as avro"


def test_protobuf_by_a_schema_file(bootstrap: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "order.proto").write_text(PROTO)
    words = ("--from", "topic:proto", "--value", "protobuf", "--value-schema", "order.proto")
    ran = run(bootstrap, tmp_path, *words, "--sql", "SELECT value FROM input ORDER BY offset")
    assert [json.loads(line)["value"] for line in ran.out.splitlines()] == [{"id": 5, "tags": ["a", "b"]}, None]
    (source,) = json.loads(ran.err)["sources"]
    assert (source["bad_values"], source["values_with_unknown_fields"]) == (1, None)
    wrong = run(bootstrap, tmp_path, *words, "--value-message", "Nix", status=1)
    assert json.loads(wrong.err)["error"]["message"] == "order.proto has no message Nix; its messages are Order"
