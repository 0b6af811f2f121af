"""The queues of requests and responses whose callbacks may raise and send."""

from __future__ import annotations

import pytest

from kafkatools.core.net.client_requests import taken


def test_what_stands_behind_an_item_that_raises_stays_in_the_queue() -> None:
    queue = [1, 2, 3]
    with pytest.raises(KeyboardInterrupt):
        for _ in taken(queue):
            raise KeyboardInterrupt
    assert queue == [2, 3]


def test_what_is_queued_meanwhile_waits_for_the_next_time() -> None:
    queue = [1, 2]
    for item in taken(queue):
        queue.append(-item)
    assert queue == [-1, -2]


def test_items_that_a_callback_takes_along_are_not_taken_twice() -> None:
    queue, handled = [1, 2, 3], []
    for item in taken(queue):
        handled.append(item)
        if item == 1:
            handled += taken(queue)
    assert (queue, handled) == ([], [1, 2, 3])
