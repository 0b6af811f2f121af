"""Signals that arrive in callbacks, or while the process of a command ends."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

ROOT = pathlib.Path(__file__).parents[2]
STOP_SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

PROGRAM = """
import atexit, os, signal, sys, threading, time
import kafkatools.__main__ as program, kafkatools.cli as cli
from kafkatools.options import Command

number = int(sys.argv[1])

def send(number=number, kill=os.kill, pid=os.getpid()):
    kill(pid, number)

class Finalized:
    def __del__(self, send=send, write=os.write):
        write(1, b"sent\\n")
        send()

def clean_up(name):
    time.sleep(0.1)
    print(name, "cleaned", flush=True)

def run(console, args):
{run}
    return 3

cli.load = lambda name: Command("completion", "Sample.", run=run, needs_arguments=False)
sys.argv = ["kt", "completion"]
program.main()
"""
"""A process of `kt` whose command has this body; argument: the number of the signal that `send` sends to itself."""


def _run(body: list[str], number: int) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(run="\n".join(f"    {line}" for line in body))
    return subprocess.run(
        [sys.executable, "-c", program, str(int(number))],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("number", STOP_SIGNALS)
@pytest.mark.parametrize("ending", ["return 0", "raise KeyboardInterrupt"])
def test_a_signal_in_a_callback_of_atexit_cuts_no_clean_up(ending: str, number: int) -> None:
    """The callbacks run last to first."""
    body = [
        *(f"atexit.register(clean_up, {name!r})" for name in ("script", "archive")),
        "atexit.register(send)",
        ending,
    ]
    ran = _run(body, number)
    assert (ran.stdout, ran.stderr) == ("archive cleaned\nscript cleaned\n", "")
    assert ran.returncode == (0 if ending == "return 0" else 130)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_second_signal_ends_a_process_whose_clean_up_hangs(number: int) -> None:
    ran = _run(["atexit.register(time.sleep, 60)", *["atexit.register(send)"] * 2], number)
    assert (ran.returncode, ran.stdout, ran.stderr) == (-number, "", "")


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_dropped_signal_is_not_sent_again_while_the_process_ends(number: int) -> None:
    ran = _run(["atexit.register(clean_up, 'archive')", "Finalized()"], number)
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "sent\narchive cleaned\n", "")


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_at_the_finalization_of_the_interpreter_keeps_the_status(number: int) -> None:
    """The interpreter clears the module last of all."""
    ran = _run(["cli.kept = Finalized()"], number)
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "sent\n", "")


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_dropped_signal_is_sent_again_as_itself(number: int) -> None:
    """The other signals are ignored, as by a parent process."""
    others = [int(other) for other in STOP_SIGNALS if other != number]
    ignore = [f"for other in {others}: signal.signal(other, signal.SIG_IGN)"]
    ran = _run([*ignore, "Finalized()", "time.sleep(10)"], number)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "sent\n", "")


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_while_a_dropped_one_is_handled_is_sent_again(number: int) -> None:
    """The second one arrives when the thread is to start that would send the first one again."""
    hook = [
        "def on_call(frame, event, argument):",
        "    if event == 'call' and frame.f_code is threading.Thread.start.__code__:",
        "        sys.setprofile(None)",
        "        os.write(1, b'second\\n')",
        "        send()",
        "sys.setprofile(on_call)",
    ]
    ran = _run([*hook, "Finalized()", "time.sleep(10)"], number)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "sent\nsecond\n", "")


def test_a_dropped_signal_is_reported_if_no_thread_can_start() -> None:
    """No address space has room for the stack of the thread."""
    ran = _run(["threading.stack_size(1 << 60)", "Finalized()"], signal.SIGTERM)
    assert ran.returncode == 3
    assert ran.stderr.startswith("Exception ignored in: <function Finalized.__del__")
    assert ran.stderr.splitlines()[-1].startswith("kafkatools.stop_signals.Terminated")
    assert "thread" not in ran.stderr
