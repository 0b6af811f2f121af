"""Requests to whoever is the active controller: a channel that is a list of requests, and a manual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.broker.server.channels import OnRawResponse, OnResponse
from kafkatools.core.broker.server.controller_link import LAST_WORD_MS, RETRY_MS, ControllerLink, Fate

HEARTBEAT, ENVELOPE, NOT_CONTROLLER, REQUEST_TIMED_OUT = 63, 58, 41, 7


class Recorded:
    """What was sent, to whom, and the way to answer it."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any, OnResponse, int | None]] = []
        self.may_send: list[Callable[[], bool] | None] = []

    def send(
        self,
        node_id: int,
        api_key: int,
        fields: Mapping[str, Any],
        on_response: OnResponse,
        *,
        timeout_ms: int | None = None,
        may_send: Callable[[], bool] | None = None,
    ) -> None:
        self.sent.append((node_id, fields, on_response, timeout_ms))
        self.may_send.append(may_send)

    def send_raw(
        self,
        node_id: int,
        api_key: int,
        version: int,
        body: bytes,
        on_response: OnRawResponse,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        raise AssertionError("the controller is asked in fields")


class Story:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.channel = Recorded()
        self.leader: int | None = 1
        self.link = ControllerLink(self.channel, self.clock, lambda: self.leader, 1000)
        self.answers: list[Any] = []
        self.is_needed = True

    def send_once(self) -> None:
        self.link.send_once(ENVELOPE, {}, self.answers.append, is_needed=lambda: self.is_needed)

    def connect(self, index: int) -> bool:
        """The connection stands; whether the request goes out."""
        may_send = self.channel.may_send[index]
        assert may_send is not None
        return may_send()

    def send(self, **fields: Any) -> None:
        self.link.send(HEARTBEAT, fields, self.answers.append)

    def answer(self, index: int, code: int | None) -> None:
        self.channel.sent[index][2](None if code is None else SimpleNamespace(error_code=code))

    def pass_ms(self, duration_ms: int) -> None:
        self.clock.advance_ms(duration_ms)
        self.link.tick(self.clock.now_ms())


@pytest.fixture
def story() -> Story:
    return Story()


def test_the_leader_answers(story: Story) -> None:
    story.send(broker_id=7)
    [(node_id, fields, _, timeout_ms)] = story.channel.sent
    assert (node_id, fields, timeout_ms) == (1, {"broker_id": 7}, 1000)
    story.answer(0, 77)
    assert [answer.error_code for answer in story.answers] == [77]
    assert story.link.next_deadline_ms is None


@pytest.mark.parametrize("code", [NOT_CONTROLLER, None])
def test_who_is_not_the_controller_or_does_not_answer_is_asked_again(story: Story, code: int | None) -> None:
    story.send()
    story.answer(0, code)
    assert story.link.next_deadline_ms == story.clock.now_ms() + RETRY_MS
    story.pass_ms(RETRY_MS)
    assert len(story.channel.sent) == 2
    assert story.channel.sent[1][3] == 1000 - RETRY_MS
    story.answer(1, 0)
    assert len(story.answers) == 1


def test_a_new_leader_is_asked_at_once_and_the_old_one_is_not_listened_to(story: Story) -> None:
    story.send()
    story.leader = 2
    story.link.note_leader(story.clock.now_ms())
    assert [node_id for node_id, *_ in story.channel.sent] == [1, 2]
    story.answer(0, 0)
    assert story.answers == []
    story.answer(1, 0)
    assert len(story.answers) == 1


def test_nobody_leads_until_the_time_is_over(story: Story) -> None:
    story.leader = None
    story.send()
    story.pass_ms(999)
    assert story.answers == []
    story.pass_ms(1)
    assert story.answers == [None]
    assert story.channel.sent == []


def test_a_leader_appears(story: Story) -> None:
    story.leader = None
    story.send()
    story.pass_ms(500)
    story.leader = 3
    story.pass_ms(RETRY_MS)
    assert [node_id for node_id, *_ in story.channel.sent] == [3]


# -- changes: at most once -----------------------------------------------------------------------------------------
def test_a_change_that_was_not_sent_is_tried_until_it_is(story: Story) -> None:
    story.send_once()
    story.answer(0, None)  # the connection was refused
    story.pass_ms(RETRY_MS)
    assert story.connect(1)
    story.answer(1, 0)
    assert [answer.error_code for answer in story.answers] == [0]


def test_a_change_whose_connection_is_lost_behind_it_is_not_sent_again(story: Story) -> None:
    story.send_once()
    assert story.connect(0)
    story.answer(0, None)
    assert story.answers == [Fate.UNKNOWN]
    story.leader = 2
    story.pass_ms(RETRY_MS)
    assert len(story.channel.sent) == 1


def test_a_change_that_was_begun_and_given_up_is_not_sent_again(story: Story) -> None:
    story.send_once()
    assert story.connect(0)
    story.answer(0, REQUEST_TIMED_OUT)
    assert story.answers == [Fate.UNKNOWN]


def test_a_change_that_a_node_refused_goes_to_the_next_controller(story: Story) -> None:
    story.send_once()
    assert story.connect(0)
    story.leader = 2
    story.link.note_leader(story.clock.now_ms())
    story.pass_ms(100)
    assert len(story.channel.sent) == 1  # the old one may have done it
    story.answer(0, NOT_CONTROLLER)
    story.leader = 3
    story.pass_ms(RETRY_MS)
    assert story.answers == []
    assert [node_id for node_id, *_ in story.channel.sent] == [1, 3]
    assert story.connect(1)
    story.answer(1, 0)
    assert len(story.answers) == 1


def test_the_old_controllers_word_on_a_change_is_waited_for_a_little(story: Story) -> None:
    story.link.send_once(ENVELOPE, {}, story.answers.append, is_needed=lambda: True, timeout_ms=30_000)
    assert story.connect(0)
    story.leader = 2
    story.pass_ms(1)
    story.pass_ms(LAST_WORD_MS - 1)
    assert story.answers == []
    story.pass_ms(1)
    assert story.answers == [Fate.UNKNOWN]
    story.answer(0, 0)
    assert len(story.answers) == 1
    assert len(story.channel.sent) == 1


def test_a_change_that_waits_for_a_connection_goes_to_the_new_leader_only(story: Story) -> None:
    story.send_once()
    story.leader = 2
    story.pass_ms(1)
    assert [node_id for node_id, *_ in story.channel.sent] == [1, 2]
    assert story.connect(1)
    assert not story.connect(0)  # the old leader's connection stands at last
    story.answer(0, None)
    story.answer(1, 0)
    assert [answer.error_code for answer in story.answers] == [0]


def test_nothing_is_sent_for_a_client_that_is_gone(story: Story) -> None:
    story.leader = None
    story.send_once()
    story.is_needed = False
    story.leader = 2
    story.pass_ms(RETRY_MS)
    assert story.answers == [Fate.ABANDONED]
    assert story.channel.sent == []


def test_a_client_that_goes_while_the_connection_is_made_gets_nothing_done(story: Story) -> None:
    story.send_once()
    story.is_needed = False
    assert not story.connect(0)
    story.answer(0, None)
    story.pass_ms(RETRY_MS)
    assert story.answers == [Fate.ABANDONED]


@pytest.mark.parametrize(("is_sent", "fate"), [(True, Fate.UNKNOWN), (False, Fate.NOT_SENT)])
def test_a_change_whose_time_is_over(story: Story, is_sent: bool, fate: Fate) -> None:
    story.send_once()
    if is_sent:
        assert story.connect(0)
    story.pass_ms(1000)
    assert story.answers == [fate]
