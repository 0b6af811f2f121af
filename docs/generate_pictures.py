"""The pictures of the pages: sessions of `kt` on a terminal as SVG, and the page of `kt monitor --web` from a browser.

Every picture shows what commands print in a private sandbox, except that of `kt monitor` with keys: it shows figures of
a cluster that does not exist, so that it is the same each time. `python docs/generate_pictures.py` (or `make docs`)
draws them into docs/pictures. The browser is Chromium without a window; without one the picture of the page stays as
it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from kafkatools.commands.monitor.terminal.app import MonitorApp
from kafkatools.commands.monitor.terminal.details import DetailsRead
from kafkatools.commands.monitor.terminal.model import Details, Model
from kafkatools.commands.monitor.terminal.places import Place
from kafkatools.core.admin.coordinators import Coordinator
from kafkatools.core.admin.groups import GroupDescription, MemberDescription
from kafkatools.core.clock import SystemClock
from kafkatools.tools.monitor.view import (
    BrokerView,
    ClusterView,
    GroupPartition,
    GroupView,
    PartitionView,
    TopicView,
)

PICTURES = pathlib.Path(__file__).parent / "pictures"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
KT = str(pathlib.Path(sys.executable).parent / "kt")
SEGMENT = "00000000000000000000.log"
FIRST_TIMESTAMP_MS = 1_795_000_000_000


class Session(NamedTuple):
    """A picture of a terminal: its commands, one shell line each, and the columns."""

    name: str
    title: str
    lines: Sequence[str]
    columns: int = 100


SESSIONS = (
    Session(
        "first-minute",
        "the first minute",
        (
            "kt topics --create --topic first --partitions 2",
            "seq 1000 | kt console-producer --topic first",
            "kt console-consumer --topic first --group readers --from-beginning --exit-at-end | tail -1",
            "kt consumer-groups --describe --group readers --fail-if 'lag>0'",
        ),
        columns=150,
    ),
    Session(
        "dump-log",
        "a segment with a changed byte",
        (
            f"kt dump-log --files {SEGMENT} > dump.txt; echo exit status $?",
            f"kt dump-log --files {SEGMENT} --print-data-log --salvage 2> damage.txt | grep -o 'key: .*'",
        ),
        columns=120,
    ),
    Session("monitor", "kt monitor --once", ("kt monitor --once",)),
)


CUSTOMERS = b"""\
c-1\t{"name": "Ann", "city": "Graz", "orders": 3}
c-2\t{"name": "Ben", "city": "Linz", "orders": 1}
c-1\t{"name": "Ann", "city": "Wien", "orders": 4}
"""


@contextlib.contextmanager
def sandbox() -> Iterator[pathlib.Path]:
    """A directory in which `kt` uses a sandbox of its own, which ends with the block."""
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        os.environ |= {"KT_HOME": str(directory / "home"), "KT_SANDBOX": "quiet", "TERM": "xterm-256color"}
        os.environ["PATH"] = f"{pathlib.Path(KT).parent}:{os.environ['PATH']}"
        try:
            yield directory
        finally:
            subprocess.run([KT, "sandbox", "stop"], capture_output=True, check=False)


def on_terminal(line: str, directory: pathlib.Path, columns: int) -> str:
    """Return the output of a shell line on a terminal of `columns` columns, with its escape sequences."""
    main, terminal = pty.openpty()
    shell = f"stty cols {columns} rows 40; {line}"
    child = subprocess.Popen(["/bin/sh", "-c", shell], cwd=directory, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    parts = []
    with contextlib.suppress(OSError):  # the last process has closed the terminal
        while part := os.read(main, 65536):
            parts.append(part)
    os.close(main)
    child.wait()
    return b"".join(parts).decode().replace("\r\n", "\n")


def draw(session: Session, directory: pathlib.Path) -> None:
    """Run the commands of a session and write the picture of the terminal."""
    console = Console(record=True, width=session.columns, file=io.StringIO(), force_terminal=True)
    for line in session.lines:
        console.print(Text.assemble(("$ ", "bold green"), (line, "bold")))
        console.print(Text.from_ansi(on_terminal(line, directory, session.columns).rstrip("\n")))
    svg = console.export_svg(title=session.title, unique_id=session.name)
    text = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # no fonts of other servers
    (PICTURES / f"{session.name}.svg").write_text(text, encoding="utf-8")


def damage_a_segment(directory: pathlib.Path) -> None:
    """Copy the segment of a topic with six batches, and change a byte of the third one."""
    home = pathlib.Path(os.environ["KT_HOME"])
    subprocess.run([KT, "topics", "--create", "--topic", "orders"], check=True, capture_output=True)
    for number in range(6):
        record = {"key": f"user-{number % 2}", "value": f"order {number}", "timestamp": FIRST_TIMESTAMP_MS + number}
        command = [KT, "console-producer", "--topic", "orders", "--json"]
        subprocess.run(command, input=json.dumps(record).encode(), check=True, capture_output=True)
    (segment,) = home.rglob(f"orders-0/{SEGMENT}")
    data = bytearray(segment.read_bytes())
    data[data.index(b"order 2")] ^= 1
    (directory / SEGMENT).write_bytes(data)


def draw_keys() -> None:
    """Draw `kt monitor` with keys: a group of a cluster of three brokers, and its members."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    clock = SystemClock()
    ends = (48_211_904, 47_903_377, 48_100_512, 47_996_021, 48_377_140, 48_004_266)
    lags = (120, 88, 94, 18_402, 101, 97)
    parts = tuple(
        PartitionView("orders", n, 1 + n % 3, 4, (1 + n % 3, 1 + (n + 1) % 3), (1 + n % 3, 1 + (n + 1) % 3), None, (),
                      min_isr=1, end_offset=end)
        for n, end in enumerate(ends)
    )  # fmt: skip
    commits = tuple(GroupPartition("orders", n, ends[n] - lag, lag) for n, lag in enumerate(lags))
    group = GroupView("checkout", "Consumer", "Stable", 2, 3, commits, 2210.0, {"orders": 2210.0})
    brokers = tuple(BrokerView(n, f"broker{n}", 9092, f"rack{n}", False, True, ()) for n in (1, 2, 3))
    view = ClusterView(
        time_ms=FIRST_TIMESTAMP_MS, clock_ms=clock.now_ms(), took_ms=14, cluster_id="4L6g3nShT-eMCtK--X86sw",
        controller=2, brokers=brokers, topics=(TopicView("orders", None, False, parts, 2304.0, 412_000.0),),
        quorum=None, groups=(group,), problems=(),
    )  # fmt: skip
    members = tuple(
        MemberDescription(f"{host}-{n}", None, f"checkout-{n}", f"/{host}", (("orders", 2 * n), ("orders", 2 * n + 1)),
                          member_epoch=7)
        for n, host in enumerate(("10.0.3.17", "10.0.3.18", "10.0.3.21"))
    )  # fmt: skip
    described = GroupDescription("checkout", "Consumer", "Stable", "uniform", members, Coordinator(2, "broker2", 9092))
    app = MonitorApp(
        Model(view), Place("groups"), 2000, clock,
        diagnose=lambda subject, is_cancelled: iter(()),
        request_details=lambda request: app.report(DetailsRead(request, Details(described))),
        change_interval=lambda interval_ms: None,
    )  # fmt: skip

    async def shown() -> str:
        async with app.run_test(size=(80, 12)) as pilot:
            await pilot.press("enter")
            await pilot.pause()
            return app.export_screenshot(title="kt monitor")

    svg = re.sub(r"@font-face \{.*?\}\s*", "", asyncio.run(shown()), flags=re.DOTALL)
    (PICTURES / "monitor-keys.svg").write_text(svg, encoding="utf-8")


