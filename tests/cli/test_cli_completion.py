"""Completion scripts: as in completions/, and working in bash."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest
from support.embedded import embedded_broker
from support.kt import run_kt
from support.live_groups import GroupClient
from support.requirements import require

from kafkatools.commands import COMMANDS

SCRIPTS = pathlib.Path(__file__).parents[2] / "completions"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_in_the_repository_are_up_to_date(shell: str) -> None:
    """When this fails: kt completion --shell SHELL > completions/kt.SHELL"""
    assert (SCRIPTS / f"kt.{shell}").read_text() == run_kt("completion", "--shell", shell).out


def _complete(*words: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in words)
    program = f"""source {SCRIPTS}/kt.bash
    kt() {{ echo alpha; echo beta; }}
    COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
    _kt; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_topics() -> None:
    assert set(_complete("kt", "")) >= set(COMMANDS)
    assert _complete("kt", "topics", "--cre") == ["--create"]
    assert "random-uuid" in _complete("kt", "storage", "")
    assert _complete("kt", "topics", "--topic", "al") == ["alpha"]
    assert _complete("kt", "consumer-groups", "--group", "be") == ["beta"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(shell: str) -> None:
    executable = shutil.which(shell)
    if executable is None:
        require(f"{shell} is not installed")
        return
    subprocess.run([executable, "-n", str(SCRIPTS / f"kt.{shell}")], check=True)


@pytest.mark.parametrize("kind", ["topics", "groups"])
def test_names_come_from_the_cache_without_a_broker(tmp_path: pathlib.Path, kind: str) -> None:
    (tmp_path / f"completion-{kind}").write_text("one\ntwo\n")
    ran = run_kt("completion", f"--{kind}", environ={"KT_HOME": str(tmp_path)})
    assert (ran.status, ran.out, ran.err) == (0, "one\ntwo\n", "")


def test_names_are_asked_of_the_broker_and_kept(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "broker") as bootstrap, GroupClient(bootstrap) as client:
        client.create_topic("a-topic")
        client.commit("a group", {("a-topic", 0): 0})
        environ = {"KT_HOME": str(tmp_path / "home")}
        for kind, expected in (("topics", "__consumer_offsets\na-topic\n"), ("groups", "a group\n")):
            ran = run_kt("completion", f"--{kind}", "--bootstrap-server", bootstrap, environ=environ)
            assert (ran.status, ran.out, ran.err) == (0, expected, "")
    assert run_kt("completion", "--groups", environ=environ).out == "a group\n"


def test_unknown_shells_are_a_usage_error() -> None:
    ran = run_kt("completion", "--shell", "tcsh")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "There are completions for bash, zsh, fish, not for 'tcsh'")
