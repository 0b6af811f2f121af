"""TLS over a non-blocking connection (SslTransportLayer).

`recv_into` reads as much as is available: a short count means that the socket and the TLS layer are both drained, so a
selector may wait. At the end of the stream (close_notify) the reading side of the socket is shut down. That keeps the
socket readable, so the reader of the last bytes is woken again for the end itself.

A write that would block must be repeated with the same bytes. They are kept here: the write returned 0 to the channel,
which passes them again. With TLS 1.3 the server may refuse the client's certificate after the handshake,
at the first read. If the server closed the connection before it read the first request, the write fails; the alert with
the reason has arrived nevertheless and is read then.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Sequence

from kafkatools.core.config import Config
from kafkatools.core.errors import HandshakeInterrupted, KafkaError, SslAuthenticationFailed
from kafkatools.core.net.addresses import Address
from kafkatools.core.net.security import cipher_suites, revocation
from kafkatools.core.net.security.tls_context import ClientTls, client_tls
from kafkatools.core.net.selector import READ, WRITE
from kafkatools.core.net.transport import Buffer, PlaintextTransport, TransportFactory

_RECORD_BYTES = 16_384
_WRITE_BYTES = 8 * _RECORD_BYTES
_NO_TLS = (
    "the server does not speak TLS on this port: use its TLS port, or security.protocol PLAINTEXT or SASL_PLAINTEXT"
)
_CLOSED = "the server closed the connection during the handshake: is it a port without TLS?"
_WANTS_CERTIFICATE = "the server wants a certificate of the client that it trusts (ssl.keystore.*)"
_UNKNOWN_ISSUER = "no certificate in the truststore (ssl.truststore.*) is the issuer of the server's certificate"
_VERIFICATION = {
    2: _UNKNOWN_ISSUER, 19: _UNKNOWN_ISSUER, 20: _UNKNOWN_ISSUER, 21: _UNKNOWN_ISSUER,
    9: "the server's certificate is not valid yet",
    10: "the server's certificate has expired",
    18: "the server's certificate is signed by itself and not in the truststore (ssl.truststore.*)",
    **{code: text.format("the server's certificate") for code, text in revocation.REFUSALS.items()},
}  # fmt: skip
_HOST_NAME_CODES = (62, 64)
_REASONS = {
    "WRONG_VERSION_NUMBER": _NO_TLS, "HTTP_REQUEST": _NO_TLS, "UNKNOWN_PROTOCOL": _NO_TLS, "RECORD_TOO_SMALL": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS, "RECORD_LAYER_FAILURE": _NO_TLS, "BAD_RECORD_TYPE": _NO_TLS,
    "TLSV1_ALERT_PROTOCOL_VERSION": "no TLS version in common (ssl.enabled.protocols)",
    "UNSUPPORTED_PROTOCOL": "no TLS version in common (ssl.enabled.protocols)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the server aborted the handshake: no cipher suite in common "
    "(ssl.cipher.suites), or it wants a certificate of the client (ssl.keystore.*)",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _WANTS_CERTIFICATE, "SSLV3_ALERT_BAD_CERTIFICATE": _WANTS_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the server does not accept the client's certificate (ssl.keystore.*)",
    "TLSV1_ALERT_UNKNOWN_CA": "the server does not know who issued the client's certificate (ssl.keystore.*)",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the client's certificate has been revoked (ssl.keystore.*)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client's certificate has expired (ssl.keystore.*)",
}  # fmt: skip


class TlsTransport(PlaintextTransport):
    """A TCP connection with TLS."""

    def __init__(
        self, address: Address, host: str, tls: ClientTls, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1
    ) -> None:
        super().__init__(address, send_buffer_bytes, receive_buffer_bytes)
        self._host = host
        self._tls = tls
        self._secured: ssl.SSLSocket | None = None
        self._unsent: Buffer | None = None
        self._has_ended = False

    def handshake(self) -> int:
        """Continue the TLS handshake; return the socket event to wait for, or 0 when it is complete. Raises
        SslAuthenticationFailed for a final failure, HandshakeInterrupted where a new attempt may succeed."""
        try:
            secured = self._secured or self._wrap()
            secured.do_handshake()
        except ssl.SSLWantReadError:
            return READ
        except ssl.SSLWantWriteError:
            return WRITE
        except ssl.SSLError as problem:
            raise handshake_error(problem, self._host) from None
        except OSError:
            raise HandshakeInterrupted(_CLOSED) from None
        self._check_suite(secured)
        return 0

    def _wrap(self) -> ssl.SSLSocket:
        if self._tls.revocation is not None:
            self._tls.revocation.refresh()
        name = self._host.rstrip(".")
        # As bytes: text would load the IDNA codec, 5 ms.
        server_hostname = name.encode("ascii") if name.isascii() else name
        try:
            self._secured = self._tls.context.wrap_socket(
                self._socket, do_handshake_on_connect=False, server_hostname=server_hostname
            )
        except ValueError as problem:
            raise SslAuthenticationFailed(f"TLS needs a valid host name, and '{self._host}' is none") from problem
        self._socket = self._secured  # the same descriptor, by which a selector knows it
        return self._secured

    def _check_suite(self, secured: ssl.SSLSocket) -> None:
        cipher = secured.cipher()
        if cipher is None or cipher[0] not in cipher_suites.TLS13 or not self._tls.suites:
            return
        if cipher[0] not in self._tls.suites:
            raise SslAuthenticationFailed(f"the server chose {cipher[0]}, which ssl.cipher.suites does not allow")

    def recv_into(self, buffer: memoryview) -> int | None:
        """Receive and decrypt all available bytes, up to the buffer's size; 0 at the end, None when nothing is
        available."""
        secured, filled, room = self._secured, 0, len(buffer)
        if secured is None or self._has_ended:
            return 0
        try:
            while filled < room:
                count = secured.recv_into(buffer[filled:] if filled else buffer)
                if count == 0:
                    self._has_ended = True
                    with contextlib.suppress(OSError):
                        socket.socket.shutdown(secured, socket.SHUT_RD)
                    break
                filled += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return filled or None
        except ssl.SSLError as problem:
            if problem.reason in _REASONS:  # an alert about the client's certificate
                raise handshake_error(problem, self._host) from None
            raise
        return filled

    def sendmsg(self, buffers: Sequence[Buffer]) -> int:
        """Encrypt and send at most 128 KiB; small buffers are joined into one TLS record. Returns the number of bytes
        sent."""
        secured = self._secured
        if secured is None:
            return 0
        data = _joined(buffers) if self._unsent is None else self._unsent
        try:
            count = secured.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            self._unsent = data
            return 0
        except OSError:
            self._read_alert(secured)
            raise
        self._unsent = None
        return count

    def _read_alert(self, secured: ssl.SSLSocket) -> None:
        """Raise SslAuthenticationFailed if the server refused the client's certificate before it closed the
        connection."""
        try:
            secured.recv(1)
        except ssl.SSLError as problem:
            if problem.reason in _REASONS:
                raise handshake_error(problem, self._host) from None
        except OSError:
            return

    def close(self) -> None:
        """Send close_notify if that is possible without waiting, and close the connection."""
        secured, self._secured = self._secured, None
        if secured is not None:
            with contextlib.suppress(OSError, ValueError):
                secured.unwrap()
        super().close()


def _joined(buffers: Sequence[Buffer]) -> Buffer:
    """Join the first buffers up to the size of a TLS record; a large first buffer is used alone."""
    first = buffers[0]
    if len(first) >= _RECORD_BYTES or len(buffers) == 1:
        return memoryview(first)[:_WRITE_BYTES]
    parts, size = [], 0
    for buffer in buffers:
        part = memoryview(buffer)[: _RECORD_BYTES - size]
        parts.append(part)
        size += len(part)
        if size == _RECORD_BYTES:
            break
    return b"".join(parts)


def handshake_error(problem: ssl.SSLError, host: str) -> KafkaError:
    """Convert an error of OpenSSL to a KafkaError that names the cause and the setting to check."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        code = problem.verify_code
        if code in _HOST_NAME_CODES:
            return SslAuthenticationFailed(
                f"the server's certificate is not for {host} (ssl.endpoint.identification.algorithm)"
            )
        return SslAuthenticationFailed(_VERIFICATION.get(code, f"the server's certificate: {problem.verify_message}"))
    if isinstance(problem, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return HandshakeInterrupted(_CLOSED)
    reason = problem.reason or "the handshake failed"
    return SslAuthenticationFailed(_REASONS.get(reason, reason.lower().replace("_", " ")))


def tls_factory(config: Config) -> TransportFactory:
    """A factory of TLS connections with a client's settings. Raises ConfigError, KeyStoreUnreadable."""
    tls = client_tls(config)
    send_bytes, receive_bytes = config.send_buffer_bytes, config.receive_buffer_bytes
    return lambda address, host: TlsTransport(address, host, tls, send_bytes, receive_bytes)
