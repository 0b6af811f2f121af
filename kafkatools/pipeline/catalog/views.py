"""The file of views: `CREATE VIEW` statements of Spark SQL, which can also be written by hand.

Rules: a change reads the file, changes one statement and replaces the file as a whole, so that comments and other
statements stay. The file is read for each statement of the catalog, since another shell may change it. A view is not
checked before it is used.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from kafkatools.core import atomic_file
from kafkatools.pipeline.catalog.statements import CreateView, Statement, all_statements, command_of
from kafkatools.pipeline.errors import PipelineError


class View(NamedTuple):
    """A view: its statement as it was written, and that statement's parts."""

    statement: Statement
    command: CreateView


def _view(statement: Statement) -> View | str:
    """Return the view that a statement creates, or the reason why it creates none."""
    try:
        command = command_of(statement.text)
    except PipelineError as error:
        return str(error)
    return View(statement, command) if isinstance(command, CreateView) else "The statement is not CREATE VIEW"


def _creates(statement: Statement, name: str) -> bool:
    view = _view(statement)
    return isinstance(view, View) and view.command.name.lower() == name.lower()


class ViewFile:
    """Views by name, in a file; without a path only in this object. A missing file is one without views."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._text = ""

    @property
    def label(self) -> str:
        """The name of the file in messages."""
        return self.path or "this session"

    def views(self) -> dict[str, View]:
        """Return the views by name; statements that `problems` reports are left out."""
        try:
            found = [view for one in self._statements() if isinstance(view := _view(one), View)]
        except PipelineError:
            return {}
        return {view.command.name: view for view in found}

    def find(self, name: str) -> View | None:
        """Return the view of a name in any case, as Spark compares names; None if there is none."""
        return {other.lower(): view for other, view in self.views().items()}.get(name.lower())

    def problems(self) -> list[str]:
        """Return a line for each statement that creates no view, or one line if the file cannot be read."""
        try:
            statements = self._statements()
        except PipelineError as error:
            return [str(error)]
        return [f"{self.label}, line {one.line}: {_view(one)}" for one in statements if isinstance(_view(one), str)]

    def put(self, name: str, text: str) -> None:
        """Keep the statement of a view in place of an older one. Raises PipelineError."""
        statements = self._statements()
        texts = [text if _creates(one, name) else one.text for one in statements]
        self._write(texts if text in texts else [*texts, text])

    def remove(self, name: str) -> None:
        """Forget a view. Raises PipelineError."""
        self._write([one.text for one in self._statements() if not _creates(one, name)])

    def _statements(self) -> list[Statement]:
        if self.path is None:
            return all_statements(self._text)
        try:
            with open(self.path, encoding="utf-8") as file:
                return all_statements(file.read())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise PipelineError(f"{self.path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise PipelineError(f"{self.path} is not UTF-8 text: byte {error.start}") from error

    def _write(self, texts: list[str]) -> None:
        # A statement may end with a comment to the end of its line, so the semicolon has its own.
        text = "\n".join(f"{one}\n;\n" if "--" in one.rpartition("\n")[2] else f"{one};\n" for one in texts)
        if self.path is None:
            self._text = text
            return
        try:
            os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
            atomic_file.replace_durably(self.path, text.encode())
        except OSError as error:
            raise PipelineError(f"{self.path} cannot be written: {error.strerror}") from error
