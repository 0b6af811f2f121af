"""The page of a profile: one HTML file with its drawings, its style and all its numbers in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from kafkatools.core.package_files import package_text
from kafkatools.pipeline.charts import svg
from kafkatools.pipeline.charts.figures import count, exact, moment, share, size, span
from kafkatools.pipeline.charts.profile_data import (
    GroupLag,
    KeySkew,
    PartitionFigures,
    Profile,
    SizeBucket,
)

_SHOWN_BARS = 24
_SHOWN_ROWS = 1000
_UNITS = (("second", 1000), ("minute", 60_000), ("hour", 3_600_000), ("day", 86_400_000))


def profile_page(profile: Profile) -> str:
    body = "\n".join([*_head(profile), *_sections(profile)])
    css = package_text(__name__, "page.css")
    made = f"Made by kt pipeline profile, {moment(profile.made_ms)} UTC. All times are UTC."
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(profile.source)} – Kafka profile</title>\n<style>\n{css}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n<footer>{made}</footer>\n</main>\n</body>\n</html>\n"
    )


def _head(profile: Profile) -> Iterator[str]:
    records = sum(each.records for each in profile.partitions)
    stored = sum(each.size_bytes for each in profile.partitions)
    firsts = [each.first_timestamp for each in profile.partitions if each.first_timestamp is not None]
    lasts = [each.last_timestamp for each in profile.partitions if each.last_timestamp is not None]
    tiles = [
        ("Records", count(records)),
        ("Stored", size(stored)),
        ("Topics", exact(len({each.topic for each in profile.partitions}))),
        ("Partitions", exact(len(profile.partitions))),
        ("Batches", count(sum(each.batches for each in profile.partitions))),
        ("Bytes a record", size(stored / records) if records else "–"),
    ]
    yield f"<h1>{escape(profile.source)}</h1>"
    if firsts:
        yield f"<p>Timestamps from {moment(min(firsts))} to {moment(max(lasts))}, {span(max(lasts) - min(firsts))}.</p>"
    yield '<dl class="tiles">'
    yield from (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)
    yield "</dl>"
    if profile.damages:
        ranges = "damaged range" if profile.damages == 1 else "damaged ranges"
        yield (
            f'<p class="warning">{exact(profile.damages)} {ranges} could not be read, what was there is not counted '
            "here; kt pipeline check names them.</p>"
        )


def _sections(profile: Profile) -> Iterator[str]:
    if not profile.partitions:
        yield "<section><p>There are no records.</p></section>"
        return
    yield _sizes(profile.partitions)
    if profile.rates:
        yield _rates(profile)
    if profile.keys is not None:
        yield _keys(profile.keys)
    if profile.lags is not None:
        yield _lags(profile.lags)
    if profile.codecs:
        yield _codecs(profile)
    if profile.batch_sizes:
        yield _batches(profile)
    yield _disorder(profile.partitions)


def _section(name: str, title: str, about: str, *parts: str) -> str:
    inside = "\n".join(part for part in parts if part)
    return f'<section id="{name}">\n<h2>{escape(title)}</h2>\n<p>{escape(about)}</p>\n{inside}\n</section>'


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1, summary: str = "Numbers") -> str:
    """A table that opens; the first `texts` columns are texts, the others numbers."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = (' class="text"' if number < texts else "" for number in range(len(cells)))
        inside = "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{inside}</tr>"

    lines = [line("td", row) for row in rows[:_SHOWN_ROWS]]
    more = f"<p>and {exact(len(rows) - _SHOWN_ROWS)} more</p>" if len(rows) > _SHOWN_ROWS else ""
    return (
        f'<details><summary>{escape(summary)}</summary><div class="wide"><table><thead>{line("th", headers)}</thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>{more}</details>"
    )


def _first(what: str, number: int) -> str:
    return f" The {_SHOWN_BARS} largest of {exact(number)} {what} are drawn." if number > _SHOWN_BARS else ""


# -- The sections --


