"""kt completion: print completion scripts for bash, zsh and fish, built from the option tables.

The scripts call `kt completion --topics`, `--groups` and other kinds. These print names from a cache of one minute,
kept for each list of brokers. An older cache is refreshed within 200 ms; without an answer the old names are printed.
--install writes a script where the shell looks for it (install.py).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from kafkatools.commands import ALIASES, COMMANDS, KAFKA_SCRIPTS, load, plugin_commands
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, profile_settings, rules
from kafkatools.options.profiles import profile_names
from kafkatools.options.table import all_options

SHELLS = ("bash", "zsh", "fish")
_NAMES = ("topics", "groups", "partitions", "brokers", "transactions")
_SOURCES = ("shell", *_NAMES, "profiles")
_ACTIONS = ("install", "uninstall")
_ONE_SOURCE = f"Exactly one of {', '.join(f'--{name}' for name in _SOURCES[:-1])} and --{_SOURCES[-1]} is required"
_TOPIC_OPERANDS = ("copy", "redrive")
"""The commands whose operands are topic names."""
_KINDS = {
    "group": "groups",
    "topic": "topics",
    "partition": "partitions",
    "broker": "brokers",
    "transaction": "transactions",
}
_OPERANDS = {("groups", "timeline"): "groups"} | {("why", kind): names for kind, names in _KINDS.items()}
"""The names that complete the word after a word of a command: `kt why group <TAB>`."""
_OPERAND_WORDS = {"why": tuple(_KINDS)}
"""The words that are a command's first operand."""
_TABLES = {
    "console-consumer": ("CONSUMER",),
    "consumer-perf-test": ("CONSUMER",),
    "console-share-consumer": ("CONSUMER",),
    "share-consumer-perf-test": ("CONSUMER",),
    "console-producer": ("PRODUCER",),
    "producer-perf-test": ("PRODUCER",),
    "topics": ("TOPIC",),
    "configs": ("TOPIC", "BROKER"),
    "sandbox": ("BROKER",),
    "server-start": ("BROKER",),
}
_SETTING_OPTIONS = ("--config", "--command-property", "--add-config", "--delete-config", "--set", "--override")
"""Options that take names of settings, those of the tables of _TABLES."""
_CACHE_MS = 60_000
_BUDGET_MS = 200


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt completion: print a script, or names for a script. Raises UsageError for an unknown shell."""
    from kafkatools.output import json_line, visible

    if args.install or args.uninstall:
        from kafkatools.commands.completion.install import run_install

        return run_install(console, args, lambda shell: script(shell, _all_commands()))
    if args.shell is None:
        for name in _names(console, args):
            if visible(name) == name:  # a shell cannot complete control characters
                console.print(json_line({"name": name}) if args.json else name)
        return ExitStatus.OK
    if args.shell not in SHELLS:
        raise UsageError(f"Unsupported shell '{args.shell}'; completions exist for {', '.join(SHELLS)}")

    text = script(args.shell, _all_commands())
    if args.json:
        console.print_json({"shell": args.shell, "script": text})
    else:
        console.write(text.encode())
    return ExitStatus.OK


def _all_commands() -> dict[str, Command]:
    commands = {name: load(name) for name in COMMANDS}
    plugins = {plugin.name: plugin.command for plugin in plugin_commands() if plugin.command is not None}
    return commands | {alias: commands[name] for alias, name in ALIASES.items()} | plugins


def _names(console: Console, args: Args) -> Iterable[str]:
    """Return names from the cache, refreshed from a broker when it is a minute old. After a KafkaError or OSError it
    returns the old names. Does not start a sandbox; without servers there are no names."""
    if args.profiles:
        return profile_names(console.environ, os.getcwd())
    servers, settings = _place(console, args)
    if servers is None:
        return []
    kind = next(name for name in _NAMES if args.has_option(name))
    place = hashlib.sha256(servers.encode()).hexdigest()[:16]
    path = os.path.join(console.home, "completion", f"{kind}-{place}")
    cached_names, age_ms = _read_cache(path, console.clock.wall_ms())
    if age_ms < _CACHE_MS:
        return cached_names
    from kafkatools.core.errors import KafkaError

    try:
        names = _fetch_names(console, servers, settings, kind)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in names)
    except (KafkaError, OSError):
        return cached_names
    return names


def _place(console: Console, args: Args) -> tuple[str | None, dict[str, str]]:
    """Return the bootstrap servers of the options, the profile or the running sandbox (else None), and client
    settings."""
    if args.bootstrap_server is not None:
        return args.bootstrap_server, profile_settings(args)
    if args.profile is not None:
        return args.profile.bootstrap_servers, profile_settings(args)
    from kafkatools.sandbox.single import status

    running = status(console.home)
    return (None if running is None else running.bootstrap), {}


def _fetch_names(console: Console, bootstrap: str, settings: dict[str, str], kind: str) -> list[str]:
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.groups import list_groups
    from kafkatools.core.admin.topics import list_topics
    from kafkatools.core.admin.transactions import list_transactions

    limits = {"request.timeout.ms": str(_BUDGET_MS), "default.api.timeout.ms": str(_BUDGET_MS)}
    with AdminClient(bootstrap, settings | limits, console.clock) as admin:
        if kind == "groups":
            return sorted(listing.group_id for listing in list_groups(admin).groups)
        if kind == "transactions":
            return sorted(listing.transactional_id for listing in list_transactions(admin).transactions)
        if kind == "brokers":
            admin.refresh_cluster()
            return [str(broker) for broker in sorted(admin.brokers())]
        if kind == "partitions":
            topics = admin.metadata_of(None, admin.deadline_ms()).topics
            return sorted(f"{topic.name}-{part.partition_index}" for topic in topics for part in topic.partitions)
        return sorted(listing.name for listing in list_topics(admin))


def _read_cache(path: str, now_ms: int) -> tuple[list[str], int]:
    """Return the cached names and their age in ms. Without a cache: no names, and an age that requires a refresh."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines(), now_ms - int(os.stat(path).st_mtime * 1000)
    except OSError:
        return [], _CACHE_MS


