"""`kt monitor --web` of a large cluster: 10,000 partitions, 1,000 groups with ten partitions each.

Three steps: refreshes of a monitor of the embedded broker, while a tenth of the partitions gets records; the memory of
a whole hour, from views made here with a clock that is moved; and what a click or a key stroke in the page takes until
it is drawn, in Chromium.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import measure, peers
from benchmarks.groups import Client
from kafkatools import Producer
from kafkatools.core.protocol.api_versions import ApiKey

TOPICS, PARTITIONS, GROUPS = 1000, 10, 1000
SNAPSHOTS = 30
REFRESH_S, MEMORY_MIB, INTERACTION_MS = 1.5, 150, 100
_HOUR_MS, _STEP_MS = 3_600_000, 5_000
_TESTS = pathlib.Path(__file__).parents[1] / "tests"


def main() -> None:
    """Prints seconds, MiB and milliseconds."""
    with peers.scratch() as directory:
        with peers.embedded_broker(directory) as bootstrap:
            _fill(bootstrap)
            with _writing(bootstrap):
                page = _refreshes(bootstrap, directory)
        _hour()
        _interactions(page, directory)


def _fill(bootstrap: str) -> None:
    """Make the topics in a few requests, and commit an offset of each group in each partition of one topic."""
    code = (
        "import sys, kafkatools\n"
        "with kafkatools.Admin(bootstrap_servers=sys.argv[1], request_timeout_ms=120_000) as admin:\n"
        f"    for start in range(0, {TOPICS}, 50):\n"
        f"        names = [f'topic-{{i:04}}' for i in range(start, start + 50)]\n"
        f"        admin.create_topics([kafkatools.NewTopic(name, {PARTITIONS}, 1) for name in names])\n"
    )
    subprocess.run([peers.PYTHON, "-c", code, bootstrap], check=True)
    offsets = [
        {"partition_index": index, "committed_offset": 0, "committed_leader_epoch": 0, "committed_metadata": ""}
        for index in range(PARTITIONS)
    ]
    with Client(bootstrap) as client:
        for number in range(GROUPS):
            group = {"group_id": f"group-{number:04}", "generation_id_or_member_epoch": -1, "member_id": ""}
            topic = {"name": f"topic-{number % TOPICS:04}", "partitions": offsets}
            client.call(ApiKey.OFFSET_COMMIT, 9, {**group, "topics": [topic]})


@contextmanager
def _writing(bootstrap: str) -> Iterator[None]:
    """Send a record to a tenth of the partitions every two seconds."""
    is_done = threading.Event()

    def write() -> None:
        with Producer(bootstrap_servers=bootstrap) as producer:
            turn = 0
            while not is_done.wait(2):
                for number in range(turn % 10, TOPICS, 10):
                    for partition in range(PARTITIONS):
                        producer.send(f"topic-{number:04}", b"x" * 100, partition=partition)
                turn += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def _refreshes(bootstrap: str, directory: pathlib.Path) -> dict[str, object]:
    """Report the times of refreshes and the peak memory of the monitor; returns the page's data."""
    command = [*peers.KT, "monitor", "--bootstrap-server", bootstrap, "--web", "0", "--interval", "2"]
    with (
        (directory / "lines").open("wb") as lines,
        subprocess.Popen(command, stdout=lines, stderr=subprocess.PIPE, text=True) as monitor,
    ):
        assert monitor.stderr is not None
        root, _, token = monitor.stderr.readline().split()[1].partition("?token=")
        request = urllib.request.Request(f"{root}view.json", headers={"Authorization": f"Bearer {token}"})
        took_ms: dict[int, int] = {}
        answered_s = []
        while len(took_ms) < SNAPSHOTS:
            time.sleep(0.5)
            started = time.monotonic()
            with urllib.request.urlopen(request) as answer:
                body = answer.read()
            answered_s.append(time.monotonic() - started)
            view = json.loads(body)
            took_ms[view["time"]] = view["took_ms"]
        peak_mib = _peak_mib(monitor.pid)
        monitor.terminate()
    seconds = [took / 1000 for took in took_ms.values()]
    totals = view["totals"]
    assert totals["partitions"] >= TOPICS * PARTITIONS and totals["groups"] == GROUPS, totals
    measure.report(
        f"monitor of {TOPICS * PARTITIONS} partitions and {GROUPS} groups: refresh",
        seconds=round(statistics.median(seconds), 3),
        slowest_s=max(seconds),
        first_s=seconds[0],
        limit_s=REFRESH_S,
        reached=max(seconds) <= REFRESH_S,
        view_json_slowest_s=round(max(answered_s), 3),
        view_json_kib=len(body) >> 10,
        peak_mib=peak_mib,
    )
    return dict(view)


