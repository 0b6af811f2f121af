"""The scripts in completions/, which load those of `kt completion --shell`, in real shells."""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
from support.embedded import embedded_broker
from support.kt import patient_completion, run_kt
from support.live_groups import GroupClient
from support.raw_transactions import RawProducer
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


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A directory with what `kt completion --shell` prints for each shell."""
    directory = tmp_path_factory.mktemp("scripts")
    for shell in SHELLS:
        (directory / f"kt.{shell}").write_bytes(run_kt("completion", "--shell", shell).stdout)
    return directory


@pytest.fixture(params=SHELLS)
def quickly(request: pytest.FixtureRequest, printed: pathlib.Path) -> Complete:
    """As `complete`, with a script that was printed before."""
    return partial({"bash": _bash, "zsh": _zsh, "fish": _fish}[request.param], printed / f"kt.{request.param}")


_STANDIN = (
    "kt() { case $1 in --profile) echo of-$2; ;; --profile=*) echo of-${1#*=}; ;; *) echo alpha; echo beta; "
    "all=$*; case $all in *--brokers*) echo broker-7; ;; *--bootstrap*) echo at-${all##*--bootstrap-server?}; ;; esac; "
    ";; esac }"
)
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
    compadd() {{ while [[ $1 != -- ]]; do shift; done; shift; print -l -- $@ }}
    words=({quoted}); CURRENT={len(words)}
    _kt"""
    return [word for word in _run("zsh", "-f", "-c", program) if word.startswith(words[-1])]


def _fish(script: pathlib.Path, *words: str) -> list[str]:
    program = f"""source {script}
    function kt; if string match -q -- '--profile*' "$argv"; string replace -r '^--profile.(\\S+).*' 'of-$1' -- "$argv"
    else; echo alpha; echo beta; if test "$argv[2]" = --brokers; echo broker-7; end
    string replace -fr '.*--bootstrap-server.' at- -- "$argv"; end; end
    complete -C '{" ".join(words)}' """
    return [line.split("\t")[0] for line in _run("fish", "-N", "-c", program)]


