"""Keys of signed tokens: from an address in the background, and signatures of elliptic curves."""

from __future__ import annotations

import base64
import http.server
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from support.waiting import eventually

from kafkatools.core.broker.security.jwks import open_keys, parse_jwks, verify_signature
from kafkatools.core.broker.security.mechanisms import RefusedToken
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import ConfigError

KEY = ec.generate_private_key(ec.SECP256R1())
FETCHED: list[str] = []
"""The paths of the requests to the server."""


def text(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(32, "big")).decode().rstrip("=")


def public_key() -> dict[str, object]:
    numbers = KEY.public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "kid": "k", "x": text(numbers.x), "y": text(numbers.y)}


def signature(data: bytes) -> bytes:
    return b"".join(
        number.to_bytes(32, "big") for number in decode_dss_signature(KEY.sign(data, ec.ECDSA(hashes.SHA256())))
    )


@pytest.fixture
def address() -> Iterator[str]:
    """The address of a server that has the keys."""

    FETCHED.clear()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
            FETCHED.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"keys": [public_key()]}).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/keys"
    server.shutdown()
    server.server_close()
    thread.join()


def test_keys_of_an_address_are_fetched_in_the_background(address: str) -> None:
    keys = open_keys(address, SystemClock(), 3_600_000)
    eventually(lambda: keys.find("k") is not None)
    keys.verify({"alg": "ES256", "kid": "k"}, b"signed", signature(b"signed"))
    for header in (
        {"alg": "ES256", "kid": "other"},
        {"alg": "none", "kid": "k"},
        {"kid": "k"},
        {"alg": "RS256", "kid": "k"},
    ):
        with pytest.raises(RefusedToken):
            keys.verify(header, b"signed", signature(b"signed"))
    with pytest.raises(RefusedToken, match="signature is wrong"):
        verify_signature(public_key(), "ES256", b"changed", signature(b"signed"))
    with pytest.raises(RefusedToken, match="wrong size"):
        verify_signature(public_key(), "ES256", b"signed", b"short")


def test_keys_are_there_at_the_start_and_kept_when_logins_are_made_anew(address: str) -> None:
    clock = SystemClock()
    assert open_keys(address, clock, 3_600_000).find("k") is not None
    assert open_keys(address, clock, 3_600_000).find("k") is not None
    assert FETCHED == ["/keys"]


def test_an_address_that_does_not_speak_http_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            accepted, _ = server.accept()
            with accepted:
                accepted.recv(1000)
                accepted.sendall(b"what?\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        problems: list[object] = []
        monkeypatch.setattr(threading, "excepthook", problems.append)
        keys = open_keys(f"http://127.0.0.1:{server.getsockname()[1]}/", SystemClock(), 3_600_000)
        thread.join()
    assert (keys.find("k"), problems) == (None, [])


def test_keys_that_cannot_be_used() -> None:
    with pytest.raises(ConfigError, match="is not a file, http or https URL"):
        open_keys("ftp://keys", SystemClock(), 1)
    with pytest.raises(ConfigError, match="No such file"):
        open_keys("file:///no/such/file", SystemClock(), 1)
    with pytest.raises(RefusedToken, match="cannot be used"):
        verify_signature({**public_key(), "x": "AAAA"}, "ES256", b"signed", signature(b"signed"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "^Expecting value"),
        (b"[]", "^it has no list of keys$"),
        (b'{"keys": {}}', "^it has no list of keys$"),
        pytest.param(b"[" * 100_000, "^it is nested too deeply$", id="nested"),
        (b"\xff", "can't decode byte 0xff"),
    ],
)
def test_a_document_without_keys_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_jwks(data)
