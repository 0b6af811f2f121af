"""Records in the page of kt monitor, in a real browser: what a record contains never runs, narrow and dark screens,
errors."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import pytest
from support.browser import ask, drawn
from support.embedded import embedded_broker
from support.kt_process import start_kt
from support.monitor_page import CONTRAST

from kafkatools import Producer
from kafkatools.commands.monitor.access import Access, Role, Token
from kafkatools.commands.monitor.http_requests import Content, page_policy
from kafkatools.commands.monitor.routes import Route, Site
from kafkatools.commands.monitor.server import listening, page
from kafkatools.core.net.addresses import HostPort
from kafkatools.tools.monitor.page_data import page_data

pytestmark = pytest.mark.processes

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "unit" / "commands"))
from test_monitor_values import board_of, ill_view  # noqa: E402

RUNS = "document.documentElement.dataset.pwned=1"
PAYLOADS = [
    f"<script>{RUNS}</script>",
    f"</script><script>{RUNS}</script>",
    f'<img src=x onerror="{RUNS}">',
    f"\"'><svg onload={RUNS}>",
    f'</pre></td></tr></table><iframe srcdoc="<script>parent.{RUNS}</script>"></iframe>',
    f"<style>*{{display:none}}</style><a href='javascript:{RUNS}' autofocus onfocus={RUNS}>x</a>",
    f'{{"a": "<img src=x onerror={RUNS}>", "<b>": ["</pre>"]}}',
    f"<form action=/ ><button formaction=javascript:{RUNS} id=records>",
    "${7*7} {{7*7}} <%= 7*7 %> \u2028 \ufeff",
    f"<base href=//evil.example/><link rel=stylesheet href=//evil.example/><meta http-equiv=refresh content=0;{RUNS}>",
]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`evil`: the payloads as keys, values, names and values of headers; `orders`: 9 records in 3 partitions."""
    settings = {"num_partitions": "3", "log_message_timestamp_after_max_ms": str((1 << 63) - 1)}
    with embedded_broker(tmp_path_factory.mktemp("broker"), **settings) as address:
        with Producer(bootstrap_servers=address) as producer:
            for number, text in enumerate(PAYLOADS):
                data = text.encode()
                producer.send(
                    "evil", data, data, headers=[(text, data)], partition=0, timestamp=1_700_000_000_000 + number
                )
            producer.send("evil", b"\xff<script>", None, partition=1, timestamp=1_700_000_000_100)
            for number in range(9):
                place = {"partition": number % 3, "timestamp": 1_700_000_000_000 + number}
                producer.send("orders", b"order %d" % number, b"k%d" % number, **place)
            producer.send("orders", b"x" * 20_000, b"long", partition=0, timestamp=1 << 60)
        yield address


