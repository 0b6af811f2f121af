"""Calls that wait, as generators: a thread and an event loop run the same code.

A generator of steps yields what it waits for and receives the answer; its return value is the result of the call. It
never waits itself. `run` drives it on a thread, `kafkatools/aio/turns.py` on an event loop. An exception of the wait,
such as a cancellation, is raised inside the generator, so that its `finally` clauses run.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

Wait = TypeVar("Wait")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


def run(steps: Generator[Wait, Answer, Result], wait: Callable[[Wait], Answer]) -> Result:
    """Run the steps on this thread and return their result. `wait` blocks for what a step yields and returns the
    answer."""
    try:
        item = next(steps)
        while True:
            try:
                answer = wait(item)
            except BaseException as error:  # noqa: BLE001  # raised where the steps wait, KeyboardInterrupt too
                item = steps.throw(error)
            else:
                item = steps.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        # After Ctrl-C between two steps the traceback would keep them, and the memory that they hold, alive.
        steps.close()
