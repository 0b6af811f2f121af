"""The scripts in completions/, which load those of `kt completion --shell`, in real shells."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
from support.embedded import embedded_broker
from support.kt import patient_completion, run_kt
from support.live_groups import GroupClient
from support.requirements import require

from kafkatools.commands import COMMANDS

SHELLS = ("bash", "zsh", "fish")
Complete = Callable[..., list[str]]


SCRIPTS = pathlib.Path(__file__).parents[2] / "completions"


@pytest.fixture(params=SHELLS)
def complete(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Gives what a shell completes the last of some words to."""
    monkeypatch.setenv("PATH", f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    return partial({"bash": _bash, "zsh": _zsh, "fish": _fish}[request.param], SCRIPTS / f"kt.{request.param}")


_STANDIN = "kt() { case $1 in --profile) echo of-$2; ;; *) echo alpha; echo beta; ;; esac }"
"""What the scripts ask for names: the words show whether the profile was handed on."""


def _bash(script: pathlib.Path, *words: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in words)
    program = f"""source {script}
    {_STANDIN}
    COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
    _kt; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return _run("bash", "-c", program)


def _zsh(script: pathlib.Path, *words: str) -> list[str]:
    """The function itself in a real zsh, with what it hands to compadd printed and narrowed to the word."""
    quoted = " ".join(f"'{word}'" for word in words)
    program = f"""compdef() {{ : }}
    source {script}
    {_STANDIN}
    compadd() {{ shift; print -l -- $@ }}
    words=({quoted}); CURRENT={len(words)}
    _kt"""
    return [word for word in _run("zsh", "-f", "-c", program) if word.startswith(words[-1])]


def _fish(script: pathlib.Path, *words: str) -> list[str]:
    program = f"""source {script}
    function kt; if test "$argv[1]" = --profile; echo of-$argv[2]; else; echo alpha; echo beta; end; end
    complete -C '{" ".join(words)}' """
    return [line.split("\t")[0] for line in _run("fish", "-N", "-c", program)]


def _run(*command: str) -> list[str]:
    if shutil.which(command[0]) is None:
        require(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_shells_complete_commands_options_values_and_names(complete: Complete) -> None:
    assert set(complete("kt", "")) >= set(COMMANDS)
    assert complete("kt", "topics", "--cre") == ["--create"]
    assert "random-uuid" in complete("kt", "storage", "")
    assert complete("kt", "topics", "--topic", "al") == ["alpha"]
    assert complete("kt", "consumer-groups", "--group", "be") == ["beta"]
    assert complete("kt", "leader-election", "--election-type", "u") == ["unclean"]


def test_shells_complete_behind_a_profile(complete: Complete) -> None:
    assert complete("kt", "--profile", "al") == ["alpha"]
    assert complete("kt", "--profile", "prod", "broker-") == ["broker-api-versions"]
    assert complete("kt", "--profile", "prod", "topics", "--topic", "") == ["of-prod"]


@pytest.mark.parametrize("kind", ["topics", "groups"])
def test_names_come_from_the_cache_without_a_broker(tmp_path: pathlib.Path, kind: str) -> None:
    with embedded_broker(tmp_path / "broker") as bootstrap, GroupClient(bootstrap) as client:
        client.create_topic("one")
        client.commit("one", {("one", 0): 0})
        words = [f"--{kind}", "--bootstrap-server", bootstrap]
        with patient_completion():
            known = run_kt("completion", *words, environ={"KT_HOME": str(tmp_path)}).out
    assert "one" in known.split()
    ran = run_kt("completion", *words, environ={"KT_HOME": str(tmp_path)})
    assert (ran.status, ran.out, ran.err) == (0, known, "")
    elsewhere = run_kt("completion", *words[:-1], "127.0.0.1:1", environ={"KT_HOME": str(tmp_path)})
    assert (elsewhere.status, elsewhere.out, elsewhere.err) == (0, "", "")


def test_names_are_asked_of_the_broker_and_kept(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "broker") as bootstrap, GroupClient(bootstrap) as client:
        client.create_topic("a-topic")
        client.commit("a group", {("a-topic", 0): 0})
        environ = {"KT_HOME": str(tmp_path / "home")}
        for kind, expected in (("topics", "__consumer_offsets\na-topic\n"), ("groups", "a group\n")):
            with patient_completion():
                ran = run_kt("completion", f"--{kind}", "--bootstrap-server", bootstrap, environ=environ)
            assert (ran.status, ran.out, ran.err) == (0, expected, "")
    assert run_kt("completion", "--groups", "--bootstrap-server", bootstrap, environ=environ).out == "a group\n"


def test_unknown_shells_are_a_usage_error() -> None:
    ran = run_kt("completion", "--shell", "tcsh")
    assert (ran.status, ran.err.splitlines()[0]) == (
        2,
        "Unsupported shell 'tcsh'; completions exist for bash, zsh, fish",
    )


def test_names_of_profiles_come_from_the_files(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.toml").write_text("[profiles.prod]\n[profiles.dev]\n")
    ran = run_kt("completion", "--profiles", environ={"KT_CONFIG": str(tmp_path / "config.toml")}, cwd=tmp_path)
    assert ran.out == "dev\nprod\n"
