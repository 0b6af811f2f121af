"""kt monitor with keys: its tables, where keys lead, what a refresh keeps, and a real terminal that is restored."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import run_kt
from support.kt_process import KT, environment
from support.live_groups import ClassicMember, GroupClient
from support.shown_terminal import Shown, show

from kafkatools import Producer
from kafkatools.commands.monitor.terminal.app import Answer
from kafkatools.commands.monitor.terminal.collecting import Collected
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewTopic, create_topics, delete_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.install_command import install_command
from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.processes

HOSTILE = "[red]x\x1b[2J\u202e"
_END_S = 30


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with `orders` (30 partitions, 700 records in partition 2, 5 in partition 11) and `pay`; a member named
    `till` of group `shop` has partitions 2 and 11, and committed 300 in the first; nobody reads for two other
    groups."""
    with embedded_broker(tmp_path_factory.mktemp("broker"), group_initial_rebalance_delay_ms="0") as address:
        with AdminClient(address, {}, SystemClock()) as admin:
            create_topics(admin, [NewTopic("orders", 30, 1), NewTopic("pay", 1, 1)])
        with Producer(bootstrap_servers=address) as producer:
            for number in range(700):
                producer.send("orders", b"%d" % number, partition=2)
            for number in range(5):
                producer.send("orders", b"%d" % number, partition=11)
        with GroupClient(address) as client:
            client.commit("left", {("orders", 2): 699, ("pay", 0): 0})
            client.commit(HOSTILE, {("orders", 11): 5})
            client.commit("shop", {("orders", 2): 300})
        with ClassicMember(address, "till", "shop", {"orders": [2, 11]}):
            yield address


# -- views --