@pytest.fixture(scope="module")
def address(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page with records, of a monitor of its own."""
    words = ("--bootstrap-server", bootstrap, "--interval", "60", "--web", "0", "--role", "read")
    with start_kt(tmp_path_factory.mktemp("home"), "monitor", *words, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline().decode() for _ in range(2)]
        yield lines[1].split()[-1]
        process.send_signal(signal.SIGINT)
        process.wait(30)


class Page(HTMLParser):
    """The elements of a page, the rows of the table of records, and the text of elements with an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.rows: list[list[str]] = []
        self.said: dict[str, str] = {}
        self._open: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes += found.items()
        if tag not in ("input", "meta", "link", "img", "br"):
            self._open.append((tag, found.get("id", "")))
        if self._is_in("records"):
            if tag == "tr":
                self.rows.append([])
            elif tag == "td":
                self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._is_in("records") and self._is_tag("td"):
            self.rows[-1][-1] += data
        if self._open and self._open[-1][1]:
            self.said[self._open[-1][1]] = self.said.get(self._open[-1][1], "") + data

    def _is_in(self, name: str) -> bool:
        return any(found == name for _, found in self._open)

    def _is_tag(self, tag: str) -> bool:
        return any(found == tag for found, _ in self._open)


def shown(address: str, directory: pathlib.Path, **fields: object) -> tuple[str, Page]:
    """The page after it has read these records: as HTML, and taken apart."""
    text = drawn(f"{address}#{urlencode(fields)}", directory)
    assert 'data-read="yes"' in text
    return text, Page(text)


def test_what_records_contain_is_text(address: str, tmp_path: pathlib.Path) -> None:
    text, found = shown(address, tmp_path, records="evil", last=50)
    assert "data-pwned" not in text
    assert found.tags.count("script") == 1 and not {"img", "iframe", "base"} & set(found.tags)
    assert found.tags.count("style") == 1 and found.tags.count("form") == 1 and found.tags.count("link") == 1
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("srcdoc", "formaction")]
    rows = [row for row in found.rows if row]
    assert len(rows) == len(PAYLOADS) + 1
    assert [row[4] for row in rows[:1]] == ["ff 3c 73 63 72 69 70 74 3ehex"] and rows[0][3] == "null"
    for row, payload in zip(rows[1:], reversed(PAYLOADS), strict=True):
        expected = payload.replace("\u2028", "\\u2028").replace("\ufeff", "\\ufeff")
        if payload.startswith("{"):
            assert json.loads(row[3]) == json.loads(row[4]) == json.loads(payload)
        else:
            assert row[3] == row[4] == expected and row[5].startswith(expected)


def test_the_policy_stops_what_would_slip_through(tmp_path: pathlib.Path) -> None:
    html = page(60_000, Role.READ)
    broken = html.replace("<main>", "<main>" + "".join(PAYLOADS[:4])).replace("<h1>", f'<h1 onclick="{RUNS}">')
    routes = {
        "/": Route(lambda visit: Content("text/html; charset=utf-8", broken.encode(), policy=page_policy(html)), None)
    }
    site = Site(routes, Access({Role.VIEW: Token("x" * 16, is_ours=True)}))
    with listening(HostPort("127.0.0.1", 0), site) as port:
        text = drawn(f"http://127.0.0.1:{port}/", tmp_path)
    assert RUNS in text and "data-pwned" not in text
    assert 'data-role="read"' in text and "A token" not in text, "the page's own script runs"


def test_an_address_selects_records(address: str, tmp_path: pathlib.Path) -> None:
    _, found = shown(address, tmp_path, records="orders", partitions="0,2", offset="1:3", limit=2)
    assert [row[1:3] for row in found.rows if row] == [["0", "1"], ["2", "1"]]
    assert found.said["records-state"] == "2 records. There are more."
    _, found = shown(address, tmp_path, records="orders", grep="ORDER [78]", ignore_case=1, grep_in="value")
    assert sorted(row[4] for row in found.rows if row) == ["order 7", "order 8"]
    assert re.match(r"Searched 10 records of 3 partitions \(.*\): 2 found\.$", found.said["records-state"])


def test_long_values_and_strange_times(address: str, tmp_path: pathlib.Path) -> None:
    _, found = shown(address, tmp_path, records="orders", last=1)
    (row,) = [row for row in found.rows if row]
    assert row[0] == str(1 << 60) and row[2].endswith("whole")
    assert row[4] == "x" * 16_384 + "the beginning of 19.5 KiB"


def test_errors_are_one_line(address: str, tmp_path: pathlib.Path) -> None:
    text, found = shown(address, tmp_path, records="<img src=x>", last=1)
    assert found.said["records-state"] == "Invalid topics: [<img src=x>]" and "img" not in found.tags
    _, found = shown(address, tmp_path, records="orders", grep="(")
    assert found.said["records-state"].startswith("Invalid regular expression: missing )")
    assert "records-notes" not in found.said and [row for row in found.rows if row] == [["No record."]]


