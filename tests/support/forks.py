"""`pytest --forks N`: collect the tests once, then run them in N copies of this process.

Each worker of pytest-xdist imports and collects all tests itself, and passes three reports of each test through a
protocol of its own. Copies share what was imported, and send one report of a test that passed.

Each copy has a share of the tests, those that take long first, and one without tests takes the later half of the
largest share. Tests of a file with a fixture for all of them form a bundle, which one copy runs: each copy would make
the fixture anew. With --groups each group of tests (`xdist_group`) is a bundle, and a copy that has ended one takes the
first that no copy has begun. The shares lie in memory that all copies have in common, under a lock that ends with its
process. A copy that dies fails the test that it ran, and another copy takes over its share.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import gc
import mmap
import os
import pickle
import selectors
import struct
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain
from types import SimpleNamespace
from typing import Any, Literal, NoReturn

import pytest

NOTHING = -1
SIZE = struct.Struct(">I")
MUTED = ("terminalreporter", "lfplugin", "nfplugin", "stepwiseplugin")
"""Plugins of pytest that print or write what the first process knows better."""
GroupOf = Callable[[pytest.Item], str | None]
LONG = ("slow", "processes", "real_kafka")
"""The marks of tests that take long."""


def bundles_of(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """The tests in bundles: those of a file that use a fixture of a class or module, and each other test alone."""
    bundles: dict[object, list[pytest.Item]] = {}
    for item in items:
        bundles.setdefault(item.path if has_shared_fixture(item) else item, []).append(item)
    return list(bundles.values())


def has_shared_fixture(item: pytest.Item) -> bool:
    """Whether the test uses a fixture that its file, package or class has for several tests."""
    info = getattr(item, "_fixtureinfo", None)
    definitions = () if info is None else info.name2fixturedefs.values()
    return any(found[-1].scope in ("class", "module", "package") for found in definitions)


def groups_of(items: Sequence[pytest.Item], group_of: GroupOf) -> list[list[pytest.Item]]:
    """The tests in bundles: those of a group, in the order in which the groups begin."""
    bundles: dict[str | None, list[pytest.Item]] = {}
    for item in items:
        bundles.setdefault(group_of(item), []).append(item)
    return list(bundles.values())


def deal(items: Sequence[pytest.Item], workers: int, first: Sequence[str]) -> list[list[list[pytest.Item]]]:
    """The bundles of each worker.

    Bundles with long tests come first: those of the files named in `first`, then those with the most long tests, each
    for the worker with the fewest long tests so far. The other bundles fill the shares of the workers up to equal size,
    in the order of the tests.
    """
    weights = [
        (sum(any(map(item.get_closest_marker, LONG)) for item in bundle), bundle) for bundle in bundles_of(items)
    ]
    long = [(weight, bundle) for weight, bundle in weights if weight]
    long.sort(key=lambda pair: (_rank(pair[1], first), -pair[0]))
    dealt: list[list[list[pytest.Item]]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for weight, bundle in long:
        least = loads.index(min(loads))
        loads[least] += weight
        dealt[least].append(bundle)
    others = iter([bundle for weight, bundle in weights if not weight])
    share = -(-len(items) // workers)
    for own in dealt:
        size = sum(map(len, own))
        while size < share and (bundle := next(others, None)) is not None:
            own.append(bundle)
            size += len(bundle)
    return dealt


def in_turn(dealt: Sequence[Sequence[Sequence[pytest.Item]]]) -> list[pytest.Item]:
    """The tests of all workers, one worker after the other."""
    return [item for own in dealt for bundle in own for item in bundle]


def _rank(bundle: Sequence[pytest.Item], first: Sequence[str]) -> int:
    name = bundle[0].path.name
    return first.index(name) if name in first else len(first)


class Shares:
    """The tests that each copy has yet to begin, and the test that it runs."""

    def __init__(self, shares: Sequence[Sequence[int]]) -> None:
        """`shares` has the sizes of each copy's bundles, in the order of the tests."""
        workers = len(shares)
        self._lock = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._starts = list(accumulate(chain.from_iterable(shares), initial=0))
        memory = memoryview(mmap.mmap(-1, 8 * (4 * workers + 1))).cast("q")
        columns = (memory[at * workers : (at + 1) * workers] for at in range(4))
        self._begin, self._end, self._running, self._following = columns
        self._cleared = memory[-1:]
        ends = list(accumulate(map(sum, shares), initial=0))
        for worker in range(workers):
            self._begin[worker], self._end[worker] = ends[worker], ends[worker + 1]
            self.note_running(worker, NOTHING, NOTHING)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def take(self, worker: int) -> int:
        """The next test of this worker; NOTHING when no worker has one left."""
        with self._locked():
            if self._begin[worker] == self._end[worker]:
                self._refill(worker)
            if self._begin[worker] == self._end[worker]:
                return NOTHING
            self._begin[worker] += 1
            return self._begin[worker] - 1

    def take_following(self, worker: int) -> int:
        """The test after the one just taken, which says what fixtures stay; NOTHING when no worker has one left."""
        return self.take(worker)

    def _refill(self, worker: int) -> None:
        """Take the later half of the largest share of bundles that have not begun, if there is one."""
        richest = max(range(len(self._begin)), key=lambda other: self._end[other] - self._untouched(other))
        untouched, end = self._untouched(richest), self._end[richest]
        if untouched < end:
            half = bisect.bisect_right(self._starts, (untouched + end) // 2) - 1
            middle = max(untouched, self._starts[half])
            self._begin[worker], self._end[worker], self._end[richest] = middle, end, middle

    def _untouched(self, worker: int) -> int:
        """The first test of this worker's first bundle that has not begun; at least its end without one."""
        return self._starts[bisect.bisect_left(self._starts, self._begin[worker])]

    def note_running(self, worker: int, test: int, following: int) -> None:
        """The worker runs a test, and has taken the following one."""
        self._running[worker], self._following[worker] = test, following

    def running(self, worker: int) -> int:
        """The test that the worker runs."""
        return self._running[worker]

    def give_back(self, worker: int) -> None:
        """The worker that ran this test is dead: the following one has yet to begin."""
        with self._locked():
            if self._following[worker] != NOTHING:
                self._begin[worker] = self._following[worker]
        self.note_running(worker, NOTHING, NOTHING)

    def clear(self) -> None:
        """Leave no test to begin."""
        with self._locked():
            self._begin[:] = self._end
            self._cleared[0] = 1

    def is_cleared(self) -> bool:
        """Whether no test may begin, also none that was taken."""
        return bool(self._cleared[0])

    def close(self) -> None:
        """Close the file of the lock."""
        self._lock.close()


class Queue(Shares):
    """Bundles in one order for all copies: each takes the first that has not begun.

    The share behind those of the workers is the queue.
    """

    def __init__(self, bundles: Sequence[int], workers: int) -> None:
        """`bundles` has the size of each, in the order of the tests."""
        super().__init__([*([] for _ in range(workers)), bundles])

    def take_following(self, worker: int) -> int:
        """The next test of the bundle that has begun; NOTHING at its end, since the next bundle may begin elsewhere."""
        return NOTHING if self._begin[worker] == self._end[worker] else self.take(worker)

    def _refill(self, worker: int) -> None:
        following = bisect.bisect_right(self._starts, self._begin[-1])
        if self._begin[-1] < self._end[-1]:
            self._begin[worker], self._end[worker] = self._begin[-1], self._starts[following]
            self._begin[-1] = self._end[worker]


def failure(item: pytest.Item, words: str, when: Literal["call", "teardown"]) -> pytest.TestReport:
    """The report of a test that failed outside of pytest's own protocol."""
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", words, when)


class Copy:
    """What a copy of the process does: it runs tests and writes messages with their size before them."""

    def __init__(self, session: pytest.Session, shares: Shares, worker: int, pipe: int) -> None:
        self._session, self._shares, self._worker, self._pipe = session, shares, worker, pipe
        self._reports: list[pytest.TestReport] = []
        self._last: pytest.Item | None = None
        option = session.config.option
        self._sends_all = option.durations is not None or bool(option.xmlpath) or "P" in option.reportchars

    def run(self, before_exit: Callable[[], None]) -> NoReturn:
        """Run tests until none is left, and end the process."""
        status = 1
        try:
            self._leave_the_first_process()
            try:
                self._run_tests()
            finally:  # also after Ctrl-C or with -x: brokers of fixtures would live on
                self._end_fixtures()
            self._check_garbage()
            before_exit()
            status = 0
        except BaseException:  # noqa: BLE001 - the boundary of the process
            self._send({"error": traceback.format_exc()})
        finally:
            os._exit(status)

    def _leave_the_first_process(self) -> None:
        """Take files of one's own where the first process had one: captured output and temporary directories."""
        config = self._session.config
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        factory = config._tmp_path_factory  # type: ignore[attr-defined]
        own = factory.getbasetemp() / f"fork{self._worker}-{os.getpid()}"
        own.mkdir(mode=0o700)
        factory._basetemp = own
        writer = config.get_terminal_writer()
        for name in MUTED:
            if config.pluginmanager.hasplugin(name):
                config.pluginmanager.unregister(name=name)
        config.pluginmanager.register(SimpleNamespace(_tw=writer), "terminalreporter")  # pytest-timeout writes to it
        config.pluginmanager.register(self)

    def _run_tests(self) -> None:
        items = self._session.items
        test = self._shares.take(self._worker)
        while test != NOTHING and not self._is_over():
            following = self._shares.take_following(self._worker)
            self._shares.note_running(self._worker, test, following)
            # without a next test only fixtures of the session stay
            nextitem: Any = self._session if following == NOTHING else items[following]
            self._last = items[test]
            self._last.config.hook.pytest_runtest_protocol(item=self._last, nextitem=nextitem)
            self._send_reports(following)
            test = self._shares.take(self._worker) if following == NOTHING else following

    def _is_over(self) -> bool:
        return bool(self._session.shouldfail or self._session.shouldstop) or self._shares.is_cleared()

    def _end_fixtures(self) -> None:
        """End the fixtures of the session; a failure is one of the last test, as it is without copies."""
        try:
            self._session._setupstate.teardown_exact(None)
        except Exception:  # noqa: BLE001 - whatever a fixture raises
            if self._last is None:
                raise
            self._reports = [failure(self._last, traceback.format_exc(), "teardown")]
            self._send_reports(NOTHING)

    def _check_garbage(self) -> None:
        """Fail for what only the last garbage collection finds, such as files that were never closed."""
        found: list[str] = []
        sys.unraisablehook = lambda unraisable: found.append(f"{unraisable.exc_value!r} in {unraisable.object!r}")
        gc.collect()
        if found:
            raise RuntimeError("\n".join(found))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def _send_reports(self, following: int) -> None:
        """Send the reports of a test; of one that passed, only that it did."""
        config = self._session.config
        reports = self._reports
        if not self._sends_all and all(report.passed for report in reports):
            reports = [report for report in reports if report.when == "call"]
        for report in reports:
            self._send(config.hook.pytest_report_to_serializable(config=config, report=report))
        self._reports.clear()
        self._shares.note_running(self._worker, NOTHING, following)

    def _send(self, message: Any) -> None:
        body = pickle.dumps(message)
        data = SIZE.pack(len(body)) + body
        while data:
            data = data[os.write(self._pipe, data) :]


class Forks:
    """The plugin of the first process: starts the copies, and passes their reports on as if it had run the tests."""

    def __init__(
        self,
        config: pytest.Config,
        workers: int,
        before_exit: Callable[[], None],
        first: Sequence[str] = (),
        group_of: GroupOf | None = None,
    ) -> None:
        """`first`: the names of files whose tests begin first, since they take longest. With `group_of`, which names
        the group of a test, the tests are in order already."""
        self._config, self._workers, self._before_exit, self._first = config, workers, before_exit, first
        self._group_of = group_of
        self._selector = selectors.DefaultSelector()
        self._pids: dict[int, int] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly or session.config.option.usepdb:
            return None
        shares = self._shares_of(session)
        try:
            for worker in range(min(self._workers, len(session.items))):
                self._start(session, shares, worker)
            while self._pids:
                for key, _ in self._selector.select():
                    self._receive(session, shares, key)
                if session.shouldfail or session.shouldstop:
                    shares.clear()
        finally:
            shares.clear()
            self._wait_for_copies()
            self._selector.close()
            shares.close()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _shares_of(self, session: pytest.Session) -> Shares:
        """The shares of the copies; puts the tests in their order."""
        if self._group_of is not None:
            groups = groups_of(session.items, self._group_of)
            session.items[:] = chain.from_iterable(groups)
            return Queue([len(group) for group in groups], self._workers)
        dealt = deal(session.items, self._workers, self._first)
        session.items[:] = in_turn(dealt)
        return Shares([[len(bundle) for bundle in own] for own in dealt])

    def _start(self, session: pytest.Session, shares: Shares, worker: int) -> None:
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads of libraries, which wait for work
            pid = os.fork()
        if pid == 0:
            os.close(reader)
            Copy(session, shares, worker, writer).run(self._before_exit)
        os.close(writer)
        self._pids[worker] = pid
        self._selector.register(reader, selectors.EVENT_READ, (worker, bytearray()))

    def _wait_for_copies(self) -> None:
        """Wait for their ends. What they still send is dropped: one that cannot write would not end."""
        while self._selector.get_map():
            for key, _ in self._selector.select():
                if not os.read(key.fd, 1 << 16):
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
        for pid in self._pids.values():
            os.waitpid(pid, 0)

    def _receive(self, session: pytest.Session, shares: Shares, key: selectors.SelectorKey) -> None:
        worker, buffered = key.data
        part = os.read(key.fd, 1 << 16)
        if not part:
            self._end(session, shares, worker, key.fd)
            return
        buffered += part
        while len(buffered) >= SIZE.size and len(buffered) >= (end := SIZE.size + SIZE.unpack_from(buffered)[0]):
            message = pickle.loads(buffered[SIZE.size : end])
            del buffered[:end]
            self._pass_on(message, worker)

    def _pass_on(self, message: dict[str, Any], worker: int) -> None:
        if "error" in message:
            raise RuntimeError(f"copy {worker} of pytest failed:\n{message['error']}")
        report = self._config.hook.pytest_report_from_serializable(config=self._config, data=message)
        self._config.hook.pytest_runtest_logreport(report=report)

    def _end(self, session: pytest.Session, shares: Shares, worker: int, pipe: int) -> None:
        self._selector.unregister(pipe)
        os.close(pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(self._pids.pop(worker), 0)[1])
        test = shares.running(worker)
        if test == NOTHING and status == 0:
            return
        if test == NOTHING:
            raise RuntimeError(f"copy {worker} of pytest ended with status {status}")
        item = session.items[test]
        words = f"the process of this test ended with status {status}"
        self._config.hook.pytest_runtest_logreport(report=failure(item, words, "call"))
        shares.give_back(worker)
        self._start(session, shares, worker)