def photograph(directory: pathlib.Path) -> None:
    """Take a picture of the page of `kt monitor --web`, and one of its records."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"No browser is installed ({', '.join(BROWSERS)}): pictures/monitor.png stays as it is", file=sys.stderr)
        return
    load = [KT, "producer-perf-test", "--topic", "orders", "--num-records", "100000", "--record-size", "200"]
    command = [KT, "monitor", "--web", "0", "--role", "read", "--interval", "0.5"]
    orders = [KT, "console-producer", "--topic", "customers", "--reader-property", "parse.key=true"]
    subprocess.run(orders, input=CUSTOMERS, capture_output=True, check=True)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with (
        subprocess.Popen([*load, "--throughput", "2000"], **quiet) as producer,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as monitor,
    ):
        assert monitor.stderr is not None
        urls = (found[0] for line in monitor.stderr if (found := re.search(r"http://\S+", line)))
        pages = {"monitor": next(urls), "monitor-records": next(urls) + "#records=customers&last=3"}
        time.sleep(6)  # the charts begin with the second refresh
        switches = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        profile = f"--user-data-dir={directory / 'browser'}"
        heights = {"monitor": 1000, "monitor-records": 2250}  # of a scrolled page Chromium draws nothing
        for name, url in pages.items():
            picture = f"--screenshot={PICTURES / name}.png"
            subprocess.run(
                [
                    *(browser, *switches, profile, picture, url),
                    *(f"--window-size=1000,{heights[name]}", "--virtual-time-budget=3000"),
                ],
                capture_output=True,
                check=True,
                timeout=60,
            )
        monitor.terminate()
        producer.terminate()


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    draw_keys()
    with sandbox() as directory:
        damage_a_segment(directory)
        for session in SESSIONS:
            draw(session, directory)
        photograph(directory)


if __name__ == "__main__":
    main()
