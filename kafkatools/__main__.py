"""The program `kt`: the only place that exits.

Most of what it makes lives until the end, so the search for cyclic garbage is done rarely, and not once more over
everything on the way out: 10 ms of a command's time.
"""

import gc
import sys

_ALLOCATIONS_BETWEEN_COLLECTIONS = 20_000


def main() -> None:
    """Runs `kt` on this process's console."""
    from kafkatools.cli import main as run
    from kafkatools.cli import terminate_politely
    from kafkatools.console import Console

    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    try:
        terminate_politely()
        status = int(run(sys.argv[1:], Console.of_process()))
    except KeyboardInterrupt:
        status = 130
    gc.freeze()
    sys.exit(status)


if __name__ == "__main__":
    main()
