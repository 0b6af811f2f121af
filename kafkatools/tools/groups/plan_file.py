"""Offset plan files: written by --reset-offsets --export, read by --from-file, and saved by --execute for undoing.

A file is CSV, `topic,partition,offset` optionally preceded by the group (CsvUtils), or JSON lines with the keys
`group`, `topic`, `partition`, `offset`, `leader_epoch`, `metadata`. It is JSON if it begins with `{` and a quote, which
no CSV does: a group may be called `{env}-shop`, but a name with a quote is in quotes itself. The offset `none` (JSON:
null) deletes the committed offset. The error for an invalid line names the line.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.exit_status import CommandError
from kafkatools.output import json_line

TopicPartition = tuple[str, int]
NO_OFFSET = "none"
_MAX_PROBLEMS = 20
_MAX_UNQUOTED = 24
_MAX_LONG = 2**63 - 1
_MAX_DIGITS = len(str(_MAX_LONG))
_MAX_INT = 2**31 - 1


class PlanLine(NamedTuple):
    """One line of a plan: the offset for a group's partition, None to delete it."""

    number: int
    group_id: str
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int = -1
    metadata: str = ""


class _BadLine(ValueError):
    """The error text for an invalid line."""


class PlanFile(NamedTuple):
    """The parsed lines of a plan file."""

    path: str
    lines: tuple[PlanLine, ...]

    @property
    def group_ids(self) -> list[str]:
        """The groups in the file, in order of appearance."""
        return list(dict.fromkeys(line.group_id for line in self.lines))

    def of_group(self, group_id: str) -> dict[TopicPartition, PlanLine]:
        """Return the lines of one group by partition."""
        return {(line.topic, line.partition): line for line in self.lines if line.group_id == group_id}


