"""Addresses behind which there is no Kafka: each command says so in one clear line and ends with 1."""

from __future__ import annotations

import contextlib
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator

import pytest
from support.kt_process import error_lines, kt_process
from support.ports import free_port
from support.requirements import require

pytestmark = pytest.mark.processes

COMMANDS = {
    "topics": ("topics", "--list"),
    "get-offsets": ("get-offsets", "--topic", "t"),
    "console-producer": ("console-producer", "--topic", "t"),
    "console-consumer": ("console-consumer", "--topic", "t", "--from-beginning", "--exit-at-end"),
}
each_command = pytest.mark.parametrize("command", COMMANDS)


def complaint(directory: pathlib.Path, command: str, port: int, *more: str) -> list[str]:
    """Runs the command against the port; the lines that are no counts and no hint."""
    ran = kt_process(
        directory, *COMMANDS[command], "--bootstrap-server", f"127.0.0.1:{port}", *more, stdin=b"one\ntwo\n"
    )
    lines = error_lines(ran.stderr)
    assert ran.returncode == 1, lines
    assert ran.stdout == b""
    counts = ("Processed a total of 0 messages", "0 sent, 0 failed", "0 sent, 2 failed")
    return [line for line in lines if line not in counts and not line.startswith("Is th")]


@contextlib.contextmanager
def server_of(serve: socket.socket, wrap: ssl.SSLContext | None = None, answer: bytes | None = None) -> Iterator[int]:
    """Accepts, and says nothing; with `wrap` it speaks TLS, with `answer` it says that to the first bytes."""
    stopping = threading.Event()

    def accept() -> None:
        held = []
        while not stopping.is_set():
            try:
                connection, _ = serve.accept()
            except OSError:
                continue
            if wrap is not None:
                with contextlib.suppress(OSError):
                    connection = wrap.wrap_socket(connection, server_side=True)
            if answer is not None:
                connection.recv(65536)
                connection.sendall(answer)
            held.append(connection)
        for connection in held:
            connection.close()

    serve.settimeout(0.1)
    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield serve.getsockname()[1]
    finally:
        stopping.set()
        thread.join()
        serve.close()


@each_command
def test_nobody_listens(tmp_path: pathlib.Path, command: str) -> None:
    port = free_port()
    lines = complaint(tmp_path, command, port)
    assert len(lines) == 1
    assert f"Connection to 127.0.0.1:{port} failed: Connection refused" in lines[0]


@each_command
def test_a_web_server(tmp_path: pathlib.Path, command: str) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\nServer: test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with server_of(socket.create_server(("127.0.0.1", 0)), answer=answer) as port:
        lines = complaint(tmp_path, command, port)
    assert len(lines) == 1, lines
    assert "HTTP" in lines[0] and f"127.0.0.1:{port}" in lines[0]


@each_command
def test_a_tls_port(tmp_path: pathlib.Path, command: str) -> None:
    if shutil.which("openssl") is None:
        require("openssl is not installed")
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        + ["-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-days", "1"],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with server_of(socket.create_server(("127.0.0.1", 0)), context) as port:
        lines = complaint(tmp_path, command, port)
    assert len(lines) == 1, lines
    assert f"127.0.0.1:{port}" in lines[0]
    assert "TLS" in lines[0] or "another security.protocol" in lines[0]


@each_command
def test_a_server_that_says_nothing(tmp_path: pathlib.Path, command: str) -> None:
    limits = tmp_path / "limits.properties"
    limits.write_text(
        "request.timeout.ms=300\nsocket.connection.setup.timeout.ms=300\nsocket.connection.setup.timeout.max.ms=300\n"
        + ("max.block.ms=900\n" if command == "console-producer" else "default.api.timeout.ms=900\n")
    )
    with server_of(socket.create_server(("127.0.0.1", 0))) as port:
        lines = complaint(tmp_path, command, port, "--command-config", str(limits))
    told = [line for line in lines if not line.startswith("No broker answers, still trying: ")]
    causes = {re.split(r"\.$|: lines ", line.rpartition("with error: ")[2])[0] for line in told}
    assert len(causes) == 1, lines


@each_command
def test_an_address_that_is_none(tmp_path: pathlib.Path, command: str) -> None:
    ran = kt_process(tmp_path, *COMMANDS[command], "--bootstrap-server", "nowhere", stdin=b"one\n")
    lines = error_lines(ran.stderr)
    assert ran.returncode == 2
    assert any("Invalid url in bootstrap.servers: nowhere" in line for line in lines)


@each_command
def test_a_name_without_an_address(tmp_path: pathlib.Path, command: str) -> None:
    ran = kt_process(tmp_path, *COMMANDS[command], "--bootstrap-server", "no.such.host.invalid:9092", stdin=b"one\n")
    lines = error_lines(ran.stderr)
    assert ran.returncode == 1
    assert any("no.such.host.invalid" in line for line in lines), lines
