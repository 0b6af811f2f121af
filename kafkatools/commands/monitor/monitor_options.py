"""The options of kt monitor, parsed and checked before the cluster is contacted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.commands.monitor.condition_texts import parse_alert, parse_condition
from kafkatools.commands.monitor.sections import (
    DEFAULT_FAMILIES,
    DEFAULT_INTERVAL_S,
    FAMILIES,
    LAG_EXPORTER,
    SECTIONS,
)
from kafkatools.core.net.addresses import HostPort, is_loopback
from kafkatools.exit_status import UsageError
from kafkatools.options import Args
from kafkatools.options.secret_sources import read_secret
from kafkatools.tools.monitor.alerts.alert import Alert
from kafkatools.tools.monitor.conditions import Condition
from kafkatools.tools.monitor.snapshot import Scope
from kafkatools.tools.monitor.urls import HttpUrl, parse_url
from kafkatools.tools.monitor.view import ClusterView

OVERVIEW = ("brokers", "topics", "partitions", "groups", "alerts", "events")
_LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(?P<host>\[[^\]]+\]|[^:\[\]]+):)?(?P<port>[0-9]{1,5})", re.ASCII)
_MAX_PORT = 65535


class MonitorOptions(NamedTuple):
    """The parsed options of kt monitor. With `is_overview`, only unhealthy partitions are shown."""

    interval_ms: int
    is_once: bool
    sections: tuple[str, ...]
    is_overview: bool
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    is_regex: bool
    conditions: tuple[Condition, ...]
    web: HostPort | None
    prometheus: HostPort | None
    families: tuple[str, ...] = ()
    alerts: tuple[Alert, ...] = ()
    repeat_ms: int | None = None
    webhooks: tuple[HttpUrl, ...] = ()
    otlp: HttpUrl | None = None

    def scope(self) -> Scope:
        """Return which topics and groups the collector queries. Raises UsageError for an invalid regular expression."""
        names = () if self.is_regex else self.topics
        takes_topic = _taker("--topic", self.topics, self.is_regex)
        takes_group = _taker("--group", self.groups, self.is_regex)
        groups = () if self.is_regex else self.groups
        with_starts = self.prometheus is not None or self.otlp is not None
        with_owners = self.prometheus is not None and LAG_EXPORTER in self.families
        return Scope(names, takes_topic, takes_group, with_starts, groups, with_owners)

    def judge(self, view: ClusterView) -> tuple[list[str], list[str]]:
        """Return the conditions of --fail-if that hold in a view, and those that are unknown, as sentences; with --once
        also those of --alert."""
        conditions = [*self.conditions, *(alert.condition for alert in self.alerts if self.is_once)]
        findings = [text for condition in conditions for text in condition.findings(view)]
        unknowns = [
            text for condition in conditions for text in condition.unknowns(view, is_only_snapshot=self.is_once)
        ]
        return findings, unknowns


def read_options(args: Args, environ: Mapping[str, str] | None = None) -> MonitorOptions:
    """Parse and check the options of kt monitor. Raises UsageError, and CommandError for an unreadable file of
    --webhook."""
    sections = _sections(args.view)
    options = MonitorOptions(
        interval_ms=round((args.interval or DEFAULT_INTERVAL_S) * 1000),
        is_once=args.once,
        sections=sections or OVERVIEW,
        is_overview=not sections,
        topics=tuple(dict.fromkeys(args.topic)),
        groups=tuple(dict.fromkeys(args.group)),
        is_regex=args.regex,
        conditions=tuple(parse_condition(text) for text in args.fail_if),
        web=_address("--web", args.web, args.insecure),
        prometheus=_address("--prometheus", args.prometheus, args.insecure),
        families=_families(args.metrics),
        alerts=_alerts(args.alert, args.once),
        repeat_ms=None if args.alert_repeat is None else round(args.alert_repeat * 1000),
        webhooks=tuple(_url("--webhook", text, environ or {}) for text in dict.fromkeys(args.webhook)),
        otlp=None if args.otlp is None else _url("--otlp", args.otlp, environ or {}),
    )
    if options.is_regex:
        if not options.topics and not options.groups:
            raise UsageError("--regex needs --topic or --group")
        options.scope()  # raises UsageError for an invalid pattern
    if args.insecure and options.web is None and options.prometheus is None:
        raise UsageError("--insecure needs --web or --prometheus")
    return options


def _sections(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in (*SECTIONS, "all"):
            raise UsageError(f"Unknown section '{name}' in --view; sections are {', '.join(SECTIONS)}, all")
    return tuple(name for name in SECTIONS if name in names or "all" in names)


def _alerts(texts: Sequence[str], is_once: bool) -> tuple[Alert, ...]:
    alerts = tuple(parse_alert(text) for text in dict.fromkeys(texts))
    for alert in alerts:
        if is_once and alert.hold_ms:
            raise UsageError(f"--alert '{alert.condition.text}': 'for' takes several snapshots, and --once has one")
    return alerts


def _url(option: str, text: str, environ: Mapping[str, str]) -> HttpUrl:
    """Parse the URL of an option, or of the file or variable that it names. Errors do not contain the URL."""
    if text.startswith(("file:", "env:")):
        source = text
        text = read_secret(environ, option, text, "URL").decode("utf-8", "replace")
    else:
        source = "this URL"
    try:
        return parse_url(text)
    except ValueError as error:
        raise UsageError(f"{option}: {source} is not valid: {error}") from None


def _families(text: str | None) -> tuple[str, ...]:
    if text is None:
        return DEFAULT_FAMILIES
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in (*FAMILIES, "all"):
            raise UsageError(f"Unknown family '{name}' in --metrics; families are {', '.join(FAMILIES)}, all")
    return tuple(name for name in FAMILIES if name in names or "all" in names)


def _taker(option: str, names: Sequence[str], is_regex: bool) -> Callable[[str], bool]:
    """Return a predicate for names that are listed or match a pattern; without names, for all names. Raises UsageError
    for an invalid pattern."""
    if not names:
        return lambda name: True
    if not is_regex:
        return frozenset(names).__contains__
    from kafkatools.core.java.patterns import java_pattern

    patterns = []
    for text in names:
        try:
            patterns.append(java_pattern(text))
        except re.error as error:
            raise UsageError(f"{option} '{text}' is not a valid regular expression: {error}") from None
    return lambda name: any(pattern.fullmatch(name) is not None for pattern in patterns)


def _address(option: str, text: str | None, may_be_open: bool) -> HostPort | None:
    """Parse an address to listen on, None without one; port 0 takes any free port. Raises UsageError.

    Refuses other hosts than loopback unless `may_be_open`.
    """
    if text is None:
        return None
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _MAX_PORT:
        raise UsageError(f"{option} takes [HOST:]PORT, such as 8080 or 127.0.0.1:8080, not '{text}'")
    address = HostPort((match["host"] or _LOOPBACK).strip("[]"), int(match["port"]))
    if not may_be_open and not is_loopback(address.host):
        raise UsageError(
            f"{option} refuses to listen on {address.host}: tokens and data are not encrypted; "
            "use 127.0.0.1, or --insecure"
        )
    return address
