"""Producer ids of a quorum of one, whose blocks come at once, and of a cluster, whose blocks come later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkatools.core.broker.metadata.producer_ids import ProducerIds
from kafkatools.core.errors import CoordinatorLoadInProgress, KafkaStorageError


class Blocks:
    """Requests for blocks, which the test answers."""

    def __init__(self) -> None:
        self.requests: list[Callable[[range], None]] = []

    def __call__(self, on_block: Callable[[range], None]) -> None:
        self.requests.append(on_block)


def test_block_that_comes_at_once_is_requested_when_the_last_one_is_used_up() -> None:
    blocks = iter([range(3), range(10, 12)])
    requested: list[range] = []

    def request(on_block: Callable[[range], None]) -> None:
        requested.append(next(blocks))
        on_block(requested[-1])

    ids = ProducerIds(request)
    assert [ids.next_id() for _ in range(3)] == [0, 1, 2]
    assert len(requested) == 1
    assert [ids.next_id(), ids.next_id()] == [10, 11]


def test_block_that_comes_later_is_requested_once_before_the_last_one_is_used_up() -> None:
    blocks = Blocks()
    ids = ProducerIds(blocks, request_below=2)
    with pytest.raises(CoordinatorLoadInProgress):
        ids.next_id()
    blocks.requests[0](range(5, 8))
    assert [ids.next_id(), ids.next_id()] == [5, 6]
    assert len(blocks.requests) == 1
    assert ids.next_id() == 7
    with pytest.raises(CoordinatorLoadInProgress):
        ids.next_id()
    assert len(blocks.requests) == 2


def test_block_is_requested_again_after_an_empty_answer_and_after_an_error() -> None:
    blocks = Blocks()
    ids = ProducerIds(blocks)
    for number in (1, 2):
        with pytest.raises(CoordinatorLoadInProgress):
            ids.next_id()
        assert len(blocks.requests) == number
        blocks.requests[-1](range(0))
    errors = [KafkaStorageError("full")]

    def request(on_block: Callable[[range], None]) -> None:
        if errors:
            raise errors.pop()
        on_block(range(4, 5))

    alone = ProducerIds(request)
    with pytest.raises(KafkaStorageError):
        alone.next_id()
    assert alone.next_id() == 4
