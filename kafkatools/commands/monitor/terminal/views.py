"""View: for a kind of place its columns, its rows, and the places to which rows lead.

A row's key is a name, such as ("orders", 0), so that a refresh finds the row again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from kafkatools.commands.monitor.terminal.columns import Column, Item
from kafkatools.commands.monitor.terminal.model import Model
from kafkatools.commands.monitor.terminal.places import Place
from kafkatools.tools.diagnosis.observations import CLUSTER, Subject

Target = tuple[str | int, ...]


def _leads_nowhere(model: Model, item: Item) -> Place | None:
    return None


def _no_mood(item: Item) -> str:
    return ""


def _nothing(model: Model, target: Target) -> str:
    return "nothing"


class View(NamedTuple):
    """A kind of place. `rows` returns the subjects of its rows in their original order, `key` the name of a row,
    `opens` the place that Enter opens, `subject` the subject for `kt why`. `mood`: a colour for a row, or empty.
    `when_empty`: the reason if there are no rows. `sort_column`: sorted by it, descending, when the place is opened."""

    title: str
    columns: Sequence[Column]
    rows: Callable[[Model, Target], Sequence[Item]]
    key: Callable[[Item], Hashable]
    opens: Callable[[Model, Item], Place | None] = _leads_nowhere
    subject: Callable[[Item], Subject] = lambda item: Subject(CLUSTER)
    mood: Callable[[Item], str] = _no_mood
    when_empty: Callable[[Model, Target], str] = _nothing
    sort_column: int | None = None
