"""References in client settings of properties files and profiles, such as `${env:NAME}` and `${prompt:Password}`.

core/config/providers.py resolves them. It is imported only for settings that have some, as most have none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from kafkatools.exit_status import CommandError

if TYPE_CHECKING:
    from kafkatools.core.config.providers import Providers
    from kafkatools.options.cluster_profile import Profile

PROJECT_FILE = ".kt.toml"
"""The file of a project's profiles. It is found in the working directory or above it, so it may be somebody else's."""
_TERMINAL = "/dev/tty"
_PROGRAM = "sasl.oauthbearer.token.command"


class _Terminal(Protocol):
    @property
    def is_error_terminal(self) -> bool: ...

    environ: Mapping[str, str]


class IndirectSettings:
    """Resolves references for one command, each once; without `ask` a prompt is an error."""

    def __init__(self, environ: Mapping[str, str], ask: Callable[[str], str] | None = None) -> None:
        self._environ = environ
        self._ask = ask
        self._providers: Providers | None = None

    def resolved(self, settings: Mapping[str, str], path: str) -> dict[str, str]:
        """Return the settings of a file with the values of its references. Raises CommandError, which names the file
        and the setting, also for a program in the settings of a project's file."""
        if os.path.basename(path) == PROJECT_FILE:
            _refuse_programs(settings, path)
        if not any("${" in value or name.startswith("config.providers") for name, value in settings.items()):
            return dict(settings)
        from kafkatools.core.config.providers import Providers, Surroundings
        from kafkatools.core.errors import ConfigError

        if self._providers is None:
            self._providers = Providers(Surroundings(self._environ, self._ask))
        try:
            return self._providers.resolved(settings)
        except ConfigError as error:
            raise CommandError(f"{path}: {error}") from None

    def of_profile(self, profile: Profile) -> dict[str, str]:
        """Return the settings of a profile under Kafka's names, with the values of references. Raises CommandError as
        `resolved` does, and for settings of librdkafka that cannot be translated."""
        from kafkatools.options.librdkafka_names import with_kafka_names

        return with_kafka_names(self.resolved(profile.settings, profile.path), profile.path)


def _refuse_programs(settings: Mapping[str, str], path: str) -> None:
    """Entering a directory must not make kt run programs of others."""
    for name, value in settings.items():
        if name == _PROGRAM or "${command:" in value:
            raise CommandError(
                f"{path}: {name} names a program, which a project's file may not: anybody may have written it",
                hint="Define the profile in your own file (KT_CONFIG, or ~/.config/kafkatools/config.toml).",
            )


def indirect_settings(console: _Terminal) -> IndirectSettings:
    """The references of a command, with a prompt when stderr is a terminal, wherever stdin comes from. Completion
    scripts and programs that read stderr therefore get no prompt."""
    return IndirectSettings(console.environ, ask if console.is_error_terminal else None)


def ask(label: str) -> str:
    """Prompt for a password on the terminal of this process, without showing it. Raises ConfigError without a terminal
    or a password."""
    import getpass

    from kafkatools.core.control_characters import visible
    from kafkatools.core.errors import ConfigError

    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        raise ConfigError(f"there is no terminal to prompt on for ${{prompt:{label}}}") from None
    try:
        typed = getpass.getpass(f"{visible(label)}: ")
    except EOFError:
        typed = ""
    if not typed:
        raise ConfigError(f"no password was typed for ${{prompt:{label}}}")
    return typed
