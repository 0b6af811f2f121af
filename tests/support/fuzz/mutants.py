"""Many cheap mutations of one message: a few machine instructions each, from random bytes that are drawn in bulk."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from random import Random

ODD_BYTES = (0, 1, 2, 0x7E, 0x7F, 0x80, 0xFE, 0xFF)
ODD_RUNS = (
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\0\0\0\0",
    b"\xff\xff",
    b"\x80\x80\x80\x80\x10",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\0\0\0\0\0\0\0",
)


class QuickRandom(Random):
    """A `Random` whose choices cost a third: its bias of one in 2**53 / n does not matter here."""

    def choice(self, seq):  # type: ignore[no-untyped-def]
        """One of the elements."""
        return seq[int(self.random() * len(seq))]

    def randrange(self, start, stop=None, step=1):  # type: ignore[no-untyped-def]
        """A number from `start` to below `stop`; below `start` when that is the only bound."""
        if stop is None:
            return int(self.random() * start)
        return start + int(self.random() * (stop - start))

    def randint(self, a, b):  # type: ignore[no-untyped-def]
        """A number from `a` to `b`."""
        return a + int(self.random() * (b - a + 1))


def mutants(rng: Random, seed: bytes, other: bytes, count: int) -> Iterator[bytes]:
    """So many mutations of a message; `other` gives the bytes of splices. One in four has a second change."""
    drawn = array("Q", rng.randbytes(16 * count))
    for number in range(0, 2 * count, 2):
        data = _changed(seed, other, drawn[number])
        if drawn[number + 1] & 3 == 0:
            data = _changed(data, other, drawn[number + 1] >> 2)
        yield data


def _changed(data: bytes, other: bytes, drawn: int) -> bytes:
    size = len(data)
    kind, pick, far = drawn & 15, drawn >> 4 & 0xFF, drawn >> 12
    if not size:
        return ODD_RUNS[pick & 7]
    place = far % size
    if kind < 5:
        return data[:place] + bytes((data[place] ^ 1 << (pick & 7),)) + data[place + 1 :]
    if kind < 8:
        return data[:place] + bytes((ODD_BYTES[pick & 7],)) + data[place + 1 :]
    if kind < 10:
        run = ODD_RUNS[pick & 7]
        return data[:place] + run + data[place + len(run) :]
    if kind == 10:
        return data[:place]
    if kind == 11:
        return data + other[: pick & 31]
    if kind == 12:
        return data[:place] + other[(far >> 20) % (len(other) or 1) :][:256]
    if kind == 13:
        return data[:place] + data[max(0, place - (pick & 15)) :]
    if kind == 14:
        return data[:place] + data[place + 1 + (pick & 7) :]
    return data[:place] + ODD_RUNS[pick & 7] + data[place:]
