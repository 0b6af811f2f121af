"""The options of `plan balance --by`: their values, and the combinations that are refused."""

from __future__ import annotations

import re
from typing import NamedTuple

from kafkatools.commands.reassign_partitions import MEASURES
from kafkatools.exit_status import UsageError
from kafkatools.options import Args
from kafkatools.options.quantities import size_bytes

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%", re.ASCII)
_AMOUNT = re.compile(r"(\d+)([kKMGT]?)", re.ASCII)
_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_NEEDS_MEASURE = ("tolerance", "disks", "only-above", "max-move", "exclude-broker", "sample", "throttle")
_NEEDS = {"disks": ("bytes", "rate"), "only-above": ("bytes",), "sample": ("rate", "leaders")}
"""Options that only some measures take."""
_SAMPLE_S = 60.0


class BalanceArguments(NamedTuple):
    """The checked options of `plan balance --by`. `tolerance` and `only_above` are fractions, `sample_ms` is None
    without a sample of rates."""

    by: str
    tolerance: float
    only_above: float | None
    max_move_bytes: int | None
    sample_ms: int | None


def uses_measure(args: Args) -> bool:
    """Return whether the plan balances by bytes, rate or leaders, and not by the number of replicas."""
    return args.by is not None and args.by != "replicas"


def check_goal(args: Args, goal: str) -> None:
    """Check the options of balance before anything is read. Raises UsageError for a wrong value or combination."""
    if args.by is not None and goal != "balance":
        raise UsageError(f"--by can only be used with plan balance, not with plan {goal}")
    if args.by is not None and args.by not in MEASURES:
        raise UsageError(f"--by takes one of {', '.join(MEASURES)}, not '{args.by}'")
    for name in _NEEDS_MEASURE:
        if not args.has_option(name):
            continue
        if not uses_measure(args):
            *others, last = _NEEDS.get(name, MEASURES[1:])
            measures = f"{', '.join(others)} or {last}" if others else last
            raise UsageError(f"--{name} can only be used with plan balance --by {measures}")
        if args.by not in _NEEDS.get(name, MEASURES):
            raise UsageError(
                f"--{name} can only be used with --by {' or '.join(_NEEDS[name])}, not with --by {args.by}"
            )
    if uses_measure(args):
        balance_arguments(args)


def balance_arguments(args: Args) -> BalanceArguments:
    """Return the values of the options. Raises UsageError."""
    sample_s = args.sample
    if sample_s is None and args.by == "rate":
        sample_s = _SAMPLE_S
    tolerance = _fraction(args.tolerance, "tolerance", "5%")
    return BalanceArguments(
        args.by,
        0.05 if tolerance is None else tolerance,
        _fraction(args.only_above, "only-above", "90%"),
        _budget(args.max_move),
        None if sample_s is None else round(sample_s * 1000),
    )


def _fraction(text: str | None, option: str, example: str) -> float | None:
    if text is None:
        return None
    match = _PERCENT.fullmatch(text.strip())
    fraction = float(match[1]) / 100 if match else 0
    if not 0 < fraction < 1:
        raise UsageError(f"--{option} takes a percentage above 0% and below 100%, such as {example}, not '{text}'")
    return fraction


def _budget(text: str | None) -> int | None:
    if text is None:
        return None
    match = _AMOUNT.fullmatch(text.strip())
    size = int(match[1]) * _UNITS[match[2]] if match else size_bytes(text)
    if size is None:
        raise UsageError(f"--max-move takes bytes, also with k, M, G, T or GiB, such as 500G, not '{text}'")
    return size
