"""kt server-start and server-stop as processes: what a properties file of Apache Kafka becomes, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_client import BrokerClient, batch
from support.waiting import PATIENCE_S


class Server:
    """`kt server-start` in the foreground of a child process."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.properties = home / "server.properties"
        self.process: subprocess.Popen[bytes] | None = None
        home.mkdir()

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "kafkatools", *args]

    def run(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        env = {**os.environ, "KT_HOME": str(self.home)}
        return subprocess.run(self.command(*args), capture_output=True, timeout=PATIENCE_S, env=env, check=False)

    def start(self, *args: str, open_files: int | None = None) -> list[str]:
        """The lines on stderr up to the one that says that it is ready."""
        command = self.command("server-start", str(self.properties), *args)
        if open_files is not None:
            command = ["prlimit", f"--nofile={open_files}:{open_files}", *command]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "KT_HOME": str(self.home)})
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line.decode().rstrip("\n"))
            if " is ready on " in lines[-1]:
                return lines
        raise AssertionError(lines)

    def end(self) -> int:
        """The exit status."""
        assert self.process is not None
        assert self.process.stderr is not None
        self.process.stderr.close()
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[Server]:
    """A server that is formatted, not started."""
    made = Server(tmp_path / "home")
    made.properties.write_text(
        "process.roles=broker,controller\nnode.id=7\ncontroller.quorum.voters=7@127.0.0.1:19093\n"
        "controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:19093\n"
        f"log.dirs={made.home}/data\nnum.network.threads=3\n"
    )
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.end()


def format_directory(server: Server) -> None:
    done = server.run("storage", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(server.properties))
    assert done.returncode == 0, done.stderr.decode()


def test_it_serves_a_formatted_directory_warns_and_stops(server: Server) -> None:
    format_directory(server)
    lines = server.start("--override", "num.partitions=4")
    assert lines[0] == "WARN num.network.threads has no effect in kt and is ignored"
    host, _, port = lines[-1].rpartition(" ")[2].partition(":")
    assert lines[-1].startswith("INFO node 7 of cluster MkU3OEVBNTcwNTJENDM2Qk is ready on 127.0.0.1:")
    with BrokerClient(host, int(port)) as client:
        topics: list[dict[str, Any]] = [{"name": "t", "num_partitions": -1, "replication_factor": -1}]
        assert client.call(19, 7, topics=topics).topics[0].num_partitions == 4
    assert server.run("server-stop", "--node-id", "8").returncode == 1
    assert server.run("server-stop", "--process-role=broker").returncode == 1
    stopped = server.run("server-stop", "--process-role=broker,controller", "--json")
    assert json.loads(stopped.stdout)["process_roles"] == "broker,controller"
    assert server.end() == 0
    assert (server.home / "data" / ".kafka_cleanshutdown").exists()
    stopped = server.run("server-stop")
    assert (stopped.returncode, stopped.stderr) == (1, b"No kafka server to stop\n")


def test_ctrl_c_is_a_clean_stop(server: Server) -> None:
    format_directory(server)
    server.start()
    assert server.process is not None
    server.process.send_signal(signal.SIGINT)
    assert server.end() == 0
    assert (server.home / "data" / ".kafka_cleanshutdown").exists()


def test_a_stop_on_a_disk_without_room_is_one_line_and_no_success(server: Server) -> None:
    """No file can grow any more (RLIMIT_FSIZE of the process), so neither checkpoints nor the marker are written."""
    format_directory(server)
    lines = server.start()
    host, _, port = lines[-1].rpartition(" ")[2].partition(":")
    with BrokerClient(host, int(port)) as client:
        topics: list[dict[str, Any]] = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
        assert client.call(19, 7, topics=topics).topics[0].error_code == 0
        assert client.produce("t", batch([b"v"])).error_code == 0
    assert server.process is not None and server.process.stderr is not None
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, hard))
    server.process.send_signal(signal.SIGTERM)
    said = server.process.stderr.read().decode().splitlines()
    assert server.end() == 1
    assert len(said) == 1, said
    assert "Node 7 did not stop cleanly, its next start recovers the logs: " in said[0]
    assert "File too large" in said[0] and str(server.home / "data") in said[0]
    assert not (server.home / "data" / ".kafka_cleanshutdown").exists()
    lines = server.start()
    host, _, port = lines[-1].rpartition(" ")[2].partition(":")
    with BrokerClient(host, int(port)) as client:
        assert client.produce("t", batch([b"w"])).base_offset == 1


