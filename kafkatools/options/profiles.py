"""Cluster profiles: named clusters in TOML files of the user and of the project.

    default = "dev"

    [profiles.prod]
    bootstrap_servers = "broker1:9092,broker2:9092"
    command_config = "prod.properties"      # relative to this file; client settings as in --command-config
    protected = true                        # destructive commands prompt for the cluster's name
    cluster = "payments-prod"               # the cluster's name; default: the profile's
    journal = "required"                    # of kt undo: on (default), off or required

    [profiles.prod.settings]                # client settings, overriding those of the file
    "sasl.jaas.config" = { env = "PROD_JAAS" }          # also file, command, keyring and prompt

Rules: the user's file is `config.toml` in $XDG_CONFIG_HOME/kafkatools (or KT_CONFIG), the project's the nearest
`.kt.toml` in or above the working directory. A name defined in both is an error: entering a directory must not redefine
`prod`. Precedence: --profile, KT_PROFILE, the project's default, the user's default, and the profile `sandbox` of a
running sandbox with TLS or SASL. A default profile is ignored,
settings included, when the command line names brokers: its passwords are for its own cluster. Errors name file and key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kafkatools.exit_status import CommandError, UsageError
from kafkatools.options.args import Args
from kafkatools.options.cluster_profile import JOURNAL_MODES, Profile
from kafkatools.options.confirmation import Asking
from kafkatools.options.indirect_settings import PROJECT_FILE
from kafkatools.options.secret_files import warn_if_others_can_read, warn_if_others_can_read_keys
from kafkatools.options.table import Command, attribute_name

SANDBOX_PROFILE = "sandbox"
_PROFILE_KEYS = ("bootstrap_servers", "command_config", "protected", "cluster", "journal", "settings")
_FILE_KEYS = ("default", "profiles")


def find_profile(requested_name: str | None, environ: Mapping[str, str], directory: str) -> Profile | None:
    """Return the requested profile, else that of KT_PROFILE, else the default one, else None. Logs a warning when every
    user can read its secrets. Raises UsageError for an unknown or ambiguous name, an invalid file or an unset
    environment variable, CommandError for an unreadable properties file."""
    files = _files(environ, directory)
    name = requested_name or environ.get("KT_PROFILE") or None
    is_default = name is None
    if name is None:
        name = next((content["default"] for content in files.values() if "default" in content), None)
    if name is None or name == SANDBOX_PROFILE and SANDBOX_PROFILE not in _names(files):
        of_sandbox = _sandbox_file(environ, is_default=is_default)
        if of_sandbox is not None:
            table = _read(of_sandbox)["profiles"][SANDBOX_PROFILE]
            return _profile(SANDBOX_PROFILE, of_sandbox, table, environ, is_default)
        if name is None:
            return None
    holders = [path for path, content in files.items() if name in content.get("profiles", {})]
    if not holders:
        names = _names(files)
        advice = f"there are {', '.join(names)}" if names else f"define it in {user_file(environ)} or in {PROJECT_FILE}"
        raise UsageError(f"There is no profile '{name}'; {advice}")
    if len(holders) > 1:
        raise UsageError(f"The profile '{name}' is defined in {holders[0]} and in {holders[1]}: rename one of them")
    return _profile(name, holders[0], files[holders[0]]["profiles"][name], environ, is_default)


def _sandbox_file(environ: Mapping[str, str], *, is_default: bool) -> str | None:
    """The file with the profile of a sandbox with TLS or SASL; None without one. As the default profile it counts only
    while the sandbox is running."""
    from kafkatools.sandbox.home import kt_home

    home = kt_home(environ)
    path = os.path.join(home, "sandbox", "security", "config.toml")
    if not os.path.isfile(path) or environ.get("KT_SANDBOX", "").lower() in ("off", "0", "false", "no"):
        return None
    from kafkatools.sandbox.single import status

    return None if is_default and status(home) is None else path


def profile_for(args: Args, requested: str | None, environ: Mapping[str, str]) -> Profile | None:
    """Return the profile of a command line, as `find_profile` does. None for commands without a cluster or schema
    registry, without any profile, and instead of a default profile when the command line names brokers or controllers,
    or the registry of a command without a cluster. A command that only reads files uses no profile unless it decodes by
    a schema registry."""
    server = getattr(args, "bootstrap_server", args)
    decodes = any(getattr(args, name, None) is not None for name in ("schema_registry", "decode"))
    if server is args and (hasattr(args, "command_config") or decodes):
        server = getattr(args, "schema_registry", args)
    if server is args:
        return None
    profile = find_profile(requested, environ, _working_directory())
    names_brokers = server is not None or getattr(args, "bootstrap_controller", None) is not None
    return None if profile is None or (profile.is_default and names_brokers) else profile


def target_profile_for(args: Args, environ: Mapping[str, str]) -> Profile | None:
    """Return the profile of --to-profile, None without this option. Raises what `find_profile` raises."""
    name: str | None = getattr(args, "to_profile", None)
    return None if name is None else find_profile(name, environ, _working_directory())


def changed_profile(args: Args) -> Profile | None:
    """Return the profile of the cluster that the command changes: of the target cluster if the command line names one,
    else of the only cluster. None if that cluster has no profile."""
    if args.target_profile is not None or getattr(args, "to_bootstrap_server", None) is not None:
        return args.target_profile
    return args.profile


def ensure_confirmed(console: Asking, command: Command, args: Args, confirmed: str | None) -> None:
    """Before a destructive command changes a protected cluster, prompt for its name unless --confirm (`confirmed`) is
    that name. Does nothing for other commands and clusters. Raises UsageError for a wrong --confirm or without a
    terminal, CommandError for a wrong answer; nothing has been changed then."""
    profile = changed_profile(args)
    if profile is None or not profile.is_protected or not is_destructive(command, args):
        return
    if confirmed == profile.cluster:
        return
    refusal = f"The profile '{profile.name}' is protected"
    if confirmed is not None:
        raise UsageError(f"{refusal}, and its cluster is not called '{confirmed}'")
    if not (console.is_input_terminal and console.is_error_terminal):
        raise UsageError(
            f"{refusal}, and there is no terminal to prompt on", "Pass kt --confirm with the name of the cluster."
        )
    console.note(f"{refusal}. Type the name of its cluster ({profile.cluster}) to continue:")
    if console.stdin.readline().decode("utf-8", "replace").strip() != profile.cluster:
        raise CommandError("That is not the name of the cluster: nothing was done")


def is_destructive(command: Command, args: Args) -> bool:
    """Return whether the command's table entry (`destructive`) names its subcommand or one of the given options. False
    with an option that changes nothing (`harmless`), such as --dry-run."""
    if any(getattr(args, attribute_name(name), False) for name in command.harmless):
        return False
    return any(name in ("", args.command.name) or args.has_option(name) for name in command.destructive)


def user_file(environ: Mapping[str, str]) -> str:
    """Return the path of the user's file of profiles, which need not exist."""
    path = environ.get("KT_CONFIG")
    if path:
        return path
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(base, "kafkatools", "config.toml")


