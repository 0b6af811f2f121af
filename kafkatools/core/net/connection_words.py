"""The errors of failed connections: their messages name the node, the step (TCP, TLS, ApiVersions, SASL) and what the
user should check."""

from __future__ import annotations

from kafkatools.core.errors import (
    ClosedUnanswered,
    ConnectionFailed,
    Disconnected,
    HandshakeInterrupted,
    KafkaError,
    NotKafka,
    SslAuthenticationFailed,
)
from kafkatools.core.net.channel import Channel, EndOfStream


def connect_failure(name: str, problem: Exception, is_tcp_up: bool) -> KafkaError:
    """The error of a connection attempt that failed. An error of the TLS handshake gets the node's name, other
    KafkaErrors stay; an OSError becomes ConnectionFailed."""
    if is_tcp_up and isinstance(problem, (SslAuthenticationFailed, HandshakeInterrupted)):
        return type(problem)(f"TLS with {name} failed: {problem}")
    if isinstance(problem, KafkaError):
        return problem
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return ConnectionFailed(f"Connection to {name} failed: {reason}")


def not_made_in_time(name: str, is_tcp_up: bool) -> ConnectionFailed:
    """The error of a connection that TCP or TLS did not establish within socket.connection.setup.timeout.ms.
    HandshakeInterrupted if TCP was connected (`is_tcp_up`), else ConnectionFailed."""
    setting = "(socket.connection.setup.timeout.ms)"
    if is_tcp_up:
        return HandshakeInterrupted(f"TLS with {name} was not set up in time {setting}: is it a port without TLS?")
    return ConnectionFailed(f"Connection to {name} was not established in time {setting}")


def silence(name: str, waited_ms: int) -> ConnectionFailed:
    """The error of a server that accepts a connection but does not answer ApiVersions within `waited_ms`."""
    return ConnectionFailed(
        f"Connected to {name}, but it did not answer ApiVersions within {waited_ms / 1000:.1f} s: "
        "is it a Kafka broker, and a port without TLS?"
    )


def receive_failure(name: str, error: KafkaError) -> KafkaError:
    """The error of a connection on which invalid bytes arrived. The node's name is added to NotKafka and
    SslAuthenticationFailed; other errors stay."""
    if isinstance(error, NotKafka):
        return NotKafka(f"{name} does not speak Kafka's protocol: {error}")
    if isinstance(error, SslAuthenticationFailed):
        return SslAuthenticationFailed(f"TLS with {name} failed: {error}")
    return error


def disconnection(name: str, channel: Channel, problem: OSError | EndOfStream, step: str) -> KafkaError:
    """The error of a connection that the server closed or on which a read failed: ClosedUnanswered with a `step`, else
    Disconnected. `step`: text for the step in which it was closed (SASL, or the first request after ApiVersions); empty
    otherwise."""
    # A TLS server answers plain text with a reset: before the first byte that means the same as an orderly close.
    if isinstance(problem, OSError) and channel.has_received:
        return Disconnected(f"Connection to {name} lost: {problem.strerror or problem}")
    if step:
        return ClosedUnanswered(f"{name} closed the connection {step}")
    if not channel.has_received and not channel.is_trusted:
        return Disconnected(
            f"{name} closed the connection before it answered: it is not a Kafka broker, expects another "
            "security.protocol, has reached its connection limit, or is shutting down"
        )
    return Disconnected(f"{name} closed the connection")
