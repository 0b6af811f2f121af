"""kt monitor from outside: tables, objects and lines, a terminal, how it ends, what it refuses, and what it serves."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import pty
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.browser import drawn
from support.embedded import embedded_broker
from support.kt import run_kt
from support.kt_process import KT, BrokerProcess, environment, error_lines, start_kt
from support.live_groups import GroupClient
from support.streams_story import Story
from support.waiting import eventually

from kafkatools import Producer
from kafkatools.commands.monitor import watch
from kafkatools.commands.monitor.server import page
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock
from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.processes

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "unit" / "commands"))
from test_monitor_values import samples  # noqa: E402

_ENDS_S = 30


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with topics `orders` (2 partitions, 5 records in the first) and `pay`; group `shop` is 3 behind."""
    with embedded_broker(tmp_path_factory.mktemp("broker")) as address:
        with AdminClient(address, {}, SystemClock()) as admin:
            create_topics(admin, [NewTopic("orders", 2, 1), NewTopic("pay", 1, 1)])
        with Producer(bootstrap_servers=address) as producer:
            for number in range(5):
                producer.send("orders", b"%d" % number, partition=0)
        with GroupClient(address) as client:
            client.commit("shop", {("orders", 0): 2})
        yield address


# -- once --


def test_once_prints_tables(bootstrap: str) -> None:
    ran = run_kt("monitor", "--bootstrap-server", bootstrap, "--once", "--view", "all")
    assert (ran.status, ran.err) == (ExitStatus.OK, "")
    titles = [part.splitlines()[0] for part in ran.out.split("\n\n")[1:]]
    assert [title.split(",")[0] for title in titles] == [
        "Brokers", "Topics", "Partitions", "Groups", "Lag", "Quorum", "Log directories",
    ]  # fmt: skip
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["orders", "0", "1", "1", "1", "5"] in [row[:6] for row in rows]
    assert ["shop", "orders", "3", "-"] in rows
    assert ["1", bootstrap, "-", "alive,", "controller"] in [row[:5] for row in rows]


def test_once_on_a_terminal_is_drawn(bootstrap: str) -> None:
    ran = run_kt("monitor", "--bootstrap-server", bootstrap, "--once", terminal=True)
    assert ran.status is ExitStatus.OK and "orders" in ran.out and "──" in ran.out


def test_a_condition_that_holds_is_exit_status_3(bootstrap: str) -> None:
    words = ("monitor", "--bootstrap-server", bootstrap, "--once")
    ran = run_kt(*words, "--fail-if", "lag>2", "--fail-if", "unwell", "--view", "groups")
    assert (ran.status, ran.err) == (ExitStatus.FINDINGS, "lag>2 holds for group shop: lag is 3\n")
    assert run_kt(*words, "--fail-if", "lag>3", "--fail-if", "unwell").status is ExitStatus.OK


