"""Requests to a schema registry that breaks off in the middle of an answer."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import support.schema_registry

from kafkatools.tools.schemas import transport
from kafkatools.tools.schemas.access import RegistryAccess
from kafkatools.tools.schemas.errors import RegistryFailed, SchemaError
from kafkatools.tools.schemas.transport import RegistryTransport

Answer = Callable[..., str]


@pytest.fixture
def answers() -> Iterator[Answer]:
    """Answers each request with bytes, then closes the connection or leaves it open; returns the server's URL."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(answer: bytes, is_closed: bool) -> None:
            held = []
            while not done.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    break
                held.append(connection)
                connection.recv(1 << 16)
                connection.sendall(answer)
                if is_closed:
                    connection.close()
            for connection in held:
                connection.close()

        threads = []

        def start(answer: bytes, *, is_closed: bool) -> str:
            threads.append(threading.Thread(target=serve, args=(answer, is_closed)))
            threads[-1].start()
            return f"http://127.0.0.1:{server.getsockname()[1]}"

        yield start
        done.set()
        server.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("start", [b"", b'{"error_code": 5', b"1f\r\n{"])
def test_the_rest_of_an_error_that_never_arrives(answers: Answer, start: bytes, is_closed: bool) -> None:
    length = b"Transfer-Encoding: chunked" if start.startswith(b"1f") else b"Content-Length: 100"
    url = answers(b"HTTP/1.1 500 Broken\r\n" + length + b"\r\n\r\n" + start, is_closed=is_closed)
    with pytest.raises(RegistryFailed) as caught:
        RegistryTransport(RegistryAccess((url,), timeout_ms=10_000 if is_closed else 300)).request(
            "GET", "/schemas/ids/1"
        )
    assert str(caught.value) == f"{url}/schemas/ids/1: 500 Broken"
    assert caught.value.is_temporary


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_registry_that_cannot_answer_now_is_asked_again(status: int) -> None:
    answers = [(status, '{"message": "later"}')] * 2 + [(200, '["a"]')] + [(status, '{"message": "later"}')] * 3

    def respond(request: support.schema_registry.Request) -> support.schema_registry.Answer:
        return support.schema_registry.Answer(*answers.pop(0))

    with support.schema_registry.serving(respond) as server:
        transport = RegistryTransport(RegistryAccess((server.url,)))
        assert transport.request("GET", "/subjects") == ["a"]
        with pytest.raises(RegistryFailed, match=f"/subjects: {status} .*: later") as caught:
            transport.request("GET", "/subjects")
        assert caught.value.is_temporary


@pytest.mark.parametrize("start", [b'Content-Length: 9\r\n\r\n["a",', b'Transfer-Encoding: chunked\r\n\r\n9\r\n["a",'])
def test_an_answer_that_breaks_off_is_temporary(answers: Answer, start: bytes) -> None:
    url = answers(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + start, is_closed=True)
    with pytest.raises(RegistryFailed, match=f"^{url} does not answer: IncompleteRead") as caught:
        RegistryTransport(RegistryAccess((url,))).request("GET", "/subjects")
    assert caught.value.is_temporary


def test_an_answer_above_the_limit_is_not_requested_again(answers: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_MAX_ANSWER_BYTES", 4)
    url = answers(b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n["a"]', is_closed=True)
    with pytest.raises(RegistryFailed) as caught:
        RegistryTransport(RegistryAccess((url,))).request("GET", "/subjects")
    assert not caught.value.is_temporary


@pytest.mark.parametrize("is_closed", [True, False])
def test_an_error_of_the_client_is_one_without_its_message(answers: Answer, is_closed: bool) -> None:
    url = answers(b"HTTP/1.1 422 Odd\r\nContent-Length: 100\r\n\r\n{", is_closed=is_closed)
    with pytest.raises(SchemaError, match="422 Odd"):
        RegistryTransport(RegistryAccess((url,), timeout_ms=10_000 if is_closed else 300)).request("GET", "/subjects")
