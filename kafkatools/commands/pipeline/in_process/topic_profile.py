"""kt topic-profile: write figures of topics or log files as an HTML page, in this process.

`kt profile` would be taken for the profiles of clusters, which `kt --profile` selects.
"""

from __future__ import annotations

from kafkatools.commands.pipeline import PROFILE
from kafkatools.commands.pipeline.in_process import job_here, local_source, missing_packages
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt topic-profile: write the page to --out, and with --json print its figures. Returns FINDINGS if damaged
    ranges were skipped. Raises UsageError, CommandError."""
    from dataclasses import replace

    from kafkatools.commands.pipeline.job_source import print_damages, source_of_operand
    from kafkatools.commands.pipeline.profile import complete, ensure_options, lags_of, write_page

    ensure_options(args)
    source = source_of_operand(console, args, args.operand)
    with missing_packages():
        from kafkatools.pipeline.jobs.in_process.profile import profile
        from kafkatools.pipeline.jobs.in_process.tables import connection

        here = local_source(source)
        with connection() as database, console.progress("Reading", prints=False):
            top, made_ms = None if args.no_keys else args.top, console.clock.wall_ms()
            figures = profile(database, here, made_ms, top=top, lags=lags_of(console, source))
    damages = here.sorted_damages()
    figures = replace(complete(console, source, figures), damages=len(damages))
    return write_page(console, args, figures, print_damages(console, damages))


COMMAND = job_here(
    PROFILE._replace(name="topic-profile"),
    run,
    "kt topic-profile topic:orders --out orders.html",
    "kt topic-profile log:/var/lib/kafka/data --no-keys --out kafka.html",
)