def _run(*command: str) -> list[str]:
    if shutil.which(command[0]) is None:
        require(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.slow
def test_shells_complete_commands_options_values_and_names(complete: Complete) -> None:
    assert set(complete("kt", "")) >= set(COMMANDS)
    assert complete("kt", "topics", "--cre") == ["--create"]
    assert "random-uuid" in complete("kt", "storage", "")
    assert complete("kt", "topics", "--topic", "al") == ["alpha"]
    assert complete("kt", "consumer-groups", "--group", "be") == ["beta"]
    assert complete("kt", "leader-election", "--election-type", "u") == ["unclean"]


def test_shells_complete_settings(quickly: Complete) -> None:
    assert quickly("kt", "topics", "--config", "retention.m") == ["retention.ms="]
    assert quickly("kt", "configs", "--delete-config", "retention.m") == ["retention.ms"]
    assert quickly("kt", "console-producer", "--command-property", "linger") == ["linger.ms="]
    assert quickly("kt", "sandbox", "--set", "log.retention.h") == ["log.retention.hours="]


def test_shells_complete_topics_of_a_copy(quickly: Complete) -> None:
    assert quickly("kt", "copy", "al") == ["alpha"]
    assert quickly("kt", "copy", "alpha", "be") == ["beta"]
    assert quickly("kt", "copy", "--app") == ["--append"]
    assert quickly("kt", "copy", "--to-profile", "al") == ["alpha"]


@pytest.mark.slow
def test_shells_complete_operands_by_their_kind(quickly: Complete) -> None:
    assert quickly("kt", "why", "gro") == ["group"]
    assert quickly("kt", "why", "--inter") == ["--interval"]
    for kind in ("group", "topic", "partition", "transaction"):
        assert quickly("kt", "why", kind, "al") == ["alpha"]
        assert not any(quickly("kt", "why", kind, "broker-"))
    assert quickly("kt", "why", "broker", "broker-") == ["broker-7"]
    assert quickly("kt", "groups", "timeline", "be") == ["beta"]


@pytest.mark.slow
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


def test_names_of_other_kinds(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "broker") as bootstrap, RawProducer(bootstrap, "copy-1") as producer:
        producer.create_topic("two")
        for kind, name in (("partitions", "two-0"), ("brokers", "1"), ("transactions", "copy-1")):
            with patient_completion():
                ran = run_kt(
                    "completion", f"--{kind}", "--bootstrap-server", bootstrap, environ={"KT_HOME": str(tmp_path)}
                )
            assert ran.status == 0 and name in ran.out.splitlines()


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


def _shell(home: pathlib.Path, *command: str) -> str:
    """What a new interactive shell with this home prints."""
    if shutil.which(command[0]) is None:
        require(f"{command[0]} is not installed")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "ZDOTDIR"))}
    environ |= {"HOME": str(home), "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return done.stdout


_QUESTIONS = {
    "bash": ("bash", "-i", "-c", "COMP_WORDS=(kt topics); COMP_CWORD=1; _completion_loader kt 2>/dev/null; _kt; "
             "echo ${COMPREPLY[@]}; complete -p kafka-topics.sh"),
    "zsh": ("zsh", "-i", "-c", "print $_comps[kt] $_comps[kafka-topics.sh]"),
    "fish": ("fish", "-c", "complete -C 'kt topics'"),
}  # fmt: skip
_ANSWERS = {
    "bash": "topics\ncomplete -F _kt_script kafka-topics.sh\n",
    "zsh": "_kt _kt_script\n",
    "fish": "topics\t",
}


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_an_installed_script_is_found_by_a_new_shell_until_it_is_uninstalled(
    tmp_path: pathlib.Path, shell: str
) -> None:
    for name in (".bashrc", ".zshrc"):
        (tmp_path / name).write_text("# mine")
    before = _files(tmp_path)
    environ = {"HOME": str(tmp_path), "SHELL": f"/bin/{shell}"}
    first = run_kt("completion", "--install", environ=environ)
    assert (first.status, first.err) == (0, "It works in each new shell. Undo: kt completion --uninstall\n")
    changed = {name for name, data in _files(tmp_path).items() if before.get(name) != data}
    assert {line.split(": ")[0].rpartition(" ")[2] for line in first.out.splitlines()} == changed
    assert run_kt("completion", "--install", environ=environ).out == first.out.splitlines(keepends=True)[0]
    assert _shell(tmp_path, *_QUESTIONS[shell]).startswith(_ANSWERS[shell])
    assert run_kt("completion", "--uninstall", environ=environ).status == 0
    leftovers = {"": ""} | {name: data.rstrip("\n") for name, data in _files(tmp_path).items() if "zcomp" not in name}
    assert leftovers == {"": ""} | before


def _files(home: pathlib.Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in home.rglob("*") if path.is_file()}


def test_scripts_of_others_are_not_replaced(tmp_path: pathlib.Path) -> None:
    theirs = tmp_path / ".config" / "fish" / "completions" / "kt.fish"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("# theirs")
    environ = {"HOME": str(tmp_path)}
    ran = run_kt("completion", "--install", "--shell", "fish", environ=environ)
    assert (ran.status, ran.err.splitlines()[0]) == (1, f"{theirs} exists and was not written by kt")
    ran = run_kt("completion", "--uninstall", environ=environ)
    assert (ran.status, ran.err, theirs.read_text()) == (0, "Nothing was installed.\n", "# theirs")


def test_a_start_up_file_that_is_a_link_stays_one(tmp_path: pathlib.Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "zshrc").write_text("# mine\n")
    (tmp_path / ".zshrc").symlink_to(tmp_path / "dotfiles" / "zshrc")
    assert run_kt("completion", "--install", "--shell", "zsh", environ={"HOME": str(tmp_path)}).status == 0
    assert (tmp_path / ".zshrc").is_symlink()
    assert (tmp_path / "dotfiles" / "zshrc").read_text().startswith("# mine\n(( $+functions[compdef] ))")


@pytest.mark.parametrize(
    ("words", "environ", "message"),
    [
        (("--install",), {}, "Unsupported shell ''; completions exist for bash, zsh, fish"),
        (("--install", "--shell", "tcsh"), {}, "Unsupported shell 'tcsh'; completions exist for bash, zsh, fish"),
        (("--install", "--uninstall"), {}, 'Option "[install]" can\'t be used with option "[uninstall]"'),
        (
            ("--shell", "bash", "--topics"),
            {},
            "Exactly one of --shell, --topics, --groups, --partitions, --brokers, --transactions and --profiles is "
            "required",
        ),
    ],
)
def test_wrong_input_installs_nothing(
    tmp_path: pathlib.Path, words: tuple[str, ...], environ: dict[str, str], message: str
) -> None:
    ran = run_kt("completion", *words, environ={"HOME": str(tmp_path), **environ})
    assert (ran.status, ran.err.splitlines()[0], list(tmp_path.iterdir())) == (2, message, [])


def _bash_words(printed: pathlib.Path, function: str, *words: str) -> list[str]:
    quoted = " ".join(map(shlex.quote, words))
    return _run(
        "bash", "-c",
        f"source {printed / 'kt.bash'}\n{_STANDIN}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}\n{function}\n"
        "printf '%s\\n' ${COMPREPLY[@]}",
    )  # fmt: skip


def test_bash_completes_the_topic_of_a_uri(printed: pathlib.Path) -> None:
    """Bash splits `topic:al` at the colon, which the other shells do not."""
    assert _bash_words(printed, "_kt", "kt", "pipeline", "count", "topic", ":", "al") == ["alpha"]
    assert _bash_words(printed, "_kt", "kt", "pipeline", "count", "topic", ":") == ["alpha", "beta"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_complete_the_topic_of_a_uri(printed: pathlib.Path, shell: str) -> None:
    complete = {"zsh": _zsh, "fish": _fish}[shell]
    assert complete(printed / f"kt.{shell}", "kt", "pipeline", "count", "topic:al") == ["topic:alpha"]


def test_bash_asks_the_named_broker_and_profile(printed: pathlib.Path) -> None:
    """Bash splits words at `=` and `:`."""
    prefix = "COMP_LINE='kt topics --bootstrap-server{}host:9092,b:1 --topic a'; _kt"
    for between, parts in ((" ", ()), ("=", ("=",))):
        line = ("--bootstrap-server", *parts, "host", ":", "9092,b", ":", "1", "--topic", "at")
        assert _bash_words(printed, prefix.format(between), "kt", "topics", *line) == ["at-host:9092,b:1"]
    assert _bash_words(printed, "_kt", "kt", "--profile", "=", "prod", "topics", "--topic", "") == ["of-prod"]
    assert _bash_words(printed, "_kt", "kt", "--confirm", "=", "x", "shim") == ["shims"]
    assert _bash_words(printed, "_kt", "kt", "topics", "--topic", "=", "al") == ["alpha"]
    assert _bash_words(printed, "_kt", "kt", "topics", "--topic", "=") == ["alpha", "beta"]
    assert _bash_words(printed, "_kt", "kt", "topics", "--config", "retention.ms", "=") == [""]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_ask_the_broker_and_profile_of_one_word(printed: pathlib.Path, shell: str) -> None:
    complete = partial({"zsh": _zsh, "fish": _fish}[shell], printed / f"kt.{shell}")
    assert complete("kt", "--confirm=x", "--profile=prod", "shim") == ["shims"]
    assert complete("kt", "--profile=prod", "topics", "--topic", "of") == ["of-prod"]
    assert complete("kt", "topics", "--bootstrap-server=host:9092", "--topic", "at") == ["at-host:9092"]
    assert complete("kt", "topics", "--bootstrap-server", "host:9092", "--topic", "at") == ["at-host:9092"]


@pytest.mark.slow
def test_the_first_call_of_an_autoloaded_zsh_function_completes(
    tmp_path: pathlib.Path, printed: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    program = """fpath=($1 $fpath); autoload -Uz _kt; compdef() { : }
    compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- $@ }
    words=(kt shim); CURRENT=2
    _kt"""
    for number, script in enumerate((SCRIPTS / "kt.zsh", printed / "kt.zsh")):
        directory = tmp_path / str(number)
        directory.mkdir()
        shutil.copy(script, directory / "_kt")
        assert _run("zsh", "-f", "-c", program, "zsh", str(directory)).count("shims") == 1


def test_links_of_kafkas_scripts_complete_like_their_commands(printed: pathlib.Path) -> None:
    assert _bash_words(printed, "_kt_script", "/opt/bin/kafka-topics.sh", "--cre") == ["--create"]
    assert _bash_words(printed, "_kt_script", "kafka-topics", "--topic", "al") == ["alpha"]
