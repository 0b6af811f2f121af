"""The page of a profile: its numbers, and what a real browser makes of it."""

from __future__ import annotations

import pathlib
import re
from dataclasses import replace

import pytest
from support.browser import ask

from kafkatools.pipeline.charts import figures
from kafkatools.pipeline.charts.page import profile_page
from kafkatools.pipeline.charts.profile_data import (
    CodecFigures,
    GroupLag,
    KeyFigures,
    KeySkew,
    PartitionFigures,
    Profile,
    RatePoint,
    SizeBucket,
)

HOUR_MS = 3_600_000
START_MS = 1_795_230_000_000
NASTY = "<b>&\"'\u202e\x07</b><script>document.title='owned'</script>"
PROFILE = Profile(
    source=f"log:/data/{NASTY}",
    made_ms=START_MS,
    partitions=[
        PartitionFigures("orders", 0, 1000, 40, 400_000, 0, 999, START_MS, START_MS + HOUR_MS, 10, 5000),
        PartitionFigures("orders", 1, 500, 20, 100_000, 0, 499, START_MS, START_MS + 2 * HOUR_MS),
        PartitionFigures("a-topic-with-a-name-that-is-much-too-long-for-any-chart", 12, 1, 1, 90, 7, 7),
    ],
    rate_width_ms=60_000,
    rates=[RatePoint(START_MS, 600, 60_000), RatePoint(START_MS + 2 * 60_000, 300, 30_000)],
    keys=KeySkew(
        [KeyFigures(NASTY.encode(), 800, 9000), KeyFigures(None, 200, 10), KeyFigures(b"\xff\x00", 100, 5)],
        37, 1501, 200, 0.8125, 2, 90,
    ),
    codecs=[CodecFigures("lz4", 41, 1001, 400_090), CodecFigures("none", 20, 500, 100_000)],
    batch_sizes=[SizeBucket(1 << n, 2 << n, n) for n in range(6, 24)],
    batch_counts=[SizeBucket(1 << n, 2 << n, 3 * n) for n in range(12)],
    lags=[GroupLag("billing", "orders", 0, 120), GroupLag("billing", "orders", 1, None)],
    damages=3,
)  # fmt: skip

LOOK = """({
  title: document.title,
  fetched: performance.getEntriesByType('resource').length,
  sideways: document.documentElement.scrollWidth - window.innerWidth,
  background: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.querySelector('#sizes svg text')).fill,
  sections: [...document.querySelectorAll('section')].map(each => each.id),
  bars: [...document.querySelectorAll('#sizes .mark')].map(each => each.getBoundingClientRect().width),
  steps: [...document.querySelectorAll('#batches svg')][0].querySelectorAll('.mark').length,
  heights: [...[...document.querySelectorAll('#batches svg')][0].querySelectorAll('.mark')]
    .map(each => each.getBoundingClientRect().height),
  outside: [...document.querySelectorAll('svg')].flatMap(svg => [...svg.querySelectorAll('text, .mark, .line')]
    .filter(each => { const a = each.getBoundingClientRect(), b = svg.getBoundingClientRect();
      return a.left < b.left - 1 || a.right > b.right + 1 || a.bottom > b.bottom + 1; })
    .map(each => each.textContent)),
  cells: [...document.querySelectorAll('#keys tbody tr')].map(row => [...row.cells].map(cell => cell.textContent)),
})"""


@pytest.mark.slow
def test_a_browser_draws_it_without_network_or_script(tmp_path: pathlib.Path) -> None:
    page = profile_page(PROFILE)
    assert "<script" not in page and "http" not in page and "url(" not in page
    seen = ask(page, LOOK, tmp_path)
    assert seen["title"].startswith("log:/data/<b>") and seen["fetched"] == 0 and seen["sideways"] <= 0
    assert seen["sections"] == ["sizes", "rates", "keys", "lags", "codecs", "batches", "disorder"]
    assert seen["background"] == "rgb(249, 249, 247)" and seen["ink"] == "rgb(22, 22, 15)"
    largest, second, smallest = seen["bars"]
    assert second / largest == pytest.approx(100_000 / 400_000, abs=0.01) and 0 < smallest < 3
    assert [round(each / max(seen["heights"]) * 23) for each in seen["heights"]] == list(range(6, 24))
    assert seen["outside"] == []
    assert [row[1] for row in seen["cells"]] == ["800", "200", "100"]
    assert [row[0] for row in seen["cells"]][1:] == ["(no key)", "0xff00"]


@pytest.mark.slow
def test_dark_and_narrow(tmp_path: pathlib.Path) -> None:
    seen = ask(profile_page(PROFILE), LOOK, tmp_path, is_dark=True, width=420)
    assert seen["background"] == "rgb(18, 18, 17)" and seen["ink"] == "rgb(243, 242, 236)"
    assert seen["sideways"] <= 0 and seen["outside"] == []


def test_numbers_are_tables_too() -> None:
    page = profile_page(PROFILE)
    rows = re.findall(r"<tr>(.*?)</tr>", page.partition('id="rates"')[2].partition("</section>")[0])
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t", row) for row in rows]
    assert cells[1:] == [["2026-11-21 03:00:00", "600", "60\u202f000"], ["2026-11-21 03:02:00", "300", "30\u202f000"]]
    assert "Records per second" in page
    slow = replace(PROFILE, rates=[RatePoint(START_MS, 3, 90)], rate_width_ms=HOUR_MS)
    assert "Records per hour" in profile_page(slow) and "Records per second" not in profile_page(slow)
    assert "3 damaged ranges" in page and "25.0 %" in page
    assert "5 s late" in page


def test_what_is_not_known_is_left_out() -> None:
    empty = profile_page(Profile("topic:none", START_MS, []))
    assert "There are no records." in empty
    little = profile_page(replace(PROFILE, lags=None, keys=None, rates=(), damages=0, codecs=(), batch_sizes=()))
    assert re.findall(r'<section id="(\w+)"', little) == ["sizes", "disorder"]


def test_numbers_in_words() -> None:
    assert [figures.count(n) for n in (0, 950, 12_345, 4_100_000, 1.5)] == ["0", "950", "12.3k", "4.1M", "1.5"]
    assert [figures.size(n) for n in (812, 1536, 3 << 30)] == ["812 B", "1.5 KiB", "3 GiB"]
    assert [figures.span(n) for n in (12, 90_000, 26 * HOUR_MS)] == ["12 ms", "1.5 min", "1.1 d"]
    assert figures.moment(1 << 62) == str(1 << 62)
    assert figures.nice_ticks(97) == [0, 50, 100] and figures.nice_ticks(0.3)[-1] >= 0.3
    assert figures.nice_ticks(5000, is_binary=True) == [0, 2048, 4096, 6144]
