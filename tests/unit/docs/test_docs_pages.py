"""Pages made from tables are up to date, and what the pages point at is there."""

from __future__ import annotations

import pathlib
import re
import runpy
import shutil
import struct
import subprocess

import pytest

from kafkatools.commands import COMMANDS, load
from kafkatools.core.log.format import transaction_index
from kafkatools.core.log.format.offset_index import OffsetIndex
from kafkatools.core.log.format.time_index import TimeIndex
from kafkatools.core.log.producers import snapshot as producer_snapshot
from kafkatools.core.records.layout import V2_HEADER
from kafkatools.options.table import all_options
from kafkatools.tools.diagnosis.causes import CAUSES

DOCS = pathlib.Path(__file__).parents[3] / "docs"
GENERATED = runpy.run_path(str(DOCS / "generate.py"))
MAN = runpy.run_path(str(DOCS / "generate_man.py"))


@pytest.mark.parametrize("name", sorted(GENERATED["PAGES"]))
def test_pages_of_settings_are_up_to_date(name: str) -> None:
    """When this fails: make docs"""
    assert (DOCS / "config" / f"{name}.md").read_text(encoding="utf-8") == GENERATED["page"](name)


def test_no_page_of_settings_is_left_over() -> None:
    assert {path.name for path in (DOCS / "config").iterdir()} == set(GENERATED["pages"]())


def test_the_page_of_apis_is_up_to_date() -> None:
    """When this fails: make docs"""
    assert (DOCS / "apis.md").read_text(encoding="utf-8") == GENERATED["apis_page"]()


def test_the_causes_of_why_are_up_to_date() -> None:
    """When this fails: make docs"""
    text = (DOCS / "why.md").read_text(encoding="utf-8")
    assert text == GENERATED["why_page"](text)


def test_every_cause_of_why_has_a_test_on_apache_kafka() -> None:
    tests = DOCS.parent / "tests"
    paths = [*(tests / "real_kafka").glob("test_real_why*.py"), tests / "cli" / "test_cli_why_alone.py"]
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    alone = {cause.id for cause in CAUSES} - GENERATED["ONLY_AS_CONSEQUENCE"]["apache"]
    assert {cause for cause in alone if f'"{cause}"' not in text} == set()


def test_the_tools_of_mcp_are_up_to_date() -> None:
    """When this fails: make docs"""
    text = (DOCS / "mcp.md").read_text(encoding="utf-8")
    assert text == GENERATED["mcp_page"](text)


def test_manual_pages_are_up_to_date() -> None:
    """When this fails: make docs"""
    assert {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "man").iterdir()} == MAN["pages"]()


def test_every_command_has_a_manual_page_that_names_its_subcommands_and_options() -> None:
    for name in COMMANDS:
        text = (DOCS / "man" / f"kt-{name}.1").read_text(encoding="utf-8").replace(r"\-", "-")
        command = load(name)
        for part in (command, *command.subcommands):
            assert part is command or f".SH KT {name} {part.name}".upper() in text
            missing = [option.name for option in all_options(part) if option.name not in text]
            assert missing == [], (name, part.name)


@pytest.mark.skipif(shutil.which("groff") is None, reason="checked where groff is installed")
def test_manual_pages_are_sound_roff() -> None:
    pages = sorted(str(path) for path in (DOCS / "man").iterdir())
    checked = subprocess.run(["groff", "-man", "-ww", "-z", *pages], capture_output=True, text=True, check=True)
    assert checked.stderr == ""


def test_text_is_not_taken_for_requests_of_roff() -> None:
    assert MAN["escaped"](".so /etc/passwd\n'a-b\\c") == "\\&.so /etc/passwd\n\\&'a\\-b\\ec"


@pytest.mark.parametrize("name", ["producer", "topic"])
def test_a_setting_is_one_row_with_kafkas_default(name: str) -> None:
    rows = {
        "producer": "| `linger.ms` | long | `5` |",
        "topic": "| `retention.ms` | long | `604800000` |",
    }
    assert len([line for line in GENERATED["page"](name).splitlines() if line.startswith(rows[name])]) == 1


def test_internal_settings_are_left_out() -> None:
    assert "internal.throw.on.fetch" not in GENERATED["page"]("consumer")


ROOT = DOCS.parent
FOLDERS = {path.name for path in (ROOT / "kafkatools").iterdir() if path.is_dir()}
TEXTS = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: pathlib.Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def _is_path_of_the_code(name: str) -> bool:
    """Whether a page means a file or folder of this repository, not one of its reader."""
    if not re.fullmatch(r"[\w./-]+", name) or name.startswith(("/", ".")):
        return False
    first, slash, _ = name.partition("/")
    return bool(slash) and first in {*FOLDERS, "kafkatools", "tests", "docs"}


def _exists(name: str) -> bool:
    return any((place / name).exists() for place in (ROOT, ROOT / "kafkatools"))


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_of_the_code_exist(page: pathlib.Path) -> None:
    names = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    assert [name for name in names if _is_path_of_the_code(name) and not _exists(name)] == []


@pytest.mark.slow
def test_modules_that_the_code_names_exist() -> None:
    """`name.py` or `folder/name.py` in a docstring or comment."""
    folders = (ROOT / "kafkatools", ROOT / "tests", DOCS)
    modules = [f"/{path.relative_to(ROOT)}" for folder in folders for path in folder.rglob("*.py")] + ["/setup.py"]
    missing = {
        (path.name, name)
        for path in (ROOT / "kafkatools").rglob("*.py")
        for name in re.findall(r"(?<![\w*<>/.-])((?:\w+/)*\w+\.py)\b", path.read_text(encoding="utf-8"))
        if not any(module.endswith(f"/{name}") for module in modules)
    }
    assert missing == set()


def test_the_guide_is_no_inventory() -> None:
    text = (DOCS / "design.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 4000
    assert [line for line in text.splitlines() if len(line.split()) > 60] == []


def test_every_format_is_in_the_index() -> None:
    index = (DOCS / "formats" / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (DOCS / "formats").glob("*.md")} - {"README.md"}
    assert set(re.findall(r"\]\(([a-z-]+\.md)\)", index)) == pages


def _columns(page: str) -> list[tuple[int, int, str]]:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", (DOCS / "formats" / page).read_text(encoding="utf-8"), re.M)
    return [(int(at), int(size), kind) for at, size, kind in rows]


@pytest.mark.parametrize(
    ("page", "layout"),
    [
        ("record-batch.md", V2_HEADER),
        ("message-set.md", struct.Struct(">qiIbb")),
        ("offset-index.md", OffsetIndex.entry),
        ("time-index.md", TimeIndex.entry),
        ("transaction-index.md", transaction_index.ENTRY),
        ("producer-snapshot.md", producer_snapshot.ENTRY),
    ],
)
def test_fields_of_a_format_are_those_that_are_read(page: str, layout: struct.Struct) -> None:
    kinds = {"int8": "b", "int16": "h", "int32": "i", "uint32": "I", "int64": "q"}
    columns = _columns(page)
    assert ">" + "".join(kinds[kind] for _, _, kind in columns) == layout.format
    assert [at for at, _, _ in columns] == [sum(size for _, size, _ in columns[:row]) for row in range(len(columns))]
    assert [size for _, size, _ in columns] == [struct.calcsize(">" + kinds[kind]) for _, _, kind in columns]