def read_plan(path: str, group_ids: Collection[str] | None) -> PlanFile:
    """Parse a plan file for these groups (None: any). Raises CommandError if the file is unreadable, has no offsets, or
    has bad lines; it names up to 20 bad lines."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise CommandError(f"Unable to read file {path}", hint=error.strerror or "") from None
    reader = _json_lines if re.match(r'\s*\{\s*"', text) else _csv_lines
    only = next(iter(group_ids)) if group_ids is not None and len(group_ids) == 1 else None
    lines: list[PlanLine] = []
    problems: list[str] = []
    line_numbers: dict[tuple[str, str, int], int] = {}
    for number, line in reader(text, only):
        if isinstance(line, str):
            problems.append(f"{path}, line {number}{line}")
            continue
        problem = _line_problem(line, group_ids, line_numbers)
        if problem:
            problems.append(f"{path}, line {number}: {problem}")
        lines.append(line)
    refuse(problems)
    if not lines:
        raise CommandError(f"{path} holds no offsets")
    return PlanFile(path, tuple(lines))


def refuse(problems: list[str]) -> None:
    """Raise CommandError with one line for each of the first 20 problems and the number of the others. Does nothing
    without problems."""
    if not problems:
        return
    lines = problems[:_MAX_PROBLEMS]
    if len(problems) > len(lines):
        lines.append(f"and {len(problems) - len(lines)} more")
    raise CommandError(lines[0], hint="\n".join(lines[1:]))


def _line_problem(
    line: PlanLine, group_ids: Collection[str] | None, line_numbers: dict[tuple[str, str, int], int]
) -> str:
    """Return the problem of a line for an unrequested group or a repeated partition, else an empty string."""
    if group_ids is not None and line.group_id not in group_ids:
        return f"group {line.group_id} is not among the requested groups"
    before = line_numbers.setdefault((line.group_id, line.topic, line.partition), line.number)
    if before != line.number:
        return f"{line.topic}-{line.partition} of group {line.group_id} is already in line {before}"
    return ""


def _csv_lines(text: str, only: str | None) -> Iterator[tuple[int, PlanLine | str]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    width = 0
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, f": {error}"
            continue
        if not cells or not any(cell.strip() for cell in cells):
            continue
        try:
            width = _checked_width(cells, width, only)
            yield number, _csv_line(number, cells, only)
        except _BadLine as bad:
            yield number, str(bad)


def _checked_width(cells: list[str], width: int, only: str | None) -> int:
    if len(cells) not in (3, 4):
        raise _BadLine(f": {len(cells)} columns; topic,partition,offset or group,topic,partition,offset is expected")
    if width and len(cells) != width:
        raise _BadLine(f": {len(cells)} columns, but earlier lines have {width}")
    if len(cells) == 3 and only is None:
        raise _BadLine(": a line without a group requires exactly one --group")
    return len(cells)


def _csv_line(number: int, cells: list[str], only: str | None) -> PlanLine:
    group_id = cells[0] if len(cells) == 4 else only or ""
    topic, partition, offset = cells[-3:]
    column = len(cells) - 2
    if not topic:
        raise _BadLine(f", column {column}: the topic is missing")
    return PlanLine(
        number,
        group_id,
        topic,
        _number(partition, column + 1, "partition", _MAX_INT),
        None if offset.strip() == NO_OFFSET else _number(offset, column + 2, "offset", _MAX_LONG),
    )


def _number(text: str, column: int, label: str, maximum: int) -> int:
    cleaned = text.strip()
    digits = cleaned.lstrip("0") or cleaned[-1:]
    if not (cleaned.isascii() and cleaned.isdigit()) or len(digits) > _MAX_DIGITS or int(digits) > maximum:
        expected = f"a number or {NO_OFFSET}" if label == "offset" else "a number"
        raise _BadLine(f", column {column}: {label} '{text}' is not {expected}")
    return int(digits)


def _json_lines(text: str, only: str | None) -> Iterator[tuple[int, PlanLine | str]]:
    import json

    from kafkatools.core.json_texts import parse_json

    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, _json_line(number, parse_json(line), only)
        except json.JSONDecodeError as error:
            yield number, f", column {error.colno}: {error.msg}"
        except _BadLine as bad:
            yield number, str(bad)
        except ValueError as problem:
            yield number, f": {problem}"


def _json_line(number: int, row: object, only: str | None) -> PlanLine:
    if not isinstance(row, Mapping):
        raise _BadLine(": not a JSON object")
    missing = [key for key in ("topic", "partition", "offset") if key not in row]
    if missing:
        raise _BadLine(f": {missing[0]} is missing")
    group_id, epoch = row.get("group", only), row.get("leader_epoch")
    metadata = row.get("metadata")
    offset = row["offset"]
    _ensure(isinstance(group_id, str), "group", group_id, "a text")
    _ensure(isinstance(row["topic"], str) and bool(row["topic"]), "topic", row["topic"], "a text")
    _ensure(_is_number(row["partition"], _MAX_INT), "partition", row["partition"], "a number")
    _ensure(offset is None or _is_number(offset, _MAX_LONG), "offset", offset, "a number or null")
    _ensure(epoch is None or _is_number(epoch, _MAX_INT), "leader_epoch", epoch, "a number or null")
    _ensure(metadata is None or isinstance(metadata, str), "metadata", metadata, "a text")
    return PlanLine(
        number, str(group_id), row["topic"], row["partition"], offset, -1 if epoch is None else epoch, metadata or ""
    )


def _is_number(value: object, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum


def _ensure(is_good: bool, key: str, value: object, expected: str) -> None:
    if not is_good:
        raise _BadLine(f": {key} {value!r} is not {expected}")


# -- writing --


def csv_cell(text: str) -> str:
    """Return a CSV cell like Jackson's CSV writer: quoted when it has more than 24 characters or one below `-`."""
    if len(text) <= _MAX_UNQUOTED and all(character >= "-" for character in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def csv_line(group_id: str | None, key: TopicPartition, offset: int | None) -> str:
    """Return a plan line in CSV, without the group if `group_id` is None."""
    group = "" if group_id is None else csv_cell(group_id) + ","
    return f"{group}{csv_cell(key[0])},{key[1]},{NO_OFFSET if offset is None else offset}"


def plan_json(group_id: str, key: TopicPartition, new: OffsetAndMetadata | None) -> dict[str, object]:
    """Return a plan line as a JSON object. A `new` of None gives an offset of null, which deletes the committed
    offset."""
    return {
        "group": group_id,
        "topic": key[0],
        "partition": key[1],
        "offset": None if new is None else new.offset,
        "leader_epoch": None if new is None or new.leader_epoch < 0 else new.leader_epoch,
        "metadata": None if new is None else new.metadata,
    }


def undo_lines(path: str, before: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata | None]]) -> Iterator[str]:
    """Yield the lines of an undo file with the previous offsets: a JSON object each for .json and .jsonl, else CSV."""
    is_json = path.endswith((".json", ".jsonl"))
    for group_id, offsets in before.items():
        for key, old in sorted(offsets.items()):
            if is_json:
                yield json_line(plan_json(group_id, key, old)) + "\n"
            else:
                yield csv_line(group_id, key, None if old is None else old.offset) + "\n"
