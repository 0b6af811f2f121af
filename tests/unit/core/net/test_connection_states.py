"""Back-off and the states of connections."""

import pytest

from kafkatools.core.errors import ConfigError, ConnectionFailed
from kafkatools.core.net.addresses import HostPort, java_address, parse_bootstrap_servers
from kafkatools.core.net.connection_states import ConnectionState, ConnectionStates, ExponentialBackoff


def states(random: float = 0.5) -> ConnectionStates:
    return ConnectionStates(
        ExponentialBackoff(50, 1000, random=lambda: random), ExponentialBackoff(10_000, 30_000, random=lambda: random)
    )


def test_backoff_doubles_up_to_its_bound() -> None:
    backoff = ExponentialBackoff(50, 1000, random=lambda: 0.5)
    assert [backoff.backoff_ms(attempts) for attempts in range(7)] == [50, 100, 200, 400, 800, 1000, 1000]
    assert backoff.backoff_ms(10_000) == 1000


def test_backoff_varies_by_a_fifth_and_never_passes_its_bound() -> None:
    low, high = (ExponentialBackoff(100, 1000, random=lambda value=value: value) for value in (0.0, 0.999999))
    assert [low.backoff_ms(0), low.backoff_ms(9)] == [80, 800]
    assert [high.backoff_ms(0), high.backoff_ms(9)] == [119, 1000]


def test_backoff_with_equal_bounds_is_constant() -> None:
    assert ExponentialBackoff(100, 50, random=lambda: 0.0).backoff_ms(5) == 50


def test_failures_grow_the_wait_and_success_resets_it() -> None:
    tracked = states()
    now = 1000
    for expected in (50, 100, 200):
        assert tracked.can_connect(1, now)
        tracked.connecting(1, "127.0.0.1", 9092, now)
        assert not tracked.can_connect(1, now)
        tracked.disconnected(1, now, ConnectionFailed("refused"))
        assert tracked.is_blacked_out(1, now + expected - 1)
        assert tracked.connection_delay_ms(1, now) == expected
        now += expected
        assert not tracked.is_blacked_out(1, now)
    tracked.connecting(1, "127.0.0.1", 9092, now)
    tracked.connected(1)
    assert tracked.state(1) is ConnectionState.CHECKING_API_VERSIONS
    assert str(tracked.error(1)) == "refused"
    tracked.ready(1)
    assert tracked.error(1) is None
    tracked.disconnected(1, now, None)
    assert tracked.connection_delay_ms(1, now) == 50


def test_time_to_connect_grows_with_failed_connects() -> None:
    tracked = states()
    tracked.connecting(1, "127.0.0.1", 9092, 0)
    assert tracked.timed_out_connections(10_000) == []
    assert tracked.timed_out_connections(10_001) == [1]
    tracked.disconnected(1, 10_001, None)
    tracked.connecting(1, "127.0.0.1", 9092, 20_000)
    assert tracked.timed_out_connections(40_000) == []
    assert tracked.timed_out_connections(40_001) == [1]
    assert tracked.next_setup_timeout_ms(20_000) == 20_001


def test_time_to_connect_lasts_until_the_node_is_ready() -> None:
    tracked = states()
    tracked.connecting(1, "127.0.0.1", 9092, 0)
    tracked.connected(1)
    assert tracked.next_setup_timeout_ms(0) == 10_001
    assert tracked.connection_delay_ms(1, 4000) == 6000
    assert tracked.timed_out_connections(10_000) == []
    assert tracked.timed_out_connections(10_001) == [1]
    tracked.disconnected(1, 10_001, None)
    tracked.connecting(1, "127.0.0.1", 9092, 20_000)
    tracked.connected(1)
    assert tracked.timed_out_connections(40_000) == []
    tracked.ready(1)
    assert tracked.timed_out_connections(90_000) == []
    assert tracked.next_setup_timeout_ms(90_000) is None


def test_next_address_of_a_name_is_tried_without_a_wait() -> None:
    tracked = states()
    first = tracked.connecting(1, "127.0.0.1", 9092, 0)
    node = tracked._nodes[1]
    node.addresses.append(first._replace(sockaddr=("127.0.0.2", 9092)))
    tracked.disconnected(1, 0, None)
    assert tracked.can_connect(1, 0)
    assert tracked.connecting(1, "127.0.0.1", 9092, 0).sockaddr == ("127.0.0.2", 9092)
    tracked.disconnected(1, 0, None)
    assert not tracked.can_connect(1, 0)


def test_pause_asked_for_by_a_node() -> None:
    tracked = states()
    tracked.connecting(1, "127.0.0.1", 9092, 0)
    tracked.connected(1)
    tracked.ready(1)
    tracked.throttle(1, 500)
    assert not tracked.is_ready(1, 499)
    assert tracked.is_ready(1, 500)
    assert tracked.throttle_delay_ms(1, 100) == 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", [("a", 1)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
    ],
)
def test_bootstrap_servers(text: str, expected: list[tuple[str, int]]) -> None:
    assert parse_bootstrap_servers(text) == expected


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:b", "a:0", "a:65536", "::1:9092", "a:-1", f"a:{'9' * 5000}"])
def test_bad_bootstrap_servers(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_bootstrap_servers(text)


def test_host_and_port_print_as_an_address() -> None:
    assert str(HostPort("::1", 9)) == "[::1]:9"
    assert str(HostPort("a", 9)) == "a:9"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("FE80::a0%eth0", "fe80:0:0:0:0:0:0:a0%eth0"),
        ("a:b", "a:b"),
    ],
)
def test_an_address_in_the_form_of_java(text: str, expected: str) -> None:
    assert java_address(text) == expected
