"""Random histories of a quorum: whatever the network and the disks do, the rules hold, and in the end all agree.

KT_SCHEDULES=n plays n histories in each part instead of the usual few; a failure names its seed.
"""

from __future__ import annotations

import os
import random

import pytest
from support.quorum_simulation import Simulation, Violation, random_schedule

from kafkatools.core.broker.metadata.quorum.election_store import ElectionState, ElectionStore

SCHEDULES = int(os.environ.get("KT_SCHEDULES", "25"))
SHORT_MS = 3000


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_whatever_fails_the_rules_of_the_quorum_hold(part: int) -> None:
    first = part * 1_000_000
    fresh = random.SystemRandom().randrange(1 << 40)
    for seed in [*range(first, first + SCHEDULES - 1), fresh]:
        try:
            random_schedule(seed, SHORT_MS)
        except BaseException as error:
            error.add_note(f"random_schedule({seed}, {SHORT_MS})")
            raise


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(236655302887, id="records come back whose epochs the checkpoint has dropped"),
        pytest.param(694449323802, id="an epoch that wrote nothing stays in the checkpoint"),
        pytest.param(1089482493204, id="the same with several restarts"),
        pytest.param(161334979916, id="a snapshot comes back below the start of the log"),
    ],
)
def test_a_loss_of_power_leaves_no_log_that_contradicts_its_epochs_or_snapshots(seed: int) -> None:
    random_schedule(seed, 30_000)


def test_a_quorum_elects_commits_and_agrees() -> None:
    simulation = Simulation(1)
    simulation.heal()
    simulation.settle()
    assert len(simulation.leaders) == 1
    for _ in range(20):
        simulation.append(3)
        simulation.run_for(20)
    simulation.settle()
    assert len(simulation.names_until(simulation.high_watermark)) == 62  # one batch more with each settling
    assert len(simulation.leaders) == 1


def test_when_the_leader_dies_another_takes_over_within_a_second_and_nothing_is_lost() -> None:
    simulation = Simulation(2)
    simulation.heal()
    simulation.settle()
    leader = simulation.leader
    assert leader is not None
    simulation.append(5)
    simulation.run_for(50)
    names = list(leader.names)
    assert len(names) == 6
    leader.crash(is_reset=True)
    died_ms = simulation.now_ms
    simulation.run_until(lambda: any(node.leads is not None for node in simulation.nodes.values() if node.raft))
    assert simulation.now_ms - died_ms < 1000  # its connections are refused: no time-out has to pass
    other = simulation.leader
    assert other is not None
    assert other.names == names
    simulation.settle()


def test_when_the_leader_hangs_another_takes_over_within_two_time_outs() -> None:
    simulation = Simulation(7)
    simulation.heal()
    simulation.settle()
    leader = simulation.leader
    assert leader is not None
    leader.paused_until_ms = simulation.now_ms + 20_000
    hung_ms = simulation.now_ms
    simulation.run_until(
        lambda: any(node.leads is not None for node in simulation.nodes.values() if node is not leader)
    )
    settings = simulation.settings
    assert simulation.now_ms - hung_ms < settings.fetch_timeout_ms + 2 * settings.election_timeout_ms
    simulation.settle()
    assert leader.leads is None


def test_a_leader_that_shuts_down_hands_over_at_once() -> None:
    simulation = Simulation(3)
    simulation.heal()
    simulation.settle()
    leader = simulation.leader
    assert leader is not None
    assert leader.raft is not None
    leader.raft.shut_down(simulation.now_ms)
    leader.turn()
    began_ms = simulation.now_ms
    simulation.run_until(lambda: leader.raft is not None and leader.raft.is_shut_down)
    assert simulation.now_ms - began_ms < 200  # no time-out has to pass
    assert len(simulation.leaders) == 2


def test_a_minority_commits_nothing_and_resigns() -> None:
    simulation = Simulation(4)
    simulation.heal()
    simulation.settle()
    leader = simulation.leader
    assert leader is not None
    assert leader.raft is not None
    committed = leader.raft.high_watermark
    simulation.isolate(leader.node_id)
    simulation.append(3)
    simulation.run_for(2 * simulation.settings.fetch_timeout_ms)
    assert leader.raft.high_watermark == committed
    assert not leader.raft.is_leader
    lost = leader.raft.end_offset
    assert lost > committed
    simulation.settle()
    assert len(leader.names) == 2  # what it wrote alone is gone


def test_a_member_cut_off_for_long_disturbs_nobody_when_it_comes_back() -> None:
    """PreVote: its epoch has not grown meanwhile."""
    simulation = Simulation(5)
    simulation.heal()
    simulation.settle()
    leader = simulation.leader
    assert leader is not None
    other = next(node for node in simulation.nodes.values() if node is not leader)
    simulation.isolate(other.node_id)
    simulation.run_for(60_000)
    simulation.settle()
    assert len(simulation.leaders) == 1


def test_an_observer_gets_everything_and_never_counts() -> None:
    simulation = Simulation(6, voters=3, observers=1)
    simulation.heal()
    simulation.settle()
    leader = simulation.leader
    assert leader is not None
    assert leader.raft is not None
    simulation.append(4)
    simulation.run_for(50)
    assert simulation.nodes[4].names == leader.names
    described = leader.raft.describe(simulation.now_ms)
    assert [each.replica_id for each in described.observers] == [4]
    for voter in simulation.static_voters:
        if voter != leader.node_id:
            simulation.nodes[voter].crash()
    before = leader.raft.high_watermark
    simulation.append()
    simulation.run_for(1000)
    assert leader.raft.high_watermark == before


@pytest.mark.slow
def test_the_simulation_sees_a_member_that_forgets_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks are worth something: a leader that leads its epoch again after a restart is found out."""
    read = ElectionStore.read

    def forgetful(self: ElectionStore) -> ElectionState | None:
        state = read(self)
        return None if state is None else state._replace(leader_id=None)

    monkeypatch.setattr(ElectionStore, "read", forgetful)
    with pytest.raises(Violation):
        for seed in range(60):
            random_schedule(seed, SHORT_MS)
