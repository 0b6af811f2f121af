"""kt doctor: every step of every connection, and one verdict."""

from __future__ import annotations

import contextlib
import json
import pathlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest
from support.certificates import Authority
from support.embedded import embedded_broker
from support.kt import run_kt
from support.ports import free_port

from kafkatools.exit_status import ExitStatus


def steps_of(out: str) -> list[tuple[str, str]]:
    """The steps of all targets: name and ok or FAILED."""
    return [(words[0], words[1]) for words in map(str.split, out.splitlines()) if len(words) > 3 and words[3] == "ms"]


@contextlib.contextmanager
def tls_in_front_of(bootstrap: str, context: ssl.SSLContext, port: int) -> Iterator[None]:
    """A TLS listener on loopback that hands the bytes on to a broker."""
    host, _, broker_port = bootstrap.rpartition(":")
    listener = socket.create_server(("127.0.0.1", port))
    done = threading.Event()
    pairs: list[tuple[socket.socket, socket.socket]] = []
    copies: list[threading.Thread] = []

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        while not done.is_set():
            with contextlib.suppress(OSError):
                accepted, _ = listener.accept()
                accepted.settimeout(10)
                try:
                    secured = context.wrap_socket(accepted, server_side=True)
                except OSError:
                    accepted.close()
                    continue
                behind = socket.create_connection((host, int(broker_port)))
                pairs.append((secured, behind))
                copies.extend(threading.Thread(target=copy, args=pair) for pair in (pairs[-1], pairs[-1][::-1]))
                for one in copies[-2:]:
                    one.start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
        thread.join()
        listener.close()
        for one in copies:
            one.join()
        for pair in pairs:
            pair[0].close(), pair[1].close()


def test_a_sound_cluster_answers_everywhere(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as bootstrap:
        ran = run_kt("doctor", "--bootstrap-server", bootstrap)
    assert ran.status is ExitStatus.OK, ran.out
    assert steps_of(ran.out) == [("DNS", "ok"), ("TCP", "ok"), ("ApiVersions", "ok")]
    assert ran.out.endswith("No problems found.\n")


def test_an_advertised_listener_that_nobody_reaches_is_the_finding(tmp_path: pathlib.Path) -> None:
    listening, dead = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{listening}"
    with embedded_broker(tmp_path, listeners=listeners, advertised_listeners=f"PLAINTEXT://127.0.0.1:{dead}"):
        ran = run_kt("doctor", "--bootstrap-server", f"127.0.0.1:{listening}")
    assert ran.status is ExitStatus.FINDINGS
    assert steps_of(ran.out)[-2:] == [("DNS", "ok"), ("TCP", "FAILED")]
    finding = f"advertises 127.0.0.1:{dead}, where a step failed, although 127.0.0.1:{listening} works: "
    assert f"{finding}check advertised.listeners" in ran.out


@pytest.mark.parametrize(
    ("server", "step", "said"),
    [
        ("nosuch.invalid:9092", "DNS", "has no address"),
        ("127.0.0.1:{closed}", "TCP", "Connection refused"),
        ("127.0.0.1:{other}", "ApiVersions", "does not speak Kafka's protocol"),
    ],
)
def test_the_step_that_failed_is_named(server: str, step: str, said: str) -> None:
    def answer(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the listener is closed where nobody comes
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(1000)
                accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        address = server.format(closed=free_port(), other=listener.getsockname()[1])
        ran = run_kt("doctor", "--bootstrap-server", address)
    assert ran.status is ExitStatus.FINDINGS
    assert steps_of(ran.out)[-1] == (step, "FAILED")
    assert said in ran.out
    assert f"Found 1 problem:\n  bootstrap {address}: {step}: " in ran.out


def test_one_of_two_servers_is_enough_to_go_on_and_the_other_is_found(tmp_path: pathlib.Path) -> None:
    closed = free_port()
    with embedded_broker(tmp_path) as bootstrap:
        ran = run_kt("doctor", "--json", "--bootstrap-server", f"127.0.0.1:{closed},{bootstrap}")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert [line["ok"] for line in lines if "target" in line] == [False, True]
    cluster = next(line for line in lines if "cluster_id" in line)
    assert [f"{one['host']}:{one['port']}" for one in cluster["brokers"]] == [bootstrap]
    assert lines[-1]["ok"] is False
    assert lines[-1]["findings"][0].startswith(f"bootstrap 127.0.0.1:{closed}: TCP: ")
    assert ran.status is ExitStatus.FINDINGS


def test_tls_is_a_step_and_what_brokers_advertise_is_tried_with_it(tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path / "ca")
    key, certificate = authority.issue("broker", names="IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    settings = tmp_path / "tls.properties"
    settings.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority.certificate}\n"
    )
    port = free_port()
    with embedded_broker(tmp_path / "data") as bootstrap, tls_in_front_of(bootstrap, context, port):
        words = ["doctor", "--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(settings)]
        ran = run_kt(*words)
        untrusted = run_kt(*words[:-2], "--command-config", str(_without_trust(tmp_path)))
    assert steps_of(ran.out)[:4] == [("DNS", "ok"), ("TCP", "ok"), ("TLS", "ok"), ("ApiVersions", "ok")]
    assert "certificate of broker" in ran.out
    assert steps_of(ran.out)[4:] == [("DNS", "ok"), ("TCP", "ok"), ("TLS", "FAILED")]  # its own, plain, port
    assert (
        f"advertises {bootstrap}, where a step failed, although 127.0.0.1:{port} works: check advertised.listeners"
        in ran.out
    )
    assert ran.status is ExitStatus.FINDINGS
    assert steps_of(untrusted.out) == [("DNS", "ok"), ("TCP", "ok"), ("TLS", "FAILED")]


def _without_trust(directory: pathlib.Path) -> pathlib.Path:
    path = directory / "plain-tls.properties"
    path.write_text("security.protocol=SSL\n")
    return path
