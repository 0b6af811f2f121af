"""java.util.Random and Collections.shuffle: a seed gives the same sequence as in Java."""

from __future__ import annotations

import os
from collections.abc import MutableSequence
from typing import TypeVar

_MULTIPLIER = 0x5DEECE66D
_STATE = (1 << 48) - 1

_T = TypeVar("_T")


class JavaRandom:
    """java.util.Random: bounded integers and shuffles. `seed` None draws a seed from the operating system."""

    def __init__(self, seed: int | None = None) -> None:
        self._state = ((int.from_bytes(os.urandom(6), "big") if seed is None else seed) ^ _MULTIPLIER) & _STATE

    def _next(self, bits: int) -> int:
        self._state = (self._state * _MULTIPLIER + 0xB) & _STATE
        return self._state >> (48 - bits)

    def below(self, bound: int) -> int:
        """Return a random integer from 0 up to, not including, the positive number `bound` (Random.nextInt)."""
        bits = self._next(31)
        if bound & (bound - 1) == 0:
            return bound * bits >> 31
        while bits - bits % bound + bound - 1 >= 1 << 31:
            bits = self._next(31)
        return bits % bound

    def shuffle(self, items: MutableSequence[_T]) -> None:
        """Shuffle a list in place (Collections.shuffle)."""
        for size in range(len(items), 1, -1):
            index = self.below(size)
            items[size - 1], items[index] = items[index], items[size - 1]
