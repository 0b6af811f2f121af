"""Checks of the workload `transactions`: a transaction is in all its partitions or in none, and only what was committed
is given to readers of committed records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from support.history.final_logs import COMMIT, DATA, Entry, Partition
from support.history.record import FOREVER, OK, Operation

Place = tuple[str, int]
Name = tuple[str, int, int]
"""Process, run and number of a transaction."""
ROUNDS = 2


def _name(value: str) -> Name:
    process, run, number = value.split(" ")[:3]
    return process, int(run), int(number)


def _commits(operations: Sequence[Operation]) -> dict[tuple[str, int, int], Operation]:
    """The operation `commit` of each transaction, by process, run and id of the transaction's operation."""
    return {
        (operation.process, operation.run, operation.values["transaction"]): operation
        for operation in operations
        if operation.kind == "commit"
    }


def check_transactions(operations: Sequence[Operation], logs: Mapping[Place, Partition]) -> list[str]:
    """Every transaction against the final logs."""
    transactions = [operation for operation in operations if operation.kind == "transaction"]
    commits = _commits(operations)
    visible: dict[Name, dict[int, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    everything: dict[Name, list[tuple[int, Entry]]] = defaultdict(list)
    for (_, partition), log in logs.items():
        for entry in log.entries:
            if entry.value:
                everything[_name(entry.value)].append((partition, entry))
                if entry.fate in (COMMIT, DATA):
                    visible[_name(entry.value)][partition].append(entry)
    problems = []
    for transaction in transactions:
        name = (transaction.process, transaction.run, transaction.values["number"])
        commit = commits.get((transaction.process, transaction.run, transaction.id))
        problem = _check_one(transaction, commit, visible.get(name, {}))
        if problem:
            trace = "; ".join(f"partition {partition} {_shown(entry)}" for partition, entry in everything[name])
            problems.append(f"{problem}: {transaction}, {commit}; in the logs: {trace or 'nothing'}")
    return problems + _check_order(transactions, logs)


def _shown(entry: Entry) -> str:
    return (
        f"offset {entry.offset} producer {entry.producer_id}:{entry.producer_epoch} sequence {entry.sequence} "
        f"{entry.fate} {entry.value!r}"
    )


def _check_one(transaction: Operation, commit: Operation | None, visible: Mapping[int, Sequence[Entry]]) -> str | None:
    wanted = [f"{transaction.process} {transaction.run} {transaction.values['number']} {n}" for n in range(ROUNDS)]
    partitions = transaction.values["partitions"]
    if commit is None or transaction.outcome == "fail":
        return "non-atomic: a transaction that was aborted or never committed is visible" if visible else None
    if not visible:
        return "lost: a committed transaction is absent" if commit.outcome == OK else None
    for partition in partitions:
        values = [entry.value for entry in visible.get(partition, ())]
        if values == wanted:
            continue
        if len(values) > len(set(values)):
            return f"doubled: partition {partition} holds a record of a transaction twice"
        if sorted(values) == sorted(wanted):
            return f"reordered: partition {partition} holds the records of a transaction out of order"
        return f"non-atomic: a transaction is incomplete in partition {partition}"
    return None


def _check_order(transactions: Sequence[Operation], logs: Mapping[Place, Partition]) -> list[str]:
    """Committed transactions of a producer are in each partition in the order in which it wrote them."""
    problems = []
    known = {(each.process, each.run, each.values["number"]): each for each in transactions}
    for place, log in logs.items():
        newest: dict[str, tuple[int, int]] = {}
        for entry in log.entries:
            if not entry.value or entry.fate not in (COMMIT, DATA):
                continue
            process, run, number = _name(entry.value)
            if (process, run, number) not in known:
                problems.append(f"invented: {place} {_shown(entry)}")
            if newest.get(process, (-1, -1)) > (run, number):
                problems.append(f"reordered: {place} {_shown(entry)} behind run and number {newest[process]}")
            newest[process] = (run, number)
    return problems


def check_isolation(operations: Sequence[Operation]) -> list[str]:
    """A reader of committed records is given nothing whose commit had not been asked for when the read ended."""
    commits = _commits(operations)
    begun: dict[Name, int] = {}
    for operation in operations:
        if operation.kind == "transaction":
            commit = commits.get((operation.process, operation.run, operation.id))
            name = (operation.process, operation.run, operation.values["number"])
            begun[name] = FOREVER if commit is None else commit.begun_ns
    problems = []
    for read in operations:
        if read.kind != "read" or read.values["isolation"] != "read_committed":
            continue
        for value in read.values["read"]:
            if begun.get(_name(value), 0) > read.ended_ns:
                problems.append(f"non-atomic: {value!r} was read as committed before its commit was asked for: {read}")
    return problems