def test_each_view_fits_80_columns(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        headers = {
            "1": ["What", "Value", "Note"],
            "2": ["ID", "State", "Ctrl", "Lead", "ISR", "Msg/s", "Size", "Free", "Address", "Rack"],
            "3": ["Topic", "State", "Parts", "RF", "Offl", "<Min", "URP", "Msg/s", "Size", "Bytes/s"],
            "4": ["Group", "State", "Memb", "Lag▼", "Behind", "Cons/s", "Catch", "up", "Coord"],
            "5": [],
            "6": ["Partition", "State", "Leader", "ISR", "End", "Msg/s", "Size", "Replicas", "ELR"],
            "7": ["Group", "Topic", "Lag▼", "Cons/s"],
            "8": ["ID", "Role", "Log", "end", "Lag", "Caught", "up", "ago"],
            "9": ["Broker", "Directory", "State", "Reps", "Size", "Free"],
        }
        for key, header in headers.items():
            await shown.press(key)
            assert shown.header[: len(header)] == header
            assert len(shown.lines) == 24 and max(map(len, shown.lines)) <= 80
        assert shown.lines[-1].endswith("q quit")

    show(bootstrap, story)


def test_the_overview_counts_and_leads_to_what_it_counts(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        facts = {line[:20].strip(): line[20:].split() for line in shown.lines[5:-1]}
        assert facts["Brokers"] == ["1/1"] and facts["Controller"][0] == "1"
        assert facts["Groups"] == ["3"] and facts["Lag"][0] == "401", "400 of shop, 1 of left"
        assert facts["Topics"] == ["3"] and facts["Partitions"] == ["81"], "31 and 50 of __consumer_offsets"
        await shown.press("down", "down", "down", "enter")
        assert shown.lines[3].startswith("Overview > Topics  row 1 of 3")
        await shown.press("escape", "j", "j", "enter")  # the cursor is where it was
        assert "offline partitions" in shown.text and "no partition" in shown.text

    show(bootstrap, story)


def test_a_view_of_the_option_is_the_first_one(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        assert shown.lines[3].startswith("Quorum") and shown.rows[0][:2] == ["1", "leader"]

    show(bootstrap, story, sections=("quorum", "lag"))


# -- drill down --


def test_a_topic_leads_to_partitions_replicas_and_readers(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        await shown.press("3", "enter")
        await shown.until(lambda: shown.rows[2][:6] == ["2", "ok", "1", "1", "0", "700"])
        assert shown.header[:7] == ["Part", "State", "Leader", "ISR", "Start", "End", "Msg/s"]
        await shown.press("j", "j", "enter")
        assert shown.lines[3].startswith("Topics > topic orders > orders-2")
        assert [row[:3] for row in shown.rows] == [
            ["replica", "on", "1"], ["group", "left", "Empty"], ["group", "shop", "Stable"],
        ]  # fmt: skip
        assert shown.rows[0][3:5] == ["leader", "700"] and shown.rows[2][3:] == ["300", "400", "-"]
        await shown.press("enter")
        assert "Topics > topic orders > orders-2 > broker 1" in shown.lines[3]
        await shown.press("escape", "backspace", "escape", "escape")
        assert shown.lines[3].startswith("Topics  row 1 of 3")

    show(bootstrap, story)


def test_a_group_leads_to_members_and_their_partitions(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        await shown.press("4")
        assert [row[0] for row in shown.rows][:2] == ["shop", "left"], "by lag"
        await shown.press("enter")
        await shown.until_shown("till")
        row = shown.rows[0]
        assert (row[0], row[2], row[3]) == ("till", "2", "400"), "partitions and lag, without those not committed"
        await shown.press("enter")
        assert shown.lines[3].startswith("Groups > group shop > member till")
        assert shown.rows[0] == ["orders-2", "1", "300", "700", "400", "-"]
        assert shown.rows[1] == ["orders-11", "1", "-", "5", "-", "-"], "nothing was committed here; no rate yet"
        await shown.press("enter")
        assert shown.lines[3].startswith("Groups > group shop > member till > orders-2")
        await shown.press("4", "down", "enter")
        await shown.until_shown("(no member)")
        assert shown.rows[0] == ["(no", "member)", "-", "2", "1", "-", "-", "-"]

    show(bootstrap, story)


def test_names_are_shown_as_text(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        await shown.press("4", "end", "enter")
        await shown.until_shown("(no member)")
        assert "Groups > group [red]x\\x1b[2J\\u202e" in shown.lines[3]
        await shown.press("w")
        await shown.until_shown("No problem found: group [red]x\\x1b[2J\\u202e.")

    show(bootstrap, story)


# -- order, filter, and what a refresh keeps --


def test_rows_are_sorted_by_keys_and_by_clicks(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        def ends() -> list[str]:
            return [row[5] for row in shown.rows[:3]]

        await shown.press("3", "enter")
        await shown.until_shown("700")
        await shown.press("s", "s", "s", "s", "s", "s")
        assert "End▼" in shown.header and ends() == ["700", "5", "0"]
        await shown.press("r")
        assert "End▲" in shown.header and ends() == ["0", "0", "0"]
        await shown.press("S", "S", "S", "S", "S", "S")
        assert [row[0] for row in shown.rows[:3]] == ["0", "1", "2"], "the original order"
        at = shown.lines[4].index("End")
        await shown.pilot.click("Table", offset=(at, 0))
        assert ends() == ["700", "5", "0"]
        await shown.pilot.click("Table", offset=(at, 0))
        assert ends() == ["0", "0", "0"]
        await shown.pilot.click("Table", offset=(3, 2), times=2)
        assert "Topics > topic orders > orders-1" in shown.lines[3]

    show(bootstrap, story)


def test_a_filter_is_text_or_an_expression(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        await shown.press("6", "slash")
        await shown.type("S[")
        assert "Not a regular expression" in shown.lines[-1]
        assert "0 of 81" in shown.lines[3], "what was valid before it stays"
        await shown.press("enter")
        assert shown.lines[-1].startswith("/S["), "the line stays open"
        await shown.press("backspace", "backspace")
        await shown.type("rs-2")
        await shown.press("enter")
        assert [row[0] for row in shown.rows] == ["orders-2", *(f"orders-{n}" for n in range(20, 30))]
        assert "row 1 of 11 of 81  /rs-2/" in shown.lines[3]
        await shown.press("slash")
        await shown.type("$|pay")
        assert [row[0] for row in shown.rows] == ["orders-2", "pay-0"]
        await shown.press("escape")
        assert "row 1 of 11 of 81" in shown.lines[3], "Esc leaves the filter that was there"
        await shown.press("3", "6", "escape")
        assert "row 1 of 81" in shown.lines[3], "and removes it without the line"
        await shown.press("slash")
        await shown.type("Y")
        assert "no row matches" in shown.text, "an upper-case letter is one"

    show(bootstrap, story)


def test_a_refresh_keeps_row_order_filter_and_scroll_place(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        await shown.press("6", "slash")
        await shown.type("orders|early")
        await shown.press("enter", "pagedown", "down", "down")
        selected, top = shown.selected.split()[0], shown.rows[0][0]
        assert selected == "orders-19" and top == "orders-2", "18 rows are on the screen"
        with AdminClient(bootstrap, {}, SystemClock()) as admin:
            await asyncio.to_thread(create_topics, admin, [NewTopic("early", 3, 1)])
            await shown.until(lambda: "of 33 of 84" in shown.lines[3])
            assert (shown.selected.split()[0], shown.rows[0][0]) == (selected, top)
            await shown.press("r")
            assert "Partition▼" in shown.header and shown.selected.split()[0] == selected
            await shown.press("S", "home")
            await asyncio.to_thread(delete_topics, admin, ["early"])
        await shown.until(lambda: "row 1 of 30 of 81" in shown.lines[3])
        assert shown.selected.split()[0] == "orders-0", "the row at the place of the one that is gone"

    show(bootstrap, story, interval_ms=200)


def test_columns_that_do_not_fit_are_reached_by_keys(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        await shown.press("6")
        assert shown.header[0] == "Partition" and "Notes" not in shown.header and "→" in shown.lines[3]
        await shown.press(*["right"] * 5)
        assert shown.header[0] == "Partition" and shown.header[-1] == "Notes" and "←" in shown.lines[3]
        await shown.press(*["left"] * 5)
        assert shown.header[1] == "State"

    show(bootstrap, story, size=(60, 20))


# -- diagnosis, help, pause, interval, end --


def test_why_is_asked_about_the_selected_row(bootstrap: str) -> None:
    said = run_kt("why", "group", "left", "--interval", "0", "--bootstrap-server", bootstrap).out.splitlines()

    async def story(shown: Shown) -> None:
        await shown.press("4", "down", "w")
        await shown.until_shown("kt why: group left", said[0])
        await shown.press("2")
        assert shown.lines[3].startswith("Brokers"), "the other keys still work"
        assert "kt why" not in shown.text, "the panel was of a row of the former view"
        await shown.press("w")
        await shown.until_shown("kt why: broker 1", "No problem found: broker 1.")
        await shown.press("escape")
        assert "kt why" not in shown.text

    show(bootstrap, story)


def test_all_of_a_row_is_shown_by_a_key(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        await shown.press("6", "d")
        await shown.until_shown("All of the row", "Replicas   1", "Notes")
        await shown.press("escape")
        assert "All of the row" not in shown.text

    show(bootstrap, story, size=(40, 40))


def test_help_explains_keys_and_columns(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        await shown.press("4", "question_mark")
        assert "Keys" in shown.text and "exit status 130" in shown.text
        await shown.press("pagedown", "pagedown")
        await shown.until_shown("time until there is no lag")
        await shown.press("q")
        assert shown.lines[3].startswith("Groups")

    show(bootstrap, story)


def test_pause_keeps_the_screen_and_the_interval_changes(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        await shown.press("3", "p")
        assert "PAUSED" in shown.lines[0]
        with AdminClient(bootstrap, {}, SystemClock()) as admin:
            await asyncio.to_thread(create_topics, admin, [NewTopic("later", 1, 1)])
            await shown.until(lambda: shown.app._latest.view.totals.topics == 4)
            assert "of 3" in shown.lines[3]
            await shown.press("p")
            assert "of 4" in shown.lines[3]
            await asyncio.to_thread(delete_topics, admin, ["later"])
        await shown.until(lambda: "of 3" in shown.lines[3])
        await shown.press("plus")
        assert "every 0.5 s" in shown.lines[0]
        await shown.press("minus", "minus")
        assert "every 0.1 s" in shown.lines[0]
        await shown.press("5")
        assert "topic later is gone" in shown.text and "topic-created" in shown.text
        await shown.press("q")

    assert show(bootstrap, story, interval_ms=200).return_value is ExitStatus.OK


def test_a_cluster_that_is_away_is_named_and_keys_work(tmp_path: pathlib.Path) -> None:
    with contextlib.ExitStack() as broker:
        address = broker.enter_context(embedded_broker(tmp_path))

        async def story(shown: Shown) -> None:
            await asyncio.to_thread(broker.close)
            await shown.until_shown("The last refresh failed: ")
            await shown.press("2")
            assert shown.rows[0][:2] == ["1", "alive"], "what the last snapshot had"
            await shown.press("ctrl+c")

        assert show(address, story, interval_ms=200, patience_ms=500).return_value is ExitStatus.INTERRUPTED


def test_what_arrives_after_the_end_is_ignored(bootstrap: str) -> None:
    async def story(shown: Shown) -> None:
        await shown.app.query("Table, Panel, #head").remove()
        shown.app.report(Collected(shown.app._model))
        shown.app.post_message(Answer(0, "kt why", []))
        shown.app._draw_age()
        await shown.pilot.pause()

    show(bootstrap, story)  # an error of a handler would be raised


# -- a real terminal --


class Tty:
    """`kt monitor` on a terminal of 80 columns and 24 lines."""

    def __init__(self, home: pathlib.Path, *words: str, **variables: str) -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._before = termios.tcgetattr(self._theirs)
        streams = {"stdin": self._theirs, "stdout": self._theirs, "stderr": self._theirs}
        variables = {**environment(home), "TERM": "xterm-256color", **variables}
        self.process = subprocess.Popen(
            [*KT, "monitor", "--interval", "0.2", *words], env=variables, start_new_session=True, **streams
        )  # type: ignore[call-overload]
        self.seen = b""

    def wait_for(self, text: bytes) -> None:
        """Reads until a text is drawn."""
        deadline = time.monotonic() + _END_S
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            self._read()

    def type(self, keys: bytes) -> None:
        """Presses keys."""
        os.write(self._ours, keys)

    def end(self) -> int:
        """Reads to the end; the exit status. The terminal has to be as it was."""
        deadline = time.monotonic() + _END_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.seen
            self._read()
        self._read()
        assert termios.tcgetattr(self._theirs) == self._before, "echo and lines are on again"
        os.close(self._ours)
        os.close(self._theirs)
        assert self.seen.count(b"\x1b[?1049h") == self.seen.count(b"\x1b[?1049l") == 1, "the alternate screen"
        assert b"\x1b[?25h" in self.seen and b"Traceback" not in self.seen
        return self.process.wait(_END_S)

    def close(self) -> int:
        """Closes the terminal, of which no signal tells; the exit status."""
        os.close(self._ours)
        os.close(self._theirs)
        return self.process.wait(_END_S)

    def _read(self) -> None:
        if select.select([self._ours], [], [], 0.1)[0]:
            self.seen += os.read(self._ours, 1 << 16)


def test_q_leaves_a_terminal_as_it_was(bootstrap: str, tmp_path: pathlib.Path) -> None:
    tty = Tty(tmp_path, "--bootstrap-server", bootstrap)
    tty.wait_for(b"Controller")
    tty.type(b"3")
    tty.wait_for(b"orders")
    tty.type(b"q")
    assert tty.end() == ExitStatus.OK


def test_it_ends_with_its_terminal(bootstrap: str, tmp_path: pathlib.Path) -> None:
    tty = Tty(tmp_path, "--bootstrap-server", bootstrap)
    tty.wait_for(b"Controller")
    assert tty.close() == ExitStatus.INTERRUPTED


def test_without_colours_nothing_is_coloured(bootstrap: str, tmp_path: pathlib.Path) -> None:
    tty = Tty(tmp_path, "--bootstrap-server", bootstrap, NO_COLOR="1")
    tty.wait_for(b"Controller")
    tty.type(b"\x03")
    assert tty.end() == ExitStatus.INTERRUPTED
    codes = {code for styles in re.findall(rb"\x1b\[([0-9;]*)m", tty.seen) for code in styles.split(b";")}
    assert codes <= {b"", b"0", b"1", b"2", b"7", b"39", b"49"}, "bold, dim, reverse and the default colours"


def test_a_signal_restores_the_terminal(bootstrap: str, tmp_path: pathlib.Path) -> None:
    tty = Tty(tmp_path, "--bootstrap-server", bootstrap)
    tty.wait_for(b"Controller")
    tty.process.send_signal(signal.SIGTERM)
    assert tty.end() == ExitStatus.INTERRUPTED


def test_a_condition_that_holds_ends_it(bootstrap: str, tmp_path: pathlib.Path) -> None:
    tty = Tty(tmp_path, "--bootstrap-server", bootstrap, "--fail-if", "messages>=0")
    assert tty.end() == ExitStatus.FINDINGS
    assert tty.seen.rstrip().endswith(b"messages>=0 holds: messages is 0.0")


def test_without_textual_the_screen_names_the_extra(bootstrap: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: None if name == 'textual' else find(name, package)\n"
    )
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    tty = Tty(tmp_path, "--bootstrap-server", bootstrap, PYTHONPATH=path)
    tty.wait_for(install_command("monitor").encode())
    tty.process.send_signal(signal.SIGINT)
    assert tty.end() == ExitStatus.INTERRUPTED
