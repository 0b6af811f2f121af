"""kt delegation-tokens against the recordings of kafka-delegation-tokens.sh: here those without SASL, which brokers
refuse; those with it in tests/real_kafka."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

import admin_tools
import delegation_token_replay
import pytest
import transcripts
from support.kt import Ran, run_kt
from transcripts import Case

from kafkatools.exit_status import ExitStatus


@pytest.mark.slow
def test_delegation_tokens_without_sasl_behave_as_recorded(
    start_broker: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    bootstrap = start_broker()

    def run(case: Case) -> Ran:
        transcripts.write_files(case, tmp_path)
        return run_kt("delegation-tokens", *admin_tools.words(case, bootstrap), cwd=tmp_path)

    cases = [case for case in transcripts.load("delegation-tokens") if "with PLAIN" not in case.setup]
    assert len(cases) == 27
    failures = transcripts.replay(cases, run, delegation_token_replay.DIFFERENCES, delegation_token_replay.expect)
    assert not failures, "\n".join(failures)


def test_hmac_of_a_file_is_not_shown(tmp_path: pathlib.Path) -> None:
    (tmp_path / "hmac").write_text("c2VjcmV0!\n")
    (tmp_path / "c.properties").write_text("")
    words = ("--bootstrap-server", "127.0.0.1:9", "--command-config", "c.properties", "--renew-time-period", "-1")
    ran = run_kt("delegation-tokens", *words, "--renew", "--hmac-file", "hmac", cwd=tmp_path)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert ran.err.splitlines()[0] == "The HMAC is no base64"
    (tmp_path / "hmac").write_text("c2VjcmV0\n")
    started = time.monotonic()
    ran = run_kt("delegation-tokens", *words, "--renew", "--hmac-file", "hmac", cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    assert time.monotonic() - started < 30  # a broker that cannot be reached is given up after 3 s
    assert "c2Vj" not in ran.out + ran.err


def test_every_difference_is_documented() -> None:
    keys = {difference.key for difference in delegation_token_replay.DIFFERENCES.values()}
    assert keys <= transcripts.documented_keys()
