"""The pages that are made from tables: `docs/config/*.md`, one for each table of settings; `docs/apis.md`; and
`docs/python/*.md`, made from docstrings by `generate_python.py`.

Rules: nothing here knows a setting or an API; a page says what its table says. Settings are sorted by name, without
Kafka's internal ones. `python docs/generate.py` (or `make docs`) writes the pages; a test fails when one is stale.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from kafkatools.core import config
from kafkatools.core.config import Setting, Table, to_text
from kafkatools.core.config.setting import Required
from kafkatools.tools.mcp.tool import Argument

PAGES = {
    "producer": "Settings of `core/producer` and `kt console-producer`.",
    "consumer": "Settings of `core/consumer`, also of share consumers, and of `kt console-consumer`.",
    "admin": "Settings of `core/admin` and of the commands that ask a cluster (`--command-config`).",
    "broker": "Settings of `kt server-start` and of the embedded broker.\nOne that is not read-only and has no effect "
    "here is accepted at run time as by Apache Kafka: threads, buffers and tiered storage, whose effect clients cannot "
    "see.",
    "topic": "Settings of a topic; one that is not set takes the broker's, by the name in the last column.",
}
MORE_COLUMNS = {"topic": ["Broker's name"], "broker": ["Update mode", "Has an effect here"]}
_HEAD = """\
# Settings: {name}

{about}
Names, types, defaults and valid values are those of Apache Kafka 4.3.
Where a command has another default, [differences.md](../differences.md) says so.
Made from `kafkatools/core/config` by `make docs`.

"""


def pages() -> dict[str, str]:
    """The text of every page by the name of its file."""
    return {f"{name}.md": page(name) for name in PAGES}


def page(name: str) -> str:
    """One page."""
    table: Table = getattr(config, name.upper())
    columns = ["Name", "Type", "Default", "Valid values", "What it is"]
    columns += MORE_COLUMNS.get(name, ())
    lines = [_row(columns), _row(["---"] * len(columns))]
    for setting in table:
        if not setting.internal:
            lines.append(_row(_cells(setting) + _more_cells(name, setting)))
    return _HEAD.format(name=name, about=PAGES[name]) + "\n".join(lines) + "\n"


def _more_cells(name: str, setting: Setting) -> list[str]:
    """The cells of the columns that only this table has."""
    if name == "topic":
        return [_synonyms(setting.name)]
    if name == "broker":
        return [setting.update_mode, "yes" if setting.is_used or setting.name in _of_topics() else "no"]
    return []


def _of_topics() -> set[str]:
    """The broker's settings that are defaults of topics; each of them has an effect."""
    from kafkatools.core.config.topic import TOPIC_SYNONYMS

    return {synonym.name for synonyms in TOPIC_SYNONYMS.values() for synonym in synonyms}


def _cells(setting: Setting) -> list[str]:
    valid = f"`{setting.validator.text}`" if setting.validator else ""
    return [f"`{setting.name}`", setting.type.lower(), _default(setting), valid, setting.doc]


def _default(setting: Setting) -> str:
    if isinstance(setting.default, Required):
        return "required"
    text = to_text(setting.default)
    if text is None:
        return "null"
    return f"`{text}`" if text else "empty"


def _synonyms(name: str) -> str:
    from kafkatools.core.config.topic import TOPIC_SYNONYMS

    return ", ".join(f"`{synonym.name}`" for synonym in TOPIC_SYNONYMS.get(name, ()))


_APIS_HEAD = """\
# APIs that an embedded broker or controller serves

Every version from the first to the last is served.
What is missing of an API is in [limits.md](limits.md#embedded-broker) and in the docstring of its handler.

- **Answered by**: brokers forward requests for the active controller.
  Clients of a controller's listener may send the same requests there.
- **Needs**: the operation on the cluster without which an authorizer refuses the whole request.
  When the column is empty, the handler checks the topics, groups and other resources of the request.
- **Elements**: the most elements that all arrays of a large request may have together; more are refused.
- **Handled**: whether a large request, or one with a large response, is handled in slices between other requests.

Made from `kafkatools/core/broker/server/apis.py` and `kafkatools/core/protocol/api_versions.py` by `make docs`.

"""


