"""Checks of progress: after the last fault every client does something within a bounded time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from support.history.record import OK, Operation


def check_progress(
    operations: Sequence[Operation], expected: Mapping[str, Iterable[str]], healed_ns: int, within_ns: int
) -> list[str]:
    """`expected`: by process the kinds of operation of which one must begin after the heal and succeed in time."""
    soonest: dict[tuple[str, str], int] = {}
    for operation in operations:
        if operation.outcome == OK and operation.begun_ns >= healed_ns:
            key = (operation.process, operation.kind)
            soonest[key] = min(soonest.get(key, operation.ended_ns), operation.ended_ns)
    problems = []
    for process, kinds in expected.items():
        for kind in kinds:
            ended = soonest.get((process, kind))
            if ended is None or ended - healed_ns > within_ns:
                took = "no" if ended is None else f"the first after {(ended - healed_ns) / 1e9:.1f} s a"
                problems.append(f"stuck: {process}: {took} successful {kind} after the heal")
    return problems
