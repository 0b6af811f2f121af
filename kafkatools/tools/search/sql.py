"""The SQL of `kt query` and of `--where`: DuckDB's, over columns of records, without access to files or the network.

A statement cannot read Python variables, files or settings of the process, nor load extensions; a caller lists the
files that it allows. Timestamps without a zone are UTC. Two things differ from plain DuckDB, so that records can be
searched without preparation:

- `offset` is a column where DuckDB's grammar expects an expression. In DuckDB it is a keyword, so the word is quoted
  before parsing. A clause OFFSET never follows the words and signs after which an expression begins.
- `value->>'user'` is null if the value is not JSON; DuckDB raises an error, so one such record would end a search.
  The operator `->` cannot be replaced; its error says what to use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import duckdb

# fmt: off
_EXPRESSION_FOLLOWS = frozenset((
    "and", "any", "between", "by", "case", "distinct", "else", "filter", "having", "ilike", "in", "is", "like", "not",
    "on", "or", "qualify", "returning", "select", "some", "then", "using", "values", "when", "where",
))
# fmt: on
_SETTINGS = (
    "SET TimeZone='UTC'",
    "SET python_enable_replacements=false",
    "SET autoinstall_known_extensions=false",
    "SET autoload_known_extensions=false",
    "SET errors_as_json=true",
    "SET temp_directory=''",
    'CREATE MACRO "->>"(value, path) AS try(json_extract_string(value, path))',
    "CREATE MACRO header(headers, name) AS list_filter(headers, lambda entry: entry.key = name)[-1].value",
)


class SqlError(Exception):
    """A statement is wrong or failed: one line, with line and column if DuckDB names the place."""


class QuotedSql(NamedTuple):
    """A statement with `"offset"` in quotes, and the positions in the original text where quotes were added around a
    word."""

    text: str
    quoted: tuple[int, ...]

    def original_position(self, position: int) -> int:
        """Convert a position in `text` to one in the original text."""
        added = 0
        for start in self.quoted:
            if position > start + added:
                added += 1
            if position > start + added + len("offset"):
                added += 1
        return position - added


def connect() -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB that reads no files and whose settings are locked. Raises ImportError without the
    package duckdb."""
    connection = connect_unlocked()
    restrict(connection)
    lock(connection)
    return connection


def connect_unlocked() -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB with the settings and macros of a search, which may still read files: only for parsing,
    and for `restrict`. Raises ImportError without the package duckdb."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(";".join(_SETTINGS))
    return connection


def restrict(connection: duckdb.DuckDBPyConnection, files: Sequence[str] = (), statements: Sequence[str] = ()) -> None:
    """Run `statements`, then restrict a connection to `files`, for good. Its settings can still be changed, until
    `lock`. Raises duckdb.Error for a file that a statement cannot read."""
    for statement in statements:
        connection.execute(statement)
    if files:
        connection.execute(f"SET allowed_paths=[{', '.join(map(quote_text, files))}]")
    connection.execute("SET enable_external_access=false")


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Lock the settings of a connection. No statement of a user is run before."""
    connection.execute("SET lock_configuration=true")


def quote_text(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """Return a name as a quoted identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_offset(text: str) -> QuotedSql:
    """Quote each word `offset` that stands where an expression begins."""
    quoted: list[int] = []
    previous = ""
    for start, end, _ in _tokens(text):
        token = text[start:end].split()[0].lower() if text[start:end].split() else ""
        word = re.match(r"[a-z_]+|.", token, re.S)
        if word is not None and word[0] == "offset" and _begins_expression(previous):
            quoted.append(start)
        previous = token
    pieces, at = [], 0
    for start in quoted:
        pieces += [text[at:start], '"', text[start : start + len("offset")], '"']
        at = start + len("offset")
    return QuotedSql("".join([*pieces, text[at:]]), tuple(quoted))


def _begins_expression(previous: str) -> bool:
    return previous in _EXPRESSION_FOLLOWS or previous[-1:] in tuple("(,=<>+-*/%|&!~^[:")