def apis_page() -> str:
    """The page of APIs."""
    from kafkatools.core.broker.metadata.controller import acls
    from kafkatools.core.broker.server.apis import TABLE

    names = ("ALTER", "ALTER_CONFIGS", "CLUSTER_ACTION", "DESCRIBE", "DESCRIBE_CONFIGS")
    operations = {getattr(acls, name): name for name in names}
    columns = ["Key", "API", "Versions", "Answered by", "Needs", "Elements", "Handled"]
    lines = [_row(columns), _row(["---"] * len(columns))]
    for api in TABLE:
        versions = f"{api.lowest}-{api.highest}" if api.lowest < api.highest else str(api.lowest)
        operation = "" if api.operation is None else operations[api.operation]
        cells = [str(int(api.key)), api.key.label, versions, api.served_by.value, operation]
        lines.append(_row([*cells, f"{api.most_elements:,}", api.work.value]))
    return _APIS_HEAD + "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


WHY_HEADING = "\n## Causes\n"


_WHY_TABLE = """Made from `kafkatools/tools/diagnosis/causes.py` by `make docs`.

Tests bring each cause about on the embedded broker and on Apache Kafka 4.3.1.
*Alone*: it is the only verdict; *as a consequence*: it is evidence of another verdict, which is the only one.
"""
ONLY_AS_CONSEQUENCE = {"embedded": {"voter-behind"}, "apache": {"partition-offline", "coordinator-unavailable"}}
"""The causes that tests bring about only together with one that explains them."""


def causes_section() -> str:
    """The section of `why.md` about each cause of `kt why`, in the order of the catalogue."""
    from kafkatools.tools.diagnosis.causes import CAUSES

    lines = [WHY_HEADING, _WHY_TABLE]
    lines += [_row(["Cause", "Examined for", "Embedded broker", "Apache Kafka"]), _row(["---"] * 4)]
    for cause in CAUSES:
        shown = ["as a consequence" if cause.id in causes else "alone" for causes in ONLY_AS_CONSEQUENCE.values()]
        lines.append(_row([f"[{cause.title}](#{cause.id})", ", ".join(cause.kinds), *shown]))
    for cause in CAUSES:
        titles = [f"[{other.id}](#{other.id})" for other in CAUSES if other.id in cause.explains]
        lines += ["", f"### {cause.id}", "", f"{cause.title}.", cause.meaning, "", f"- What to do: {cause.remedy}"]
        lines += [f"- Explains: {', '.join(titles)}"] if titles else []
    return "\n".join(lines) + "\n"


def why_page(text: str) -> str:
    """The page `why.md` with a fresh section about the causes."""
    return text.partition(WHY_HEADING)[0] + causes_section()


MCP_HEADING = "\n## Tools\n"


def tools_section() -> str:
    """The section of `mcp.md` about the tools of `kt mcp`, in the order of their tables."""
    from kafkatools.tools.mcp.changing_tools import CARRY_OUT, CARRY_OUT_ABOUT, CARRY_OUT_ARGUMENTS, CHANGING_TOOLS
    from kafkatools.tools.mcp.reading_tools import READING_TOOLS

    lines = [MCP_HEADING, "Made from the tables in `kafkatools/tools/mcp` by `make docs`."]
    lines += ["Arguments in bold are required; all tools that read also take `max_rows` and `cursor`.", ""]
    lines += [_row(["Tool", "What it does", "Command", "Arguments"]), _row(["---"] * 4)]
    for tool in READING_TOOLS:
        lines.append(_row([f"`{tool.name}`", tool.about, f"`kt {' '.join(tool.command)}`", _names(tool.arguments)]))
    lines += ["", "With `--allow-changes`:", ""]
    lines += [_row(["Tool", "What it does", "Arguments"]), _row(["---"] * 3)]
    for name, about, arguments in (
        *((tool.name, tool.about, tool.arguments) for tool in CHANGING_TOOLS),
        (CARRY_OUT, CARRY_OUT_ABOUT, CARRY_OUT_ARGUMENTS),
    ):
        lines.append(_row([f"`{name}`", about, _names(arguments)]))
    return "\n".join(lines) + "\n"


def _names(arguments: Sequence[Argument]) -> str:
    """The names of a tool's arguments, the required ones in bold."""
    return ", ".join(f"**`{argument.name}`**" if argument.required else f"`{argument.name}`" for argument in arguments)


def mcp_page(text: str) -> str:
    """The page `mcp.md` with a fresh section about the tools."""
    return text.partition(MCP_HEADING)[0] + tools_section()


def main() -> None:
    """Write the pages."""
    import generate_python

    here = pathlib.Path(__file__).parent
    why = here / "why.md"
    why.write_text(why_page(why.read_text(encoding="utf-8")), encoding="utf-8")
    mcp = here / "mcp.md"
    mcp.write_text(mcp_page(mcp.read_text(encoding="utf-8")), encoding="utf-8")
    (here / "apis.md").write_text(apis_page(), encoding="utf-8")
    for directory, made in (("config", pages()), ("python", generate_python.pages())):
        for name, text in made.items():
            (here / directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
