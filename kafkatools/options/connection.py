"""Connect admin commands to brokers or, with --bootstrap-controller, to controllers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options.args import Args
from kafkatools.options.cluster_profile import JOURNAL_MODES, JOURNAL_OFF, JOURNAL_ON, JOURNAL_REQUIRED, Profile
from kafkatools.options.common import client_settings, note_deprecated
from kafkatools.options.table import Option

if TYPE_CHECKING:
    from kafkatools.core.admin.admin import Admin
    from kafkatools.core.admin.client import AdminClient, ChangeObserver, Responded
    from kafkatools.core.clock import Clock
    from kafkatools.core.net.requests import BrokerRequest

BOOTSTRAP_CONTROLLER = Option(
    "--bootstrap-controller", "Controllers for the first connection, instead of brokers.", value="HOST:PORT,..."
)
BOTH_SERVERS = "Only one of --bootstrap-server or --bootstrap-controller can be specified"


class Connection(NamedTuple):
    """The brokers of a client, and the profile and the properties file that its settings are from."""

    servers: str
    profile: Profile | None
    command_config: str | None


class _Connecting(Protocol):
    """The methods of Console that find the cluster's bootstrap servers."""

    @property
    def clock(self) -> Clock:
        """The clock of the process."""

    def connect(self, args: Args) -> str:
        """Return the bootstrap servers for a command line."""

    def note(self, line: str) -> None:
        """Write a line to stderr."""

    environ: Mapping[str, str]
    command_line: Sequence[str]
    change_observer: ChangeObserver | None

    @property
    def home(self) -> str:
        """The directory of kt's own files."""


C = TypeVar("C", bound=_Connecting)


def connect_admin(console: _Connecting, args: Args, older_config: str = "", undoes: int | None = None) -> AdminClient:
    """Return the AdminClient for a command line; it connects at its first request, and the journal notes its changes.
    `older_config`: an option that names its properties file if --command-config is not given. `undoes`: as in
    `noting_changes`. Raises UsageError when both --bootstrap-server and
    --bootstrap-controller are given, CommandError for an unreadable properties file."""
    is_older = older_config and args.has_option(older_config) and not args.has_option("command_config")
    file_option = older_config if is_older else "command_config"
    settings = client_settings(args, file_option)
    controllers = getattr(args, "bootstrap_controller", None)
    if controllers is not None and args.bootstrap_server is not None:
        raise UsageError(BOTH_SERVERS)
    servers = controllers or console.connect(args)
    from kafkatools.core.admin.client import AdminClient

    admin = AdminClient(servers, settings, console.clock, through_controllers=controllers is not None)
    return noting_changes(console, args, admin, servers, undoes)


def open_admin(console: _Connecting, args: Args) -> Admin:
    """Return the Admin for the command line of a plugin's command, which has --bootstrap-server and --command-config.
    The journal notes its changes. Raises UsageError, CommandError."""
    from kafkatools.core.admin.admin import Admin

    client = connect_admin(console, args)
    return Admin(client.config, client=client)


def noting_changes(
    console: _Connecting, args: Args, admin: AdminClient, servers: str, undoes: int | None = None
) -> AdminClient:
    """Return the client of a command, whose changes the journal notes from now on. `undoes`: the number of the entry
    that the command undoes. Raises UsageError for an invalid KT_JOURNAL."""
    connection = Connection(servers, args.profile, getattr(args, "command_config", None))
    return noting_changes_through(console, admin, connection, undoes)


def noting_changes_through(
    console: _Connecting, admin: AdminClient, connection: Connection, undoes: int | None = None
) -> AdminClient:
    """As `noting_changes`, for a client with this connection. All clients of a run share one entry, so only those of
    one cluster may note changes. Raises UsageError for an invalid KT_JOURNAL."""
    try:
        mode = _journal_mode(console, connection.profile)
    except UsageError:
        admin.close()
        raise
    if mode == JOURNAL_OFF:
        return admin

    def observe(client: AdminClient, requests: Sequence[BrokerRequest]) -> Responded | None:
        if console.change_observer is None:  # a command that changes nothing imports nothing of the journal
            from kafkatools.tools.journal.recorder import Invocation, Recorder

            profile = None if connection.profile is None else connection.profile.name
            file = None if connection.command_config is None else os.path.abspath(connection.command_config)
            words = ("kt", *console.command_line)
            invocation = Invocation(words, connection.servers, profile, file, client.through_controllers, undoes)
            console.change_observer = Recorder(
                console.home, invocation, console.clock.wall_ms(), console.note, is_required=mode == JOURNAL_REQUIRED
            )
        return console.change_observer(client, requests)

    admin.change_observer = observe
    return admin


def _journal_mode(console: _Connecting, profile: Profile | None) -> str:
    """Return the mode of KT_JOURNAL, else that of the profile, else on. Raises UsageError for another value."""
    mode = console.environ.get("KT_JOURNAL", "").lower()
    if not mode:
        return profile.journal if profile is not None else JOURNAL_ON
    if mode not in JOURNAL_MODES:
        raise UsageError(f"KT_JOURNAL is '{mode}': set it to {', '.join(JOURNAL_MODES[:-1])} or {JOURNAL_MODES[-1]}")
    return mode


def with_admin(
    action: Callable[[C, Args, AdminClient], ExitStatus], older_config: str = ""
) -> Callable[[C, Args], ExitStatus]:
    """Turn `action(console, args, admin)` into a command's `run` function, which creates the AdminClient first and
    closes it afterwards. `older_config`: a deprecated name of --command-config."""

    def run(console: C, args: Args) -> ExitStatus:
        if older_config:
            note_deprecated(args, console.note, older_config)
        with connect_admin(console, args, older_config) as admin:
            return action(console, args, admin)

    return run


def endpoint_hint(args: Args | None, error: Exception) -> str:
    """Return a hint when a controller was addressed as a broker or a broker as a controller, else an empty string."""
    from kafkatools.core.errors import MismatchedEndpointType
    from kafkatools.core.protocol.api_versions import OnlyByBrokers

    if args is None or not isinstance(error, (MismatchedEndpointType, OnlyByBrokers)):
        return ""
    if getattr(args, "bootstrap_controller", None) is not None:
        if isinstance(error, OnlyByBrokers):
            return "Only brokers answer this: give one with --bootstrap-server."
        return "This is a broker: give it with --bootstrap-server, or a controller with --bootstrap-controller."
    if hasattr(args, "bootstrap_controller"):
        return "This is a controller: give it with --bootstrap-controller, or a broker with --bootstrap-server."
    return "This is a controller: give a broker with --bootstrap-server."
