"""The pages for users: links lead to pages and headings, all pages are reached from the map, sentences are short, and
the command lines of `kt` are ones that it takes."""

from __future__ import annotations

import ast
import itertools
import pathlib
import re
import shlex

import pytest

from kafkatools.commands import COMMANDS, load
from kafkatools.exit_status import UsageError
from kafkatools.options.parser import parse
from kafkatools.options.table import all_options

ROOT = pathlib.Path(__file__).parents[3]
DOCS = ROOT / "docs"
EXAMPLES = [page for page in sorted((ROOT / "examples").rglob("*.md")) if page.parent.name != "plugin"]  # its command
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", *EXAMPLES]
NAMES = ("coming-from", "figures", "first-hour", "index", "limits", "observability", "troubleshooting")
FOR_USERS = [ROOT / "README.md", *(DOCS / f"{name}.md" for name in NAMES)]
MOST_WORDS = 40
"""The longest sentence of a page or a docstring, in words; a colon or a semicolon ends one."""


def _prose(page: pathlib.Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchor(heading: str) -> str:
    """The anchor that repository browsers and the site give a heading."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _anchors(page: pathlib.Path) -> set[str]:
    return {_anchor(heading) for heading in re.findall(r"^#+ (.*?)\s*$", _prose(page), re.MULTILINE)}


def _links(page: pathlib.Path) -> list[tuple[pathlib.Path, str]]:
    """The linked files of this repository, each with its anchor."""
    links = re.findall(r"\]\(([^)\s:#]*)(?:#([^)\s]*))?\)", _prose(page))
    return [((page.parent / name).resolve() if name else page, anchor) for name, anchor in links if name or anchor]


def _name(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_anchors_are_headings_of_the_linked_page(page: pathlib.Path) -> None:
    with_anchor = [(target, anchor) for target, anchor in _links(page) if anchor and target.suffix == ".md"]
    missing = [f"{_name(target)}#{anchor}" for target, anchor in with_anchor if anchor not in _anchors(target)]
    assert missing == []


def _sentences(text: str) -> list[str]:
    """The sentences of Markdown or of a docstring. Each cell of a table and each item of a list in it stands alone."""
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", text))
    blocks = re.split(r"\n\s*\n|\n(?=\s*[-#|])", text)
    cells = [cell for block in blocks if block.startswith("|") for cell in re.split(r" \| |[;,] ", block)]
    pieces = [*cells, *(block for block in blocks if not block.startswith("|"))]
    return [sentence for piece in pieces for sentence in re.split(r"(?<=[.?!:;])\s", piece)]


def _long(text: str) -> list[str]:
    return [sentence for sentence in _sentences(text) if len(sentence.split()) > MOST_WORDS]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_sentences_are_short(page: pathlib.Path) -> None:
    assert _long(_prose(page)) == []


HAND_WRITTEN = [page for page in PAGES if page.parent != DOCS / "python" or page.name == "errors.md"]
"""The references of the Python API repeat docstrings, which are wrapped."""


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=_name)
def test_a_line_has_one_sentence(page: pathlib.Path) -> None:
    lines = [re.sub(r"`[^`]*`", "`code`", line) for line in _prose(page).splitlines()]
    text = [line for line in lines if not line.lstrip().startswith(("|", "#"))]
    assert [line for line in text if re.search(r"""[a-z`)\]*"][.?!][)*`"]* +[A-Z`*\["]""", line)] == []


KINDS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _docstrings(path: pathlib.Path) -> list[str]:
    found: list[str] = []
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, KINDS):
            found.append(ast.get_docstring(node) or "")
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):  # expressions hold no definitions
            statements = getattr(node, field, ())
            waiting += statements if isinstance(statements, list) else ()
    return found


def test_docstrings_are_found_in_all_statements(tmp_path: pathlib.Path) -> None:
    path = ROOT / "kafkatools" / "core" / "log" / "files.py"
    everywhere = tmp_path / "everywhere.py"
    lines = [
        "try:",
        " def a(): 'in try'",
        "except ValueError:",
        " def b(): 'in except'",
        "else:",
        " def c(): 'in else'",
    ]
    lines += ["finally:", " async def d(): 'in finally'", "match 1:", " case 1:", "  class E: 'in case'"]
    lines += ["with 1 as x:", " def f():", "  'in with'", "  def g(): 'within'"]
    everywhere.write_text("'of the module'\n" + "\n".join(lines))
    for file in (path, everywhere):
        nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, KINDS)]
        assert sorted(_docstrings(file)) == sorted(ast.get_docstring(node) or "" for node in nodes) != []


@pytest.mark.slow
def test_sentences_of_docstrings_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): found
        for path in sorted((ROOT / "kafkatools").rglob("*.py"))
        if (found := [sentence for docstring in _docstrings(path) for sentence in _long(docstring)])
    }
    assert long == {}


def test_every_page_is_two_clicks_from_the_map() -> None:
    reached = {DOCS / "index.md"}
    for _ in range(2):
        reached |= {target for page in reached if page.suffix == ".md" and page.exists() for target, _ in _links(page)}
    assert sorted(_name(page) for page in set(DOCS.rglob("*.md")) - reached) == []


def _lines_of_kt(texts: list[str]) -> list[str]:
    found = [re.match(r"(?:\$ )?(?:\w+=\S+ )?(kt .*)", text) for text in texts]
    return [match[1] for match in found if match]


def _spans(page: pathlib.Path) -> list[str]:
    """The command lines, or parts of them, in the code spans of a page."""
    return _lines_of_kt(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", _prose(page)))


def _blocks(page: pathlib.Path) -> list[str]:
    """The command lines in the blocks of code of a page."""
    blocks = re.findall(r"^```(?:sh|console)?\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    return _lines_of_kt([line for block in blocks for line in block.split("\n")])


def _words(line: str) -> list[str]:
    """The words of a command line behind `kt`, its global options and before its pipes and redirections."""
    lexer = shlex.shlex(line.replace(" 2>", " >"), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words = list(itertools.takewhile(lambda word: not set(word) <= set("|&;<>"), lexer))[1:]
    while words[:1] and words[0] in ("--profile", "--confirm"):
        words = words[2:]
    return words


def _complaint(line: str, *, whole: bool) -> str:
    """Why `kt` would not take a command line; empty when it would. Of a part of one only the names are checked."""
    words = _words(line)
    if words[:1] == ["help"]:
        words = words[1:]
    if not words or words[0] in ("--help", "...", "COMMAND", "version") or "--help" in words:
        return ""
    if words[0] not in COMMANDS:
        return f"{line}: no command {words[0]}"
    command = load(words[0])
    if not whole:
        part = next((part for word in words[1:] if (part := command.subcommand(word))), command)
        names = {
            name for option in (*all_options(command), *all_options(part)) for name in (option.name, *option.aliases)
        }
        unknown = {word.partition("=")[0] for word in words if word.startswith("--")} - names
        return f"{line}: no option {sorted(unknown)}" if unknown else ""
    try:
        parse(command, words[1:])
    except UsageError as error:
        return f"{line}: {error}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_blocks_hold_command_lines_that_kt_takes(page: pathlib.Path) -> None:
    assert [complaint for line in _blocks(page) if (complaint := _complaint(line, whole=True))] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_and_options_in_sentences_are_there(page: pathlib.Path) -> None:
    assert [complaint for line in _spans(page) if (complaint := _complaint(line, whole=False))] == []


def test_other_tools_commands_are_answered_with_whole_command_lines() -> None:
    lines = [line for line in _spans(DOCS / "coming-from.md") if len(line.split()) > 2]
    assert len(lines) > 100
    assert [complaint for line in lines if (complaint := _complaint(line, whole=True))] == []


def test_there_are_command_lines_for_each_tool() -> None:
    tables = (DOCS / "coming-from.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert [re.match(r"\S+", table)[0] for table in tables] == [
        "kafka-*.sh",
        "kcat",
        "kcl",
        "kafkactl",
        "rpk",
        "Declared",
    ]
    assert [table for table in tables[:-1] if len(re.findall(r"^\| .*`kt ", table, re.M)) < 20] == []
