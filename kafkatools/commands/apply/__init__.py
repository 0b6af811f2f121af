"""kt apply: create and change topics, ACLs, client quotas and SCRAM users as files declare them.

`declarations.py` parses the files, `kafkatools/tools/declared` reads the cluster, compares and carries out,
`changes.py` prints the plan and its outcome, `from_cluster.py` writes a file from a cluster.
"""

from __future__ import annotations

from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, rules
from kafkatools.options.connection import connect_admin

_PRUNABLE = ("topics", "configs", "acls", "quotas", "users")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt apply: compare, print the plan and carry it out. Returns FINDINGS for a difference with --check, FAILED if
    a change failed or cannot be made. Raises UsageError, CommandError or KafkaError."""
    if args.from_cluster:
        if args.operands:
            raise UsageError("--from-cluster takes no files: it prints one")
        if args.format not in ("toml", "yaml"):
            raise UsageError(f"--format must be toml or yaml, not '{args.format}'")
        from kafkatools.commands.apply.from_cluster import print_cluster

        with connect_admin(console, args) as admin:
            return print_cluster(console, args, admin)
    if args.undo is not None:
        if args.operands:
            raise UsageError("--undo takes no files to apply")
        from kafkatools.commands.apply.changes import read_undo_file, take_back

        requested = read_undo_file(args.undo)
        with connect_admin(console, args) as admin:
            return take_back(console, args, admin, requested)
    if not args.operands:
        raise UsageError("Missing the files to apply", "For example: kt apply topics.toml --dry-run")
    from kafkatools.commands.apply.changes import apply_declaration
    from kafkatools.commands.apply.declarations import read_files

    prune = pruned_kinds(args)
    declaration = read_files(args.operands)
    with connect_admin(console, args) as admin:
        return apply_declaration(console, args, admin, declaration, prune)


def pruned_kinds(args: Args) -> tuple[str, ...]:
    """Return the kinds of --prune; all kinds if it has no value. Raises UsageError for an unknown one."""
    if not args.has_option("prune"):
        return ()
    if not args.prune:
        return _PRUNABLE
    kinds = tuple(kind.strip() for kind in args.prune.split(","))
    unknown = next((kind for kind in kinds if kind not in _PRUNABLE), None)
    if unknown is not None:
        from kafkatools.options.hints import did_you_mean_name

        is_file = unknown.endswith((".toml", ".yaml", ".yml"))
        hint = "Write the files before --prune." if is_file else did_you_mean_name(unknown, _PRUNABLE)
        raise UsageError(f"--prune takes {', '.join(_PRUNABLE)}, not '{unknown}'", hint)
    return kinds


COMMAND = Command(
    "apply",
    "Create and change topics, ACLs, quotas and SCRAM users as files declare them.",
    options=(
        BOOTSTRAP_SERVER,
        command_config(),
        Option("--dry-run", "Print the plan and change nothing."),
        Option("--check", "Print the plan, change nothing, exit with status 3 for a difference."),
        Option(
            "--prune",
            "After a prompt, also delete what no file declares of these kinds: topics, configs (overrides of declared "
            "topics), acls, quotas, users. Kinds that the files do not have are kept. Default: all kinds.",
            value="KIND,...",
            optional_value=True,
        ),
        Option("--yes", "Make dangerous changes and deletions without a prompt."),
        Option(
            "--update-passwords",
            "Also set the passwords and iterations of existing SCRAM users.",
        ),
        Option("--undo-file", "First write the reverse changes to this file, for --undo.", value="FILE"),
        Option("--undo", "Take back the changes in a file that --undo-file wrote.", value="FILE"),
        Option("--from-cluster", "Print the topics, ACLs, quotas and SCRAM users of the cluster as a file."),
        Option(
            "--format",
            "With --from-cluster: the format of the file.",
            value="FORMAT",
            default="toml",
            choices=("toml", "yaml"),
        ),
    ),
    run=run,
    rules=(
        rules.Refusal("from-cluster", ("check", "dry-run", "prune", "yes", "update-passwords", "undo", "undo-file")),
        rules.Refusal("undo", ("prune", "update-passwords")),
        rules.Requirement(("from-cluster",), when=("format",)),
        rules.Refusal("check", ("dry-run", "yes", "undo-file")),
        rules.Refusal("dry-run", ("yes", "undo-file")),
    ),
    operand="FILE ...",
    destructive=("",),
    harmless=("dry-run", "check", "from-cluster"),
    examples=(
        "kt apply topics.toml --dry-run",
        "kt apply topics.toml acls.toml",
        "kt apply cluster.toml --undo-file before.jsonl",
        "kt apply --undo before.jsonl",
        "kt apply cluster.toml --check",
        "kt apply cluster.toml --prune acls",
        "kt apply --from-cluster --format yaml",
    ),
)