def _sizes(partitions: Sequence[PartitionFigures]) -> str:
    ordered = sorted(partitions, key=lambda each: (-each.size_bytes, each.topic, each.partition))
    total = sum(each.size_bytes for each in ordered)
    rows = [
        svg.Bar(
            each.name,
            each.size_bytes,
            size(each.size_bytes),
            f"{each.name}: {size(each.size_bytes)} ({share(each.size_bytes, total)}), {exact(each.records)} records",
        )
        for each in ordered[:_SHOWN_BARS]
    ]
    cells = [
        (
            each.topic, str(each.partition), exact(each.records), exact(each.batches), exact(each.size_bytes),
            share(each.size_bytes, total), exact(each.first_offset), exact(each.last_offset),
            moment(each.first_timestamp), moment(each.last_timestamp),
        )
        for each in ordered
    ]  # fmt: skip
    headers = (
        "Topic", "Partition", "Records", "Batches", "Bytes", "Share", "First offset", "Last offset", "First time",
        "Last time",
    )  # fmt: skip
    about = "What the batches take, compressed as they are." + _first("partitions", len(ordered))
    return _section(
        "sizes", "Size of partitions", about, svg.bars("Bytes of each partition", rows), _table(headers, cells)
    )


def _rates(profile: Profile) -> str:
    width = profile.rate_width_ms
    unit, milliseconds = _unit(max(each.records for each in profile.rates), width)
    units = width / milliseconds
    records = [
        svg.TimePoint(each.start_ms, each.records / units, f"{moment(each.start_ms)}: {exact(each.records)} records")
        for each in profile.rates
    ]
    stored = [
        svg.TimePoint(each.start_ms, each.size_bytes / units, f"{moment(each.start_ms)}: {size(each.size_bytes)}")
        for each in profile.rates
    ]
    cells = [(moment(each.start_ms), exact(each.records), exact(each.size_bytes)) for each in profile.rates]
    about = f"By the newest timestamp of each batch, in spans of {span(width)}. A span without a mark had nothing."
    return _section(
        "rates",
        "Rates over time",
        about,
        f"<h3>Records per {unit}</h3>",
        svg.area(f"Records per {unit}", records, width, count),
        f"<h3>Bytes per {unit}, as stored</h3>",
        svg.area(f"Bytes per {unit}", stored, width, size, is_binary=True),
        _table(("Span from", "Records", "Bytes"), cells),
    )


def _unit(records: int, width_ms: int) -> tuple[str, int]:
    """The shortest unit of time in which the busiest span has a record."""
    return next((unit for unit in _UNITS if records * unit[1] >= width_ms), _UNITS[-1])


def _keys(keys: KeySkew) -> str:
    rows = [
        svg.Bar(
            each.name,
            each.records,
            f"{count(each.records)} · {share(each.records, keys.records)}",
            f"{each.name}: {exact(each.records)} records, {size(each.size_bytes)}",
        )
        for each in keys.top[:_SHOWN_BARS]
    ]
    cells = [
        (each.name, exact(each.records), share(each.records, keys.records), exact(each.size_bytes)) for each in keys.top
    ]
    ratio = f"{keys.p99_records / keys.median_records:.1f}" if keys.median_records else "–"
    about = (
        f"{exact(keys.distinct_keys)} different keys in {exact(keys.records)} records ({exact(keys.without_key)} "
        f"without a key). Gini {keys.gini:.3f} (0: all keys the same, 1: one key has all); the key at the 99th "
        f"percentile has {exact(keys.p99_records)} records, {ratio} times the median."
    )
    chart = svg.bars("Records of the most frequent keys", rows) if rows else ""
    return _section("keys", "Keys", about, chart, _table(("Key", "Records", "Share", "Bytes"), cells))