def _peak_mib(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM"))


# -- an hour --


def _hour() -> None:
    """Report the peak memory of a process that has the board of a whole hour."""
    done = subprocess.run(
        [peers.PYTHON, "-m", "benchmarks.monitor_page", "hour"], capture_output=True, text=True, check=True
    )
    figures = json.loads(done.stdout)
    name = f"monitor of {TOPICS * PARTITIONS} partitions and {GROUPS} groups: memory after an hour"
    measure.report(name, **figures, limit_mib=MEMORY_MIB, reached=figures["peak_mib"] <= MEMORY_MIB)


def _fill_board() -> None:
    """Publish the views of an hour in which every partition changes in every snapshot."""
    import os

    import kafkatools.commands.monitor.watch
    from kafkatools.output import json_line
    from kafkatools.tools.monitor.board import Board
    from kafkatools.tools.monitor.changes import with_rates
    from kafkatools.tools.monitor.end_history import EndHistory
    from kafkatools.tools.monitor.page_data import history_data, page_data
    from kafkatools.tools.monitor.view import (
        BrokerView,
        ClusterView,
        GroupPartition,
        GroupView,
        PartitionView,
        TopicView,
    )

    assert kafkatools.commands.monitor.watch, "all that the command loads"
    board, ends = Board(), EndHistory()
    brokers = tuple(BrokerView(id, f"broker-{id}", 9092, None, False, True, ()) for id in range(3))
    before: ClusterView | None = None
    slowest_s = 0.0
    for at_ms in range(0, _HOUR_MS + 1, _STEP_MS):
        topics, groups, offsets = [], [], {}
        for number in range(TOPICS):
            name = f"topic-{number:04}"
            parts = tuple(
                PartitionView(name, n, n % 3, 5, (0, 1, 2), (0, 1, 2), (), (), (), (), 1, at_ms + number, at_ms * 10)
                for n in range(PARTITIONS)
            )
            topics.append(TopicView(name, name, False, parts))
            offsets.update({(name, n): at_ms + number for n in range(PARTITIONS)})
        for number in range(GROUPS):
            name = f"topic-{number % TOPICS:04}"
            commits = tuple(GroupPartition(name, n, at_ms, number, 5000) for n in range(PARTITIONS))
            groups.append(GroupView(f"group-{number:04}", "Classic", "Stable", number % 3, 1, commits))
        view = ClusterView(at_ms, at_ms, 1, "c", 0, brokers, tuple(topics), None, tuple(groups), ())
        started = time.monotonic()
        ends.add(offsets, at_ms)
        view = with_rates(before, view) if before is not None else view
        board.publish(view)
        slowest_s = max(slowest_s, time.monotonic() - started)
        before = view
    body = json_line(page_data(board))
    history = json_line(history_data(board, "topic", "topic-0000"))
    figures = {"peak_mib": _peak_mib(os.getpid()), "slowest_publication_s": round(slowest_s, 3)}
    print(json.dumps({**figures, "view_json_kib": len(body) >> 10, "history_json_kib": len(history) >> 10}))


# -- the page --

_MEASURE = """(() => {
  const byId = (id) => document.getElementById(id), taken = {};
  const time = (name, act) => {
    const started = performance.now();
    act();
    document.body.offsetHeight;
    (taken[name] = taken[name] || []).push(performance.now() - started);
  };
  const type = (id, text) => { byId('find-' + id).value = text;
    byId('find-' + id).dispatchEvent(new Event('input', {bubbles: true})); };
  for (let round = 0; round < 7; round += 1) {
    for (const id of ['topics', 'groups']) {
      for (const {dataset} of [...document.querySelectorAll('#' + id + ' th button')])
        time('sort', () => document.querySelector('#' + id + ' [data-column=' + dataset.column + ']').click());
      for (const text of ['0', '01', '012', '', 'nothing', 'healthy 9', ''])
        time('search', () => type(id, text));
      time('turn', () => document.querySelector('[data-turn=' + id + '][data-by="1"]').click());
    }
    time('redraw', () => window.dispatchEvent(new Event('hashchange')));
  }
  return taken;
})()"""


def _interactions(view: dict[str, object], directory: pathlib.Path) -> None:
    """Report what clicks and key strokes take in the page of this view, and of one with 10,000 topics."""
    topics = view["topics"]
    assert isinstance(topics, list)
    many = [{**topics[n % len(topics)], "topic": f"topic-{n:05}"} for n in range(10_000)]
    for name, data in ((f"{TOPICS} topics", view), ("10000 topics", {**view, "topics": many})):
        taken = _browse(data, directory)
        slow = {what: round(statistics.quantiles(times, n=20)[-1], 1) for what, times in taken.items()}
        medians = {f"{what}_median": round(statistics.median(times), 1) for what, times in taken.items()}
        measure.report(
            f"page of kt monitor, {name} and {GROUPS} groups: ms of an interaction, 95 of 100 are faster",
            **slow,
            **medians,
            slowest=round(max(map(max, taken.values())), 1),
            limit_ms=INTERACTION_MS,
            reached=max(slow.values()) <= INTERACTION_MS,
        )


def _browse(data: dict[str, object], directory: pathlib.Path) -> dict[str, list[float]]:
    sys.path.insert(0, str(_TESTS))
    from support.browser import ask

    from kafkatools.commands.monitor.access import Role
    from kafkatools.commands.monitor.server import page

    text = json.dumps(data).replace("<", "\\u003c")
    stub = f"window.fetch = async (url) => ({{status: 200, json: async () => url === 'view.json' ? {text} : {{}}}});"
    html = page(3_600_000, Role.READ).replace("<body", f"<script>{stub}</script><body", 1)
    found: dict[str, list[float]] = ask(html, _MEASURE, directory, has_real_time=True)
    return found


if __name__ == "__main__":
    _fill_board() if sys.argv[1:] == ["hour"] else main()
