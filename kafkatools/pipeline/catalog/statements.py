"""SQL statements as text: where one ends, and the few that the catalog carries out itself.

Rules: Spark parses and checks SQL; this module only has to know where strings, quoted names and comments end. What it
does not recognise is left to Spark. Strings have backslash escapes, except raw ones (r'...'); comments /* */ nest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.identifiers import quoted

_WORD = re.compile(r"\w+")
_BLANK = re.compile(r"\s+")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_BACKSLASHED = {quote: re.compile(rf"(?:[^\\{quote}]|\\.)*", re.S) for quote in "'\""}
_QUERIES = frozenset(("select", "with", "from", "values", "table", "("))
_WRITES = frozenset(("insert", "delete", "update", "merge"))
_TARGETS = (
    ("insert", "into"), ("insert", "overwrite"), ("delete", "from"), ("update",), ("merge", "into"),
    ("truncate", "table"), ("alter", "table"), ("alter", "view"), ("drop", "table"),
)  # fmt: skip
"""The words before the name of the table that a statement changes."""
_EXPLAIN_MODES = ("extended", "codegen", "cost", "formatted")


class Token(NamedTuple):
    """A word, a string or quoted name with its quotes, or another character of a statement, and its start and end."""

    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The text in lower case, in which SQL's keywords are compared."""
        return self.text.lower()

    @property
    def is_name(self) -> bool:
        """Return whether this is an identifier, with or without backticks."""
        return self.text[0] == "`" or _WORD.fullmatch(self.text) is not None

    @property
    def name(self) -> str:
        """The identifier without its backticks."""
        return self.text[1:-1].replace("``", "`") if self.text[0] == "`" else self.text


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of SQL text, without comments."""
    at = 0
    while at < len(text):
        blank = _BLANK.match(text, at)
        end = blank.end() if blank else _token_end(text, at)
        if not blank and not text.startswith(("--", "/*"), at):
            yield Token(text[at:end], at, end)
        at = end


def _token_end(text: str, at: int) -> int:
    """Return the end of the token or comment that begins at a position."""
    if text.startswith("--", at):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if text.startswith("/*", at):
        return _end_of_comment(text, at)
    word = _WORD.match(text, at)
    if word and not (word[0] in "rR" and text[word.end() : word.end() + 1] in ("'", '"')):
        return word.end()
    start = word.end() if word else at
    quote = text[start]
    if quote == "`" or (word and quote in "'\""):
        end = text.find(quote, start + 1)
        while quote == "`" and text.startswith("``", end):
            end = text.find("`", end + 2)
        return len(text) if end < 0 else end + 1
    if quote in _BACKSLASHED:
        match = _BACKSLASHED[quote].match(text, at + 1)
        return len(text) if match is None else min(match.end() + 1, len(text))
    return at + 1


def _end_of_comment(text: str, at: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


class Statement(NamedTuple):
    """A statement as it was written, without its semicolon, and the number of its first line, from 1."""

    text: str
    line: int = 1


def split(text: str) -> tuple[list[Statement], str]:
    """Split SQL text at semicolons. Returns the statements, and the rest after the last semicolon. Text without a
    token is no statement."""
    found: list[Statement] = []
    start = 0
    has_tokens = False
    for token in tokens(text):
        if token.text != ";":
            has_tokens = True
            continue
        if has_tokens:
            found.append(_statement(text, start, token.start))
        start, has_tokens = token.end, False
    return found, text[start:]


def all_statements(text: str) -> list[Statement]:
    """Return the statements of a text, of which the last one needs no semicolon."""
    found, rest = split(text)
    return [*found, _statement(text, len(text) - len(rest), len(text))] if next(tokens(rest), None) else found


def without_semicolon(text: str) -> str:
    """Return a statement without the semicolons at its end, and without comments behind them."""
    end = None
    for token in tokens(text):
        if token.text != ";":
            end = None
        elif end is None:
            end = token.start
    return text[:end]


def _statement(text: str, start: int, end: int) -> Statement:
    """Return the statement in a part of a text, from its first line with comments on."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return Statement(part.strip(), text.count("\n", 0, start) + 1)


# -- What the catalog carries out itself --


@dataclass(frozen=True)
class CreateView:
    """CREATE VIEW: the name, and the text after the name. `replaces` and `keeps`: OR REPLACE and IF NOT EXISTS."""

    name: str
    definition: str
    replaces: bool = False
    keeps: bool = False

    def temporary(self) -> str:
        """Return the statement by which Spark makes the view for its session."""
        return f"CREATE OR REPLACE TEMPORARY VIEW {quoted(self.name)}{self.definition}"


