"""Histories of a quorum whose voters change, also while nodes and the network fail.

KT_SCHEDULES=n plays n histories in each part instead of the usual few; a failure names its seed.
"""

from __future__ import annotations

import os
import random

import pytest
from support.dynamic_quorum import DynamicQuorum, random_changes

from kafkatools.core.errors import (
    DuplicateVoter,
    InvalidUpdateVersion,
    RequestTimedOut,
    UnsupportedVersion,
    VoterNotFound,
)

SCHEDULES = int(os.environ.get("KT_SCHEDULES", "15"))
SHORT_MS = 4000


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_whatever_changes_and_fails_the_rules_of_the_quorum_hold(part: int) -> None:
    first = part * 1_000_000
    fresh = random.SystemRandom().randrange(1 << 40)
    for seed in [*range(first, first + SCHEDULES - 1), fresh]:
        try:
            random_changes(seed, SHORT_MS)
        except BaseException as error:
            error.add_note(f"random_changes({seed}, {SHORT_MS})")
            raise


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(2000074, id="a voter that removed itself is the only one that can win an election"),
        pytest.param(6000932, id="a node asks again to be added before it has fetched that it was"),
        pytest.param(1000099, id="the leader answers as a bootstrap server and by its node id"),
    ],
)
def test_a_quorum_recovers(seed: int) -> None:
    random_changes(seed, SHORT_MS)


def _started(voters: int = 1, **options: tuple[int, ...]) -> DynamicQuorum:
    simulation = DynamicQuorum(1, voters, **options)
    simulation.heal()
    simulation.settle()
    return simulation


def _settled(simulation: DynamicQuorum, count: int) -> None:
    simulation.run_until(lambda: len(simulation.outcomes) == count)
    simulation.settle()
    simulation.check_voters()


def test_voters_are_added_one_by_one_and_the_quorum_then_needs_them() -> None:
    simulation = _started()
    for count, node_id in enumerate((2, 3), 1):
        simulation.add(node_id)
        _settled(simulation, count)
    assert simulation.outcomes == [0, 0]
    assert simulation.voter_ids == [1, 2, 3]
    for node_id in (2, 3):
        simulation.isolate(node_id)
    before = simulation.high_watermark
    simulation.append(3)
    simulation.run_for(1000)
    assert simulation.high_watermark == before


def test_a_leader_that_removes_itself_leads_until_that_is_committed() -> None:
    simulation = _started(3)
    leader = simulation.leader
    assert leader is not None
    simulation.remove(leader.node_id)
    simulation.append(2)
    _settled(simulation, 1)
    assert simulation.outcomes == [0]
    assert leader.node_id not in simulation.voter_ids
    assert simulation.leader is not leader
    assert max(simulation.leaders) == 2


def test_a_second_change_waits_for_the_first() -> None:
    simulation = _started()
    simulation.add(2)
    simulation.add(3)
    assert simulation.outcomes == [RequestTimedOut.code]
    _settled(simulation, 2)
    assert simulation.voter_ids == [1, 2]


def test_requests_that_cannot_be_done_get_kafkas_errors() -> None:
    simulation = _started(3)
    simulation.add(2)
    simulation.remove(4)
    assert simulation.outcomes == [DuplicateVoter.code, VoterNotFound.code]
    alone = _started(1)
    alone.remove(1)
    assert alone.outcomes == [VoterNotFound.code]  # the last voter stays


def test_a_voter_that_is_down_cannot_be_added() -> None:
    simulation = _started()
    simulation.nodes[2].crash(is_reset=True)
    simulation.add(2)
    simulation.run_until(lambda: bool(simulation.outcomes))
    assert simulation.outcomes == [RequestTimedOut.code]
    assert simulation.voter_ids == [1]


def test_a_change_without_a_majority_times_out_and_may_be_made_later() -> None:
    simulation = _started()
    simulation.add(2)
    _settled(simulation, 1)
    simulation.isolate(2)
    simulation.add(3)
    simulation.run_until(lambda: len(simulation.outcomes) == 2)
    simulation.settle()
    assert simulation.outcomes[1] in (0, RequestTimedOut.code)
    simulation.check_voters()


def test_observers_join_by_themselves_where_they_may() -> None:
    simulation = _started(1, auto_join=(2, 4))
    simulation.run_until(lambda: simulation.leader is not None and simulation.voter_ids == [1, 2, 4])
    simulation.settle()
    simulation.check_voters()


def test_a_voter_with_a_new_disk_replaces_itself() -> None:
    simulation = _started(3, auto_join=(1, 2, 3))
    leader = simulation.leader
    assert leader is not None
    node_id = next(node for node in (1, 2, 3) if node != leader.node_id)
    simulation.nodes[node_id].crash(is_reset=True)
    simulation.wipe(node_id)
    simulation.nodes[node_id].start()
    own = simulation.voter(node_id)

    def has_joined() -> bool:
        raft = None if simulation.leader is None else simulation.leader.raft
        return raft is not None and raft.voter_set.has(own.key)

    simulation.run_until(has_joined)
    simulation.settle()
    simulation.check_voters()


def test_a_voter_reports_its_new_address() -> None:
    simulation = _started(3)
    leader = simulation.leader
    assert leader is not None
    node_id = next(node for node in (1, 2, 3) if node != leader.node_id)
    simulation.nodes[node_id].crash(is_reset=True)
    simulation.ports[node_id] = 9999
    simulation.nodes[node_id].start()

    def is_updated() -> bool:
        raft = None if simulation.leader is None else simulation.leader.raft
        return raft is not None and raft.voters[node_id] == ("localhost", 9999)

    simulation.run_until(is_updated)
    simulation.settle()
    simulation.check_voters()


@pytest.mark.slow
def test_a_static_voter_that_missed_the_upgrade_follows_a_leader_that_its_settings_do_not_name() -> None:
    random_changes(7000325, 20_000)


def test_a_static_quorum_becomes_a_dynamic_one_when_all_voters_have_reported_themselves() -> None:
    simulation = DynamicQuorum(1, 3, is_static=True)
    simulation.heal()
    simulation.settle()
    leader = simulation.leader
    assert leader is not None
    assert leader.raft is not None
    with pytest.raises(InvalidUpdateVersion, match="because not all of the voters support it"):
        leader.raft.upgrade_kraft_version(1, validate_only=True)
    simulation.add(4)
    assert simulation.outcomes == [UnsupportedVersion.code]
    simulation.run_for(3 * simulation.settings.fetch_timeout_ms)
    leader.raft.upgrade_kraft_version(1, validate_only=True)
    assert leader.raft.kraft_version == 0
    leader.raft.upgrade_kraft_version(1, validate_only=False)
    leader.turn()
    simulation.settle()
    simulation.check_voters()
    assert {voter.key for voter in leader.raft.voter_set.voters} == {simulation.voter(i).key for i in (1, 2, 3)}
    simulation.add(4)
    _settled(simulation, 2)
    assert simulation.voter_ids == [1, 2, 3, 4]
    with pytest.raises(InvalidUpdateVersion, match="downgrade"):
        leader.raft.upgrade_kraft_version(0, validate_only=True)
