"""Linearizability of metadata: each topic is one register, searched in the manner of Wing and Gong.

The state is None (no topic), or the pair of its setting and its number of partitions. Changes go through the
controller: each takes effect at one moment between its invocation and its answer; one whose outcome is unknown at any
moment after its invocation, at most once, or never.

A description comes from the metadata of one broker, which may lag without bound while it is cut off, in Apache Kafka as
here. It may therefore show an earlier state, but no state of the future, and one broker never goes back. A read that is
marked `settled` was made after all brokers had caught up and must show the final state.

A change that is refused for what it would have made (the topic exists already) may have been made by an earlier attempt
of the same operation, as a broker repeats a request to the controller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from support.history.record import FAIL, OK, UNKNOWN, Operation

State = tuple[int, int] | None
Next = list[State]
MOST_STEPS = 300_000
WRITES = ("create", "delete", "alter", "partitions")
READS = ("describe", "configs")
EXISTS, MISSING, TOO_FEW = "TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_PARTITIONS"


def _create(state: State, values: dict[str, Any], error: str | None) -> Next:
    made = (values["value"], values["count"])
    if error is None:
        return [made] if state is None else []
    return [state if state is not None else made] if error == EXISTS else []


def _delete(state: State, values: dict[str, Any], error: str | None) -> Next:
    if error is None:
        return [None] if state is not None else []
    return [None] if error == MISSING else []


def _alter(state: State, values: dict[str, Any], error: str | None) -> Next:
    if error is None:
        return [(values["value"], state[1])] if state is not None else []
    return [None] if error == MISSING and state is None else []


def _partitions(state: State, values: dict[str, Any], error: str | None) -> Next:
    if error is None:
        return [(state[0], values["count"])] if state is not None and state[1] < values["count"] else []
    if error == MISSING:
        return [None] if state is None else []
    return [(state[0], max(state[1], values["count"]))] if error == TOO_FEW and state is not None else []


_CHANGES: dict[str, Callable[[State, dict[str, Any], str | None], Next]] = {
    "create": _create,
    "delete": _delete,
    "alter": _alter,
    "partitions": _partitions,
}


def step(state: State, operation: Operation) -> Next:
    """The states that an operation may lead to when it takes effect now; none when its answer is impossible."""
    if operation.kind in WRITES:
        error = operation.result.get("error") if operation.outcome == FAIL else None
        return _CHANGES[operation.kind](state, operation.values, error)
    exists = operation.result["exists"]
    if state is None or not exists:
        return [state] if (state is not None) == exists else []
    name, index = ("value", 0) if operation.kind == "configs" else ("count", 1)
    return [state] if operation.result[name] == state[index] else []


def _precedes(first: Operation, second: Operation) -> bool:
    """Whether the first took effect before the second did, whatever order is tried."""
    if first.ended_ns >= second.begun_ns or first.outcome == UNKNOWN:
        return False
    if second.kind in WRITES or second.values.get("settled"):
        return True
    broker = second.values.get("broker")
    return first.kind in READS and broker is not None and first.values.get("broker") == broker


class _Search:
    """Tries orders of one topic's operations; remembers which sets with which state led nowhere."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations
        self.before = [
            sum(1 << i for i, other in enumerate(operations) if other is not each and _precedes(other, each))
            for each in operations
        ]
        self.required = sum(1 << i for i, each in enumerate(operations) if each.outcome != UNKNOWN)
        self.longest = 0
        self.steps = 0

    def _absorb(self, done: int, state: State) -> int:
        """Let all reads happen that may happen now: they change nothing, so it is never better to wait."""
        has_changed = True
        while has_changed:
            has_changed = False
            for i, each in enumerate(self.operations):
                is_next = each.kind in READS and not done >> i & 1 and self.before[i] & ~done == 0
                if is_next and step(state, each):
                    done |= 1 << i
                    has_changed = True
        return done

    def run(self) -> bool | None:
        """Whether there is an order; None when the search was given up."""
        seen = set()
        stack: list[tuple[int, State]] = [(0, None)]
        while stack:
            done, state = stack.pop()
            done = self._absorb(done, state)
            if (done, state) in seen:
                continue
            seen.add((done, state))
            self.steps += 1
            if self.steps > MOST_STEPS:
                return None
            if (done & self.required).bit_count() > (self.longest & self.required).bit_count():
                self.longest = done
            if done & self.required == self.required:
                return True
            stack += self._after(done, state)
        return False

    def _after(self, done: int, state: State) -> list[tuple[int, State]]:
        found = []
        for i, each in enumerate(self.operations):
            if each.kind in WRITES and not done >> i & 1 and self.before[i] & ~done == 0:
                found += [(done | 1 << i, after) for after in step(state, each)]
        return found


def check_metadata(operations: Iterable[Operation]) -> tuple[list[str], int]:
    """The anomalies, and the number of topics for which the search gave up."""
    topics: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        is_answered = operation.kind in READS and operation.outcome == OK
        is_sent = operation.kind in WRITES and operation.result.get("error") != "not sent"
        if is_answered or is_sent:
            topics[operation.values["topic"]].append(operation)
    problems, undecided = [], 0
    for topic, found in topics.items():
        search = _Search(sorted(found, key=lambda operation: operation.begun_ns))
        outcome = search.run()
        undecided += outcome is None
        if outcome is False:
            problems.append(_explain(topic, search))
    return problems, undecided


def _explain(topic: str, search: _Search) -> str:
    """The operations that no order explains, and all of the topic's for whoever looks for the reason."""
    left = [
        each for i, each in enumerate(search.operations) if not search.longest >> i & 1 and search.required >> i & 1
    ]
    shown = "\n    ".join(str(each) for each in search.operations)
    return f"non-linearizable: {topic}: no order explains {left[0]} and {len(left) - 1} more; all:\n    {shown}"
