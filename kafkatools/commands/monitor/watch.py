"""The loop of kt monitor: collect, show, wait.

The command ends at once if the first refresh fails, or if a named topic or group does not exist. Errors of later
refreshes are printed. It ends when a condition of --fail-if holds (exit status 3) or cannot be decided (1), and by
Ctrl-C. With --once it ends after the first refresh, with exit status 1 if data is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kafkatools.commands.monitor.access import read_access
from kafkatools.commands.monitor.message_source import message_source, with_brokers
from kafkatools.commands.monitor.monitor_options import MonitorOptions
from kafkatools.commands.monitor.outgoing import Outgoing
from kafkatools.commands.monitor.outputs import JsonOutput, Output, TablesOutput
from kafkatools.commands.monitor.server import serving
from kafkatools.commands.monitor.terminals import has_keys, has_screen
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.errors import AuthenticationFailed, KafkaError
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args, client_settings
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.collector import ClusterCollector
from kafkatools.tools.monitor.details import CLIENT_LIMITS, Details
from kafkatools.tools.monitor.view import ClusterView

if TYPE_CHECKING:
    from kafkatools.commands.monitor.terminal.collecting import Parts
    from kafkatools.commands.monitor.terminal.diagnosis import Connection

_PATIENCE_MS = (2000, 10_000)
_QUIET_MS = 5000


def watch(console: Console, args: Args, options: MonitorOptions) -> ExitStatus:
    """Show views until a condition of --fail-if holds (FINDINGS) or is unknown (FAILED). With --once show one view, and
    return FAILED if data is missing. Raises KafkaError, CommandError."""
    board = Board()
    access = read_access(args, console.environ)
    source = message_source(console, args, access)
    bootstrap, settings = console.connect(args), client_settings(args)
    if source is not None:
        source = with_brokers(source, bootstrap)
    details = Details(board, lambda: AdminClient(bootstrap, {**settings, **CLIENT_LIMITS}, console.clock))
    outgoing = Outgoing(console, options)
    with ExitStack() as stack:
        stack.callback(details.close)
        addresses = stack.enter_context(
            serving(board, options, access, details, source, console.clock)
        )  # first, so that a port in use ends the command at once
        connections = stack.enter_context(ExitStack())
        collector = connections.enter_context(_collector(console, settings, options, bootstrap))
        _connect(console, collector)
        view = collector.collect()
        _refuse_unknown(view, options)
        stack.enter_context(outgoing)

        def take(view: ClusterView) -> tuple[list[str], list[str]]:
            """Publish a view with its alerts; return the conditions of --fail-if that hold and that are unknown."""
            board.publish(outgoing.take(view))
            return options.judge(view)

        findings, unknowns = take(view)
        for line in addresses:  # after the first view, so that the addresses serve data
            console.note(line)
        if has_keys(console, as_json=args.json, is_once=options.is_once) and not (findings or unknowns):
            from kafkatools.commands.monitor.terminal.collecting import Parts

            parts = Parts(collector, board, take, console.clock, tuple(addresses), outgoing.fail)
            connection = _connection(console, args, bootstrap, settings)
            return _run_with_keys(console, parts, board.last[0] or view, options, connection, connections)
        output = stack.enter_context(_output(console, args.json, options, board, addresses))
        while True:
            started_ms = console.clock.now_ms() - view.took_ms
            output.show(board.last[0] or view, findings, unknowns)
            console.flush()
            if findings or unknowns:
                return ExitStatus.FINDINGS if findings else ExitStatus.FAILED
            if options.is_once:
                return ExitStatus.FAILED if view.problems else ExitStatus.OK
            view = _next_view(console, collector, board, output, started_ms, outgoing)
            findings, unknowns = take(view)


def _run_with_keys(
    console: Console,
    parts: Parts,
    view: ClusterView,
    options: MonitorOptions,
    connection: Connection,
    connections: ExitStack,
) -> ExitStatus:
    """Show the view with keys, then print the conditions of --fail-if that ended it."""
    from kafkatools.commands.monitor.terminal.run import TerminalView

    status, ended = TerminalView(parts, view, options, connection).run(connections)
    for text in () if ended is None else (*ended.findings, *ended.unknowns):
        console.error(text)
    return status


def _output(console: Console, as_json: bool, options: MonitorOptions, board: Board, addresses: Sequence[str]) -> Output:
    """Return the Output for these options: JSON, tables, the screen on a terminal, else lines."""
    if as_json:
        return JsonOutput(console, options)
    if options.is_once:
        return TablesOutput(console, options)
    if has_screen(console):
        from kafkatools.commands.monitor.screen import Screen

        return Screen(console, options, board, addresses)
    return Output(console, options)


def _connection(console: Console, args: Args, bootstrap: str, settings: Mapping[str, object]) -> Connection:
    from kafkatools.commands.monitor.terminal.diagnosis import Connection

    profile = None if args.profile is None else args.profile.name
    return Connection(bootstrap, settings, console.clock, args.command_config, profile)


@contextmanager
def _collector(
    console: Console, settings: Mapping[str, object], options: MonitorOptions, bootstrap: str
) -> Iterator[ClusterCollector]:
    """Open three admin clients and the collector that uses them."""
    shortest, longest = _PATIENCE_MS
    patience_ms = longest if options.is_once else min(longest, max(shortest, options.interval_ms))
    with (
        AdminClient(bootstrap, settings, console.clock) as admin,
        AdminClient(bootstrap, settings, console.clock) as aside,
        AdminClient(bootstrap, settings, console.clock) as apart,
    ):
        yield ClusterCollector(admin, aside, options.scope(), min(patience_ms, admin.timeout_ms), apart)


def _connect(console: Console, collector: ClusterCollector) -> None:
    """Fetch the broker list. Print the reason when no broker has responded for some seconds, and wait on, at most for
    default.api.timeout.ms. Raises KafkaError."""
    started_ms = console.clock.now_ms()
    try:
        collector.connect(_QUIET_MS)
    except KafkaError as error:
        if console.clock.now_ms() - started_ms < _QUIET_MS:
            raise
        console.note(f"{error}. kt monitor still waits for a response; Ctrl-C ends it.")
        collector.connect()


def _refuse_unknown(view: ClusterView, options: MonitorOptions) -> None:
    """Raise CommandError if a topic or group named by an option does not exist."""
    if options.is_regex:
        return
    for kind, names, present_names in (
        ("topic", options.topics, [topic.name for topic in view.topics]),
        ("group", options.groups, [group.group_id for group in view.groups]),
    ):
        missing = [name for name in names if name not in present_names]
        if missing:
            if kind == "group" and view.unlisted:
                raise CommandError(f"Cannot find out whether group '{missing[0]}' exists: {view.unlisted[0]}")
            reasons = [
                problem.message for problem in view.problems if problem.what in (f"{kind} {missing[0]}", "groups")
            ]
            raise CommandError(
                f"{kind.capitalize()} '{missing[0]}' does not exist" + (f" ({reasons[0]})" if reasons else "")
            )


def _next_view(
    console: Console,
    collector: ClusterCollector,
    board: Board,
    output: Output,
    started_ms: int,
    outgoing: Outgoing,
) -> ClusterView:
    """Wait for the next interval and collect a view; after an error, try again an interval later.

    Raises AuthenticationFailed.
    """
    while True:
        _wait(console, started_ms + output.options.interval_ms)
        started_ms = console.clock.now_ms()
        try:
            return collector.collect()
        except AuthenticationFailed:
            raise
        except KafkaError as error:
            board.fail(str(error))
            output.fail(error)
            outgoing.fail(error)


def _wait(console: Console, until_ms: int) -> None:
    """Sleep until `until_ms` in steps of 500 ms. Raises BrokenPipeError when the reader of stdout exits."""
    while (left_ms := until_ms - console.clock.now_ms()) > 0:
        console.ensure_reader()
        console.clock.sleep_ms(min(left_ms, 500))
    console.ensure_reader()
