"""Certificates and logins of listeners that change while the broker runs (KIP-226)."""

import pathlib
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.certificates import Authority

from kafkatools.core.broker.node import Node

INCREMENTAL_ALTER_CONFIGS, SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA = 44, 17, 36, 3
SET, DELETE = 0, 1
BROKER_KIND = 4
REFUSED, FAILED_LOGIN = 42, 58
LOCATION = "listener.name.ssl.ssl.keystore.location"
JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def port_of(node: Node, listener: str) -> int:
    return next(point.port for point in node.end_points if point.name == listener)


def alter(client: BrokerClient, name: str, value: str | None) -> tuple[int, str | None]:
    change = {"name": name, "config_operation": DELETE if value is None else SET, "value": value}
    resource = {"resource_type": BROKER_KIND, "resource_name": "1", "configs": [change]}
    (result,) = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
    return int(result.error_code), result.error_message


class Stores:
    """Key stores in PEM, by name."""

    def __init__(self, home: pathlib.Path) -> None:
        self._authority = Authority(home)
        self._home = home

    def make(self, name: str) -> pathlib.Path:
        key, certificate = self._authority.issue(name, "DNS:localhost")
        path = self._home / f"{name}-both.pem"
        path.write_text(key.read_text() + certificate.read_text())
        return path


def certificate_of(path: pathlib.Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text()[path.read_text().index("-----BEGIN CERT") :].strip())


def shake(port: int) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10))


def shown(port: int) -> bytes | None:
    with shake(port) as client:
        return client.getpeercert(binary_form=True)


@pytest.mark.slow
def test_a_changed_key_store_is_shown_to_new_connections(run_node: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    stores = Stores(tmp_path / "certificates")
    first, second = stores.make("first"), stores.make("second")
    node = run_node(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(first),
        }
    ).node
    port = port_of(node, "SSL")
    with BrokerClient("127.0.0.1", port_of(node, "PLAINTEXT")) as client, shake(port) as old:
        assert old.getpeercert(binary_form=True) == shown(port) == certificate_of(first)
        assert alter(client, LOCATION, str(second)) == (0, None)
        assert shown(port) == certificate_of(second)
        old.sendall(client.frame(METADATA, 12, {"topics": None}))
        assert old.recv(4)

        code, message = alter(client, LOCATION, str(tmp_path / "none.pem"))
        assert code == REFUSED
        assert message is not None and "listener SSL" in message and "none.pem" in message
        assert shown(port) == certificate_of(second)

        replaced = stores.make("third")
        second.write_text(replaced.read_text())
        assert shown(port) != certificate_of(second)
        assert alter(client, LOCATION, str(second)) == (0, None)
        assert shown(port) == certificate_of(replaced)

        assert alter(client, LOCATION, None) == (0, None)
        assert shown(port) == certificate_of(first)


def test_changed_users_of_plain_count_for_new_connections(run_node: Callable[..., Any]) -> None:
    running = run_node(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
            "connection.failed.authentication.delay.ms": "0",
            JAAS: f'{MODULE} user_alice="first";',
        }
    )
    node = running.node
    with BrokerClient("127.0.0.1", port_of(node, "PLAINTEXT")) as client:
        assert [login(node, password) for password in ("first", "second")] == [0, FAILED_LOGIN]
        assert alter(client, JAAS, f'{MODULE} user_alice="second";') == (0, None)
        assert [login(node, password) for password in ("first", "second")] == [FAILED_LOGIN, 0]
        code, message = alter(client, JAAS, "no login module")
        assert code == REFUSED
        assert "second" not in str(message)
        assert login(node, "second") == 0
    assert all("Invalid username or password" in line for line in running.failures)
    running.failures.clear()


def login(node: Node, password: str) -> int:
    with BrokerClient("127.0.0.1", port_of(node, "SASL_PLAINTEXT")) as client:
        assert int(client.call(SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code) == 0
        answer = client.call(SASL_AUTHENTICATE, 2, auth_bytes=f"\0alice\0{password}".encode())
        return int(answer.error_code)
