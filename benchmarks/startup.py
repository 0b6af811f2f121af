"""How soon a command has answered: `kt topics --list` against the real tool, `--help`, the broker from nothing."""

from __future__ import annotations

import os
import statistics
import subprocess
import time

from benchmarks import measure, peers
from tests.support.ports import free_port


def main() -> None:
    """Prints the three start-up figures."""
    with peers.scratch() as directory:
        measure.at_most("topics --help", measure.Work([*peers.KT, "topics", "--help"]), limit_s=0.15)
        with peers.embedded_broker(directory) as bootstrap:
            peers.create_topic(bootstrap, "first")
            arguments = ["--list", "--bootstrap-server", bootstrap]
            ours = measure.Work([*peers.KT, "topics", *arguments])
            peer = measure.Work(peers.java("topics", *arguments))
            measure.compare("topics --list", ours, peer, "kafka-topics", target=2.5)
        broker_start(directory)


def broker_start(directory: os.PathLike[str]) -> None:
    """From no directory at all to the first answered request."""
    walls = []
    for number in range(measure.ROUNDS):
        environment = {**os.environ, "KT_HOME": f"{directory}/start{number}"}
        started = time.perf_counter()
        subprocess.run(
            [*peers.KT, "sandbox", "start", "--port", str(free_port())],
            env=environment,
            check=True,
            capture_output=True,
        )
        walls.append(time.perf_counter() - started)
        subprocess.run([*peers.KT, "sandbox", "stop"], env=environment, check=True, capture_output=True)
    wall = statistics.median(walls)
    measure.report("embedded broker ready from nothing", ours_s=round(wall, 3), limit_s=0.4, reached=wall <= 0.4)


if __name__ == "__main__":
    main()
