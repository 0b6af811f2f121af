"""Names in as many columns as fit the terminal (LsCommandHandler.calculateColumnSchema)."""

from __future__ import annotations

from collections.abc import Sequence

_NARROWEST = 4
_GAP = 2


def in_columns(names: Sequence[str], width: int | None) -> list[str]:
    """Return the lines of names, ordered down the columns. One column without a width."""
    if not names:
        return []
    for columns in range(min(width // _NARROWEST, len(names)) if width else 0, 1, -1):
        rows = -(-len(names) // columns)
        parts = [names[start : start + rows] for start in range(0, len(names), rows)]
        widths = [max(map(len, part)) + _GAP for part in parts]
        if len(parts) == columns and sum(widths) <= (width or 0):
            return [_line(parts, widths, row) for row in range(rows)]
    return list(names)


def _line(parts: Sequence[Sequence[str]], widths: Sequence[int], row: int) -> str:
    cells = [part[row] if row < len(part) else "" for part in parts]
    return "".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
