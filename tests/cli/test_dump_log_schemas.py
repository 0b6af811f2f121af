"""kt dump-log --schema-registry: keys and values of segment files as JSON, and what cannot be decoded."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import subprocess
import sys

import pytest
from support.kt import Ran, run_kt
from support.schema_registry import Answer, Request, serving
from support.schema_stories import ORDER

from kafkatools.core.records.builder import BatchBuilder

pytest.importorskip("fastavro")

VALUES = (b"\0\0\0\0\1\x0e\0", None, b"plain", b"\0\0\0\0\1\x0e")


def respond(request: Request) -> Answer:
    known = request.path == "/schemas/ids/1"
    return Answer(200, json.dumps({"schema": json.dumps(ORDER)})) if known else Answer(404, '{"error_code": 40403}')


@pytest.fixture
def segment(tmp_path: pathlib.Path) -> pathlib.Path:
    builder = BatchBuilder(4096)
    for value in VALUES:
        builder.append(1_700_000_000_000, b"key", value)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(builder.close()))
    return path


def dump(segment: pathlib.Path, url: str, *words: str) -> Ran:
    words = ("--files", str(segment), "--schema-registry", url, *words)
    return run_kt("dump-log", *words, environ={"KT_HOME": str(segment.parent)})


def test_values_are_json_and_others_stay_as_they_are(segment: pathlib.Path) -> None:
    with serving(respond) as server:
        ran = dump(segment, server.url)
        assert ran.status == 1
        assert 'key: key payload: {"id":7,"note":null}\n' in ran.out and "payload: plain\n" in ran.out
        assert "2 keys or values were not decoded and stayed as they were:" in ran.err
        assert f"\n{segment}: offset 2: value not decoded: it does not begin with byte 0 and a schema ID" in ran.err
        assert "offset 3: value not decoded: it is not of schema 1" in ran.err
        rows = [json.loads(line) for line in dump(segment, server.url, "--json").out.splitlines()]
        decoded = [row["decoded_value"] for row in rows if row["type"] == "record"]
        assert decoded == [{"id": 7, "note": None}, None, "plain", "\0\0\0\0\1\x0e"]
        assert len(server.requests) == 2, "each run asks once"


def test_reports_are_not_in_the_middle_of_a_line(segment: pathlib.Path) -> None:
    command = (sys.executable, "-m", "kafkatools", "dump-log", "--files", str(segment))
    environ = {**os.environ, "KT_HOME": str(segment.parent)}
    ran = subprocess.run(
        (*command, "--schema-registry", "http://127.0.0.1:1"), env=environ, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    reports = [line for line in ran.stdout.splitlines() if "does not answer" in line]
    assert reports[0] == "Records are not decoded: http://127.0.0.1:1 does not answer: Connection refused"


@pytest.mark.parametrize("words", [("--offsets-decoder",), ("--value-decoder-class", "LongDecoder")])
def test_other_decoders_are_refused(segment: pathlib.Path, words: tuple[str, ...]) -> None:
    with serving(respond) as server:
        ran = dump(segment, server.url, *words)
        assert (ran.status, ran.out, server.requests) == (2, "", [])
    assert ran.err.startswith(f"{words[0]} cannot be used with --schema-registry or --decode\n")


def test_a_registry_that_is_down_and_a_bad_address(segment: pathlib.Path) -> None:
    ran = dump(segment, "http://127.0.0.1:1")
    assert ran.status == 1 and "http://127.0.0.1:1 does not answer: Connection refused" in ran.err
    assert dump(segment, "nowhere").status == 2


def test_address_and_credentials_of_a_profile(segment: pathlib.Path) -> None:
    with serving(respond) as server:
        (segment.parent / "config.toml").write_text(
            '[profiles.p]\nbootstrap_servers = "localhost:1"\n[profiles.p.settings]\n'
            f'"schema.registry.url" = "{server.url}"\n"basic.auth.user.info" = "user:word"\n'
        )
        environ = {"KT_HOME": str(segment.parent), "KT_CONFIG": str(segment.parent / "config.toml")}
        for words in (("--decode", "value"), ("--schema-registry", server.url)):
            ran = run_kt("--profile", "p", "dump-log", "--files", str(segment), *words, environ=environ)
            assert ran.status == 1 and 'payload: {"id":7,"note":null}\n' in ran.out, ran
        credentials = "Basic " + base64.b64encode(b"user:word").decode()
        assert [request.headers["Authorization"] for request in server.requests] == [credentials] * len(server.requests)
        keys = run_kt("--profile", "p", "dump-log", "--files", str(segment), "--decode", "key", environ=environ)
        assert "value not decoded" not in keys.err and '"id":7' not in keys.out
    assert run_kt("dump-log", "--files", str(segment), "--decode", "all").status == 2
    missing = run_kt("dump-log", "--files", str(segment), "--decode", "both")
    assert missing.status == 2 and "Missing the address of the schema registry" in missing.err
