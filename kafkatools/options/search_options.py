"""The options --key, --grep and --where, as filters of records."""

from __future__ import annotations

import re

from kafkatools.exit_status import CommandError, UsageError
from kafkatools.options.args import Args
from kafkatools.tools.search.search import Filter


def filters_of(args: Args, *, hides_contents: bool = False) -> list[Filter]:
    """Return the filters of the search options. `hides_contents`: errors of --where do not quote contents. Raises
    UsageError, and CommandError when the packages of --where are missing."""
    filters: list[Filter] = []
    if args.key is not None:
        from kafkatools.tools.search.key_filter import KeyFilter

        filters.append(KeyFilter(option_bytes(args.key)))
    if args.grep is not None:
        filters.append(_grep(args))
    if args.where is not None:
        filters.append(_where(args.where, hides_contents=hides_contents))
    return filters


def _grep(args: Args) -> Filter:
    from kafkatools.tools.search.grep import PARTS, Grep

    parts = 0
    for name in args.grep_in.split(",") if args.grep_in is not None else PARTS:
        part = PARTS.get(name.strip().lower())
        if part is None:
            raise UsageError(f"Invalid value of --grep-in: '{name}' is not {', '.join(PARTS)}")
        parts |= part
    try:
        return Grep(option_bytes(args.grep), parts, ignores_case=bool(args.ignore_case))
    except re.error as error:
        raise UsageError(f"Invalid value of --grep: {error}", "It is a regular expression of Python") from None


def _where(condition: str, *, hides_contents: bool) -> Filter:
    try:
        from kafkatools.tools.search.sql import SqlError
        from kafkatools.tools.search.where import Where

        return Where(condition, hides_contents=hides_contents)
    except ImportError as error:
        from kafkatools.core.install_command import install_command

        raise CommandError(f"--where needs the Python package {error.name}: {install_command('sql')}") from None
    except SqlError as error:
        raise UsageError(f"Invalid value of --where: {error}") from None


def option_bytes(text: str) -> bytes:
    """Return the bytes of an option's value as they were on the command line."""
    return text.encode("utf-8", "surrogateescape")
