"""examples/plugin: pip installs it into a new environment, and `kt` there has its command, formatter and storage."""

from __future__ import annotations

import importlib
import json
import pathlib
from typing import Any

import pytest
from support.plugin_environment import ROOT, PluginEnvironment

import kafkatools


@pytest.fixture
def sqlite_storage(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's storage, of a file that does not exist."""
    monkeypatch.syspath_prepend(ROOT / "examples" / "plugin")
    return importlib.import_module("kafkatools_example.sqlite_storage").SqliteStorage(
        f"sqlite://{tmp_path}/a%20b%3f.db"
    )


def test_sqlite_storage_reads_what_it_wrote_and_creates_no_file_otherwise(
    tmp_path: pathlib.Path, sqlite_storage: Any
) -> None:
    assert (sqlite_storage.sizes(""), sqlite_storage.directories("")) == ({}, [])
    for call in (sqlite_storage.read, sqlite_storage.remove):
        with pytest.raises(FileNotFoundError):
            call("orders/0")
    assert list(tmp_path.iterdir()) == []
    sqlite_storage.write("orders/0", b"12345")
    assert [path.name for path in tmp_path.iterdir()] == ["a b?.db"]
    assert (sqlite_storage.directories(""), sqlite_storage.sizes("orders")) == (["orders"], {"0": 5})
    assert sqlite_storage.read("orders/0") == b"12345"
    sqlite_storage.remove("orders/0")
    with pytest.raises(FileNotFoundError):
        sqlite_storage.read("orders/0")


def test_sqlite_storage_without_its_table_is_empty(tmp_path: pathlib.Path, sqlite_storage: Any) -> None:
    (tmp_path / "a b?.db").touch()  # as by another thread, before it creates the table
    assert (sqlite_storage.sizes(""), sqlite_storage.directories("")) == ({}, [])
    with pytest.raises(FileNotFoundError):
        sqlite_storage.read("orders/0")
    sqlite_storage.remove("orders/0")
    sqlite_storage.write("orders/0", b"1")
    assert sqlite_storage.read("orders/0") == b"1"


@pytest.mark.slow
def test_the_example_is_installed_and_used(tmp_path: pathlib.Path) -> None:
    environment = PluginEnvironment(tmp_path)
    assert environment.kt("empty-topics").returncode == 2
    environment.install(ROOT / "examples" / "plugin")
    assert "List the topics without records. (kafkatools-example 1.0)" in " ".join(
        environment.kt("--help").stdout.split()
    )
    with kafkatools.EmbeddedBroker() as broker:
        servers = ("--bootstrap-server", broker.bootstrap)
        with kafkatools.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(["empty", "orders"])
            with kafkatools.Producer(bootstrap_servers=broker.bootstrap) as producer:
                producer.send("orders", b"4 boxes", key=b"alice").result()
            home = {"KT_HOME": str(tmp_path / "home")}
            assert environment.kt("empty-topics", *servers, environ=home).stdout == "empty\n"
            deleted = environment.kt("empty-topics", *servers, "--delete", "--json", environ=home)
            assert json.loads(deleted.stdout) == {"topic": "empty", "deleted": True}, deleted.stderr
            assert [topic.name for topic in admin.list_topics()] == ["orders"]
            entries = environment.kt("undo", "list", "--json", environ=home).stdout.splitlines()
            assert ["empty-topics" in json.loads(entry)["command"] for entry in entries] == [True]

        read = ("console-consumer", *servers, "--topic", "orders", "--from-beginning", "--exit-at-end")
        printed = environment.kt(*read, "--formatter", "logfmt").stdout
        assert printed == 'topic=orders partition=0 offset=0 key="alice" value="4 boxes"\n'
        wrong = environment.kt(*read, "--formatter", "logfmt", "--formatter-property", "fields=colour")
        assert (wrong.returncode, wrong.stderr.splitlines()[0]) == (
            2,
            "logfmt: fields has no colour; it may name "
            + ("topic, partition, offset, timestamp, timestamp_type, key, value, headers, delivery_count"),
        )

        misspelt = environment.kt(*read, "--formatter", "logfmt", "--formatter-property", "field=offset")
        assert misspelt.returncode == 2
        assert misspelt.stderr.startswith("logfmt: there is no property field; the only one is fields\n")

        url = f"sqlite://{tmp_path / 'backups' / 'prod.db'}"
        absent = environment.kt("backup", "verify", url)
        assert (absent.returncode, absent.stderr) == (1, f"{url} is no backup: it has no manifest\n")
        assert not (tmp_path / "backups").exists()
        backup = environment.kt("backup", "--to", url, *servers)
        assert backup.stdout.startswith("Generation 1: 1 topic, 1 partition"), backup.stderr
        assert environment.kt("backup", "verify", url, "--against", broker.bootstrap).returncode == 0
        restored = environment.kt("restore", "--from", url, *servers, "--rename", "orders=copy")
        assert restored.returncode == 0, restored.stderr
        assert environment.kt(*(word if word != "orders" else "copy" for word in read)).stdout == "4 boxes\n"