_ASSIGNMENTS = {"bash": 'words="{}"', "zsh": "words_of=({})"}


def script(shell: str, commands: dict[str, Command]) -> str:
    """Return the completion script of a shell: completion.<shell> with the words of the option tables."""
    from kafkatools.core.package_files import package_text

    template = package_text(__name__, f"completion.{shell}")
    if shell == "fish":
        return template + "".join(f"{line}\n" for line in _fish(commands))
    for mark, text in _mark_values(commands, _ASSIGNMENTS[shell]).items():
        template = template.replace(mark, text)
    return template


def _words(command: Command) -> list[str]:
    parts = (command, *command.subcommands)
    option_names = [option.name for part in parts for option in all_options(part) if not option.replacement]
    operands = _OPERAND_WORDS.get(command.name, ())
    return list(dict.fromkeys([*operands, *(subcommand.name for subcommand in command.subcommands), *option_names]))


def _mark_values(commands: dict[str, Command], assignment: str) -> dict[str, str]:
    """Return the replacements for the marks in a script: command names, their words, and the choices of options."""

    def line(pattern: str, words: Iterable[str], indent: int) -> str:
        return f"{' ' * indent}{pattern}) {assignment.format(' '.join(words))} ;;"

    cases = "\n".join(line(name, _words(command), 12) for name, command in commands.items())
    choices = "\n".join(
        line(f'"{name} {option.name}"', option.choices, 8)
        for name, command in commands.items()
        for option in _choice_options(command)
    )
    settings = "\n".join(
        line(f'"{name} {option.name}"', _settings(name, option), 8)
        for name, command in commands.items()
        for option in _setting_options(name, command)
    )
    return {
        "@COMMANDS@": " ".join(commands),
        "@CASES@": cases,
        "@CHOICES@": f"{choices}\n{settings}",
        "@OPERANDS@": "\n".join(
            f'{" " * 8}"{command} {word}") kind={names} ;;' for (command, word), names in _OPERANDS.items()
        ),
        "@TOPIC_OPERANDS@": " ".join(_TOPIC_OPERANDS),
        "@SCRIPTS@": " ".join(name for script in KAFKA_SCRIPTS for name in (script, script.removesuffix(".sh"))),
    }


def _setting_options(name: str, command: Command) -> list[Option]:
    """Return the options of a command and its subcommands whose values are settings of known tables."""
    options = [option for part in (command, *command.subcommands) for option in part.options]
    options = [option for option in options if option.name in _SETTING_OPTIONS and name in _TABLES]
    return list({option.name: option for option in options}.values())


