"""Checks of the workload `groups`: every record is processed, committed offsets do not go back, zombies are refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from support.history.record import OK, Operation

Key = tuple[str, int]
"""Group and partition."""


def check_processed(operations: Sequence[Operation], groups: Iterable[str], ends: Mapping[int, int]) -> list[str]:
    """Every offset below the end of each partition was processed by a member of each group."""
    seen: dict[Key, set[int]] = defaultdict(set)
    for operation in operations:
        if operation.kind == "process":
            seen[operation.values["group"], operation.values["partition"]].update(operation.values["offsets"])
    problems = []
    for group in groups:
        for partition, end in ends.items():
            missing = sorted(set(range(end)) - seen[group, partition])
            if missing:
                problems.append(
                    f"lost: group {group} never processed {len(missing)} of the {end} records of partition "
                    f"{partition}, the first at offset {missing[0]}"
                )
    return problems


def _commits(operations: Sequence[Operation]) -> dict[Key, list[tuple[Operation, int]]]:
    found: dict[Key, list[tuple[Operation, int]]] = defaultdict(list)
    for operation in operations:
        if operation.kind == "commit_offsets" and operation.outcome == OK:
            for partition, end in operation.values["ends"]:
                found[operation.values["group"], partition].append((operation, end))
    return found


def check_commits(operations: Sequence[Operation]) -> list[str]:
    """A commit that began after another one was acknowledged has no smaller generation (it is a zombie's), and in the
    same generation no smaller offset."""
    problems = []
    for key, commits in _commits(operations).items():
        acknowledged = sorted(commits, key=lambda pair: pair[0].ended_ns)
        index = 0
        newest: tuple[Operation, int] | None = None
        farthest: dict[int, tuple[Operation, int]] = {}
        for commit, end in sorted(commits, key=lambda pair: pair[0].begun_ns):
            generation = commit.result["generation"]
            while acknowledged[index][0].ended_ns < commit.begun_ns:
                former, former_end = acknowledged[index]
                known = former.result["generation"]
                if known is not None and (newest is None or known > newest[1]):
                    newest = (former, known)
                if known is not None and former_end > farthest.get(known, (former, -1))[1]:
                    farthest[known] = (former, former_end)
                index += 1
            if generation is None:
                continue
            if newest is not None and generation < newest[1]:
                problems.append(f"zombie: {key} {commit} was accepted after {newest[0]}")
            if generation in farthest and end < farthest[generation][1]:
                problems.append(f"went back: {key} {commit} after {farthest[generation][0]}")
    return problems


def check_starts(operations: Sequence[Operation]) -> list[str]:
    """A member that is given a partition goes on no earlier than the last offset that was committed before."""
    commits = _commits(operations)
    problems = []
    assigned: dict[tuple[str, int, int], int] = {}
    for operation in operations:
        member = (operation.process, operation.run)
        if operation.kind == "assigned":
            for partition in operation.values["partitions"]:
                assigned[(*member, partition)] = operation.begun_ns
        elif operation.kind == "process":
            partition = operation.values["partition"]
            since = assigned.pop((*member, partition), None)
            known = commits.get((operation.values["group"], partition), ())
            before = [(end, commit) for commit, end in known if since is not None and commit.ended_ns < since]
            floor, commit = max(before, key=lambda pair: pair[0], default=(0, None))
            if operation.values["offsets"][0] < floor:
                problems.append(f"went back: {operation} starts before {floor}, which {commit} had committed")
    return problems