def test_without_the_role_there_are_no_records(bootstrap: str, tmp_path: pathlib.Path) -> None:
    words = ("--bootstrap-server", bootstrap, "--web", "0")
    with start_kt(tmp_path, "monitor", *words, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        text = drawn(process.stderr.readline().decode().split()[-1] + "#records=orders&last=1", tmp_path)
        process.send_signal(signal.SIGINT)
    assert re.search(r'<section id="records-section"[^>]* hidden', text) and "data-read" not in text


# -- the look --


def with_records(records: list[dict[str, Any]], then: str = "", whole: dict[str, Any] | None = None) -> str:
    """The page of a monitor, told once what it asks for; when it is drawn, the script `then` runs."""
    reply = {
        "notes": ["a note " * 20], "search": None, "is_full": True, "is_complete": False, "not_decoded": 1,
        "stopped": "Stopped after 10 s",
    }  # fmt: skip
    texts = [json.dumps(json.dumps({**reply, "records": found})) for found in (records, [whole])]
    view, said, as_whole = (
        text.replace("<", "\\u003c") for text in (json.dumps(page_data(board_of(ill_view()))), *texts)
    )
    stub = (
        f"let view = {view}; const said = {said}, whole = {as_whole};"
        "window.asked = []; window.fetch = async (url) => { if (url.startsWith('messages')) window.asked.push(url);"
        "return {ok: true, status: 200, json: async () => view, "
        "text: async () => url.includes('whole=1') ? whole : said,"
        "headers: new Headers({'Content-Type': 'application/json'})}; };"
        "location.hash = '#records=orders&last=5';"
        f"document.addEventListener('DOMContentLoaded', () => {{ {then} }});"
    )
    return page(3_600_000, Role.READ).replace("<body", f"<script>{stub}</script><body", 1)


def a_record(number: int) -> dict[str, Any]:
    long = {
        "form": "json",
        "text": "{\n" + '  "name": "value",\n' * 40 + "}",
        "bytes": 90_000,
        "cut": True,
        "schema": 7,
    }
    raw = {"form": "hex", "text": "ff 00 " * 300, "bytes": 600, "not_decoded": "the registry has no schema 2 " * 5}
    name = {"form": "text", "text": "a-header-with-a-name-that-is-long" * 3, "bytes": 99}
    return {
        "partition": 0, "offset": number, "timestamp": 1_700_000_000_000, "timestamp_type": "CreateTime", "key": raw,
        "value": long, "headers": [[name, None], [name, raw]], "header_count": 5,
    }  # fmt: skip


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_records_can_be_read_on_a_narrow_screen(tmp_path: pathlib.Path, is_dark: bool) -> None:
    width, overflow, contrast, nameless, rows = ask(
        with_records([a_record(1), a_record(2)]),
        "[innerWidth, document.documentElement.scrollWidth - document.documentElement.clientWidth,"
        f"{CONTRAST}, [...document.querySelectorAll('button, input, select')].filter(e => !(e.textContent.trim() ||"
        "e.getAttribute('aria-label') || (e.labels && e.labels.length))).length,"
        "[...document.querySelectorAll('#records tbody tr')].map(e => e.getBoundingClientRect().right <= innerWidth)]",
        tmp_path,
        is_dark=is_dark,
        width=400,
    )
    assert (width, overflow, nameless, rows) == (400, 0, 0, [True, True])
    assert contrast == [], "WCAG AA: 4.5 to 1"


def test_tables_are_sorted_by_their_headers(tmp_path: pathlib.Path) -> None:
    offsets = "[...document.querySelectorAll('#records tbody tr')].map(e => parseInt(e.cells[2].textContent))"
    click = "document.querySelectorAll('#records th button')[2].click()"
    first, down, sort, up, again, topics = ask(
        with_records([a_record(number) for number in (2, 10, 1)]),
        f"[{offsets}, ({click}, {offsets}), document.querySelectorAll('#records th')[2].getAttribute('aria-sort'),"
        f"({click}, {offsets}), ({click}, {offsets}), (document.querySelector('#brokers th button').click(),"
        "[...document.querySelectorAll('#brokers tbody tr')].map(e => e.cells[0].textContent))]",
        tmp_path,
    )
    assert (first, down, sort, up, again) == ([2, 10, 1], [10, 2, 1], "descending", [1, 2, 10], [2, 10, 1])
    assert topics == ["3", "2", "1"]


def test_a_cut_record_is_shown_as_a_whole(tmp_path: pathlib.Path) -> None:
    whole = {**a_record(1 << 60), "value": {"form": "text", "text": "all of it", "bytes": 9}}
    records = [a_record(2), a_record(1 << 60)]
    asked, values, buttons = ask(
        with_records(records, "document.querySelectorAll('.whole')[1].click()", whole),
        "[asked, [...document.querySelectorAll('#records tbody tr')].map(e => e.cells[4].textContent.slice(0, 10)),"
        "document.querySelectorAll('.whole').length]",
        tmp_path,
    )
    assert asked[1] == f"messages.json?topic=orders&partitions=0&offset={1 << 60}%3A{(1 << 60) + 1}&whole=1"
    assert (values, buttons) == (['{\n  "name"', "all of it"], 1)


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, "last=5&limit=50&seconds=10"),
        ({"range": "all"}, "offset=start&limit=50&seconds=10"),
        ({"range": "since", "place": "-1h", "partitions": "0,2"}, "partitions=0%2C2&since=-1h&limit=50&seconds=10"),
        ({"place": "", "key": " a&b"}, "last=10000&limit=50&seconds=10&key=+a%26b"),
        ({"range": "all", "grep": "a+"}, "limit=50&seconds=10&grep=a%2B"),
    ],
)
def test_the_form_asks_for_records(tmp_path: pathlib.Path, fields: dict[str, str], asked: str) -> None:
    script = "".join(
        f"document.getElementById('r-{name}').value = {json.dumps(value)};" for name, value in fields.items()
    )
    found, hash_part = ask(
        with_records([], script + "document.getElementById('r-read').click();"), "[asked[1], location.hash]", tmp_path
    )
    assert found == f"messages.json?topic=orders&{asked}"
    assert hash_part == f"#records=orders&{asked}"


