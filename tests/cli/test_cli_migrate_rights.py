"""kt migrate without rights in the source or the target: no cut hides what was not copied."""

from __future__ import annotations

import pathlib

import pytest
from support.denied_users import GuardedBroker
from support.kt import Ran

import kafkatools
from kafkatools.exit_status import ExitStatus


@pytest.fixture(scope="module", autouse=True)
def orders(guarded: GuardedBroker) -> None:
    """A topic and a group that has read a part of it."""
    guarded.topic("orders", b"0", b"1", b"2")
    with kafkatools.Admin(guarded.settings("admin")) as admin:
        admin.alter_group_offsets("billing", {("orders", 0): 2})


def missing(right: str) -> str:
    return f"Not authorized: the right {right} is missing"


def migrate(
    guarded: GuardedBroker, through: pathlib.Path, target: str, *words: str, user: str = "admin", to_user: str = "admin"
) -> Ran:
    """Copy `orders` within the broker under another name."""
    to = ("--to-bootstrap-server", guarded.bootstrap, "--to-command-config", guarded.config_file(to_user))
    rename = ("--topic", "orders", "--rename", f"orders={target}")
    return guarded.kt("migrate", "--through", str(through), *rename, *to, *words, user=user)


@pytest.mark.parametrize("mode", ["--dry-run", "--cut"])
def test_records_that_may_not_be_read(guarded: GuardedBroker, tmp_path: pathlib.Path, mode: str) -> None:
    user = guarded.user_without("READ TOPIC orders")
    ran = migrate(guarded, tmp_path / "through", "unread", mode, user=user)
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err.splitlines()[0] == missing("READ on topic orders")
    assert "unread" not in guarded.topics()


def test_no_cut_without_the_offsets_of_a_group(guarded: GuardedBroker, tmp_path: pathlib.Path) -> None:
    user = guarded.user_without("DESCRIBE GROUP billing", "READ GROUP billing")
    planned = migrate(guarded, tmp_path / "through", "no-group", "--dry-run", user=user)
    ran = migrate(guarded, tmp_path / "through", "no-group", "--cut", user=user)
    for each in (planned, ran):
        assert each.status is ExitStatus.FAILED
        assert missing("DESCRIBE on group billing") in each.err
    assert "Cut:" not in ran.out
    again = migrate(guarded, tmp_path / "through", "no-group", "--cut")
    assert again.status is ExitStatus.OK, again.err
    assert "group billing: 1 offset" in again.out
    assert "Cut: 1 topic and 1 group" in again.out


@pytest.mark.parametrize("right", ["WRITE TOPIC", "READ TOPIC"])
def test_a_target_without_rights_is_removed_again(guarded: GuardedBroker, tmp_path: pathlib.Path, right: str) -> None:
    name = f"closed-{right[:4].lower()}"
    to_user = guarded.user_without(f"{right} {name}")
    ran = migrate(guarded, tmp_path / "through", name, "--cut", to_user=to_user)
    assert ran.status is ExitStatus.FAILED
    assert missing(f"{right.split()[0]} on topic {name}") in ran.err
    assert f"Removed 1 empty topic that this run created: {name}" in ran.err
    assert name not in guarded.topics()
