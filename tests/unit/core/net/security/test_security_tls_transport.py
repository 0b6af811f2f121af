"""TLS of a client against OpenSSL's server side, whose bytes the tests hand over piece by piece."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority
from support.manual_clock import ManualClock
from support.readiness import readable

from kafkatools.core import config as tables
from kafkatools.core.config import Config
from kafkatools.core.errors import HandshakeInterrupted, KafkaError, SslAuthenticationFailed
from kafkatools.core.net.addresses import Address
from kafkatools.core.net.channel import Channel, EndOfStream
from kafkatools.core.net.metadata import Metadata
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.net.security.tls_context import client_tls
from kafkatools.core.net.security.tls_transport import TlsTransport
from kafkatools.core.net.selector import READ

MAX_TURNS = 20_000
LIMIT = 1 << 30


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("tls"))
    made.issue("server", "DNS:localhost")
    made.issue("client")
    made.issue("expired", "DNS:localhost", not_after="20200101000000Z")
    return made


class Peer:
    """The server's side of one connection, turned by hand."""

    def __init__(self, context: ssl.SSLContext, chunk: int = 1 << 16) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.chunk = chunk
        self.raw: socket.socket | None = None
        self.is_open = False
        self.received = bytearray()
        self._pending = b""

    @property
    def address(self) -> Address:
        return Address(socket.AF_INET, self.listener.getsockname())

    def turn(self) -> None:
        """Takes in and gives out at most a chunk."""
        if self.raw is None:
            self.raw, _ = self.listener.accept()
            self.raw.setblocking(False)
            self.raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            self._in.write(self.raw.recv(self.chunk))
        with contextlib.suppress(ssl.SSLWantReadError):
            if not self.is_open:
                self.tls.do_handshake()
                self.is_open = True
            while data := self.tls.read(1 << 16):
                self.received += data
        self.flush(self.chunk)

    def flush(self, count: int = LIMIT) -> None:
        assert self.raw is not None
        self._pending += self._out.read()
        with contextlib.suppress(BlockingIOError, ConnectionError):
            sent = self.raw.send(self._pending[:count])
            self._pending = self._pending[sent:]

    def close(self) -> None:
        self.listener.close()
        if self.raw is not None:
            self.raw.close()


def server_context(authority: Authority, name: str = "server", wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.directory / f"{name}.pem", authority.directory / f"{name}.key")
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.certificate)
    return context


def trusting(authority: Authority, **more: str) -> Config:
    named = {name.replace("_", "."): value for name, value in more.items()}
    store = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.certificate)}
    return Config(tables.ADMIN, {"security.protocol": "SSL", **store, **named})


Connect = Callable[..., tuple[Channel, Peer]]


@pytest.fixture
def connect(authority: Authority) -> Iterator[Connect]:
    made: list[Any] = []

    def build(config: Config | None = None, context: ssl.SSLContext | None = None, **options: Any) -> Any:
        peer = Peer(context or server_context(authority), options.pop("chunk", 1 << 16))
        host = options.pop("host", "localhost")
        transport = TlsTransport(peer.address, host, client_tls(config or trusting(authority)), **options)
        made.extend((transport, peer))
        transport.connect()
        return Channel(1, transport, LIMIT), peer

    yield build
    for each in made:
        each.close()


def shake_hands(channel: Channel, peer: Peer) -> int:
    """Both sides to the end; how many turns that took. Raises what the client's side raises."""
    for turns in range(MAX_TURNS):
        if channel.transport.handshake() == 0 and peer.is_open:
            return turns
        with contextlib.suppress(ssl.SSLError):
            peer.turn()
        peer.flush(peer.chunk)
    raise AssertionError("the handshake does not end")


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def read_until(channel: Channel, peer: Peer, count: int) -> list[bytes]:
    frames: list[bytes] = []
    for _ in range(MAX_TURNS):
        frames += [bytes(each) for each in channel.read()]
        if len(frames) >= count:
            return frames
        peer.turn()
    raise AssertionError(f"{len(frames)} of {count} frames came")


def test_handshake_and_answers_byte_by_byte(connect: Connect) -> None:
    channel, peer = connect(chunk=1)
    assert shake_hands(channel, peer) > 100
    peer.tls.write(frame(b"one"))
    assert read_until(channel, peer, 1) == [b"one"]


