"""Three replicas under seeded faults: messages lost and late, links cut, deaths with and without the loss of what was
not synced, stops of the process, elections at any moment, disks that fail. REPLICATION_SEEDS: how many schedules."""

from __future__ import annotations

import contextlib
import errno
import os
from random import Random

import pytest
from support.faulty_files import Fault
from support.replica_simulation import ReplicaSimulation, SimulatedBroker, Violation

from kafkatools.core.errors import KafkaStorageError

SEEDS = int(os.environ.get("REPLICATION_SEEDS", "240"))
FIRST_SEED = int(os.environ.get("REPLICATION_FIRST_SEED", "1"))
GROUPS = 8
STEPS = 30


class Schedule:
    """What happens, as a seed says."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = ReplicaSimulation(
            seed, loss=self.random.choice([0.0, 0.0, 0.05, 0.2]), max_delay_ms=self.random.choice([2, 10, 40])
        )

    def run(self) -> None:
        cluster, random = self.cluster, self.random
        actions = [self.produce] * 8 + [self.kill, self.kill, self.restart, self.restart, self.pause, self.resume]
        actions += [self.cut, self.mend, self.elect, self.flush, self.delete_records, self.fail_disk]
        cluster.run(random.randint(0, 60))
        for _ in range(STEPS):
            random.choice(actions)()
            cluster.run(random.choice([0, 1, 5, 20, 60, 200]))
        cluster.heal()
        cluster.check()

    def some(self, *, is_up: bool) -> SimulatedBroker | None:
        found = [each for each in self.cluster.brokers.values() if each.is_up == is_up]
        return self.random.choice(found) if found else None

    def produce(self) -> None:
        self.cluster.produce(self.random.randint(1, 5), acks=self.random.choice([-1, -1, -1, 1]))

    def kill(self) -> None:
        broker = self.some(is_up=True)
        if broker is not None:
            has_others = any(each != broker.broker_id for each in self.cluster.state.isr)
            loses_power = has_others and self.random.random() < 0.5
            self.cluster.kill(broker.broker_id, loses_power=loses_power)

    def restart(self) -> None:
        broker = self.some(is_up=False)
        if broker is not None:
            self.cluster.start(broker.broker_id)

    def pause(self) -> None:
        broker = self.some(is_up=True)
        if broker is not None:
            broker.is_paused = True
            if self.random.random() < 0.6:
                self.cluster.fence(broker.broker_id)

    def resume(self) -> None:
        for broker in self.cluster.brokers.values():
            if broker.is_up and broker.is_paused:
                broker.resume()
                if self.cluster.registered[broker.broker_id].is_fenced:
                    self.cluster.unfence(broker.broker_id)

    def cut(self) -> None:
        one, other = self.random.sample(sorted(self.cluster.brokers), 2)
        self.cluster.cut.add((one, other))

    def mend(self) -> None:
        self.cluster.cut.clear()

    def elect(self) -> None:
        self.cluster.elect(self.random.choice(sorted(self.cluster.brokers)))

    def flush(self) -> None:
        broker = self.some(is_up=True)
        if broker is not None and broker.partition is not None:
            with contextlib.suppress(KafkaStorageError, OSError):
                broker.partition.log.flush(self.cluster.clock.wall_ms())
                broker.logs.checkpoint_recovery_points()
                broker.logs.checkpoint_high_watermarks()

    def fail_disk(self) -> None:
        """One of the next operations of a disk fails, a write maybe half way."""
        broker = self.some(is_up=True)
        if broker is not None:
            fault = Fault(errno.ENOSPC, short_write_bytes=self.random.choice([0, 0, 30, 100]))
            broker.files.fail_after(self.random.randint(0, 8), fault)

    def delete_records(self) -> None:
        broker = self.some(is_up=True)
        if broker is not None and broker.partition is not None and broker.partition.is_leader:
            log = broker.partition.log
            with contextlib.suppress(KafkaStorageError):
                self.cluster.deleted_to(log.high_watermark // 2)
                broker.partition.delete_records(log.high_watermark // 2)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_nothing_acknowledged_is_lost_and_replicas_are_the_same(group: int) -> None:
    for seed in range(FIRST_SEED + group, FIRST_SEED + SEEDS, GROUPS):
        try:
            Schedule(seed).run()
        except Violation as violation:
            pytest.fail(f"seed {seed}: {violation}")
        except Exception as error:
            raise AssertionError(f"seed {seed} failed") from error
