"""Small HTML tables for notebooks (`_repr_html_` of Jupyter). Every text is escaped, since records come from others."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from kafkatools.core.control_characters import visible

_LONGEST_CELL = 80


def html_table(title: str, names: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Return a table with a title above and a note below it. Bytes are shown as text if they are UTF-8, else as a
    literal of Python; long cells are cut."""
    head = "".join(f"<th>{_escaped(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    below = f"<div>{_escaped(note)}</div>" if note else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if names else ""
    return f"<div><div><b>{_escaped(title)}</b></div>{table}{below}</div>"


def _cell(content: object) -> str:
    if content is None:
        return "<i>null</i>"
    if isinstance(content, bytes):
        try:
            content = content.decode()
        except UnicodeDecodeError:
            content = repr(content)
    text = str(content)
    return _escaped(text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…")


def _escaped(text: str) -> str:
    return html.escape(visible(text))