def test_handshake_says_what_it_waits_for(connect: Connect) -> None:
    channel, _ = connect()
    assert channel.transport.handshake() == READ
    assert channel.transport.handshake() == READ


def test_all_frames_of_a_record_come_with_one_read(connect: Connect) -> None:
    """No selector would tell of those that are decrypted already."""
    channel, peer = connect()
    shake_hands(channel, peer)
    peer.tls.write(b"".join(frame(b"%d" % number) for number in range(500)) + frame(b"late")[:5])
    peer.flush()
    assert next_frames(channel) == [b"%d" % number for number in range(500)]
    peer.tls.write(b"ate")
    assert read_until(channel, peer, 1) == [b"late"]


def test_answer_of_many_records(connect: Connect) -> None:
    channel, peer = connect()
    shake_hands(channel, peer)
    content = bytes(range(256)) * 12_000
    peer.tls.write(frame(content))
    assert read_until(channel, peer, 1) == [content]


def test_request_that_the_socket_does_not_take_at_once(connect: Connect) -> None:
    channel, peer = connect(send_buffer_bytes=4096)
    shake_hands(channel, peer)
    parts = [b"head", bytes(range(256)) * 20_000, b"", b"tail" * 3, memoryview(b"x" * 70_000), b"end"]
    channel.send(parts)
    waits = 0
    for _ in range(MAX_TURNS):
        if channel.write():
            break
        waits += 1
        peer.turn()
    expected = b"".join(parts)
    for _ in range(MAX_TURNS):
        if len(peer.received) == len(expected):
            break
        peer.turn()
    assert waits > 0
    assert bytes(peer.received) == expected


def test_close_says_so(connect: Connect) -> None:
    channel, peer = connect()
    shake_hands(channel, peer)
    channel.close()
    readable([peer.raw], 5)
    peer.turn()
    assert peer.tls.read(1) == b""  # without close_notify it would ask for more
    channel.close()


def test_end_that_comes_with_data_is_not_slept_over(connect: Connect) -> None:
    channel, peer = connect()
    shake_hands(channel, peer)
    peer.tls.write(frame(b"last"))
    with contextlib.suppress(ssl.SSLWantReadError):
        peer.tls.unwrap()
    peer.flush()
    sock = channel.transport.socket
    assert next_frames(channel) == [b"last"]
    assert readable([sock], 5) == [sock]
    with pytest.raises(EndOfStream):
        channel.read()


def test_end_without_notice_is_an_end(connect: Connect) -> None:
    channel, peer = connect()
    shake_hands(channel, peer)
    peer.close()
    readable([channel.transport.socket], 5)
    with pytest.raises(EndOfStream):
        channel.read()


def next_frames(channel: Channel) -> list[bytes]:
    """What the first read gives that gives anything; tickets of TLS 1.3 come by themselves."""
    for _ in range(100):
        readable([channel.transport.socket], 5)
        frames = channel.read()
        if frames:
            return [bytes(each) for each in frames]
    raise AssertionError("no frame came")


def refused(channel: Channel, peer: Peer) -> KafkaError:
    """What the client's side comes to: in the handshake, or (a certificate of its own) with the first read."""
    try:
        for _ in range(MAX_TURNS):
            if channel.transport.handshake() == 0:
                channel.read()
            with contextlib.suppress(ssl.SSLError):
                peer.turn()
            peer.flush()
    except KafkaError as error:
        return error
    raise AssertionError("the connection was made")


def test_authority_that_is_not_trusted(connect: Connect, tmp_path: Path) -> None:
    error = refused(*connect(trusting(Authority(tmp_path / "other", "other"))))
    assert isinstance(error, SslAuthenticationFailed)
    assert str(error) == "no certificate in the truststore (ssl.truststore.*) is the issuer of the server's certificate"


def test_certificate_signed_by_itself(connect: Connect, authority: Authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate, authority.key)
    other = trusting(authority, ssl_truststore_location=str(authority.directory / "client.pem"))
    assert "signed by itself and not in the truststore" in str(refused(*connect(other, context)))