@dataclass(frozen=True)
class DropView:
    """DROP VIEW. `if_exists`: a missing view is no error."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class ShowTables:
    """SHOW TABLES or SHOW VIEWS, with a pattern or None."""

    pattern: str | None = None
    only_views: bool = False


@dataclass(frozen=True)
class ShowCreate:
    """SHOW CREATE TABLE of a name without a schema."""

    name: str


@dataclass(frozen=True)
class Explain:
    """EXPLAIN of a query: Spark's mode ("simple" without one) and the query."""

    mode: str
    query: str


@dataclass(frozen=True)
class Write:
    """A statement that makes or changes the table of a name without a schema."""

    name: str


@dataclass(frozen=True)
class Query:
    """A query: Spark runs nothing before its rows are requested."""


@dataclass(frozen=True)
class Other:
    """A statement that Spark runs as a whole."""


Command = CreateView | DropView | ShowTables | ShowCreate | Explain | Write | Query | Other


def command_of(text: str) -> Command:
    """Return the kind and the parts of a statement. Raises PipelineError for a view whose name has a schema."""
    reader = _Reader(text)
    if reader.skip("create"):
        return _create(reader)
    if reader.skip("drop", "view"):
        if_exists = reader.skip("if", "exists")
        name = reader.view_name()
        return DropView(name, if_exists) if name is not None and reader.is_at_end() else Other()
    if reader.skip("show"):
        return _show(reader)
    if reader.skip("explain"):
        mode = next((mode for mode in _EXPLAIN_MODES if reader.skip(mode)), "simple")
        query = reader.rest()
        return Explain(mode, query) if _is_query(query) else Other()
    if _is_query(text):
        return Query()
    return _write(reader)


def _write(reader: _Reader) -> Command:
    if not any(reader.skip(*words) for words in _TARGETS):
        return Other()
    reader.skip("table")
    reader.skip("if", "exists")
    name = reader.name()
    return Other() if name is None else Write(name)


def _create(reader: _Reader) -> Command:
    replaces = reader.skip("or", "replace")
    is_table = reader.skip("table") or reader.skip("external", "table")
    if not is_table and not reader.skip("view"):
        return Other()
    keeps = reader.skip("if", "not", "exists")
    if is_table:
        table = reader.name()
        return Other() if table is None else Write(table)
    name = reader.view_name()
    return Other() if name is None else CreateView(name, reader.rest(), replaces, keeps)


def _show(reader: _Reader) -> Command:
    if reader.skip("create", "table"):
        name = reader.name()
        return ShowCreate(name) if name is not None and reader.is_at_end() else Other()
    only_views = reader.skip("views")
    if not only_views and not reader.skip("tables"):
        return Other()
    has_like = reader.skip("like")
    pattern = reader.string()
    if not reader.is_at_end() or (has_like and pattern is None):
        return Other()
    return ShowTables(pattern, only_views)


def _is_query(text: str) -> bool:
    """Return whether a statement surely is a query. WITH and FROM may also begin an INSERT, for example."""
    words = [token.word for token in tokens(text)]
    return bool(words) and words[0] in _QUERIES and not _WRITES.intersection(words)


class _Reader:
    """Reads a statement token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._at = 0

    def skip(self, *words: str) -> bool:
        """Skip keywords if all of them follow. Returns whether they do."""
        if tuple(token.word for token in self._tokens[self._at : self._at + len(words)]) != words:
            return False
        self._at += len(words)
        return True

    def name(self) -> str | None:
        """Skip and return a name without a schema; None if none follows."""
        following = self._tokens[self._at : self._at + 2]
        if not following or not following[0].is_name or (len(following) > 1 and following[1].text == "."):
            return None
        self._at += 1
        return following[0].name

    def view_name(self) -> str | None:
        """Skip and return the name of a view; None if none follows. Raises PipelineError if it has a schema."""
        following = self._tokens[self._at : self._at + 2]
        name = self.name()
        if name is None and len(following) > 1 and following[1].text == ".":
            raise PipelineError("The name of a view cannot have a schema; write a name with a dot in backticks")
        return name

    def string(self) -> str | None:
        """Skip and return a string without escapes; None if none follows."""
        if self.is_at_end() or self._tokens[self._at].text[0] not in "'\"":
            return None
        self._at += 1
        return self._tokens[self._at - 1].text[1:-1]

    def is_at_end(self) -> bool:
        """Return whether no token follows."""
        return self._at == len(self._tokens)

    def rest(self) -> str:
        """Return the text behind the last skipped token."""
        return self._text[self._tokens[self._at - 1].end :]
