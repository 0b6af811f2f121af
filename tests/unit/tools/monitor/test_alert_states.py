"""States of alerts over snapshots: for, repeated, resolved, unknown. Time is passed in."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Sequence

from kafkatools.tools.monitor.alerts.alert import Alert, Notice
from kafkatools.tools.monitor.alerts.alert_states import AlertStates, Moment
from kafkatools.tools.monitor.alerts.payload import payload
from kafkatools.tools.monitor.conditions import Condition, Selector
from kafkatools.tools.monitor.view import BrokerView, ClusterView, GroupPartition, GroupView

WALL_MS = 1_700_000_000_000
LAG = Condition("lag>10", "lag", ">", 10)
MINUTE_MS = 60_000


def group(name: str, lag: int | None, unknown: str | None = None) -> GroupView:
    parts = (GroupPartition("orders", 0, 5, 1), GroupPartition("orders", 1, 5, lag))
    return GroupView(name, "Consumer", "Stable", 1, 1, parts, unknown=unknown)


def view(*groups: GroupView, unlisted: tuple[str, ...] = ()) -> ClusterView:
    broker = BrokerView(1, "h", 9092, None, False, True, ())
    return ClusterView(WALL_MS, 0, 1, "cid", 1, (broker,), (), None, groups, (), unlisted=unlisted)


class Run:
    """The states of alerts, at minutes that a test chooses."""

    def __init__(self, *alerts: Alert, repeat_ms: int | None = None) -> None:
        self.states = AlertStates(alerts, repeat_ms)

    def at(self, minute: float, *groups: GroupView, unlisted: tuple[str, ...] = ()) -> list[tuple[str, str | None]]:
        return told(self.states.advance(view(*groups, unlisted=unlisted), self.moment(minute)))

    def fails_at(self, minute: float) -> list[tuple[str, str | None]]:
        return told(self.states.fail("refused", self.moment(minute)))

    @staticmethod
    def moment(minute: float) -> Moment:
        passed_ms = round(minute * MINUTE_MS)
        return Moment(5000 + passed_ms, WALL_MS + passed_ms)

    def now(self) -> list[tuple[str, str | None]]:
        return [(alert.state, alert.group) for alert in self.states.views()]


def told(notices: Sequence[Notice]) -> list[tuple[str, str | None]]:
    return [(notice.kind.value, notice.place.group) for notice in notices]


FIRING, REPEATED, RESOLVED, UNKNOWN = ([(kind, "g")] for kind in ("firing", "repeated", "resolved", "unknown"))


def test_an_alert_fires_at_once_and_is_told_once() -> None:
    run = Run(Alert(LAG))
    assert run.at(0, group("g", 9)) == []  # 9 + 1 is not more than 10
    assert run.at(1, group("g", 10)) == FIRING
    assert run.at(2, group("g", 11)) == [] and run.now() == FIRING
    assert run.at(3, group("g", 0)) == RESOLVED and run.now() == []
    assert run.at(4, group("g", 0)) == []


def test_for_needs_the_condition_in_each_snapshot() -> None:
    run = Run(Alert(LAG, 5 * MINUTE_MS))
    assert run.at(0, group("g", 50)) == [] and run.now() == [("pending", "g")]
    assert run.at(4.9, group("g", 50)) == []
    assert run.at(4.95, group("g", 0)) == [] and run.now() == []
    assert run.at(5, group("g", 50)) == []
    assert run.at(9.9, group("g", 50)) == []
    assert run.at(10, group("g", 50)) == FIRING
    (alert,) = run.states.views()
    assert alert.since_ms == WALL_MS + 5 * MINUTE_MS


def test_each_group_has_a_state_of_its_own() -> None:
    run = Run(Alert(LAG, MINUTE_MS))
    assert run.at(0, group("a", 50), group("b", 0)) == []
    assert run.at(1, group("a", 50), group("b", 50)) == [("firing", "a")]
    assert run.now() == [("firing", "a"), ("pending", "b")]
    assert run.at(2, group("a", 0), group("b", 50)) == [("resolved", "a"), ("firing", "b")]


def test_an_alert_is_repeated_while_it_fires() -> None:
    run = Run(Alert(LAG), repeat_ms=60 * MINUTE_MS)
    assert run.at(0, group("g", 50)) == FIRING
    assert run.at(59, group("g", 50)) == []
    assert run.at(60, group("g", 50)) == REPEATED
    assert run.at(61, group("g", 50)) == []
    assert run.at(120, group("g", 50)) == REPEATED


def test_unknown_is_told_once_and_resolves_nothing() -> None:
    run = Run(Alert(LAG))
    away = group("g", None, "broker 2 does not respond")
    assert run.at(0, group("g", 50)) == FIRING
    assert run.at(1, away) == UNKNOWN
    assert run.at(2, away) == [] and run.now() == FIRING
    assert run.at(3, group("g", 50)) == REPEATED, "it is seen again, and still holds"
    assert run.at(4, group("g", 0)) == RESOLVED


def test_what_was_unknown_and_does_not_hold_is_resolved() -> None:
    run = Run(Alert(LAG))
    assert run.at(0, group("g", None, "away")) == UNKNOWN and run.now() == UNKNOWN
    assert run.at(1, group("g", 0)) == RESOLVED and run.now() == []


def test_for_also_delays_unknown_and_goes_on_through_it() -> None:
    run = Run(Alert(LAG, 5 * MINUTE_MS))
    away = group("g", None, "away")
    assert run.at(0, group("g", 50)) == []
    assert run.at(1, away) == [] and run.at(4, away) == []
    assert run.at(5, group("g", 50)) == FIRING
    assert run.at(6, away) == [] and run.at(10.9, away) == []
    assert run.at(11, away) == UNKNOWN


def test_the_known_part_of_a_sum_fires() -> None:
    run = Run(Alert(Condition("lag>0", "lag", ">", 0)))
    assert run.at(0, group("g", None, "away")) == FIRING


def test_a_group_that_does_not_exist_any_more_is_resolved() -> None:
    run = Run(Alert(LAG))
    assert run.at(0, group("g", 50)) == FIRING
    (notice,) = run.states.advance(view(), Run.moment(1))
    assert (notice.kind.value, notice.reading) == ("resolved", None)
    assert notice.text == "lag>10 is resolved for group g: it does not exist any more"


def test_a_group_that_may_only_be_unseen_is_not_resolved() -> None:
    run = Run(Alert(LAG))
    assert run.at(0, group("g", 50)) == FIRING
    assert run.at(1, unlisted=("broker 2 did not list its groups",)) == [("unknown", None)]
    assert run.now() == [("firing", "g"), ("unknown", None)]
    assert run.at(2, group("g", 50)) == [("resolved", None)]
    assert run.at(3, group("g", 0)) == RESOLVED


def test_a_failed_snapshot_makes_each_alert_unknown_once() -> None:
    run = Run(Alert(LAG), Alert(Condition("problems>0", "problems", ">", 0)))
    assert run.at(0, group("a", 50), group("b", 50)) == [("firing", "a"), ("firing", "b")]
    assert run.fails_at(1) == [("unknown", None), ("unknown", None)]
    assert run.fails_at(2) == []
    assert run.at(3, group("a", 50), group("b", 0)) == [("resolved", "b"), ("resolved", None), ("resolved", None)]


def test_what_needs_another_snapshot_is_not_told() -> None:
    old = GroupView("g", "Consumer", "Stable", 1, 1, (GroupPartition("orders", 0, 5, 7, None, 1000),))
    run = Run(Alert(Condition("lag_seconds>300", "lag-seconds", ">", 300)))
    assert run.at(0, old) == run.at(1, old) == [] and run.now() == []
    older = old._replace(partitions=(GroupPartition("orders", 0, 5, 7, None, 300_001),))
    assert run.at(6, older) == FIRING


def test_a_group_that_does_not_exist_is_unknown() -> None:
    run = Run(Alert(LAG._replace(on=(Selector("group", "payments"),))))
    assert run.at(0, group("g", 50)) == [("unknown", None)]
    assert run.at(1, group("payments", 50)) == [("firing", "payments"), ("resolved", None)]


def test_a_deleted_group_that_the_alert_names_is_resolved() -> None:
    run = Run(Alert(LAG._replace(on=(Selector("group", "g"),)), MINUTE_MS))
    assert run.at(0, group("g", 50)) == [] and run.at(1, group("g", 50)) == FIRING
    assert run.at(2, unlisted=("broker 2 did not list its groups",)) == []
    assert run.now() == [("firing", "g"), ("unknown", None)]
    assert run.at(3) == [("unknown", None), ("resolved", "g")]
    assert run.now() == [("unknown", None)]


def test_the_body_names_group_topic_and_partition() -> None:
    states = AlertStates([Alert(LAG, MINUTE_MS)])
    states.advance(view(group("g", 50)), Run.moment(0))
    notices = states.advance(view(group("g", 50)), Run.moment(1))
    body = json.loads(payload(notices, "cid", WALL_MS + MINUTE_MS))
    assert body == {
        "version": 1,
        "source": "kt monitor",
        "cluster_id": "cid",
        "time": WALL_MS + MINUTE_MS,
        "text": "kt monitor, cluster cid\nFIRING: lag>10 holds for group g: lag is 51 (orders-1)",
        "alerts": [
            {
                "alert": "lag>10",
                "state": "firing",
                "message": "lag>10 holds for group g: lag is 51 (orders-1)",
                "measure": "lag",
                "value": 51,
                "value_at_least": None,
                "threshold": 10,
                "reason": None,
                "group": "g",
                "topic": "orders",
                "partition": 1,
                "broker": None,
                "directory": None,
                "detail": None,
                "since": WALL_MS,
                "time": WALL_MS + MINUTE_MS,
            }
        ],
    }


def test_a_name_forges_no_line_and_no_mention() -> None:
    """Whoever may join a group chooses its name: it must neither add a line to a log or a chat nor mention people."""
    evil = group("g\nRESOLVED: all is well <!channel> <http://evil|a&b>\x1b[2J\u202e", 50)
    notices = AlertStates([Alert(LAG)]).advance(view(evil), Run.moment(0))
    body = json.loads(payload(notices, None, WALL_MS))
    assert body["text"] == (
        "kt monitor\nFIRING: lag>10 holds for group g\\nRESOLVED: all is well &lt;!channel> &lt;http://evil|a&amp;b>"
        "\\x1b[2J\\u202e: lag is 51 (orders-1)"
    )
    assert body["alerts"][0]["group"] == evil.group_id and "\n" not in body["alerts"][0]["message"]
    unknown = LAG._replace(on=(Selector("partition", "9"),))
    (found,) = LAG.findings(view(evil))
    (reason,) = unknown.unknowns(view(evil), is_only_snapshot=True)
    assert found == body["alerts"][0]["message"].replace(" (orders-1)", "") and "\n" not in reason


def test_the_text_of_many_alerts_is_short() -> None:
    states = AlertStates([Alert(LAG)])
    notices = states.advance(view(*(group(f"g{number:03}", 50) for number in range(500))), Run.moment(0))
    body = json.loads(payload(notices, None, WALL_MS))
    assert len(body["alerts"]) == 500
    lines = body["text"].splitlines()
    assert (lines[0], len(lines), lines[-1]) == ("kt monitor", 22, "and 480 more")


def test_the_page_names_every_key() -> None:
    page = (pathlib.Path(__file__).parents[4] / "docs" / "json" / "monitor.md").read_text(encoding="utf-8")
    tables = page.split("## Webhooks")[1].split("| Key of a report")
    states = AlertStates([Alert(LAG)])
    body = json.loads(payload(states.advance(view(group("g", 50)), Run.moment(0)), "cid", WALL_MS))
    for table, keys in zip(tables, (body, body["alerts"][0]), strict=True):
        rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
        assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == sorted(
            keys, key=lambda key: table.index(f"`{key}`")
        )
    example = json.loads(page.split("```json\n")[1].split("```")[0])
    assert (set(example), set(example["alerts"][0])) == (set(body), set(body["alerts"][0]))
