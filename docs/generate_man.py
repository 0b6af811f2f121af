"""Manual pages: `docs/man/kt.1` and one page for each command, made from the tables of options.

Rules: a page says what the help says and nothing else; a command with subcommands has one page with a section for each.
There is no date in a page, so the same tables make the same bytes. `make docs` writes the pages, a test fails when one
is stale, and the wheel installs them into share/man/man1.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Mapping

from kafkatools.cli import GLOBAL_OPTIONS
from kafkatools.commands import ALIASES, COMMANDS, GROUPS, has_kafka_script, load
from kafkatools.options.environment import ENVIRONMENT
from kafkatools.options.table import Command
from kafkatools.options.usage import deprecated_options, option_sections, option_text, spelling, synopsis
from kafkatools.version import KAFKA_VERSION

DIRECTORY = pathlib.Path(__file__).resolve().parent / "man"
EXIT_STATUSES = {
    "0": "The command did what was asked.",
    "1": "It failed. A line on standard error says on what and why.",
    "2": "The command line is wrong. Nothing was done.",
    "3": "It found what it was to look for: damage, a difference, or a condition of --fail-if that holds.",
    "130": "It was interrupted.",
}
"""What ExitStatus means to a user."""


def pages() -> dict[str, str]:
    """The text of every page by the name of its file."""
    return {"kt.1": overview()} | {f"kt-{name}.1": page(load(name)) for name in COMMANDS}


def overview() -> str:
    """The page of `kt` itself."""
    parts = [
        *_head("kt", "Apache Kafka's bin/ without the JVM"),
        *_section("SYNOPSIS", ["kt [--profile NAME] [--confirm CLUSTER] COMMAND [OPTION]..."]),
        *_section("DESCRIPTION", [f"The tools of Apache Kafka {KAFKA_VERSION} and more, without a Java installation."]),
        *_section("OPTIONS", _definitions(GLOBAL_OPTIONS | {"--help": "Show the help and exit."})),
        ".SH COMMANDS",
    ]
    for heading, names in GROUPS.items():
        summaries = {f"kt-{name}(1)": load(name).summary for name in names}
        parts += [f".SS {escaped(heading)}", *_definitions(summaries)]
    parts += _section("ENVIRONMENT", _definitions(ENVIRONMENT))
    parts += _section("EXIT STATUS", _definitions(EXIT_STATUSES))
    return "\n".join(parts) + "\n"


def page(command: Command) -> str:
    """The page of one command with all its subcommands."""
    title = f"kt-{command.name}"
    is_own = not has_kafka_script(command.name)
    other_names = [alias for alias, name in ALIASES.items() if name == command.name]
    parts = [*_head(title, command.summary), ".SH SYNOPSIS", ".nf"]
    parts += [escaped(_usage(command, "kt"))]
    parts += [escaped(_usage(one, f"kt {command.name}")) for one in command.subcommands]
    parts += [".fi", *_section("DESCRIPTION", [command.summary])]
    if other_names:
        parts += [".PP", escaped(f"Also called kt {' and kt '.join(other_names)}.")]
    parts += [".SH OPTIONS", *_options(command, is_own=is_own)]
    for one in command.subcommands:
        parts += [f".SH {escaped(f'kt {command.name} {one.name}'.upper())}", escaped(one.summary)]
        parts += _options(one, is_own=is_own)
    examples = [*command.examples, *(example for one in command.subcommands for example in one.examples)]
    if examples:
        parts += [".SH EXAMPLES", ".nf", *(escaped(example) for example in examples), ".fi"]
    parts += _section("EXIT STATUS", _definitions(EXIT_STATUSES))
    parts += _section("SEE ALSO", ["kt(1)"])
    return "\n".join(parts) + "\n"


def _usage(command: Command, parent: str) -> str:
    return synopsis(command, parent).removeprefix("usage: ")


def _head(title: str, summary: str) -> list[str]:
    return [
        '.\\" Made from the tables of options by docs/generate_man.py.',
        f'.TH {title.upper()} 1 "" "kafkatools" "User Commands"',  # no version, which changes with every commit
        ".SH NAME",
        escaped(f"{title} - {summary.rstrip('.')}"),
    ]


def _section(heading: str, lines: Iterable[str]) -> list[str]:
    lines = list(lines)
    return [f".SH {heading}", *(lines if lines[0].startswith(".TP") else map(escaped, lines))]


def _definitions(entries: Mapping[str, str]) -> list[str]:
    lines = []
    for name, text in entries.items():
        lines += [".TP", rf"\fB{escaped(name)}\fR", escaped(text)]
    return lines


def _options(command: Command, *, is_own: bool) -> list[str]:
    lines = []
    for heading, options in option_sections(command).items():
        lines += [f".SS {escaped(heading)}"] if heading != "options" else []
        lines += _definitions(
            {spelling(option, command): option_text(option, command, is_own=is_own) for option in options}
        )
    old = {spelling(option, command): text for option, text in deprecated_options(command).items()}
    return lines + ([".SS deprecated options", *_definitions(old)] if old else [])


def escaped(text: str) -> str:
    """Text as roff reads it back unchanged: hyphens stay hyphens, a line does not begin with a request."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def main() -> None:
    """Write all pages, and remove those of commands that are gone."""
    DIRECTORY.mkdir(exist_ok=True)
    made = pages()
    for path in DIRECTORY.glob("*.1"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (DIRECTORY / name).write_text(text)


if __name__ == "__main__":
    main()
