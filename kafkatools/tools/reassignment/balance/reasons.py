"""Reasons why loads stay outside of the tolerance of a balance plan, as sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkatools.tools.reassignment.balance.disks import LevelledDisks
from kafkatools.tools.reassignment.balance.levelling import Bound, Levelling
from kafkatools.tools.reassignment.balance.model import LEADERS, BalanceOptions, Disk
from kafkatools.tools.reassignment.balance.placement import (
    HAS_REPLICA,
    NO_BUDGET,
    NO_SPACE,
    OTHER_RACK,
    Placement,
    full_disks,
    surplus_bytes,
    volumes,
)
from kafkatools.tools.reassignment.listings import ids, plural

_TEXTS = {
    NO_BUDGET: "the budget of --max-move is spent",
    NO_SPACE: "the other brokers lack free space",
    OTHER_RACK: "its replicas may not move to another rack: their partitions would be spread less over the racks",
    HAS_REPLICA: "the brokers with less load already have replicas of its partitions",
}
_ORDER = (NO_BUDGET, NO_SPACE, OTHER_RACK, HAS_REPLICA)
_NO_ITEM = "none of its partitions may move"
_NO_MOVE = "no move or exchange of partitions brings the loads closer to each other"


def broker_reasons(
    levelling: Levelling, bounds: Sequence[Bound], placement: Placement, options: BalanceOptions
) -> list[str]:
    """Return one sentence for each reason, with the brokers that stay above their bound; after them one for the brokers
    below it."""
    taking_part, broker_ids = placement.brokers.taking_part, placement.brokers.ids
    by_text: dict[str, list[int]] = {}
    below = []
    for number, (load, bound) in enumerate(zip(levelling.loads, bounds, strict=True)):
        broker = broker_ids[taking_part[number]]
        # A count of leaders is whole, so a range without a whole number is met by the two next to it.
        slack = 1 if options.by == LEADERS else 0
        if load > bound.high and load >= bound.center + slack:
            by_text.setdefault(_reason(levelling, number, bound, placement, options), []).append(broker)
        elif load < bound.low and load <= bound.center - slack:
            below.append(broker)
    sentences = [f"{_stay(brokers)} above: {text}" for text, brokers in by_text.items()]
    if below and not by_text:
        spent = levelling.has_refused(NO_BUDGET)
        text = _TEXTS[NO_BUDGET] if spent else "no replica of the other brokers may move there, or is small enough"
        sentences.append(f"{_stay(below)} below: {text}")
    return sentences


def _stay(brokers: Sequence[int]) -> str:
    return f"Broker{plural(len(brokers))} {ids(brokers)} stay{'s' if len(brokers) == 1 else ''}"


def _reason(levelling: Levelling, number: int, bound: Bound, placement: Placement, options: BalanceOptions) -> str:
    heaviest = levelling.heaviest(number)
    refusals = levelling.refusals[number]
    if heaviest is None:
        return _NO_ITEM
    if refusals >> NO_BUDGET & 1:
        return _TEXTS[NO_BUDGET]
    weight = levelling.weight(heaviest)
    if options.by != LEADERS and options.only_above is None and weight > bound.center:
        part = placement.partitions[heaviest]
        return f"{part.topic}-{part.partition} alone has more than the mean of the brokers"
    return next((_TEXTS[code] for code in _ORDER if refusals >> code & 1), _NO_MOVE)


def full_disk_reasons(
    levelling: Levelling,
    bounds: Sequence[Bound],
    placement: Placement,
    disks: Mapping[int, Sequence[Disk]],
    options: BalanceOptions,
) -> list[str]:
    """Return a sentence with the brokers that end within `only_above` as a whole, but with a log directory above it;
    none without such brokers."""
    limit = options.only_above or 0.0
    brokers = []
    for number, load, bound in zip(placement.brokers.taking_part, levelling.loads, bounds, strict=True):
        broker = placement.brokers.ids[number]
        if load > bound.high or len(volumes(disks[broker])) < len(disks[broker]):
            continue  # the broker as a whole is named, or has log directories that cannot relieve each other
        full = full_disks(disks[broker], limit)
        if any(_surplus_after(disk, number, placement, limit) > 0 for disk in full):
            brokers.append(broker)
    text = "only moves between log directories relieve them, which --disks plans"
    return [f"{_log_directories(brokers)} stay above the limit of --only-above: {text}"] if brokers else []


def _surplus_after(disk: Disk, number: int, placement: Placement, limit: float) -> float:
    """The bytes by which a log directory is above the limit, after the replicas that leave the broker."""
    leaving = [item for item in disk.partitions if number not in placement.replicas[item]]
    return surplus_bytes([disk], limit) - sum(placement.sizes[item] for item in leaving)


def _log_directories(brokers: Sequence[int]) -> str:
    return f"Log directories of broker{plural(len(brokers))} {ids(brokers)}"


def disk_reasons(disks: Sequence[LevelledDisks], options: BalanceOptions) -> list[str]:
    """Return one sentence for each reason why log directories stay above their bound."""
    by_text: dict[str, list[int]] = {}
    for levelled in disks:
        if levelled.is_level:
            continue
        text = _NO_MOVE
        if levelled.refusals >> NO_BUDGET & 1:
            text = _TEXTS[NO_BUDGET]
        elif levelled.refusals >> NO_SPACE & 1:
            text = "the other log directories lack free space"
        by_text.setdefault(text, []).append(levelled.broker)
    state = "unequal" if options.only_above is None else "above the limit of --only-above"
    return [f"{_log_directories(brokers)} stay {state}: {text}" for text, brokers in by_text.items()]