def test_an_expression_needs_a_place(tmp_path: pathlib.Path) -> None:
    boxes = "for (const box of document.querySelectorAll('fieldset input')) box.checked = false;"
    script = boxes + "document.getElementById('r-grep').value = 'a'; document.getElementById('r-read').click();"
    asked, said = ask(
        with_records([], script), "[asked.length, document.getElementById('records-state').textContent]", tmp_path
    )
    assert (asked, said) == (1, "Choose where the expression is searched: keys, values or headers.")


def test_the_offered_topics_are_made_again_only_for_other_topics(tmp_path: pathlib.Path) -> None:
    """With 10,000 topics they take longer than a click may."""
    names = "[...document.getElementById('r-topics').options].map((option) => option.value)"
    before, is_same, after = ask(
        with_records([]),
        "(async () => { const wait = () => new Promise((done) => setTimeout(done, 50)); await wait();"
        "const refresh = async () => { for (const press of [1, 2]) document.getElementById('pause').click();"
        "await wait(); };"
        f"const before = {names}, option = document.getElementById('r-topics').options[0];"
        "view = JSON.parse(JSON.stringify(view)); await refresh();"
        "const isSame = document.getElementById('r-topics').options[0] === option;"
        "view = JSON.parse(JSON.stringify(view)); view.topics.push({...view.topics[0], topic: 'a-new-one'});"
        f"await refresh(); return [before, isSame, {names}]; }})()",
        tmp_path,
    )
    assert (is_same, after) == (True, sorted([*before, "a-new-one"]))
