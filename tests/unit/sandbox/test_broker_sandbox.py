"""The sandbox as processes: one per home, two starts meet, idle stop, private files. And what server-start refuses."""

import fcntl
import json
import os
import pathlib
import re
import socket
import stat
import threading
from collections.abc import Iterator

import pytest

from kafkatools import Admin, EmbeddedBroker
from kafkatools.core import config as tables
from kafkatools.core.broker.server.node_settings import meaningless, node_settings
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import Config
from kafkatools.core.config.topic import TOPIC_SYNONYMS
from kafkatools.core.errors import ConfigError
from kafkatools.sandbox import single as sandbox
from kafkatools.sandbox.run_files import RunFile, read_run_file


@pytest.fixture
def home(tmp_path: pathlib.Path) -> Iterator[str]:
    yield str(tmp_path / "home")
    sandbox.stop(str(tmp_path / "home"), SystemClock().sleep_ms)


def test_two_starts_at_once_make_one_broker_with_private_files(home: str) -> None:
    found: list[sandbox.SandboxInfo] = []
    said: list[str] = []
    options = sandbox.SandboxOptions(port=0)
    threads = [
        threading.Thread(target=lambda: found.append(sandbox.ensure_started(home, said.append, options)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({info.pid for info in found}) == 1
    assert sorted(info.started for info in found) == [False, False, True]
    assert said == [f"kt: started a sandbox broker on {found[0].bootstrap} (stop it with: kt sandbox stop)"]
    assert found[0].bootstrap.startswith("127.0.0.1:")
    for directory, _, files in os.walk(home):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700 or directory == home, directory
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode) == 0o600, name
    stopped = sandbox.stop(home, SystemClock().sleep_ms)
    assert stopped is not None
    assert os.path.exists(os.path.join(stopped.directory, ".kafka_cleanshutdown"))
    assert sandbox.status(home) is None
    assert sandbox.stop(home, SystemClock().sleep_ms) is None


def test_it_stops_by_itself_when_nobody_uses_it(home: str) -> None:
    info = sandbox.ensure_started(home, None, sandbox.SandboxOptions(port=0, idle_ms=1))
    clock = SystemClock()
    deadline = clock.now_ms() + 20_000
    while sandbox.status(home) is not None and clock.now_ms() < deadline:
        clock.sleep_ms(20)
    assert sandbox.status(home) is None
    assert os.path.exists(os.path.join(info.directory, ".kafka_cleanshutdown"))


def test_an_embedded_broker_keeps_its_data_if_its_port_is_taken_for_a_while() -> None:
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics("kept")
        broker.kill()
        with (
            socket.create_server(("127.0.0.1", int(broker.bootstrap.rpartition(":")[2]))),
            pytest.raises(sandbox.SandboxError, match="in use"),
        ):
            broker.start()
        broker.start()
        assert [topic.name for topic in admin.list_topics()] == ["kept"]
        directory = broker.directory
    assert not os.path.exists(directory)


def test_a_setting_that_is_wrong_is_said_to_the_one_who_started_it(home: str) -> None:
    with pytest.raises(sandbox.SandboxError, match="Invalid value none for configuration num.partitions"):
        sandbox.ensure_started(home, None, sandbox.SandboxOptions(port=0, settings={"num.partitions": "none"}))
    assert sandbox.status(home) is None


def test_the_directory_of_a_running_broker_is_refused(home: str, tmp_path: pathlib.Path) -> None:
    info = sandbox.ensure_started(home, None, sandbox.SandboxOptions(port=0))
    with pytest.raises(sandbox.SandboxError, match="Failed to acquire lock on file .lock in"):
        sandbox.ensure_started(str(tmp_path / "other"), None, sandbox.SandboxOptions(port=0, directory=info.directory))


def test_the_file_of_a_broker_that_was_killed_counts_for_nothing(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "run" / "1.json")
    held = RunFile(path)
    assert read_run_file(path) is None  # locked, not yet written
    held.write({"pid": 5})
    assert read_run_file(path) == {"pid": 5}
    with pytest.raises(OSError, match="unavailable"):
        RunFile(path)
    held.remove()
    (tmp_path / "run" / "2.json").write_text(json.dumps({"pid": 6}))
    assert read_run_file(str(tmp_path / "run" / "2.json")) is None


def test_a_run_file_of_a_killed_broker_is_not_read_as_that_of_the_next(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"pid": 4}')
    held = RunFile(str(path))
    assert read_run_file(str(path)) is None
    held.remove()


def test_a_run_file_that_is_removed_while_it_is_opened_is_made_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "run.json")
    earlier = [RunFile(path)]
    lock = fcntl.flock

    def lock_after_the_end(descriptor: int, operation: int) -> None:
        while earlier:
            earlier.pop().remove()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_after_the_end)
    held = RunFile(path)
    held.write({"pid": 5})
    assert read_run_file(path) == {"pid": 5}
    held.remove()


