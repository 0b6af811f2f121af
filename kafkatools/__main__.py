"""The program `kt`: the only place that exits."""

import sys


def main() -> None:
    """Runs `kt` on this process's console."""
    from kafkatools.cli import main as run
    from kafkatools.cli import terminate_politely
    from kafkatools.console import Console

    try:
        terminate_politely()
        status = int(run(sys.argv[1:], Console.of_process()))
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


if __name__ == "__main__":
    main()
