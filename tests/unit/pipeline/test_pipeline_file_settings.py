"""Which client settings a pipeline file's sources have: their own, those of the command line, and those of the file."""

from __future__ import annotations

import pathlib

import pytest
from support.kt import run_kt

from kafkatools.commands.pipeline import COMMAND
from kafkatools.commands.pipeline.run import _values, _with_credentials
from kafkatools.options.parser import parse
from kafkatools.pipeline.types import PipelineValues

NOWHERE = "127.0.0.1:1"
OF_FILE = 'from = "topic:a"\ncommand-config = "file.properties"\n'
OF_TABLE = '[sources.a]\nfrom = "topic:a"\ncommand-config = "table.properties"\n'


@pytest.mark.parametrize(
    ("text", "options", "read"),
    [
        (OF_FILE, ("--bootstrap-server", NOWHERE), "file.properties"),
        (OF_FILE + f'bootstrap-server = "{NOWHERE}"\n', (), "file.properties"),
        (OF_FILE + f'bootstrap-server = "{NOWHERE}"\n', ("--command-config", "line.properties"), "line.properties"),
        (OF_TABLE, ("--bootstrap-server", NOWHERE), "table.properties"),
        (OF_TABLE, ("--bootstrap-server", NOWHERE, "--command-config", "line.properties"), "table.properties"),
    ],
)
def test_the_settings_of_a_source(text: str, options: tuple[str, ...], read: str, tmp_path: pathlib.Path) -> None:
    """The file is missing, which is an error before a broker is asked."""
    (tmp_path / "job.toml").write_text(f'to = "console:"\n{text}')
    ran = run_kt("pipeline", "run", "job.toml", *options, cwd=tmp_path)
    assert ran.status == 1 and read in ran.err, ran


def test_each_schema_registry_gets_the_credentials_of_its_source(tmp_path: pathlib.Path) -> None:
    def properties(name: str, password: str) -> str:
        (tmp_path / name).write_text(f"basic.auth.user.info=user:{password}\n")
        return str(tmp_path / name)

    _, args = parse(COMMAND, ["run", "job.toml", "--command-config", properties("line.properties", "line")])
    values: PipelineValues = {
        "sources": {
            "a": {"schema-registry": "http://a:81"},
            "b": {"schema-registry": "http://b:81", "command-config": properties("b.properties", "own")},
            "c": {"schema-registry": "http://me:mine@c:81"},
            "d": {"from": "topic:d"},
        }
    }
    sources = _with_credentials(args, values)["sources"]
    assert [sources[name].get("schema-registry") for name in "abcd"] == [
        "http://user:line@a:81", "http://user:own@b:81", "http://me:mine@c:81", None
    ]  # fmt: skip


def test_a_query_of_the_command_line_replaces_each_form_of_the_file(tmp_path: pathlib.Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('sql = "SELECT 1"\nfrom = "topic:a"\nto = "console:"\n')
    _, args = parse(COMMAND, ["run", str(job), "--sql-file", "query.sql"])
    values = _values(args)
    assert ("sql" in values, values["sql-file"], values["from"]) == (False, "query.sql", "topic:a")
    _, args = parse(COMMAND, ["run", str(job)])
    assert _values(args)["sql"] == "SELECT 1"
