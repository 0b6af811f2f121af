"""States of brokers by their heartbeats against what Apache Kafka 4.3.1's BrokerHeartbeatManager made of the same ones.

tests/golden/controller/heartbeats.jsonl.gz was recorded with tests/support/Heartbeats.java (200 stories).
"""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

from kafkatools.core.broker.metadata.controller.broker_heartbeats import (
    BrokerControlState,
    BrokerHeartbeats,
    HeartbeatRequest,
)

_RECORDED = pathlib.Path(__file__).parents[5] / "golden" / "controller" / "heartbeats.jsonl.gz"


def _heartbeat(beats: BrokerHeartbeats, broker_id: int, told: list[Any]) -> list[Any]:
    offset, want_fence, want_shut_down, registered, leads, end = told
    beats._brokers[broker_id].registration_offset = registered
    request = HeartbeatRequest(offset, want_fence, want_shut_down)
    current, following = beats.next_state(broker_id, request, has_leaderships=leads)
    beats.touch(broker_id, offset, is_fenced=following.is_fenced)
    if following is BrokerControlState.CONTROLLED_SHUTDOWN:
        beats.note_controlled_shutdown(broker_id, end)
    return [current.name, following.name, beats.lowest_active_offset()]


def test_every_broker_becomes_what_it_becomes_in_apache_kafka() -> None:
    stories = [json.loads(line) for line in gzip.decompress(_RECORDED.read_bytes()).splitlines()]
    assert len(stories) == 200
    for number, story in enumerate(stories):
        beats = BrokerHeartbeats(9000)
        for step, (what, broker_id, *told) in enumerate(story):
            if what == "register":
                beats.register(broker_id, 0, is_fenced=told[0])
            elif what == "remove":
                beats.remove(broker_id)
            elif what == "touch":
                beats.touch(broker_id, told[1], is_fenced=told[0])
            else:
                assert _heartbeat(beats, broker_id, told[:6]) == told[6:], f"story {number}, step {step}: {told}"


def test_a_session_lasts_from_the_last_time_a_broker_was_heard_of() -> None:
    beats = BrokerHeartbeats(9000)
    beats.note_contact(1, 10, 0)
    beats.note_contact(2, 11, 100)
    beats.note_contact(1, 10, 5000)
    assert beats.next_deadline_ms == 9100
    assert beats.expired(9099) is None and beats.has_valid_session(2, 11, 9099)
    assert beats.expired(9100) == (2, 11) and not beats.has_valid_session(2, 11, 9100)
    beats.end_session(2, 11)
    assert (beats.expired(13_999), beats.expired(14_000)) == (None, (1, 10))
    assert not beats.has_valid_session(1, 12, 6000)  # another process


def test_of_sessions_that_are_over_a_restarted_brokers_ends_last() -> None:
    beats = BrokerHeartbeats(9000)
    for broker_id in (1, 2, 3):
        beats.note_contact(broker_id, 10 + broker_id, 0)
    beats.note_restart(1, 11)
    beats.note_restart(3, 12)  # of no session
    ended = []
    while (session := beats.expired(9000)) is not None:
        assert beats.expired(9000) == session
        ended.append(session)
        beats.end_session(*session)
    assert ended == [(2, 12), (3, 13), (1, 11)]


def test_a_restarted_brokers_session_that_is_over_does_not_wait_for_one_that_is_not() -> None:
    beats = BrokerHeartbeats(9000)
    beats.note_contact(1, 11, 0)
    beats.note_contact(2, 12, 100)
    beats.note_restart(1, 11)
    assert beats.expired(9000) == (1, 11)