def test_members_of_streams_groups_are_counted(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        story = Story(bootstrap)
        with story.client:
            story.beat("word-count", "m1")
            words = ("monitor", "--bootstrap-server", bootstrap, "--once", "--json", "--fail-if")
            assert run_kt(*words, "members<1").status == ExitStatus.OK
            ran = run_kt(*words, "members<2")
    assert (ran.status, ran.err) == (ExitStatus.FINDINGS, "")
    row = json.loads(ran.out)
    assert [(group["group"], group["members"]) for group in row["groups"]] == [("word-count", 1)]
    assert row["findings"] == ["members<2 holds for group word-count: members is 1"]


def test_json_is_an_object_a_look_until_a_condition_holds(bootstrap: str) -> None:
    ran = run_kt("monitor", "--bootstrap-server", bootstrap, "--json", "--interval", "0.1", "--fail-if", "messages>=0")
    assert (ran.status, ran.err) == (ExitStatus.FINDINGS, "")
    first, second = map(json.loads, ran.out.splitlines())
    assert (first["totals"]["messages_per_second"], second["totals"]["messages_per_second"]) == (None, 0)
    assert (first["findings"], len(second["findings"])) == ([], 1)
    assert [(part["topic"], part["partition"], part["end_offset"]) for part in first["partitions"]][-3:] == [
        ("orders", 0, 5), ("orders", 1, 0), ("pay", 0, 0),
    ]  # fmt: skip


def test_filters_take_names_or_patterns(bootstrap: str) -> None:
    words = ("monitor", "--bootstrap-server", bootstrap, "--once", "--json")
    (look,) = map(json.loads, run_kt(*words, "--topic", "pay").out.splitlines())
    assert [topic["topic"] for topic in look["topics"]] == ["pay"]
    (look,) = map(json.loads, run_kt(*words, "--regex", "--topic", "o.*", "--group", "none.*").out.splitlines())
    assert ([topic["topic"] for topic in look["topics"]], look["groups"]) == (["orders"], [])


# -- what is refused --


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "ghost"), "Topic 'ghost' does not exist"),
        (("--group", "ghost"), "Group 'ghost' does not exist"),
    ],
)
def test_a_name_that_is_not_there_is_an_error(bootstrap: str, words: tuple[str, ...], message: str) -> None:
    ran = run_kt("monitor", "--bootstrap-server", bootstrap, *words)
    (line,) = ran.err.splitlines()
    assert ran.status is ExitStatus.FAILED and line.startswith(message) and ran.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--interval", "0"), "--interval takes seconds from 0.1 to 86400, such as 2, 500ms or 5m, not '0'"),
        (("--interval", "soon"), "500ms or 5m, not 'soon'"),
        (("--view", "leaders"), "Unknown section 'leaders' in --view"),
        (("--fail-if", "lag>many"), "Invalid condition 'lag>many' of --fail-if"),
        (("--web", "here:http"), "--web takes [HOST:]PORT"),
        (("--web", "0.0.0.0:0"), "--web refuses to listen on 0.0.0.0"),
        (("--once", "--web", "0"), "web"),
        (("--json", "--view", "lag"), "view"),
    ],
)
def test_a_wrong_command_line_is_told_before_anything_is_asked(words: tuple[str, ...], message: str) -> None:
    ran = run_kt("monitor", "--bootstrap-server", "127.0.0.1:1", *words)
    first, *rest = ran.err.splitlines()
    assert ran.status is ExitStatus.USAGE and message in first
    assert all("See kt monitor --help." in line for line in rest)


def test_a_port_that_is_taken_is_told_before_anything_is_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run_kt("monitor", "--bootstrap-server", "127.0.0.1:1", "--prometheus", str(port))
    assert (ran.status, ran.err) == (
        ExitStatus.FAILED, f"Cannot listen on 127.0.0.1:{port}: Address already in use; another program has this port: "
        "choose another one, or port 0 for a free one\n",
    )  # fmt: skip


def test_an_address_that_is_none_is_told() -> None:
    ran = run_kt("monitor", "--bootstrap-server", "127.0.0.1:1", "--web", "no-such-host.invalid:0", "--insecure")
    (line,) = ran.err.splitlines()
    assert ran.status is ExitStatus.FAILED
    assert line.startswith("Cannot listen on no-such-host.invalid:0: The host name no-such-host.invalid")


# -- lines, and how it ends --


