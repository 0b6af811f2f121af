"""A response is completed exactly once; responses that wait for a log are completed in its order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkatools.core.broker.server.deferred import Deferred, Waiting, WaitingResponses
from kafkatools.core.broker.server.requests import DELAYED, CloseConnection, Request
from kafkatools.core.errors import NotLeaderOrFollower, RequestTimedOut


class Client:
    """The connection of a request."""

    def __init__(self) -> None:
        self.responses: list[Any] = []
        self.is_closed = False
        self.settled = 0

    def complete(self, response: Any) -> None:
        self.responses.append(response)

    def close(self) -> None:
        self.is_closed = True

    def settle(self) -> None:
        self.settled += 1


def deferred() -> tuple[Deferred, Client]:
    client = Client()
    return Deferred(Request(client, memoryview(b""), (18, 0, 1))), client  # type: ignore[arg-type]


def test_response_within_the_handler_is_its_result() -> None:
    later, client = deferred()
    later.complete([b"a"])
    assert later.result() == [b"a"]
    assert client.responses == []


def test_later_response_goes_to_the_connection_once() -> None:
    later, client = deferred()
    assert later.result() is DELAYED
    later.complete([b"a"])
    with pytest.raises(RuntimeError):
        later.complete([b"b"])
    with pytest.raises(RuntimeError):
        later.close_connection(CloseConnection("too late"))
    assert (client.responses, client.is_closed) == ([[b"a"]], False)


def test_connection_is_closed_instead_of_a_response() -> None:
    later, client = deferred()
    with pytest.raises(CloseConnection, match="why"):
        later.close_connection(CloseConnection("why"))
    later, client = deferred()
    assert later.result() is DELAYED
    later.close_connection(CloseConnection("why"))
    assert (client.responses, client.is_closed) == ([], True)


def test_large_response_within_the_handler_is_made_at_its_end() -> None:
    made: list[str] = []

    def make() -> list[bytes]:
        made.append("a")
        return [b"a"]

    later, client = deferred()
    later.complete_with(make)
    assert made == []
    with pytest.raises(RuntimeError):
        later.complete([b"b"])
    assert later.result() == [b"a"]
    assert (made, client.responses) == (["a"], [])


@pytest.mark.parametrize("is_in_slow_lane", [False, True])
def test_large_response_that_comes_later_is_made_where_the_request_is(is_in_slow_lane: bool) -> None:
    later, client = deferred()
    resumed: list[Any] = []
    if is_in_slow_lane:
        later._request.enter_lane(resumed.append)
    assert later.result() is DELAYED
    later.complete_with(lambda: [b"a"])
    if is_in_slow_lane:
        assert client.responses == []
        assert [make() for make in resumed] == [[b"a"]]
    else:
        assert client.responses == [[b"a"]]


class Log:
    """A log with a committed offset, and the responses that wait for it."""

    def __init__(self) -> None:
        self.waiting = WaitingResponses()
        self.finished: list[tuple[int, int]] = []
        self.client = Client()
        self.committed = 0

    def wait(self, offset: int, deadline_ms: int | None = None) -> None:
        def finish(error_code: int) -> Client:
            self.finished.append((offset, error_code))
            return self.client

        self.waiting.append(Waiting(offset, finish, deadline_ms))

    def outcome(self, offset: int) -> int | None:
        return 0 if offset <= self.committed else None


def test_responses_are_completed_in_the_order_of_the_log_and_sent_together() -> None:
    log = Log()
    for offset in (1, 2, 5):
        log.wait(offset)
    log.committed = 3
    log.waiting.complete(log.outcome)
    assert (log.finished, log.client.settled, len(log.waiting)) == ([(1, 0), (2, 0)], 1, 1)


def test_responses_whose_deadline_passed_time_out() -> None:
    log = Log()
    log.wait(1, deadline_ms=100)
    log.wait(2, deadline_ms=200)
    log.wait(3)
    log.waiting.complete(log.outcome)
    log.waiting.complete(log.outcome, 99)
    assert log.finished == []
    log.waiting.complete(log.outcome, 200)
    assert log.finished == [(1, RequestTimedOut.code), (2, RequestTimedOut.code)]
    log.waiting.complete(log.outcome, 10_000)
    assert len(log.waiting) == 1


def test_all_responses_end_with_the_leadership() -> None:
    log = Log()
    log.wait(1)
    log.wait(2, deadline_ms=1)
    log.waiting.complete(lambda _: NotLeaderOrFollower.code)
    assert log.finished == [(1, NotLeaderOrFollower.code), (2, NotLeaderOrFollower.code)]
    assert not log.waiting


def test_response_that_waits_anew_while_others_are_completed_is_not_lost() -> None:
    log = Log()
    again = SimpleNamespace(count=0)

    def finish(error_code: int) -> None:
        again.count += 1
        if again.count == 1:
            log.waiting.append(Waiting(1, finish))
            log.waiting.append(Waiting(9, finish))

    log.waiting.append(Waiting(1, finish))
    log.committed = 1
    log.waiting.complete(log.outcome)
    assert (again.count, len(log.waiting)) == (2, 1)
