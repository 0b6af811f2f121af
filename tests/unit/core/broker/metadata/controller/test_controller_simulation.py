"""Random schedules of brokers that die, stop, pause and come back, ISR changes, reassignments and controllers that fail
over: the rules hold after every record, and everything is well again when everybody is back."""

from __future__ import annotations

import pytest
from support.controller_simulation import Simulation

SEEDS_PER_KIND = 40
STEPS = 500


@pytest.mark.slow
@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize("elr", [False, True])
def test_no_schedule_breaks_a_rule(elr: bool, unclean: bool) -> None:
    elections = 0
    for seed in range(SEEDS_PER_KIND):
        simulation = Simulation(seed, elr=elr, unclean=unclean)
        for _ in range(STEPS):
            simulation.step()
        simulation.settle()
        assert simulation.is_settled(), f"seed {seed}: {simulation.committed.topics}"
        elections += len(simulation.leaders)
        for key, acknowledged in simulation.acknowledged.items():
            leader = simulation.brokers[simulation.committed.topics[key[0]].partitions[key[1]].leader]
            assert unclean or leader.logs[key][: len(acknowledged)] == acknowledged, f"seed {seed}: {key}"
    assert elections > 15 * SEEDS_PER_KIND