def test_without_a_terminal_a_look_is_a_line_and_ctrl_c_ends_it(bootstrap: str, tmp_path: pathlib.Path) -> None:
    with start_kt(tmp_path, "monitor", "--bootstrap-server", bootstrap, "--interval", "0.2") as process:
        assert process.stdout is not None and process.stderr is not None
        lines = [process.stdout.readline().decode() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(_ENDS_S) == ExitStatus.INTERRUPTED
        assert error_lines(process.stderr.read()) == []
    assert all(re.fullmatch(r"\S+ brokers 1/1 controller 1 topics .* lag 3 messages/s \S+ bytes/s \S+\n", line)
               for line in lines), lines  # fmt: skip


def test_a_reader_who_goes_away_ends_it_quietly(bootstrap: str, tmp_path: pathlib.Path) -> None:
    words = ("monitor", "--bootstrap-server", bootstrap, "--interval", "60")
    with start_kt(tmp_path, *words) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(_ENDS_S) == ExitStatus.OK, "without another line to write"
        assert process.stderr.read() == b""


def on_terminal(
    home: pathlib.Path, *words: str, lines: int = 40, columns: int = 120, drawn_line: bytes = b"Ctrl-C to exit"
) -> tuple[int, str]:
    """`kt WORDS` on a terminal without a keyboard, with one Ctrl-C when the second screen is drawn; the exit status and
    what was drawn."""
    ours, theirs = pty.openpty()
    env = {**environment(home), "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(lines)}
    process = subprocess.Popen([*KT, *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown, is_ended = b"", False
    with contextlib.suppress(OSError):  # the end of a terminal
        while data := os.read(ours, 1 << 16):
            shown += data
            if shown.count(drawn_line) >= 2 and not is_ended:
                is_ended = True
                process.send_signal(signal.SIGINT)
    os.close(ours)
    return process.wait(_ENDS_S), shown.decode()


def test_a_terminal_has_a_screen_and_gets_it_back(bootstrap: str, tmp_path: pathlib.Path) -> None:
    status, shown = on_terminal(tmp_path, "monitor", "--bootstrap-server", bootstrap, "--interval", "0.3")
    assert status == ExitStatus.INTERRUPTED
    assert shown.count("\x1b[?1049h") == shown.count("\x1b[?1049l") == 1, "the alternate screen, entered and left"
    assert "\x1b[?25h" in shown, "the cursor is there again"
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert (
        "Healthy" in text and "refreshed in" in text and "orders" in text and "shop" in text and "Traceback" not in text
    )


def test_a_narrow_terminal_shows_whole_addresses(bootstrap: str, tmp_path: pathlib.Path) -> None:
    words = ("--bootstrap-server", bootstrap, "--interval", "0.3", "--web", "0", "--role", "read")
    _, shown = on_terminal(tmp_path, "monitor", *words, columns=50, drawn_line=b"Healthy")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r", "").replace("\n", "").replace(" ", "")
    printed = re.findall(r"records:http://127\.0\.0\.1:[0-9]+/\?token=([A-Za-z0-9_-]{32})", text)
    assert len(printed) >= 2 and len(set(printed)) == 1, "before the screen and on it"


# -- what it serves --


class Served(NamedTuple):
    """What a monitor serves: the page's address with the token, its root, the address of the metrics, and the token."""

    page: str
    root: str
    metrics: str
    token: str


@contextlib.contextmanager
def serving(home: pathlib.Path, bootstrap: str, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], Served]]:
    """A monitor that serves on free ports, with page and metrics: the process and its addresses."""
    served = (
        "monitor",
        "--bootstrap-server",
        bootstrap,
        "--interval",
        "0.3",
        "--web",
        "0",
        "--prometheus",
        "0",
        *words,
    )
    with start_kt(home, *served, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        page_line, metrics_line = (process.stderr.readline().decode() for _ in range(2))
        page_at, metrics = page_line.split()[1], metrics_line.split()[1]
        root, _, token = page_at.partition("?token=")
        try:
            yield process, Served(page_at, root, metrics, token)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(_ENDS_S)


def get(url: str, token: str = "", host: str | None = None) -> tuple[int, Any, bytes]:
    """Status, headers and body."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers if host is None else {**headers, "Host": host})
    try:
        with urllib.request.urlopen(request, timeout=_ENDS_S) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def test_metrics_and_page_are_served(bootstrap: str, tmp_path: pathlib.Path) -> None:
    with serving(tmp_path, bootstrap) as (process, served):
        assert served.metrics == served.root + "metrics", "one address when both are the same"
        status, headers, body = get(served.metrics, served.token)
        assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        found = samples(body.decode())
        assert found["kafka_consumergroup_lag_sum", (("consumergroup", "shop"), ("topic", "orders"))] == 3
        assert found["kafka_topic_partition_oldest_offset", (("partition", "0"), ("topic", "orders"))] == 0
        assert len(list(text_string_to_metric_families(body.decode()))) > 20
        status, headers, body = get(served.root + "view.json", served.token)
        assert (status, headers["Content-Type"], headers["Cache-Control"]) == (200, "application/json", "no-store")
        assert [(one["group"], one["lag"]) for one in json.loads(body)["groups"]] == [("shop", 3)]
        status, headers, body = get(served.page)
        assert status == 200 and body == page(300).encode()
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert get(served.root + "etc/passwd")[0] == 404
        assert get(served.page, host="example.org")[0] == 403, "a name of the Web that points here"
        assert [get(served.root + path)[0] for path in ("", "view.json", "metrics")] == [401, 401, 401]
        connection = http.client.HTTPConnection(served.root.split("/")[2], timeout=_ENDS_S)
        connection.request("POST", "/view.json")
        assert connection.getresponse().status == 405
        connection.close()
        with socket.create_connection((connection.host, connection.port), 5) as rude:
            rude.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")  # and gone without reading
        assert process.poll() is None
        at = "#topic=orders&group=shop&broker=1&sort.topics=topic&find.topics=R&sort.broker-partitions=-topic"
        text = drawn(served.page + at, tmp_path)
    tables = Tables.of(text)
    assert "Healthy" in text and [row[:4] for row in tables["topics"]] == [["orders", "healthy", "2", "1"]]
    assert tables["partitions"][0][:2] == ["0", "1"] and tables["partitions"][0][5:7] == ["0", "5"], "start and end"
    assert [row[0] for row in tables["topic-groups"]] == ["shop"]
    assert tables["group-partitions"][0][:3] == ["orders", "0", "3"]
    assert tables["group-partitions"][0][4:6] == ["2", "5"], "committed offset and end"
    assert [row[0] for row in tables["broker-partitions"][:3]] == ["pay", "orders", "orders"]
    assert ["node.id", "1", "broker, file"] in tables["broker-settings"]
    assert ["cleanup.policy", "delete", "default"] in tables["topic-settings"]


def test_at_the_start_a_silent_cluster_is_told_before_the_time_out(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_QUIET_MS", 200)
    settings = tmp_path / "client.properties"
    settings.write_text("default.api.timeout.ms=600\nrequest.timeout.ms=600\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ran = run_kt("monitor", "--bootstrap-server", address, "--once", "--command-config", str(settings))
    first, second = ran.err.splitlines()[:2]
    assert (
        first
        == f"No broker responded within 200 ms at {address}. kt monitor still waits for a response; Ctrl-C ends it."
    )
    assert ran.status is ExitStatus.FAILED and address in second


def test_a_cluster_that_goes_away_is_told_and_old_numbers_are_not(tmp_path: pathlib.Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        with serving(tmp_path, broker.bootstrap, "--open-metrics") as (process, served):
            assert samples(get(served.metrics)[2].decode())["kt_monitor_up", ()] == 1, "without a token"
            broker.kill()
            eventually(lambda: b"kt_monitor_up 0" in get(served.metrics)[2])
            assert len(get(served.metrics)[2].splitlines()) == 3
            view = json.loads(get(served.root + "view.json", served.token)[2])
            assert "Connection refused" in view["error"] and view["totals"]["brokers"] == 1
            assert process.stderr is not None
            assert process.stderr.readline().decode().startswith("Error while monitoring: ")
    finally:
        broker.stop()


def test_tokens_of_files_and_variables_are_not_printed(bootstrap: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "view").write_text("figures-for-everybody\n")
    words = ("--bootstrap-server", bootstrap, "--view-token", f"file:{tmp_path / 'view'}")
    with start_kt(tmp_path, "monitor", *words, "--prometheus", "0", stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert line.endswith("/metrics (token: --view-token; none with --open-metrics)\n")
        assert get(line.split()[1], "figures-for-everybody")[0] == 200
        process.send_signal(signal.SIGINT)


def test_records_need_a_token_of_their_own(bootstrap: str, tmp_path: pathlib.Path) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", "orders", "--web", "0", "--role", "read")
    masked = ("--mask", "value=null")
    with start_kt(tmp_path, "monitor", *words, *masked, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline().decode() for _ in range(2)]
        assert [line.split(": ")[0] for line in lines] == ["page", "records"]
        root, _, view_token = lines[0].split()[-1].partition("?token=")
        read_token = lines[1].split()[-1].partition("?token=")[2]
        address = root + "messages.json?topic=orders&last=2"
        assert [get(address, token)[0] for token in ("", view_token)] == [401, 403]
        status, _, body = get(address, read_token)
        found = [(record["offset"], record["value"]) for record in json.loads(body)["records"]]
        assert (status, found) == (200, [(4, None), (3, None)])
        assert get(root + "view.json", read_token)[0] == 200
        assert get(root + "messages.json?topic=pay", read_token)[0] == 403, "not among --topic"
        process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--prometheus", "0", "--view-token", "letmein"), "--view-token takes file:PATH or env:NAME; a token on the"),
        (("--prometheus", "0", "--view-token", "env:SHORT"), "--view-token: a token has 16 to 512 characters"),
        (("--prometheus", "0", "--view-token", "env:NONE"), "--view-token: the environment variable NONE is not set"),
        (("--web", "0", "--view-token", "env:LONG", "--read-token", "env:LONG"), "--view-token and --read-token are"),
        (("--web", "0", "--role", "view", "--read-token", "env:LONG"), "--read-token needs --role read"),
        (("--web", "0", "--role", "admin"), "--role may be view or read, not 'admin'"),
        (("--role", "read"), "--role needs --web"),
        (("--web", "0", "--mask", "value"), "--mask needs --role read: without it kt monitor shows no records"),
        (("--web", "0", "--role", "view", "--decode", "key"), "--decode needs --role read"),
        (("--web", "0", "--role", "read", "--mask", "body"), "Invalid value of --mask: 'body' is none of"),
        (("--web", "0", "--role", "read", "--decode", "key"), "Missing the address of the schema registry"),
        (("--web", "0", "--role", "read", "--schema-registry", "x"), "The address of a schema registry"),
        (("--web", "0", "--open-metrics"), "--open-metrics needs --prometheus"),
    ],
)
def test_tokens_that_are_refused(words: tuple[str, ...], message: str) -> None:
    environ = {"SHORT": "letmein", "LONG": "a-token-that-is-long"}
    ran = run_kt("monitor", "--bootstrap-server", "127.0.0.1:1", *words, environ=environ)
    assert ran.status is ExitStatus.USAGE and ran.err.startswith(message), ran.err
    assert "letmein" not in ran.err


class Tables(HTMLParser):
    """The texts of the cells of tables with an id, row by row, without the heads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._is_cell = False

    @classmethod
    def of(cls, text: str) -> dict[str, list[list[str]]]:
        """By id."""
        parser = cls()
        parser.feed(text)
        return {name: [row for row in rows if row] for name, rows in parser.found.items()}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._rows = self.found.setdefault(dict(attrs).get("id") or "", [])
        elif tag == "tr":
            self._rows.append([])
        elif tag == "td":
            self._rows[-1].append("")
            self._is_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "td":
            self._is_cell = False

    def handle_data(self, data: str) -> None:
        if self._is_cell:
            self._rows[-1][-1] += data
