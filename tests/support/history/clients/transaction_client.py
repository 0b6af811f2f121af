"""The workload `transactions`: each transaction writes its number to several partitions and commits, aborts, or is left
open; readers of both isolation levels. Own arguments: topic, partitions.

The operation `commit` begins when the commit is asked for: a transaction without one must never be visible.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

from common import PATIENCE_S, RESTART, Arguments, complain, in_thread, make_producer, read_on

TIMEOUT_MS = "8000"
ABORTED, ABANDONED = 0.12, 0.02


class Writer:
    """One transaction after the other."""

    def __init__(self, arguments: Arguments, topic: str, partitions: int, source: random.Random) -> None:
        self._arguments, self._topic, self._partitions, self._source = arguments, topic, partitions, source
        settings = {"transactional.id": arguments.name, "transaction.timeout.ms": TIMEOUT_MS, "linger.ms": "2"}
        if arguments.library == "kafkatools":
            settings["delivery.timeout.ms"] = str(PATIENCE_S * 1000)
        self._producer = make_producer(arguments, settings)
        self._number = 0

    def _ignore(self, offset: int, error: object) -> None:
        """The commit tells what matters."""

    def _write(self, chosen: list[int]) -> None:
        """Two records per partition, in two rounds: the second round meets leaders that have moved meanwhile."""
        head = f"{self._arguments.name} {self._arguments.run} {self._number}"
        for round_number in range(2):
            for partition in chosen:
                self._producer.send(self._topic, partition, f"{head} {round_number}", self._ignore)
            if self._source.random() < 0.5:
                self._producer.flush()
            if self._source.random() < 0.3:
                time.sleep(self._source.choice((0.02, 0.2, 1.0)))

    def _end(self, operation: int) -> None:
        recorder = self._arguments.recorder
        chance = self._source.random()
        if chance < ABORTED:
            self._producer.abort()
            recorder.complete(operation, "fail", reason="aborted")
        elif chance < ABORTED + ABANDONED:
            self._producer.flush()
            os._exit(RESTART)
        else:
            commit = recorder.invoke("commit", transaction=operation)
            try:
                self._producer.commit()
            except self._producer.error as error:
                recorder.complete(commit, "unknown", error=repr(error))
                raise
            recorder.complete(commit, "ok")
            recorder.complete(operation, "ok")

    def _run_one(self) -> bool:
        """Whether the producer can go on."""
        self._number += 1
        chosen = self._source.sample(range(self._partitions), self._source.randint(2, self._partitions))
        operation = self._arguments.recorder.invoke(
            "transaction", topic=self._topic, number=self._number, partitions=chosen
        )
        try:
            self._producer.begin()
            self._write(chosen)
            self._end(operation)
        except self._producer.error as error:
            complain(self._arguments, error)
            if not self._producer.may_abort(error):
                return False
            self._producer.abort()
            self._arguments.recorder.complete(operation, "fail", reason=repr(error))
        return True

    def run(self) -> int:
        """Returns the exit status."""
        try:
            self._producer.init()
            while not self._arguments.stopping.is_set():
                if not self._run_one():
                    return RESTART
                self._arguments.stopping.wait(self._source.uniform(0.02, 0.25))
        except self._producer.error as error:
            complain(self._arguments, error)
            return RESTART
        self._producer.close()
        return 0


def main() -> int:
    arguments = Arguments()
    topic, partitions, *isolations = arguments.more
    source: Any = random.Random(f"{arguments.name} {arguments.run}")
    readers = [in_thread(read_on, arguments, topic, int(partitions), level, source) for level in isolations]
    status = Writer(arguments, topic, int(partitions), source).run()
    for reader in readers if status == 0 else ():
        reader.join(PATIENCE_S)
    return status


sys.exit(main())
