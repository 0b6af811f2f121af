"""Convert mappings of results and errors to values or to one exception, by the error rule of Admin."""

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
    """The outcome of altering a group's offsets: errors by partition, or the group's error."""

    errors: dict[tuple[str, int], KafkaError]
    error: KafkaError | None = None


def partition_errors(topics: Iterable[Entity], name: str = "name") -> dict[tuple[str, int], KafkaError]:
    """Return the errors of partitions in a response's topics; `name` is the field with the topic name."""
    return {key: error for key, error in by_partition(topics, error_in, name).items() if error is not None}


def by_partition(topics: Iterable[Entity], make: Callable[[Entity], V], name: str = "name") -> dict[tuple[str, int], V]:
    """Return `make(part)` for each partition in a response's topics; `name` is the field with the topic name."""
    return {(getattr(topic, name), part.partition_index): make(part) for topic in topics for part in topic.partitions}


def refusal(result: object) -> KafkaError | None:
    """Return the argument if it is a KafkaError, else None."""
    return result if isinstance(result, KafkaError) else None


def refusals(results: Mapping[K, object]) -> dict[K, KafkaError | None]:
    """Return each item's KafkaError, or None where it has a result."""
    return {item: refusal(result) for item, result in results.items()}


def filled(results: Mapping[K, T | KafkaError], make: Callable[[KafkaError], T]) -> dict[K, T]:
    """Return the results, with each KafkaError replaced by `make(error)`."""
    return {item: make(result) if isinstance(result, KafkaError) else result for item, result in results.items()}


def settled(results: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """Return the results if none is a KafkaError or has one in `error`. Otherwise raises the error of the only item, or
    PartialFailure for several items."""
    errors = {item: error for item, result in results.items() if (error := _error(result)) is not None}
    good = {
        item: result for item, result in results.items() if not isinstance(result, KafkaError) and item not in errors
    }
    if not errors:
        return good
    if len(results) == 1:
        raise next(iter(errors.values()))
    raise _failure(good, errors, len(results))


def complete(result: T, errors: Mapping[K, KafkaError]) -> T:
    """Return the result when there are no errors. Raises PartialFailure with both otherwise."""
    if not errors:
        return result
    raise _failure(result, errors, None)


def settle_altered(outcome: AlteredOffsets, partitions: Collection[tuple[str, int]]) -> None:
    """Raise the group's error, the only partition's error, or PartialFailure, unless all were altered."""
    if outcome.error is not None:
        raise outcome.error
    settled({part: outcome.errors.get(part) for part in partitions})


def _error(result: object) -> KafkaError | None:
    error = result if isinstance(result, KafkaError) else getattr(result, "error", None)
    return error if isinstance(error, KafkaError) else None


def _failure(result: object, errors: Mapping[K, KafkaError], count: int | None) -> PartialFailure:
    item, error = next(iter(errors.items()))
    of_all = "" if count is None else f" of {count}"
    name = "-".join(map(str, item)) if isinstance(item, tuple) else item
    return PartialFailure(f"{len(errors)}{of_all} failed, the first ({name}) with: {error}", result, errors)
