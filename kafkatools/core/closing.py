"""`Closing`, the base class of objects that a `with` statement closes."""

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
