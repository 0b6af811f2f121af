"""Links to kt with the names of Kafka's scripts: a runbook runs them, and kt shims leaves the files of others alone."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from support import pages
from support.embedded import embedded_broker
from support.kt import Ran, run_kt

from kafkatools.commands import COMMANDS, KAFKA_SCRIPTS
from kafkatools.commands.shims import MISSING_SCRIPTS

KT = pathlib.Path(sys.executable).parent / "kt"

RUNBOOK = r"""#!/bin/bash
set -e -o pipefail
kafka-topics.sh --bootstrap-server "$BROKER" --create --topic orders --partitions 1 --config retention.ms=604800000
printf 'a:1\nb:2\n' | kafka-console-producer.sh --bootstrap-server "$BROKER" --topic orders \
    --property parse.key=true --property key.separator=: 2>/dev/null
kafka-configs.sh --bootstrap-server "$BROKER" --alter --entity-type topics --entity-name orders \
    --add-config retention.ms=3600000
kafka-console-consumer.sh --bootstrap-server "$BROKER" --topic orders --from-beginning --max-messages 2 \
    --group billing --property print.key=true 2>/dev/null
kafka-get-offsets.sh --bootstrap-server "$BROKER" --topic orders
kafka-consumer-groups.sh --bootstrap-server "$BROKER" --group billing --topic orders --reset-offsets --to-earliest \
    --execute | awk 'NF { print $1, $2, $3, $4 }'
kafka-consumer-groups.sh --bootstrap-server "$BROKER" --list
kafka-topics.sh --bootstrap-server "$BROKER" --delete --topic orders
kafka-topics.sh --bootstrap-server "$BROKER" --list --exclude-internal
"""
PRINTED = """\
Created topic orders.
Completed updating config for topic orders.
a\t1
b\t2
orders:0:2
GROUP TOPIC PARTITION NEW-OFFSET
billing orders 0 0
billing
"""
"""What Apache Kafka 4.3.1 prints for the same script (tests/golden/cli has its scripts one by one)."""


def shims(directory: pathlib.Path, *words: str, path: str = "") -> Ran:
    return run_kt("shims", str(directory), *words, environ={"PATH": f"{path}{KT.parent}"})


@pytest.mark.slow
def test_a_runbook_with_kafkas_scripts_runs_unchanged(tmp_path: pathlib.Path) -> None:
    assert shims(tmp_path / "bin").status == 0
    (tmp_path / "runbook.sh").write_text(RUNBOOK)
    environ = pages.environment(tmp_path)
    environ["PATH"] = f"{tmp_path / 'bin'}:{environ['PATH']}"
    with embedded_broker(tmp_path / "data", group_initial_rebalance_delay_ms="0") as environ["BROKER"]:
        done = subprocess.run(
            ["bash", "runbook.sh"], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False
        )
    assert (done.stdout, done.returncode) == (PRINTED, 0), done.stderr


def test_every_script_of_kafka_has_a_link_or_is_named_as_missing(tmp_path: pathlib.Path) -> None:
    recorded = {path.stem for path in (pathlib.Path(__file__).parents[1] / "golden" / "cli" / "options").glob("*.json")}
    assert {f"kafka-{name}.sh" for name in recorded} <= set(KAFKA_SCRIPTS)
    ran = shims(tmp_path)
    assert {path.name: path.resolve() for path in tmp_path.iterdir()} == dict.fromkeys(KAFKA_SCRIPTS, KT.resolve())
    assert set(KAFKA_SCRIPTS.values()) <= set(COMMANDS) and not set(KAFKA_SCRIPTS) & set(MISSING_SCRIPTS)
    assert all(name in ran.out for name in MISSING_SCRIPTS)
    assert ran.err == f"To use the links in this shell: export PATH={tmp_path}:$PATH\n"


def test_names_without_sh_and_a_second_run(tmp_path: pathlib.Path) -> None:
    shims(tmp_path)
    ran = shims(tmp_path, "--without-sh", path=f"{tmp_path}:")
    count = len(KAFKA_SCRIPTS)
    assert ran.out.splitlines()[0] == f"{tmp_path}: {count} links to {KT} created, {count} were there"
    assert (ran.err, (tmp_path / "kafka-topics").resolve()) == ("", KT.resolve())


def test_another_script_that_comes_first_in_path_is_named(tmp_path: pathlib.Path) -> None:
    kafka = tmp_path / "kafka"
    kafka.mkdir()
    (kafka / "kafka-acls.sh").write_text("#!/bin/sh\n")
    (kafka / "kafka-acls.sh").chmod(0o755)
    ran = shims(tmp_path / "bin", path=f"{kafka}:{tmp_path / 'bin'}:")
    assert ran.err.splitlines()[0] == f"{kafka}/kafka-acls.sh comes first in PATH, so the links are not used yet"


def test_files_of_others_are_neither_overwritten_nor_removed(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "kafka-topics.sh"
    other.write_text("theirs")
    ran = shims(tmp_path)
    assert (ran.status, ran.err.splitlines()[0]) == (
        1,
        f"{other} exists and is not a link to kt; nothing was created",
    )
    assert os.listdir(tmp_path) == ["kafka-topics.sh"]
    (tmp_path / "kafka-acls.sh").symlink_to("/gone/kt")
    ran = shims(tmp_path, "--remove")
    assert (ran.status, ran.out, ran.err) == (
        0,
        f"{tmp_path}: 1 link to kt removed\n",
        f"Left in place, not links to kt: {other}\n",
    )
    assert (os.listdir(tmp_path), other.read_text()) == (["kafka-topics.sh"], "theirs")


def test_links_of_an_uninstalled_kt_are_redirected(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kafka-topics.sh").symlink_to("/gone/kt")
    assert shims(tmp_path).status == 0
    assert (tmp_path / "kafka-topics.sh").resolve() == KT.resolve()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--without-sh",), "kt shims needs a directory for the links"),
        (("",), "kt shims needs a directory for the links"),
        (("--remove", "/no/such"), "/no/such is not a directory"),
        ((__file__,), f"{__file__} is not a directory"),
    ],
)
def test_wrong_input_is_one_line(words: tuple[str, ...], message: str) -> None:
    ran = run_kt("shims", *words)
    assert (ran.status in (1, 2), ran.out) == (True, "")
    assert message in ran.err


def test_a_link_with_the_name_of_another_script_says_so(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kafka-jmx.sh").symlink_to(KT)
    done = subprocess.run([tmp_path / "kafka-jmx.sh", "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "kt has no command 'kafka-jmx.sh'")
