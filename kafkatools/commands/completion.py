"""kt completion: completion scripts for bash, zsh and fish, made from the option tables.

The scripts call `kt completion --topics` and `--groups` for names. That answers from a cache of one minute and
otherwise asks the broker for at most 200 ms; without an answer it prints what it knew before, so the shell never waits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, ExactlyOne, Option

if TYPE_CHECKING:
    from kafkatools.console import Console

SHELLS = ("bash", "zsh", "fish")
_CACHE_MS = 60_000
_BUDGET_MS = 200


def run(console: Console, args: Args) -> ExitStatus:
    """Prints a script, or names for one."""
    if args.topics or args.groups:
        for name in _names(console, args, "topics" if args.topics else "groups"):
            console.print(name)
        return ExitStatus.OK
    if args.shell not in SHELLS:
        raise UsageError(f"There are completions for {', '.join(SHELLS)}, not for '{args.shell}'")
    from kafkatools.commands import ALIASES, COMMANDS, load

    commands = {name: load(name) for name in COMMANDS}
    console.write(script(args.shell, commands | {alias: commands[name] for alias, name in ALIASES.items()}).encode())
    return ExitStatus.OK


def _names(console: Console, args: Args, kind: str) -> Iterable[str]:
    """Names from the cache, refreshed from the broker when it is old; never an error, never the start of a sandbox."""
    path = os.path.join(console.home, f"completion-{kind}")
    known, age_ms = _cached(path, console.clock.wall_ms())
    if age_ms < _CACHE_MS or args.bootstrap_server is None:
        return known
    from kafkatools.core.errors import KafkaError

    try:
        names = _ask(console, args.bootstrap_server, kind)
        os.makedirs(console.home, mode=0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in names)
    except (KafkaError, OSError):
        return known
    return names


def _ask(console: Console, bootstrap: str, kind: str) -> list[str]:
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.groups import list_groups
    from kafkatools.core.admin.topics import list_topics

    limits = {"request.timeout.ms": str(_BUDGET_MS), "default.api.timeout.ms": str(_BUDGET_MS)}
    with AdminClient(bootstrap, limits, console.clock) as admin:
        if kind == "groups":
            return sorted(listing.group_id for listing in list_groups(admin).groups)
        return sorted(listing.name for listing in list_topics(admin))


def _cached(path: str, now_ms: int) -> tuple[list[str], int]:
    """The names kept, and how old they are in ms."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines(), now_ms - int(os.stat(path).st_mtime * 1000)
    except OSError:
        return [], _CACHE_MS


def script(shell: str, commands: dict[str, Command]) -> str:
    """The completion script of a shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _words(command: Command) -> list[str]:
    from kafkatools.options.table import all_options

    own = [option.name for option in all_options(command) if not option.replacement]
    return [one.name for one in command.subcommands] + own


_BASH = """# bash completion for kt; made by `kt completion --shell bash`
_kt() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" server="" i words
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == --bootstrap-server ]] && server="${COMP_WORDS[i+1]}"
    done
    if ((COMP_CWORD == 1)); then
        words="@COMMANDS@"
    elif [[ $before == --topic ]]; then
        words="$(kt completion --topics ${server:+--bootstrap-server "$server"} 2>/dev/null)"
    elif [[ $before == --group ]]; then
        words="$(kt completion --groups ${server:+--bootstrap-server "$server"} 2>/dev/null)"
    elif [[ $before == --*config || $before == --*-file || $before == --files || $before == -c ]]; then
        COMPREPLY=($(compgen -f -- "$word"))
        return
    else
        case "${COMP_WORDS[1]}" in
@CASES@
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _kt kt
"""

_ZSH = """#compdef kt
# zsh completion for kt; made by `kt completion --shell zsh`
_kt() {
    local server="" i
    local -a words_of
    for ((i = 2; i < CURRENT; i++)); do
        [[ ${words[i]} == --bootstrap-server ]] && server="${words[i+1]}"
    done
    if ((CURRENT == 2)); then
        words_of=(@COMMANDS@)
    elif [[ ${words[CURRENT-1]} == --topic ]]; then
        words_of=(${(f)"$(kt completion --topics ${server:+--bootstrap-server $server} 2>/dev/null)"})
    elif [[ ${words[CURRENT-1]} == --group ]]; then
        words_of=(${(f)"$(kt completion --groups ${server:+--bootstrap-server $server} 2>/dev/null)"})
    elif [[ ${words[CURRENT-1]} == (--*config|--*-file|--files|-c) ]]; then
        _files
        return
    else
        case "${words[2]}" in
@CASES@
        esac
    fi
    compadd -- $words_of
}
compdef _kt kt
"""


def _bash(commands: dict[str, Command]) -> str:
    cases = "\n".join(f'            {name}) words="{" ".join(_words(one))}" ;;' for name, one in commands.items())
    return _BASH.replace("@COMMANDS@", " ".join(commands)).replace("@CASES@", cases)


def _zsh(commands: dict[str, Command]) -> str:
    cases = "\n".join(f"            {name}) words_of=({' '.join(_words(one))}) ;;" for name, one in commands.items())
    return _ZSH.replace("@COMMANDS@", " ".join(commands)).replace("@CASES@", cases)


def _fish(commands: dict[str, Command]) -> str:
    from kafkatools.options.table import all_options

    lines = ["# fish completion for kt; made by `kt completion --shell fish`", "complete -c kt -f"]
    for name, command in commands.items():
        lines.append(f"complete -c kt -n __fish_use_subcommand -a {name} -d {_quoted(command.summary)}")
        when = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c kt {when} -a {one.name} -d {_quoted(one.summary)}" for one in command.subcommands]
        for option in all_options(command):
            if option.replacement:
                continue
            value = ""
            if option.name in ("--topic", "--group"):
                value = f" -x -a '(kt completion {option.name}s 2>/dev/null)'"
            elif option.value:
                value = " -r -F" if option.value == "FILE" else " -x"
            lines.append(f"complete -c kt {when} -l {option.long} -d {_quoted(option.about)}{value}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


COMMAND = Command(
    "completion",
    "Print a completion script for bash, zsh or fish.",
    (
        Option("--shell", "The shell to print the script for.", value="SHELL", choices=SHELLS),
        Option("--topics", "Print names of topics, for the scripts: from a cache or within 200 ms."),
        Option("--groups", "Print names of groups likewise."),
        BOOTSTRAP_SERVER,
    ),
    run,
    rules=(ExactlyOne(("shell", "topics", "groups"), "Either --shell or --topics or --groups is needed"),),
    examples=("source <(kt completion --shell bash)",),
)