def _settings(name: str, option: Option) -> list[str]:
    """Return the names that complete a setting option, with `=` unless the option takes names alone."""
    from kafkatools.core import config

    names = {setting.name for table in _TABLES[name] for setting in getattr(config, table) if not setting.internal}
    return sorted(names if option.name == "--delete-config" else (f"{setting}=" for setting in names))


def _choice_options(command: Command) -> list[Option]:
    """Return the options of a command and its subcommands whose choices are plain words."""
    options = [*command.options, *(option for subcommand in command.subcommands for option in subcommand.options)]
    plain = [option for option in options if option.choices and all(_is_plain(word) for word in option.choices)]
    return list({option.name: option for option in plain}.values())


def _is_plain(word: str) -> bool:
    return word.replace("-", "").replace("_", "").replace(".", "").isalnum()


def _fish(commands: dict[str, Command]) -> list[str]:
    lines = []
    for name, command in commands.items():
        lines.append(f"complete -c kt -n \"__kt_at ''\" -a {name} -d {_quote(command.summary)}")
        condition = f"-n '__kt_at {name}'"
        if name in _TOPIC_OPERANDS:
            lines.append(f"complete -c kt {condition} -x -a '(__kt_names --topics)'")
        lines += _fish_operands(name)
        lines += [
            f"complete -c kt {condition} -a {subcommand.name} -d {_quote(subcommand.summary)}"
            for subcommand in command.subcommands
        ]
        options = [option for part in (command, *command.subcommands) for option in all_options(part)]
        for option in {option.name: option for option in options if not option.replacement}.values():
            lines.append(
                f"complete -c kt {condition} -l {option.long} -d {_quote(option.about)}"
                f"{_fish_value(name, command, option)}"
            )
    return lines


def _fish_operands(name: str) -> list[str]:
    """Return the fish lines that complete the operands of a command by the word before them."""
    after = {word: names for (command, word), names in _OPERANDS.items() if command == name}
    last = "(commandline -opc)[-1]"
    lines = [
        f"complete -c kt -n '__kt_at {name}; and test {last} = {word}' -x -a '(__kt_names --{names})'"
        for word, names in after.items()
    ]
    if name in _OPERAND_WORDS:
        first = f"__kt_at {name}; and not contains -- {last} {' '.join(after)}"
        lines.append(f"complete -c kt -n '{first}' -a {_quote(' '.join(_OPERAND_WORDS[name]))}")
    return lines


def _fish_value(name: str, command: Command, option: Option) -> str:
    """Return the fish arguments that complete the value of an option."""
    if option.name in ("--topic", "--group"):
        return f" -x -a '(__kt_names {option.name}s)'"
    if option.name == "--topic-list":
        return " -x -a '(__kt_names --topics)'"
    if option.name == "--to-profile":
        return " -x -a '(kt completion --profiles 2>/dev/null)'"
    if option in _setting_options(name, command):
        return f" -x -a {_quote(' '.join(_settings(name, option)))}"
    if option in _choice_options(command):
        return f" -x -a {_quote(' '.join(option.choices))}"
    if not option.value:
        return ""
    return " -r -F" if option.value == "FILE" else " -x"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


COMMAND = Command(
    "completion",
    "Print or install a completion script for bash, zsh or fish.",
    (
        Option(
            "--shell",
            "The shell of the script. Default with --install: that of the variable SHELL.",
            "SHELL",
            choices=SHELLS,
        ),
        Option("--install", "Write the script where the shell looks for it, and print each changed file."),
        Option("--uninstall", "Undo --install for all shells."),
        Option("--topics", "Print topic names for the completion scripts, from a cache or within 200 ms."),
        Option("--groups", "Print group names for the completion scripts, from a cache or within 200 ms."),
        Option("--partitions", "Print partitions, such as orders-0, for the completion scripts."),
        Option("--brokers", "Print broker ids for the completion scripts."),
        Option("--transactions", "Print transactional ids for the completion scripts."),
        Option("--profiles", "Print the names of the profiles for the completion scripts."),
        BOOTSTRAP_SERVER,
    ),
    run,
    rules=(
        rules.Refusal("install", ("uninstall",)),
        *(rules.Refusal(action, _SOURCES[1:]) for action in _ACTIONS),
        rules.Requirement(_SOURCES, unless=_ACTIONS, message=_ONE_SOURCE),
        *(rules.Refusal(name, tuple(other for other in _SOURCES if other != name), _ONE_SOURCE) for name in _SOURCES),
    ),
    examples=("kt completion --install", "source <(kt completion --shell bash)"),
)