def _working_directory() -> str:
    """Return the working directory, where the search for a project's file begins; the root if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def _project_file(directory: str) -> str | None:
    while True:
        path = os.path.join(directory, PROJECT_FILE)
        if os.path.isfile(path):
            return path
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def _files(environ: Mapping[str, str], directory: str) -> dict[str, dict[str, Any]]:
    """Return the existing profile files by path, the project's before the user's. Raises UsageError for an invalid
    file."""
    project, user = _project_file(directory), user_file(environ)
    if project is not None and os.path.exists(user) and os.path.samefile(project, user):
        project = None
    return {path: _read(path) for path in (project, user) if path is not None and os.path.exists(path)}


def profile_names(environ: Mapping[str, str], directory: str) -> list[str]:
    """Return the names of all profiles, sorted; none when a file is invalid."""
    try:
        files = _files(environ, directory)
    except UsageError:
        return []
    return sorted(_names(files))


def names_in(path: str) -> set[str]:
    """Return the names of the profiles in a file. Raises UsageError for an invalid file."""
    return set(_read(path).get("profiles", {}))


def profiles_with_file(file: str, environ: Mapping[str, str], directory: str) -> list[str]:
    """Return the names of the profiles whose `command_config` is this file. Raises UsageError for an invalid file."""
    return [
        name
        for path, content in _files(environ, directory).items()
        for name, table in content.get("profiles", {}).items()
        if isinstance(table, dict)
        and isinstance(table.get("command_config"), str)
        and os.path.realpath(_beside(path, table["command_config"])) == os.path.realpath(file)
    ]


def _beside(path: str, file: str) -> str:
    return os.path.join(os.path.dirname(path), os.path.expanduser(file))


def _names(files: Mapping[str, dict[str, Any]]) -> list[str]:
    return [name for content in files.values() for name in content.get("profiles", {})]


def _read(path: str) -> dict[str, Any]:
    from kafkatools.core import toml_files

    try:
        content = toml_files.read_toml(path)
    except ValueError as error:
        raise UsageError(str(error)) from None
    _ensure_keys(content, _FILE_KEYS, path, "")
    _ensure_type(content, "default", str, path, "")
    _ensure_type(content, "profiles", dict, path, "")
    return content


def _profile(name: str, path: str, table: object, environ: Mapping[str, str], is_default: bool) -> Profile:
    prefix = f"profiles.{name}."
    if not isinstance(table, dict):
        raise UsageError(f"{path}: profiles.{name} must be a table")
    _ensure_keys(table, _PROFILE_KEYS, path, prefix)
    for key in ("bootstrap_servers", "command_config", "cluster"):
        _ensure_type(table, key, str, path, prefix)
    _ensure_type(table, "protected", bool, path, prefix)
    _ensure_type(table, "settings", dict, path, prefix)
    journal = table.get("journal", JOURNAL_MODES[0])
    if journal not in JOURNAL_MODES:
        raise UsageError(f"{path}: {prefix}journal must be one of {', '.join(JOURNAL_MODES)}")
    settings: dict[str, str] = {}
    if "command_config" in table:
        from kafkatools.options.properties import read_properties

        settings.update(read_properties(_beside(path, table["command_config"])))
    plain_settings: dict[str, str] = {}
    for key, value in table.get("settings", {}).items():
        settings[key] = _setting(value, path, f"{prefix}settings.{key}", environ)
        if not isinstance(value, dict):
            plain_settings[key] = settings[key]
    warn_if_others_can_read(path, plain_settings)
    warn_if_others_can_read_keys({key: settings[key] for key in table.get("settings", {})})
    return Profile(
        name, path, table.get("bootstrap_servers"), settings, table.get("protected", False),
        table.get("cluster", name), is_default, journal,
    )  # fmt: skip


_REFERENCES = ("env", "file", "command", "keyring", "prompt")


def _setting(value: object, path: str, key: str, environ: Mapping[str, str]) -> str:
    """Return a setting's value as text; `{ env = "NAME" }` is read from the environment, other tables become references
    that are resolved when the settings are used. Raises UsageError."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, dict) and len(value) == 1:
        (kind, place), *_ = value.items()
        if kind in _REFERENCES and isinstance(place, str) and place:
            return _reference(kind, place, path, key, environ)
    tables = ", ".join(f'{{ {kind} = "..." }}' for kind in _REFERENCES)
    raise UsageError(f"{path}: {key} must be a string, a number, true or false, or one of {tables}")


def _reference(kind: str, place: str, path: str, key: str, environ: Mapping[str, str]) -> str:
    if kind == "env":
        if place not in environ:
            raise UsageError(f"{path}: {key} takes its value from the environment variable {place}, which is not set")
        return environ[place]
    if kind == "file":
        place = os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(place))
    if "}" in place or (kind == "file" and ":" in place):
        raise UsageError(f"{path}: {key}: '{place}' may not contain {'}' if '}' in place else 'a colon'}")
    return f"${{{kind}:{place}}}"


def _ensure_keys(table: Mapping[str, object], allowed_keys: tuple[str, ...], path: str, prefix: str) -> None:
    for key in table:
        if key not in allowed_keys:
            raise UsageError(f"{path}: there is no key {prefix}{key} (known: {', '.join(allowed_keys)})")


_TYPE_WORDS = {str: "a string", bool: "true or false", dict: "a table"}


def _ensure_type(table: Mapping[str, object], key: str, kind: type, path: str, prefix: str) -> None:
    if key in table and not isinstance(table[key], kind):
        raise UsageError(f"{path}: {prefix}{key} must be {_TYPE_WORDS[kind]}")
