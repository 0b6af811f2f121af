"""kt delegation-tokens against the recordings of kafka-delegation-tokens.sh: here those without SASL, which brokers
refuse; those with it in tests/real_kafka."""

from __future__ import annotations

import base64
import json
import pathlib
import time
from collections.abc import Callable

import admin_tools
import delegation_token_replay
import pytest
import transcripts
from support.kt import Ran, run_kt
from support.scripted_broker import ScriptedBroker
from transcripts import Case

from kafkatools.core.protocol.api_versions import ApiKey
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
    assert ran.err.splitlines()[0] == "The HMAC is not valid base64"
    (tmp_path / "hmac").write_text("c2VjcmV0\n")
    started = time.monotonic()
    ran = run_kt("delegation-tokens", *words, "--renew", "--hmac-file", "hmac", cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    assert time.monotonic() - started < 30  # a broker that cannot be reached is given up after 3 s
    assert "c2Vj" not in ran.out + ran.err


def test_an_empty_hmac_is_refused_before_a_broker_is_asked(tmp_path: pathlib.Path) -> None:
    (tmp_path / "hmac").write_text("\n")
    (tmp_path / "c.properties").write_text("")
    words = ("--bootstrap-server", "127.0.0.1:9", "--command-config", "c.properties", "--expire")
    ran = run_kt("delegation-tokens", *words, "--expiry-time-period", "-1", "--hmac-file", "hmac", cwd=tmp_path)
    assert (ran.status, ran.err.splitlines()[0]) == (ExitStatus.USAGE, "The HMAC is missing: hmac is empty")


def test_dry_runs_only_describe_and_refuse_what_the_broker_would(tmp_path: pathlib.Path) -> None:
    (tmp_path / "c.properties").write_text("")
    soon, late = int(time.time() * 1000) + 3_600_000, 4_000_000_000_000
    alice = {"principal_type": "User", "principal_name": "alice", "renewers": []}
    alice |= {"token_requester_principal_type": "User", "token_requester_principal_name": "alice"}
    old = {"token_id": "old", "hmac": b"old", "issue_timestamp": 0, "expiry_timestamp": 1, "max_timestamp": late}
    new = {**old, "token_id": "new", "hmac": b"new", "expiry_timestamp": soon}
    tokens = {"tokens": [{**alice, **old}, {**alice, **new}]}
    broker = ScriptedBroker({ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda *_: tokens})

    def kt(*words: str, hmac: bytes = b"", status: ExitStatus = ExitStatus.OK) -> Ran:
        server = ("--bootstrap-server", broker.bootstrap, "--command-config", "c.properties")
        named = ("--hmac", base64.b64encode(hmac).decode()) if hmac else ()
        ran = run_kt("delegation-tokens", *server, *words, *named, "--dry-run", cwd=tmp_path)
        assert ran.status == status, (ran.out, ran.err)
        return ran

    with broker.in_background():
        create = ("--create", "--max-life-time-period", "5000", "--renewer-principal", "User:bob")
        told = "A token would be created: owner this user, renewers [User:bob], max life time: 5000 ms.\n"
        assert kt(*create).out == told
        row = json.loads(kt(*create, "--owner-principal", "User:eve", "--json").out)
        assert row == {"action": "create", "owner": "User:eve", "renewers": ["User:bob"], "created": False}

        renew, expire = ("--renew", "--renew-time-period"), ("--expire", "--expiry-time-period")
        row = json.loads(kt(*renew, "9000000000000", "--json", hmac=b"new").out)
        assert row == {"action": "renew", "token_id": "new", "expiry_timestamp": soon, "new_expiry_timestamp": late}
        assert kt(*renew, "-1", hmac=b"new").out.startswith("Token new would be renewed: 20")
        assert kt(*expire, "-1", hmac=b"old").out.endswith(" -> at once.\n")
        assert json.loads(kt(*expire, "60000", "--json", hmac=b"new").out)["new_expiry_timestamp"] < soon
        gone = kt(*expire, "-1", hmac=b"other", status=ExitStatus.FAILED)
        assert gone.err == "Delegation Token is not found on server.\n"
        over = kt(*renew, "-1", hmac=b"old", status=ExitStatus.FAILED)
        assert over.err == "Delegation Token is expired.\n"
        assert kt("--describe", status=ExitStatus.USAGE).out == ""
    asked = {header.api_key for header, _ in broker.requests}
    assert not asked & {
        ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
    }  # fmt: skip


def test_a_token_that_never_ends_has_its_times_in_milliseconds(tmp_path: pathlib.Path) -> None:
    (tmp_path / "c.properties").write_text("")
    never = 2**63 - 1
    user = {"principal_type": "User", "principal_name": "alice", "renewers": []}
    user |= {"token_requester_principal_type": "User", "token_requester_principal_name": "alice"}
    token = {"token_id": "t", "hmac": b"h", "issue_timestamp": 0, "expiry_timestamp": never, "max_timestamp": never}
    broker = ScriptedBroker({ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda *_: {"tokens": [{**user, **token}]}})
    words = ("--bootstrap-server", broker.bootstrap, "--command-config", "c.properties", "--describe")
    with broker.in_background():
        ran = run_kt("delegation-tokens", *words, cwd=tmp_path)
    assert (ran.status, ran.err) == (ExitStatus.OK, "")
    assert ran.out.splitlines()[-1].split()[-2:] == [str(never)] * 2


def test_every_difference_is_documented() -> None:
    keys = {difference.key for difference in delegation_token_replay.DIFFERENCES.values()}
    assert keys <= transcripts.documented_keys()
