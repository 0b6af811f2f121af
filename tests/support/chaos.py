"""Processes that are killed and stopped at random moments, the broker and its clients; a seed repeats the choices."""

from __future__ import annotations

import ctypes
import os
import pathlib
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from support.cutting_proxy import CuttingProxy
from support.kt_process import BrokerProcess

RESTARTABLE = 75
"""How a worker ends that another one replaced: it is started again."""


_LIBC = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Has the kernel kill this process when the one that started it dies (Linux: PR_SET_PDEATHSIG)."""
    _LIBC.prctl(1, int(signal.SIGKILL))


class Worker:
    """A client in a process of its own; `command(run)` is its command line the n-th time it is started.

    `ends`: the statuses with which it may end by itself; it is started again after `pause` seconds.
    """

    def __init__(
        self,
        name: str,
        directory: pathlib.Path,
        command: Callable[[int], list[str]],
        ends: tuple[int, ...] = (0,),
        pause: float = 0.2,
    ) -> None:
        self.name = name
        self.pause = pause
        self.run = -1
        self.log = directory / f"{name}.log"
        self.problems: list[str] = []
        self._command = command
        self._ends = ends
        self.child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """The next run."""
        self.run += 1
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                self._command(self.run),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                preexec_fn=die_with_parent,
            )

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self.child is not None and self.child.poll() is None

    def note_end(self, *more: int) -> None:
        """Keeps the end of its output when it ended by itself in a way that it should not; `more`: other ways."""
        assert self.child is not None
        status = self.child.wait()
        if status not in (*self._ends, *more, -signal.SIGKILL):
            tail = self.log.read_text(errors="replace")[-1500:]
            self.problems.append(f"{self.name}, run {self.run}, ended with {status}: {tail}")

    def signal(self, number: int) -> None:
        """Sends a signal when it runs."""
        if self.is_running:
            assert self.child is not None
            self.child.send_signal(number)

    def finish(self, timeout: float) -> None:
        """SIGTERM, and the end that it comes to; one that has only just been started may die of it."""
        assert self.child is not None
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGUSR1)
            time.sleep(1)
            self.child.kill()
            tail = self.log.read_text(errors="replace")[-5000:]
            self.problems.append(f"{self.name} did not end within {timeout:.0f} s of SIGTERM: {tail}")
        self.note_end(-signal.SIGTERM, -signal.SIGUSR1)


@dataclass
class Tally:
    """What was done to whom, and what the broker took."""

    broker_kills: int = 0
    worker_kills: int = 0
    stops: int = 0
    clean_stops: int = 0
    cuts: int = 0
    resident_kib: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    slowest_start: float = 0

    @property
    def kills(self) -> int:
        """All of them."""
        return self.broker_kills + self.worker_kills

    def __str__(self) -> str:
        return (
            f"{self.broker_kills} kills of the broker and {self.worker_kills} of clients, {self.stops} stops, "
            f"{self.clean_stops} clean restarts, "
            f"{self.cuts} times answers lost; slowest start {self.slowest_start:.1f} s; the broker took up to "
            f"{max(self.resident_kib) // 1024} MiB and {max(self.descriptors)} descriptors"
        )


class WorkerChaos:
    """Starts workers again that ended; kills and stops them."""

    def __init__(self, workers: list[Worker], seed: int, *, is_long: bool = True) -> None:
        self.workers = workers
        self.tally = Tally()
        self._source = random.Random(seed)
        self._longest_stop, self._longest_gap = (10.0, 2.5) if is_long else (2.5, 1.5)
        self._continue_at: dict[Worker, float] = {}
        self._start_at: dict[Worker, float] = {worker: 0 for worker in workers}

    def watch(self, seconds: float) -> None:
        """Lets time pass; who ended is started again, who was stopped goes on when its time has come."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            for worker in [each for each, due in self._continue_at.items() if due <= now]:
                worker.signal(signal.SIGCONT)
                del self._continue_at[worker]
            for worker in [each for each, due in self._start_at.items() if due <= now]:
                worker.start()
                del self._start_at[worker]
            for worker in self.workers:
                if worker not in self._start_at and not worker.is_running:
                    worker.note_end()
                    self._start_at[worker] = now + worker.pause
            if now >= until:
                return
            time.sleep(min(0.05, until - now))

    def let_all_go_on(self) -> None:
        """Who is stopped or ended goes on at once."""
        for worker in list(self._continue_at):
            self._continue_at[worker] = 0
        for worker in list(self._start_at):
            self._start_at[worker] = 0
        self.watch(0.1)

    def release(self, worker: Worker) -> None:
        """Leave a worker alone from now on: one that ends is not started again."""
        self.workers.remove(worker)
        self._start_at.pop(worker, None)
        self._continue_at.pop(worker, None)

    def _free_workers(self) -> list[Worker]:
        return [each for each in self.workers if each.is_running and each not in self._continue_at]

    def _stop_worker(self, worker: Worker) -> None:
        worker.signal(signal.SIGSTOP)
        self._continue_at[worker] = time.monotonic() + self._source.uniform(1, self._longest_stop)
        self.tally.stops += 1

    def _kill_worker(self, worker: Worker) -> None:
        worker.signal(signal.SIGKILL)
        worker.note_end()
        self._start_at[worker] = time.monotonic() + self._source.choice((0, 0.5, 2, 7))
        self.tally.worker_kills += 1

    def note_process(self, pid: int) -> None:
        """Notes the memory and the descriptors of a broker."""
        proc = pathlib.Path(f"/proc/{pid}")
        fields = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        self.tally.resident_kib.append(int(fields["VmRSS"].split()[0]))
        self.tally.descriptors.append(len(os.listdir(proc / "fd")))

    def close(self) -> None:
        """No worker is left behind, whatever happened."""
        for worker in self.workers:
            if worker.is_running:
                assert worker.child is not None
                worker.child.kill()
                worker.child.wait()


