"""Entry point of the program `kt`, which exits the process with the command's status.

Started through a link that is named like a script of Kafka, such as `kafka-topics.sh`, it runs the command of that
script with the same arguments; `kt shims` creates such links.

Most objects live until the end of a command, so garbage collection runs rarely and not at exit: this saves 10 ms.
NumPy's linear algebra gets one thread unless OPENBLAS_NUM_THREADS says otherwise: no command needs it, and its threads
take 50 ms of processor time when NumPy is imported.
"""

import gc
import os
import sys

_ALLOCATIONS_BETWEEN_COLLECTIONS = 20_000


def main() -> None:
    """Run `kt` with this process's arguments and console, then exit with the command's status; 130 after Ctrl-C. The
    first signal after the command changes nothing."""
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: TID251 - where the library looks
    status = 130
    try:
        try:
            status = _run()
        finally:
            _ignore_stop_signals()
    except KeyboardInterrupt:
        _ignore_stop_signals()  # a signal may have interrupted the first call
    if "duckdb" not in sys.modules:  # its library reports all objects that are not freed at exit
        gc.freeze()
    sys.exit(status)


def _run() -> int:
    from kafkatools.stop_signals import terminate_politely

    terminate_politely()  # before the other imports, which take most of the time of a short command
    from kafkatools.cli import main as run
    from kafkatools.commands import command_of_script
    from kafkatools.console import Console

    script = command_of_script(sys.argv[0])
    arguments = sys.argv[1:] if script is None else [script, *sys.argv[1:]]
    return int(run(arguments, Console.of_process()))


def _ignore_stop_signals() -> None:
    from kafkatools.stop_signals import ignore_stop_signals

    ignore_stop_signals()


if __name__ == "__main__":
    main()
