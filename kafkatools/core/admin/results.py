"""From results with an error of their own each to values or one exception (the rule is Admin's)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from kafkatools.core.admin.client import error_in
from kafkatools.core.errors import KafkaError, PartialFailure
from kafkatools.core.protocol.entities import Entity

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
V = TypeVar("V")


class AlteredOffsets(NamedTuple):
    """What became of a group's new offsets: the partitions that failed, or the error of all."""

    errors: dict[tuple[str, int], KafkaError]
    error: KafkaError | None = None


def partition_errors(topics: Iterable[Entity], name: str = "name") -> dict[tuple[str, int], KafkaError]:
    """The errors of partitions in a response's topics; `name`: the field that holds the topic's name."""
    return {
        (getattr(topic, name), part.partition_index): error
        for topic in topics
        for part in topic.partitions
        if (error := error_in(part)) is not None
    }


def refusal(found: object) -> KafkaError | None:
    """The error in place of a result, if it is one."""
    return found if isinstance(found, KafkaError) else None


def refusals(found: Mapping[K, object]) -> dict[K, KafkaError | None]:
    """For each item its error, or None where there is a result."""
    return {item: refusal(result) for item, result in found.items()}


def filled(found: Mapping[K, T | KafkaError], make: Callable[[KafkaError], T]) -> dict[K, T]:
    """The results; where there is an error in place of one, the result that `make` makes of it."""
    return {item: make(result) if isinstance(result, KafkaError) else result for item, result in found.items()}


def settled(found: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """The results by item, when there is no error among them: neither in place of a result nor in its `error`.

    Raises the error of the only item, or PartialFailure.
    """
    errors = {item: error for item, result in found.items() if (error := _error(result)) is not None}
    good = {item: result for item, result in found.items() if not isinstance(result, KafkaError) and item not in errors}
    if not errors:
        return good
    if len(found) == 1:
        raise next(iter(errors.values()))
    raise _failure(good, errors, len(found))


def complete(result: T, errors: Mapping[K, KafkaError]) -> T:
    """A result, when it is all there is. Raises PartialFailure with it when something could not be told."""
    if not errors:
        return result
    raise _failure(result, errors, None)


def settle_altered(found: AlteredOffsets, wanted: Collection[tuple[str, int]]) -> None:
    """Nothing, when all offsets were changed. Raises the error of the group or of the only partition, else
    PartialFailure."""
    if found.error is not None:
        raise found.error
    settled({part: found.errors.get(part) for part in wanted})


def _error(result: object) -> KafkaError | None:
    error = result if isinstance(result, KafkaError) else getattr(result, "error", None)
    return error if isinstance(error, KafkaError) else None


def _failure(result: object, errors: Mapping[K, KafkaError], count: int | None) -> PartialFailure:
    item, error = next(iter(errors.items()))
    of_all = "" if count is None else f" of {count}"
    name = "-".join(map(str, item)) if isinstance(item, tuple) else item
    return PartialFailure(f"{len(errors)}{of_all} failed, the first ({name}) with: {error}", result, errors)
