"""docs/pipeline-sql.md: its commands run as they stand there, and its programs on the session of the tests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support import pages
from support.kt import run_kt

PAGE = pages.DOCS / "pipeline-sql.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def desk(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages.Place]:
    place = pages.Place.of(tmp_path_factory.mktemp("page"))
    place.start()
    yield place
    place.stop()


def test_the_page_says_what_happens(
    desk: pages.Place, spark: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = pages.differences(PAGE, lambda command: pages.run_pipeline(desk, command), pages.is_in_order)
    assert not wrong, "\n\n".join(wrong)
    status = run_kt("sandbox", "status", "--json", environ=desk.environ)
    monkeypatch.chdir(desk.directory)
    names: dict[str, Any] = {"spark": spark}
    address = json.loads(status.out)["bootstrap"]
    for program in PROGRAM.findall(PAGE.read_text(encoding="utf-8")):
        exec(program.replace("localhost:9092", address), names)  # noqa: S102 - the page's own
    shown = [re.findall(r"[^|\s]+", line) for line in capsys.readouterr().out.splitlines() if "amount" in line]
    assert sorted(row[:2] for row in shown) == [["0", "ada"], ["1", "bob"], ["2", "ada"]]
    frame = names["sql_cell"]("", "SELECT count(*) AS n FROM orders")
    assert frame["n"].tolist() == [3]
