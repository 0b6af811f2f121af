"""Requests to whoever is the active controller: a channel that is a list of requests, and a manual clock."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kafkatools.core.broker.cluster.channels import OnAnswer, OnRawAnswer
from kafkatools.core.broker.cluster.controller_link import RETRY_MS, ControllerLink
from kafkatools.core.clock import ManualClock

HEARTBEAT, NOT_CONTROLLER = 63, 41


class Recorded:
    """What was sent, to whom, and the way to answer it."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any, OnAnswer, int | None]] = []

    def send(
        self,
        node_id: int,
        api_key: int,
        fields: Mapping[str, Any],
        on_answer: OnAnswer,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        self.sent.append((node_id, fields, on_answer, timeout_ms))

    def send_raw(
        self,
        node_id: int,
        api_key: int,
        version: int,
        body: bytes,
        on_answer: OnRawAnswer,
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
