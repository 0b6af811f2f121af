"""The file of views: `CREATE VIEW` statements of Spark SQL, which can also be written by hand.

Rules: a change locks and reads the file, changes one statement and replaces the file as a whole, so that comments and
other statements stay, also those of another shell that changes the file at the same time. The file is read for each
statement of the catalog, since another shell may change it. A view is not checked before it is used.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from kafkatools.core import atomic_file
from kafkatools.pipeline.catalog.statements import CreateView, Statement, all_statements, command_of, split, tokens
from kafkatools.pipeline.errors import PipelineError

_MODE = 0o600
"""Permissions of a new file: the options of a view may have a password."""


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

    def ensure_readable(self) -> None:
        """Raise PipelineError if the file exists and cannot be read."""
        self._read()

    def put(self, name: str, text: str) -> None:
        """Keep a CREATE VIEW statement, in place of the older one of the view for OR REPLACE. Raises PipelineError,
        also if the view exists and is not to be replaced."""
        view = _view(Statement(text))
        assert isinstance(view, View)
        with self._changing() as before:
            statements = all_statements(before)
            exists = any(_creates(one, name) for one in statements)
            if exists and not view.command.replaces:
                raise PipelineError(f"The view {name} exists in {self.label}; CREATE OR REPLACE VIEW replaces it")
            texts = [text if _creates(one, name) else one.text for one in statements]
            self._write(texts if exists else [*texts, text], before)

    def remove(self, name: str) -> None:
        """Forget a view. Raises PipelineError."""
        with self._changing() as before:
            self._write([one.text for one in all_statements(before) if not _creates(one, name)], before)

    def _statements(self) -> list[Statement]:
        return all_statements(self._read())

    def _read(self) -> str:
        if self.path is None:
            return self._text
        try:
            with open(self.path, encoding="utf-8-sig") as file:
                return file.read()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise PipelineError(f"{self.path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise PipelineError(f"{self.path} is not UTF-8 text: byte {error.start}") from error

    @contextlib.contextmanager
    def _changing(self) -> Iterator[str]:
        """Lock the file for a change within the context, and yield its text. Raises PipelineError."""
        if self.path is None:
            yield self._text
            return
        path = os.path.realpath(self.path)  # a link is kept, its target is replaced
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with _locked(path):
                yield self._read()
        except OSError as error:
            raise PipelineError(f"{self.path} cannot be written: {error.strerror}") from error

    def _write(self, texts: list[str], before: str) -> None:
        """Replace the statements of the text `before`. Raises PipelineError if a statement would end elsewhere, and
        OSError."""
        # A statement may end with a comment to the end of its line, so the semicolon has its own.
        parts = [f"{one}\n;\n" if "--" in one.rpartition("\n")[2] else f"{one};\n" for one in texts]
        after_last = split(before)[1].strip()
        if after_last and next(tokens(after_last), None) is None:
            parts.append(f"{after_last}\n")  # a comment at the end of the file
        text = "\n".join(parts)
        if [one.text for one in all_statements(text)] != texts:
            raise PipelineError(f"{self.label}: the last statement has a quote that is not closed; close it first")
        if self.path is None:
            self._text = text
            return
        path = os.path.realpath(self.path)
        with atomic_file.replacing(path, _MODE) as file:
            os.fchmod(file.fileno(), stat.S_IMODE(os.stat(path).st_mode))
            atomic_file.write_all(file, text.encode())
            os.fsync(file.fileno())
        atomic_file.sync_directory(os.path.dirname(path))


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold an exclusive lock on a file, which is created if it is missing. Raises OSError, and PipelineError for a
    device, for example."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PipelineError(f"{path} cannot be written: it is not a regular file")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Another shell may have replaced the file before it released the lock: then this lock is one on the old
            # file, which nobody reads.
            if _is_open_file(descriptor, path):
                yield
                return
        finally:
            os.close(descriptor)


def _is_open_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
