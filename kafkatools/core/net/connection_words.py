"""What is said of a connection that failed: which node, which step (TCP, TLS, ApiVersions, SASL), what to look at."""

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
from kafkatools.core.net.channel import Channel


def connect_failure(name: str, problem: Exception, is_tcp_up: bool) -> KafkaError:
    """A connection that could not be made; the transport names its own steps after TCP."""
    if is_tcp_up and isinstance(problem, (SslAuthenticationFailed, HandshakeInterrupted)):
        return type(problem)(f"TLS with {name} failed: {problem}")
    if isinstance(problem, KafkaError):
        return problem
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return ConnectionFailed(f"Connection to {name} failed: {reason}")


def not_made_in_time(name: str, is_tcp_up: bool) -> ConnectionFailed:
    """socket.connection.setup.timeout.ms is over."""
    setting = "(socket.connection.setup.timeout.ms)"
    if is_tcp_up:
        return HandshakeInterrupted(f"TLS with {name} was not set up in time {setting}: is it a port without TLS?")
    return ConnectionFailed(f"Connection to {name} was not made in time {setting}")


def silence(name: str, waited_ms: int) -> ConnectionFailed:
    """A server that accepts and says nothing."""
    return ConnectionFailed(
        f"Connected to {name}, but it did not answer ApiVersions within {waited_ms / 1000:.1f} s: "
        "is it a Kafka broker, and a port without TLS?"
    )


def receive_failure(name: str, error: KafkaError) -> KafkaError:
    """What came was not what it should be."""
    if isinstance(error, NotKafka):
        return NotKafka(f"{name} did not answer as Kafka does: {error}")
    if isinstance(error, SslAuthenticationFailed):
        return SslAuthenticationFailed(f"TLS with {name} failed: {error}")
    return error


def lost(name: str, channel: Channel, problem: OSError, step: str) -> KafkaError:
    if not channel.has_received:  # how a TLS server hangs up on plain text
        return end_of_stream(name, channel, step)
    return Disconnected(f"Connection to {name} lost: {problem.strerror or problem}")


def end_of_stream(name: str, channel: Channel, step: str) -> KafkaError:
    """The other side closed it. `step`: SASL while that goes on, the first request after it, else nothing."""
    if step:
        return ClosedUnanswered(f"{name} closed the connection {step}")
    if not channel.has_received and not channel.is_trusted:
        return Disconnected(
            f"{name} closed the connection before it answered: it is no Kafka broker, wants another "
            "security.protocol, has all the connections that it allows, or is shutting down"
        )
    return Disconnected(f"{name} closed the connection")