def test_trusted_certificate_need_not_be_a_root(connect: Connect, authority: Authority) -> None:
    config = trusting(authority, ssl_truststore_location=str(authority.directory / "server.pem"))
    channel, peer = connect(config)
    shake_hands(channel, peer)


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1"])
def test_certificate_for_another_host(connect: Connect, authority: Authority, host: str) -> None:
    error = refused(*connect(host=host))
    assert isinstance(error, SslAuthenticationFailed)
    assert str(error) == f"the server's certificate is not for {host} (ssl.endpoint.identification.algorithm)"
    unchecked = trusting(authority, ssl_endpoint_identification_algorithm="")
    channel, peer = connect(unchecked, host=host)
    shake_hands(channel, peer)


def test_certificate_that_has_expired(connect: Connect, authority: Authority) -> None:
    error = refused(*connect(context=server_context(authority, "expired")))
    assert str(error) == "the server's certificate has expired"


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_server_that_wants_a_certificate(connect: Connect, authority: Authority, version: str) -> None:
    context = server_context(authority, wants_client=True)
    error = refused(*connect(trusting(authority, ssl_enabled_protocols=version), context))
    assert isinstance(error, SslAuthenticationFailed)
    assert "ssl.keystore.*" in str(error)
    own = {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": (authority.directory / "client.key").read_text(),
        "ssl_keystore_certificate_chain": (authority.directory / "client.pem").read_text(),
    }
    channel, peer = connect(trusting(authority, ssl_enabled_protocols=version, **own), context)
    shake_hands(channel, peer)
    peer.tls.write(frame(b"welcome"))
    assert read_until(channel, peer, 1) == [b"welcome"]


def test_refusal_is_known_when_the_server_closed_before_it_read_the_request(
    connect: Connect, authority: Authority
) -> None:
    """The server resets the connection, since bytes of the client lie unread in its socket."""
    channel, peer = connect(None, server_context(authority, wants_client=True))
    for _ in range(MAX_TURNS):
        is_connected = channel.transport.handshake() == 0
        try:
            peer.turn()
        except ssl.SSLError:
            break
    assert is_connected
    channel.send([frame(b"unread")])
    assert channel.write()
    peer.flush()  # the alert
    peer.close()
    channel.send([frame(b"request")])
    with pytest.raises(SslAuthenticationFailed, match="wants a certificate"):
        channel.write()


def test_no_version_in_common(connect: Connect, authority: Authority) -> None:
    context = server_context(authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    error = refused(*connect(trusting(authority, ssl_enabled_protocols="TLSv1.2"), context))
    assert str(error) == "no TLS version in common (ssl.enabled.protocols)"


def test_suite_of_tls_13_that_is_not_allowed(connect: Connect, authority: Authority) -> None:
    channel, peer = connect(trusting(authority, ssl_cipher_suites="TLS_AES_128_CCM_SHA256"))
    with pytest.raises(SslAuthenticationFailed, match="which ssl.cipher.suites does not allow"):
        shake_hands(channel, peer)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", SslAuthenticationFailed, "does not speak TLS on this port"),
        (b"\0\0\0\x08\0\0\0\0\0\0\0\0", SslAuthenticationFailed, "does not speak TLS on this port"),
        (b"", HandshakeInterrupted, "is it a port without TLS?"),
    ],
)
def test_server_without_tls(connect: Connect, answer: bytes, kind: type[KafkaError], message: str) -> None:
    channel, peer = connect()
    channel.transport.handshake()
    raw, _ = peer.listener.accept()
    raw.recv(4096)
    raw.sendall(answer)
    raw.close()
    readable([channel.transport.socket], 5)
    with pytest.raises(kind, match=message.replace("?", r"\?")):
        channel.transport.handshake()


def test_client_waits_for_the_handshake_without_spinning(authority: Authority) -> None:
    peer = Peer(server_context(authority))
    clock = ManualClock()
    metadata = Metadata([("localhost", peer.address.sockaddr[1])])
    client = NetworkClient(trusting(authority, socket_connection_setup_timeout_ms="1000"), clock, metadata, "kt")
    metadata.consider_fresh(0)
    client.ready(-1, 0)
    for _ in range(3):
        client.poll(0)
    assert client._selector.poll(20) == []  # the socket is writable all the time
    clock.advance_ms(1300)
    client.poll(0)
    error = client.connection_error(-1)
    assert isinstance(error, HandshakeInterrupted)
    assert str(error).startswith("TLS with localhost:") and "was not set up in time" in str(error)
    client.close()
    peer.close()
