"""kt pipeline package: write this package and its dependencies to a zip for the nodes of a cluster."""

from __future__ import annotations

import os

from kafkatools.console import Console
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline package: write the zip as a whole, and print what was left out. Raises CommandError if that
    fails."""
    import tempfile

    from kafkatools.pipeline.run import executors

    directory = os.path.dirname(os.path.abspath(args.out))
    try:
        with tempfile.TemporaryDirectory(prefix=".kt-package-", dir=directory) as scratch:
            archive, left_out = executors.write_archive(scratch, executors.installed_modules(), not args.python_only)
            size_bytes = os.path.getsize(archive)
            os.replace(archive, args.out)
    except OSError as error:
        raise CommandError(f"Cannot write {args.out}: {error.strerror}") from error
    build = None if args.python_only else executors.this_build()
    text = f"{args.out}: {size_bytes / (1 << 20):.1f} MiB, " + ("any platform" if build is None else f"for {build}")
    if left_out:
        text += f"; left out, since they are compiled: {', '.join(left_out)}"
    console.print(text, {"file": args.out, "bytes": size_bytes, "build": build, "left_out": left_out})
    return ExitStatus.OK