def test_strangers_that_take_every_connection_leave_the_log_its_descriptors(server: Server) -> None:
    """256 open files: half for log files, some for the process, the rest for connections. An established producer
    rolls segments of 20 partitions meanwhile."""
    format_directory(server)
    lines = server.start(open_files=256)
    host, _, port = lines[-1].rpartition(" ")[2].partition(":")
    address = (host, int(port))
    payload = batch([b"x" * 600_000])
    with BrokerClient(*address) as client, contextlib.ExitStack() as strangers:
        topics: list[dict[str, Any]] = [
            {
                "name": "t",
                "num_partitions": 20,
                "replication_factor": 1,
                "configs": [{"name": "segment.bytes", "value": "1048576"}],
            }
        ]
        assert client.call(19, 7, topics=topics).topics[0].error_code == 0
        codes = []
        for number in range(80):
            for _ in range(5):
                strangers.enter_context(socket.create_connection(address, 10))
            codes.append(int(client.produce("t", payload, partition=number % 20).error_code))
        assert codes == [0] * 80
        assert server.process is not None
        assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < 256
        strangers.close()
        client.call(18, 0)
        with BrokerClient(*address) as other:
            assert other.produce("t", payload).error_code == 0
    assert server.process.stderr is not None
    server.process.send_signal(signal.SIGTERM)
    said = server.process.stderr.read().decode().splitlines()
    assert server.end() == 0
    refused = [line for line in said if " refused: " in line]
    assert len(refused) == 1, said
    assert "of the limit of 256 open files" in refused[0] and "(ulimit -n)" in refused[0]
    assert [line for line in said if line not in refused] == ["INFO node 7 has stopped"]


def test_with_durability_fsync_an_answer_outlives_the_recovery_that_trusts_nothing(server: Server) -> None:
    format_directory(server)
    lines = server.start("--durability", "fsync", "--override", "log.flush.offset.checkpoint.interval.ms=10")
    host, _, port = lines[-1].rpartition(" ")[2].partition(":")
    checkpoint = server.home / "data" / "recovery-point-offset-checkpoint"
    with BrokerClient(host, int(port)) as client:
        topics: list[dict[str, Any]] = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
        assert client.call(19, 7, topics=topics).topics[0].error_code == 0
        assert [client.produce("t", batch([b"v"]), acks=acks).base_offset for acks in (-1, 1)] == [0, 1]
        while not checkpoint.exists() or "t 0 2" not in checkpoint.read_text():
            client.call(18, 0)
    assert server.process is not None
    server.process.kill()
    server.end()
    refused = server.run("server-start", str(server.properties), "--durability", "sometimes")
    assert (refused.returncode, b"sometimes" in refused.stderr) == (2, True)


def test_a_directory_that_is_not_formatted_is_refused_in_kafkas_words(server: Server) -> None:
    done = server.run("server-start", str(server.properties))
    assert done.returncode == 1
    assert b"No `meta.properties` found in" in done.stderr


@pytest.mark.parametrize("listener", ["PLAINTEXT://:0", "PLAINTEXT://0.0.0.0:0"])
def test_an_open_listener_needs_a_word(server: Server, listener: str) -> None:
    format_directory(server)
    override = ("--override", f"listeners={listener},CONTROLLER://127.0.0.1:19093")
    refused = server.run("server-start", str(server.properties), *override)
    assert refused.returncode == 1
    assert b"Refusing to listen on" in refused.stderr
    assert b"--insecure" in refused.stderr
    server.start("--insecure", *override)


def test_a_wrong_setting_and_a_missing_file_are_one_line(server: Server) -> None:
    wrong = server.run("server-start", str(server.properties), "--override", "num.partitions=many")
    assert wrong.returncode == 2
    assert b"Invalid value many for configuration num.partitions: Not a number of type INT" in wrong.stderr
    missing = server.run("server-start", str(server.home / "none.properties"))
    assert missing.returncode == 1
    assert missing.stderr.decode().count("\n") == 1