def words_of(text: str) -> frozenset[str]:
    """Return the words of a statement in lower case, quoted ones too: more than the names of its columns."""
    return frozenset(word.lower() for word in re.findall(r"\w+", text))


def names_of(text: str) -> frozenset[str]:
    """Return the words of a statement that may name columns, in lower case: those outside of literals and comments."""
    import duckdb

    others = (duckdb.token_type.string_const, duckdb.token_type.comment)
    return words_of(" ".join(text[start:end] for start, end, kind in _tokens(text) if kind not in others))


def _tokens(text: str) -> list[tuple[int, int, duckdb.token_type]]:
    """Return DuckDB's tokens of a statement: the positions in `text` where a token and the next one begin, and the
    kind. The blanks behind a token belong to it."""
    import duckdb

    encoded, tokens = text.encode(), duckdb.tokenize(text)
    places = (0, *(at for at, _ in tokens))
    starts = list(accumulate(_text_length(encoded[before:at]) for before, at in pairwise(places)))
    return [(start, end, kind) for start, end, (_, kind) in zip(starts, [*starts[1:], len(text)], tokens, strict=True)]


def _text_length(encoded: bytes) -> int:
    """Return the characters of a part of a statement: DuckDB's positions count the bytes of its UTF-8."""
    return len(encoded.decode(errors="ignore"))


def describe_error(error: Exception, sql: QuotedSql, part: slice = slice(None), shift: int = 0) -> str:
    """Return DuckDB's error as one line: what is wrong, and line and column in the user's text, which is the `part` of
    the original statement. `shift`: size in bytes of a text that the executed statement has before this one."""
    prefix, _, detail = str(error).partition(": ")
    try:
        values = json.loads(detail if detail.startswith("{") else str(error))
    except ValueError:
        return _one_line(str(error))
    message = _one_line(str(values.get("exception_message", prefix)))
    if values.get("exception_type") == "Out of Memory":  # DuckDB's advice is about settings that are locked
        return f"Out of memory: {message.partition(';')[0]}. Select fewer rows or columns, or raise --memory-limit"
    if "position" not in values:
        return message
    whole = sql_without_quotes(sql)
    first, stop, _ = part.indices(len(whole))
    place = _text_length(sql.text.encode()[: int(values["position"]) - shift])
    text, position = whole[first:stop].rstrip(), sql.original_position(place) - first
    if position >= len(text):
        return "the SQL ends too early" if values["exception_type"] == "Parser" else message
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return f"line {line}, column {column}: {message}" if line > 1 else f"column {column}: {message}"


def sql_without_quotes(sql: QuotedSql) -> str:
    """Return the original text of a statement."""
    pieces, at, added = [], 0, 0
    for start in sql.quoted:
        place = start + added
        pieces += [sql.text[at:place], sql.text[place + 1 : place + 1 + len("offset")]]
        at = place + len("offset") + 2
        added += 2
    return "".join([*pieces, sql.text[at:]])


def _one_line(text: str) -> str:
    """Join the lines of a message, without the excerpt of the statement (`LINE 1: ...`) and lists of functions."""
    text, _, functions = text.split("\n\nLINE ")[0].partition("\n\tCandidate functions:")
    line = "; ".join(line.strip() for line in text.splitlines() if line.strip())
    if functions and "'json_extract(" in line and "BOOLEAN)'" in line:
        line += " The operator -> binds weakly: write (value->'field') in parentheses, or use ->>."
    if "explicit" in line and " cast" in line and "VARCHAR" in line:
        line = line.rstrip(".") + ". Keys, values and fields of JSON are text: write (value->>'amount')::INT"
    if line.startswith("Cannot access file "):
        file = re.match(r'Cannot access file "(.+)" - ', line)
        line += f". Name the file as a table: FROM {quote_text(file[1] if file else 'FILE.csv')}"
    if line.startswith("Referenced column ") and '"value' in line:
        line += ". A field of a JSON value is value->>'field'"
    if line.startswith("Malformed JSON"):
        line += " Use ->>, which is null for a value that is not JSON, with a path such as '$.customer.name'."
    return line