class Chaos(WorkerChaos):
    """Kills and stops a broker and its workers until it has killed `kills` times."""

    def __init__(
        self, broker: BrokerProcess, proxy: CuttingProxy, workers: list[Worker], seed: int, *, is_long: bool = True
    ) -> None:
        super().__init__(workers, seed, is_long=is_long)
        self.broker = broker
        self.proxy = proxy

    def run(self, kills: int) -> None:
        """Until so many kills were done; leaves everything running."""
        while self.tally.kills < kills:
            self.watch(self._source.uniform(0.2, self._longest_gap))
            self.proxy.cut()
            self.tally.cuts += 1
            self.watch(self._source.uniform(0.1, 0.5))
            self._strike()
        self.let_all_go_on()

    def _strike(self) -> None:
        chance = self._source.random()
        running = self._free_workers()
        if chance < 0.40:
            self._restart_broker(self.broker.kill)
            self.tally.broker_kills += 1
        elif chance < 0.47:
            self._restart_broker(self.broker.stop)
            self.tally.clean_stops += 1
        elif chance < 0.54:
            self._stop_broker()
        elif chance < 0.70 and running:
            self._stop_worker(self._source.choice(running))
        elif running:
            self._kill_worker(self._source.choice(running))

    def _stop_broker(self) -> None:
        """SIGSTOP and SIGCONT."""
        self.broker.child.send_signal(signal.SIGSTOP)
        self.watch(self._source.uniform(1, self._longest_stop))
        self.broker.child.send_signal(signal.SIGCONT)
        self.tally.stops += 1

    def _restart_broker(self, end: Callable[[], None]) -> None:
        assert self.broker.child.poll() is None, "the broker ended by itself"
        self.measure()
        end()
        self.watch(self._source.choice((0, 0, 0.3, 1.5)))
        if self._source.random() < 0.25:
            self.broker.spawn()
            self.watch(self._source.uniform(0.1, 0.6))
            self.broker.kill()
            self.tally.broker_kills += 1
        began = time.monotonic()
        self.broker.start()
        self.tally.slowest_start = max(self.tally.slowest_start, time.monotonic() - began)

    def measure(self) -> None:
        """Notes the memory and the descriptors of the broker."""
        self.note_process(self.broker.child.pid)

    def close(self) -> None:
        """Nothing is left behind, whatever happened."""
        self.proxy.close()
        super().close()
        if self.broker._child is not None:
            self.broker.child.kill()
            self.broker.child.wait()
