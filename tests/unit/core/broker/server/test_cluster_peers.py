"""Requests between nodes: a listener waits for its own sockets and for its connections to others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from support.listeners import open_listener
from support.manual_clock import ManualClock

from kafkatools.core.broker.server.peers import Peers
from kafkatools.core.broker.server.requests import DELAYED, Request, Response
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.frames import decode_request_header

VOTE, FETCH, API_VERSIONS, ENVELOPE = 52, 1, 18, 58


class Side:
    """A node that answers Vote at once, Fetch and Envelope when told."""

    apis: Mapping[int, Any] = {}

    def __init__(self, clock: ManualClock, addresses: dict[int, tuple[str, int]]) -> None:
        self.clock = clock
        self.listener = open_listener(self, name="CONTROLLER")
        self.peers = Peers(self.listener, clock, addresses.get, client_id="test", request_timeout_ms=2000)
        self.delayed: list[Request] = []
        self.seen: list[tuple[int, Any]] = []
        self.is_silent = False

    def __call__(self, request: Request) -> Response:
        request.is_flexible = request.api_key in (VOTE, ENVELOPE) or (request.api_key, request.version) >= (FETCH, 12)
        request.body_offset = decode_request_header(request.frame).body_offset
        if request.api_key == API_VERSIONS:
            request.is_flexible = False
            keys = [
                {"api_key": key, "min_version": 0, "max_version": 18} for key in (VOTE, FETCH, API_VERSIONS, ENVELOPE)
            ]
            return request.respond({"error_code": 0, "api_keys": keys})
        self.seen.append((request.api_key, request.decode()))
        if request.api_key in (FETCH, ENVELOPE) or self.is_silent:
            self.delayed.append(request)
            return DELAYED
        return request.respond({"error_code": 0, "topics": []})

    def turn(self) -> None:
        now_ms = self.clock.now_ms()
        self.listener.poll(0, now_ms)
        self.peers.tick(now_ms)

    def close(self) -> None:
        self.peers.close()
        self.listener.close()


class Pair:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.addresses: dict[int, tuple[str, int]] = {}
        self.sides = [Side(self.clock, self.addresses) for _ in range(2)]
        for index, side in enumerate(self.sides):
            self.addresses[index + 1] = (side.listener.acceptors[0].host, side.listener.port)

    def run_until(self, done: Callable[[], object], max_ms: int = 30_000) -> int:
        begun = self.clock.now_ms()
        turns = 0
        while not done():
            for side in self.sides:
                side.turn()
            turns += 1
            if turns % 20 == 0:
                self.clock.advance_ms(10)
            assert self.clock.now_ms() - begun < max_ms, "it did not happen"
        return self.clock.now_ms() - begun


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    for side in made.sides:
        side.close()


def test_a_request_waits_for_its_connection_and_is_answered(pair: Pair) -> None:
    answers: list[Any] = []
    pair.sides[0].peers.send(2, VOTE, {"cluster_id": "c", "voter_id": 2, "topics": []}, answers.append)
    assert answers == []
    pair.run_until(lambda: answers)
    assert answers[0].error_code == 0
    [(key, entity)] = pair.sides[1].seen
    assert (key, entity.cluster_id, entity.voter_id) == (VOTE, "c", 2)


def test_a_vote_overtakes_a_fetch_that_waits_at_the_other_side(pair: Pair) -> None:
    answers: list[tuple[str, Any]] = []
    channel = pair.sides[0].peers
    channel.send(2, FETCH, {"max_wait": 500, "min_bytes": 1, "topics": []}, lambda a: answers.append(("fetch", a)))
    channel.send(2, VOTE, {"topics": []}, lambda a: answers.append(("vote", a)))
    pair.run_until(lambda: answers)
    assert [name for name, _ in answers] == ["vote"]
    [waiting] = pair.sides[1].delayed
    waiting.complete(waiting.respond({"responses": []}))
    pair.run_until(lambda: len(answers) == 2)
    assert answers[1][1].responses == ()


def test_an_envelope_waits_for_no_fetch_and_holds_up_no_vote(pair: Pair) -> None:
    answers: list[str] = []
    channel, other = pair.sides[0].peers, pair.sides[1]
    channel.send(2, FETCH, {"max_wait": 500, "min_bytes": 1, "topics": []}, lambda _: answers.append("fetch"))
    change = {"request_data": b"", "request_principal": None, "client_host_address": b""}
    channel.send(2, ENVELOPE, change, lambda _: answers.append("envelope"))
    channel.send(2, VOTE, {"topics": []}, lambda _: answers.append("vote"))
    pair.run_until(lambda: answers and len(other.delayed) == 2)
    assert answers == ["vote"]
    [envelope] = [request for request in other.delayed if request.api_key == ENVELOPE]
    envelope.complete(envelope.respond({"response_data": None, "error_code": 0}))
    pair.run_until(lambda: len(answers) == 2)
    assert answers == ["vote", "envelope"]


def test_a_framed_request_is_sent_as_it_is_and_its_answer_not_read(pair: Pair) -> None:
    body = messages.encode_fields(messages.request_type(VOTE, 1), {"cluster_id": "framed", "topics": []})
    answers: list[bytes | None] = []
    pair.sides[0].peers.send_raw(2, VOTE, 1, body, lambda raw: answers.append(None if raw is None else bytes(raw)))
    pair.run_until(lambda: answers)
    assert pair.sides[1].seen[0][1].cluster_id == "framed"
    expected = messages.encode_fields(messages.response_type(VOTE, 1), {"error_code": 0, "topics": []})
    assert answers == [expected]


def test_nobody_listens_there_or_the_address_is_unknown(pair: Pair) -> None:
    pair.sides[1].listener.close()
    answers: list[Any] = []
    pair.sides[0].peers.send(2, VOTE, {"topics": []}, answers.append)
    pair.sides[0].peers.send(7, VOTE, {"topics": []}, answers.append)
    pair.sides.pop().peers._client.close()
    pair.run_until(lambda: len(answers) == 2, 1000)
    assert answers == [None, None]
    assert "refused" in pair.sides[0].peers.connection_error(2)


def test_requests_during_the_back_off_wait_for_the_next_try(pair: Pair) -> None:
    host, port = pair.addresses[2]
    pair.addresses[2] = (host, 1)
    answers: list[Any] = []
    pair.sides[0].peers.send(2, VOTE, {"topics": []}, answers.append)
    pair.run_until(lambda: answers)
    pair.addresses[2] = (host, port)
    pair.sides[0].peers.send(2, VOTE, {"topics": []}, answers.append)
    assert pair.run_until(lambda: len(answers) == 2) < 1000
    assert answers[0] is None
    assert answers[1].error_code == 0


def test_an_answer_that_does_not_come_in_time_is_none_and_costs_the_connection(pair: Pair) -> None:
    pair.sides[1].is_silent = True
    answers: list[Any] = []
    pair.sides[0].peers.send(2, VOTE, {"topics": []}, answers.append, timeout_ms=300)
    took_ms = pair.run_until(lambda: answers)
    assert answers == [None]
    assert 300 <= took_ms < 500
    pair.sides[1].is_silent = False
    pair.sides[0].peers.send(2, VOTE, {"topics": []}, answers.append)
    pair.run_until(lambda: len(answers) == 2)
    assert answers[1].error_code == 0


def test_without_requests_there_is_nothing_to_wake_up_for(pair: Pair) -> None:
    answers: list[Any] = []
    deadlines = [pair.sides[0].peers.next_deadline_ms]
    pair.sides[0].peers.send(2, VOTE, {"topics": []}, answers.append)
    deadlines.append(pair.sides[0].peers.next_deadline_ms)
    now_ms = pair.clock.now_ms()
    pair.run_until(lambda: answers)
    deadlines.append(pair.sides[0].peers.next_deadline_ms)
    assert deadlines == [None, now_ms, None]
