"""`Closing`, the base class of objects that a `with` statement closes, and the check of a time-out of `close`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A context manager that calls `close` at the end of its `with` statement, also after an error."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Release the object's resources. Safe to call again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def ensure_close_timeout(timeout_ms: int | None) -> None:
    """Raise ValueError for a negative time-out, of `close` for example, as Kafka's clients do; None stands for the
    default."""
    if timeout_ms is not None and timeout_ms < 0:
        raise ValueError("The timeout cannot be negative.")