BASE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "log.dirs": "/d",
    "controller.listener.names": "CONTROLLER",
}


def test_a_properties_file_of_apache_kafka_is_understood() -> None:
    values = {
        **BASE,
        "listeners": "PLAINTEXT://127.0.0.1:9192,CONTROLLER://127.0.0.1:9193",
        "num.io.threads": "8",
        "my.own": "1",
    }
    config = Config(tables.BROKER, values, allow_unknown=True)
    settings = node_settings(config)
    assert (settings.host, settings.port, settings.listener_name, settings.is_loopback) == (
        "127.0.0.1",
        9192,
        "PLAINTEXT",
        True,
    )
    assert meaningless(config) == ["my.own", "num.io.threads"]


@pytest.mark.slow
def test_a_setting_that_the_broker_reads_is_not_called_meaningless() -> None:
    """`config.transaction_max_timeout_ms`, or `"transaction.max.timeout.ms"`, in its source."""
    source = "".join(
        path.read_text()
        for folder in ("broker", "log")
        for path in (pathlib.Path(tables.__file__).parent.parent / folder).rglob("*.py")
        if path.name not in ("broker_settings.py", "dynamic_checks.py")  # they list names that have rules of their own
    )
    read = {
        setting.name
        for setting in tables.BROKER
        if re.search(rf"[.]{setting.name.replace('.', '_')}\b", source) or f'"{setting.name}"' in source
    }
    assert "transaction.max.timeout.ms" in read
    of_topics = {synonym.name for synonyms in TOPIC_SYNONYMS.values() for synonym in synonyms}
    used = {setting.name for setting in tables.BROKER if setting.is_used}
    assert read - used - of_topics == set()


def test_share_assignors_is_the_only_group_setting_without_effect() -> None:
    """The broker puts their names together: `group.{type}.{name}`."""

    def text(value: object) -> str:
        return ",".join(value) if isinstance(value, list | tuple) else str(value)

    names = [setting.name for setting in tables.BROKER if not setting.internal]
    of_groups = [name for name in names if name.startswith(("group.consumer.", "group.share.", "group.streams."))]
    defaults = Config(tables.BROKER, BASE)
    values = {name: text(defaults[name]) for name in of_groups}
    assert meaningless(Config(tables.BROKER, {**BASE, **values})) == ["group.share.assignors"]


@pytest.mark.parametrize(
    ("listeners", "is_loopback"),
    [
        ("PLAINTEXT://:9092", False),
        ("PLAINTEXT://0.0.0.0:9092", False),
        ("PLAINTEXT://[::1]:9092", True),
        ("PLAINTEXT://localhost:1", True),
        ("PLAINTEXT://127.0.0.2:9092", True),
        ("PLAINTEXT://127.example:9092", False),
    ],
)
def test_who_can_reach_a_listener(listeners: str, is_loopback: bool) -> None:
    assert node_settings(Config(tables.BROKER, {**BASE, "listeners": listeners})).is_loopback is is_loopback


def test_a_listener_has_the_protocol_that_the_map_gives_its_name() -> None:
    values = {"listeners": "client://127.0.0.1:9092", "listener.security.protocol.map": "OTHER:SSL, CLIENT:plaintext"}
    settings = node_settings(Config(tables.BROKER, {**BASE, **values}))
    assert (settings.listener_name, settings.port) == ("CLIENT", 9092)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"listeners": "PLAINTEXT:9092"}, "Unable to parse PLAINTEXT:9092 to a broker endpoint"),
        ({"listeners": "CONTROLLER://127.0.0.1:9093"}, "No security protocol defined"),
    ],
)
def test_what_a_node_cannot_be(values: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        node_settings(Config(tables.BROKER, {**BASE, **values}))
