"""kt consumer-groups --describe --watch: repeat the table on a terminal, or print lines of JSON.

An error of the first round ends the command. Later errors are printed and the next round is tried. The command ends
when a condition of --fail-if holds (exit status 3) or cannot be decided (1), and by Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from kafkatools.commands.consumer_groups.session import Session
from kafkatools.commands.consumer_groups.views import DescribeOptions, collect_views, judge, offsets_json, offsets_lines
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.output import visible
from kafkatools.tools.groups.view import GroupView

_CLEAR = "\x1b[H\x1b[2J"
_NO_MEMBERS = " (no members)"


def prepare_watch(args: Args, options: DescribeOptions) -> Callable[[Session], ExitStatus]:
    """Return the action of --watch for a Session."""
    return lambda session: _watch(session, options, round(args.watch * 1000))


def _watch(session: Session, options: DescribeOptions, interval_ms: int) -> ExitStatus:
    is_first = True
    while True:
        started_ms = session.console.clock.now_ms()
        try:
            outcome = collect_views(session, options)
        except KafkaError as error:
            if is_first:
                raise
            session.complain(f"{session.args.command.error_prefix}{error}", error.name)
        else:
            if is_first and not outcome.views and outcome.status is not ExitStatus.OK:
                return outcome.status  # no group was found or no broker answered, which is printed already
            is_first = False
            _show(session, outcome.views, options)
            session.console.flush()
            status = judge(session, outcome, options.conditions)
            if status is not ExitStatus.OK:
                return status
        spent_ms = session.console.clock.now_ms() - started_ms
        session.console.clock.sleep_ms(max(0, interval_ms - spent_ms))


def _show(session: Session, views: Sequence[GroupView], options: DescribeOptions) -> None:
    if session.console.is_terminal and not session.args.json:
        start = "" if session.console.environ.get("TERM") == "dumb" else _CLEAR
        session.console.draw(start + "\n".join(_frame(session, views, options)) + "\n")
        return
    now_ms = session.console.clock.wall_ms()
    for view in views:
        session.print_json({"time": now_ms, **offsets_json(view)})


def _frame(session: Session, views: Sequence[GroupView], options: DescribeOptions) -> Iterator[str]:
    moment = datetime.fromtimestamp(session.console.clock.wall_ms() / 1000, UTC).astimezone()
    yield f"{moment:%H:%M:%S}  every {session.args.watch:g} s, Ctrl-C to exit"
    for view in views:
        state = view.description.state
        yield f"\n{visible(view.group_id)}: {state}{_NO_MEMBERS if state == 'Empty' else ''}"
        if view.rows:
            yield from (visible(line) for line in list(offsets_lines(session.args, view, options))[1:])