def _lags(lags: Sequence[GroupLag]) -> str:
    if not lags:
        return _section("lags", "Lag of groups", "No group has committed an offset of these topics.")
    totals: dict[tuple[str, str], int] = {}
    for each in lags:
        totals[(each.group, each.topic)] = totals.get((each.group, each.topic), 0) + (each.lag or 0)
    ordered = sorted(totals.items(), key=lambda each: (-each[1], each[0]))
    rows = [
        svg.Bar(f"{group} · {topic}", lag, count(lag), f"{group} in {topic}: {exact(lag)} records behind")
        for (group, topic), lag in ordered[:_SHOWN_BARS]
    ]
    cells = [
        (each.group, each.topic, str(each.partition), "–" if each.lag is None else exact(each.lag))
        for each in sorted(lags, key=lambda each: (each.group, each.topic, each.partition))
    ]
    about = "Records between the committed offset and the end of the log." + _first("groups and topics", len(ordered))
    headers = ("Group", "Topic", "Partition", "Lag")
    return _section("lags", "Lag of groups", about, svg.bars("Lag of groups", rows), _table(headers, cells, texts=2))


def _codecs(profile: Profile) -> str:
    total = sum(each.size_bytes for each in profile.codecs)
    ordered = sorted(profile.codecs, key=lambda each: -each.size_bytes)
    rows = [
        svg.Bar(
            each.codec,
            each.size_bytes,
            f"{size(each.size_bytes)} · {share(each.size_bytes, total)}",
            f"{each.codec}: {exact(each.batches)} batches, {exact(each.records)} records",
        )
        for each in ordered
    ]
    cells = [
        (
            each.codec, exact(each.batches), exact(each.records), exact(each.size_bytes), share(each.size_bytes, total),
            f"{each.size_bytes / each.records:.1f}" if each.records else "–",
        )
        for each in ordered
    ]  # fmt: skip
    headers = ("Codec", "Batches", "Records", "Bytes", "Share", "Bytes a record")
    chart = svg.bars("Bytes of each codec", rows)
    return _section("codecs", "Compression", "Bytes as stored, by codec.", chart, _table(headers, cells))


def _batches(profile: Profile) -> str:
    return _section(
        "batches",
        "Batches",
        "Small batches cost most: every one is a request's share, a header of 61 bytes and a checksum of its own.",
        "<h3>Batches by size</h3>",
        _histogram("Batches by size", profile.batch_sizes, size),
        "<h3>Batches by number of records</h3>" if profile.batch_counts else "",
        _histogram("Batches by number of records", profile.batch_counts, count) if profile.batch_counts else "",
        _table(
            ("From", "Below", "Batches"),
            [(size(each.low), size(each.high), exact(each.batches)) for each in profile.batch_sizes]
            + [(f"{exact(each.low)} records", exact(each.high), exact(each.batches)) for each in profile.batch_counts],
        ),
    )


def _histogram(label: str, buckets: Sequence[SizeBucket], worded: Callable[[float], str]) -> str:
    given = [
        svg.Column(
            worded(each.low), each.batches, f"{worded(each.low)} to {worded(each.high)}: {exact(each.batches)} batches"
        )
        for each in buckets
    ]
    return svg.columns(label, given)


def _disorder(partitions: Sequence[PartitionFigures]) -> str:
    late = [each for each in partitions if each.late_batches]
    about = "Batches whose newest timestamp is older than that of a batch before them in the log. "
    if not late:
        return _section("disorder", "Order of timestamps", about + "There are none: timestamps only grow.")
    ordered = sorted(late, key=lambda each: (-each.late_batches / each.batches, each.topic, each.partition))
    rows = [
        svg.Bar(
            each.name,
            each.late_batches / each.batches,
            share(each.late_batches, each.batches),
            f"{each.name}: {exact(each.late_batches)} of {exact(each.batches)} batches, "
            f"up to {span(each.largest_delay_ms)} late",
        )
        for each in ordered[:_SHOWN_BARS]
    ]
    cells = [
        (each.topic, str(each.partition), exact(each.late_batches), exact(each.batches), exact(each.largest_delay_ms))
        for each in ordered
    ]
    about += "A search by timestamp finds the first that is late enough, not all." + _first("partitions", len(late))
    headers = ("Topic", "Partition", "Late batches", "Batches", "Latest by ms")
    return _section("disorder", "Order of timestamps", about, svg.bars("Late batches", rows), _table(headers, cells))
