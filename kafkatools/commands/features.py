"""kt features: show and change feature levels of the cluster (kafka-features.sh, FeatureCommand).

A request changes all features or none. Failed features are printed on stderr, then their number.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int, java_short
from kafkatools.options.connection import BOOTSTRAP_CONTROLLER, connect_admin
from kafkatools.options.table import ARGPARSE4J

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient

_USAGE_PREFIX = "Command line error: "
_USAGE_SUFFIX = ". Type --help for help."
_METADATA_VERSION = "metadata.version"
_UNRELEASED = "4.4-IV0"


def _connect(console: Console, args: Args) -> AdminClient:
    if args.bootstrap_server is not None and args.bootstrap_controller is not None:
        message = "argument --bootstrap-controller: not allowed with argument --bootstrap-server"
        raise UsageError(_USAGE_PREFIX + message + _USAGE_SUFFIX)
    return connect_admin(console, args)


def _describe(console: Console, args: Args) -> ExitStatus:
    from kafkatools.core.admin.features import describe_features

    if args.node_id is not None and args.node_id < 0:
        raise UsageError(f"Invalid node id {args.node_id}: must be non-negative.")
    with _connect(console, args) as admin:
        if args.node_id is not None:
            nodes = admin.brokers()
            if args.node_id not in nodes:
                raise CommandError(f"There is no node {args.node_id}: the nodes are {', '.join(map(str, nodes))}")
        features = describe_features(admin, args.node_id)
    epoch = "-" if features.epoch is None else features.epoch
    for name, levels in sorted(features.levels.items()):
        if args.json:
            row = {"feature": name, "min_level": levels.min_level, "max_level": levels.max_level}
            console.print_json(row | {"finalized_level": levels.finalized_level, "epoch": features.epoch})
            continue
        console.print(
            f"Feature: {name:<40}  SupportedMinVersion: {_level_text(name, levels.min_level):<15}"
            f"  SupportedMaxVersion: {_level_text(name, levels.max_level):<15}"
            f"  FinalizedVersionLevel: {_level_text(name, levels.finalized_level):<15}  Epoch: {epoch}"
        )
    return ExitStatus.OK


def _level_text(name: str, level: int) -> str:
    if name != _METADATA_VERSION:
        return str(level)
    from kafkatools.core.broker.metadata.feature_levels import release_of

    try:
        return release_of(level)
    except KeyError:
        return f"UNKNOWN {level}"


def _metadata_level(release: str) -> int:
    from kafkatools.core.broker.metadata.feature_levels import METADATA_LEVELS, metadata_level

    level = metadata_level(release)
    if level is None:
        releases = ", ".join([*METADATA_LEVELS, _UNRELEASED])
        raise CommandError(f"Unknown metadata.version '{release}'. Supported metadata.version are: {releases}")
    return level


def _name_and_level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    problem = f"Can't parse feature=level string {text}: "
    if not equals:
        raise UsageError(problem + "equals sign not found.")
    try:
        number = java_short(level)
    except ValueError:
        raise UsageError(f"{problem}unable to parse {level} as a short.") from None
    if number < 0:
        raise UsageError("Cannot specify a negative version level.")
    return name.strip(), number


def _requested_levels(console: Console, args: Args, *, is_upgrade: bool) -> dict[str, int]:
    """Return the levels of --release-version, or of --metadata and --feature. Raises UsageError or CommandError."""
    from kafkatools.core.broker.metadata.feature_levels import default_levels

    if args.release_version is not None:
        if args.feature or args.metadata is not None:
            raise UsageError("Can not specify `release-version` with other feature flags.")
        level = _metadata_level(args.release_version)
        other_levels = {name: number for name, number in default_levels(level).items() if number > 0 or not is_upgrade}
        return {_METADATA_VERSION: level, **other_levels}
    levels: dict[str, int] = {}
    if args.metadata is not None:
        console.note(" `metadata` flag is deprecated and may be removed in a future release.")
        levels[_METADATA_VERSION] = _metadata_level(args.metadata)
    for text in args.feature:
        name, number = _name_and_level(text)
        _note(levels, name, number)
    return levels


def _note(levels: dict[str, int], name: str, number: int) -> None:
    if name in levels:
        raise UsageError(f"Feature {name} was specified more than once.")
    levels[name] = number


def _update(console: Console, args: Args) -> ExitStatus:
    """Run upgrade, downgrade or disable; with --dry-run only validate it. Returns FAILED when a feature was not
    changed. Raises UsageError without a feature."""
    from kafkatools.core.admin.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, update_features

    verb = args.command.name
    levels: dict[str, int] = {}
    if verb == "disable":
        for name in args.feature:
            _note(levels, name, 0)
    else:
        levels = _requested_levels(console, args, is_upgrade=verb == "upgrade")
    if not levels:
        raise UsageError(f"You must specify at least one feature to {verb}")
    upgrade_type = UPGRADE if verb == "upgrade" else UNSAFE_DOWNGRADE if args.unsafe else SAFE_DOWNGRADE
    with _connect(console, args) as admin:
        outcomes = update_features(admin, levels, upgrade_type, validate_only=args.dry_run)
    failed = [name for name, error in outcomes.items() if error is not None]
    for name in sorted(outcomes):
        error = outcomes[name]
        target = "" if verb == "disable" else f" to {levels[name]}"
        row = {"feature": name, "level": levels[name], "updated": error is None and not args.dry_run}
        row |= {"error": None if error is None else str(error)}
        line = f"{name} {'can be' if args.dry_run else 'was'} {verb}d{target}."
        failure = f"{'Can' if args.dry_run else 'Could'} not {verb} {name}{target}. {error}"
        console.print_outcome(row, line, "" if error is None else failure)
    if not failed:
        return ExitStatus.OK
    if not args.json:
        console.error(f"{len(failed)} out of {len(levels)} operation(s) failed.")
    return ExitStatus.FAILED


def _version_mapping(console: Console, args: Args) -> ExitStatus:
    from kafkatools.core.broker.metadata.feature_levels import LATEST_RELEASE
    from kafkatools.tools.feature_levels import release_levels

    release = args.release_version or LATEST_RELEASE
    console.show(*release_levels(release, _metadata_level(release)))
    return ExitStatus.OK


def _feature_dependencies(console: Console, args: Args) -> ExitStatus:
    from kafkatools.tools.feature_levels import dependencies

    for text in args.feature:
        console.show(*dependencies(*_name_and_level(text), "No feature:{name} with feature level {level}"))
    return ExitStatus.OK


_MISSING = "You must specify either --bootstrap-controller or --bootstrap-server."
_subcommand = partial(
    Command, style=ARGPARSE4J, usage_prefix=_USAGE_PREFIX, missing_bootstrap=_USAGE_PREFIX + _MISSING + _USAGE_SUFFIX
)


_RELEASE = Option(
    "--release-version",
    "Release of Apache Kafka whose feature levels to use, such as 4.0. version-mapping takes the latest by default.",
    value="RELEASE",
)
_METADATA = Option(
    "--metadata", "Level of metadata.version, as a release name.", value="RELEASE", replacement="--release-version"
)
_FEATURE = Option("--feature", "Feature and level, such as share.version=1.", value="NAME=LEVEL", repeatable=True)
_UNSAFE = Option("--unsafe", "Downgrade even if metadata may be lost.")
_DRY_RUN = Option("--dry-run", "Print what would be done, and change nothing.")

COMMAND = Command(
    "features",
    "Show or change the feature levels of the cluster.",
    options=(BOOTSTRAP_SERVER, BOOTSTRAP_CONTROLLER, command_config()),
    style=ARGPARSE4J,
    usage_prefix=_USAGE_PREFIX,
    program="kafka-features",
    needs_arguments=False,
    subcommands=(
        _subcommand(
            "describe",
            "Show the features and their levels.",
            (
                Option(
                    "--node-id", "Node whose supported levels are shown. Default: any node.", value="ID", type=java_int
                ),
            ),
            _describe,
        ),
        _subcommand("upgrade", "Raise feature levels.", (_METADATA, _RELEASE, _FEATURE, _DRY_RUN), _update),
        _subcommand("downgrade", "Lower feature levels.", (_METADATA, _RELEASE, _FEATURE, _UNSAFE, _DRY_RUN), _update),
        _subcommand(
            "disable",
            "Disable features (level 0).",
            (_FEATURE._replace(value="NAME", about="Feature to disable, such as share.version."), _UNSAFE, _DRY_RUN),
            _update,
        ),
        _subcommand(
            "version-mapping", "Show the feature levels of a release of Apache Kafka.", (_RELEASE,), _version_mapping
        ),
        _subcommand(
            "feature-dependencies",
            "Show which other feature levels a feature level requires.",
            (_FEATURE._replace(required=True),),
            _feature_dependencies,
        ),
    ),
    examples=("kt features describe", "kt features upgrade --release-version 4.3 --dry-run"),
    destructive=("upgrade", "downgrade", "disable"),
)
