"""kt mcp: a server of the Model Context Protocol, which gives the commands of kt to an assistant. Kafka has no such
tool.

This module parses the options; the tools and the server are in `kafkatools/tools/mcp`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkatools.console import Console
    from kafkatools.tools.mcp.calls import Calls
    from kafkatools.tools.mcp.command_runs import Connection

_DEFAULT_TIMEOUT_S = 30.0
_MAX_TIMEOUT_S = 600.0
_MAX_PORT = 65535
_MASK_KEY = "KT_MCP_MASK_KEY"
"""Variable of the processes that read records, with the key of hashes, so that all answers have the same hashes."""


def _port(text: str) -> int:
    """Parse a port; 0 is any free one. Raises UsageError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _MAX_PORT):
        raise UsageError(f"--http takes a port of this machine, such as 8765, not '{text}'")
    return int(text)


def _seconds(text: str) -> float:
    """Parse seconds up to 600, as a number or with a unit. Raises UsageError."""
    from kafkatools.options.quantities import positive_seconds

    try:
        seconds = positive_seconds(text)
    except ValueError:
        seconds = _MAX_TIMEOUT_S + 1
    if seconds > _MAX_TIMEOUT_S:
        raise UsageError(f"--timeout takes seconds up to {_MAX_TIMEOUT_S:g}, such as 60 or 500ms, not '{text}'")
    return seconds


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt mcp until the client closes stdin. Raises UsageError, and CommandError for unreadable files and a missing
    package."""
    from kafkatools.exit_status import CommandError

    if args.allow_changes:
        _ensure_unprotected(console, args)
    token = _token(console, args)
    try:
        from kafkatools.tools.mcp.http_server import LOOPBACK, serve_http
        from kafkatools.tools.mcp.server import serve
    except ImportError:
        from kafkatools.core.install_command import install_command

        hint = f"Install it with {install_command('mcp')}."
        raise CommandError("kt mcp needs the package mcp 2.3 or later", hint=hint) from None
    calls = _calls(console, args)
    if args.http is None:
        if console.is_input_terminal:
            console.note("kt mcp speaks the Model Context Protocol on stdin and stdout: start it from its client.")
        serve(calls, console.note)
        return ExitStatus.OK

    def announce(url: str) -> None:
        console.print(url)
        if args.token is None:
            console.print(f"Authorization: Bearer {token}")
        console.flush()

    try:
        serve_http(calls, args.http, token, announce)
    except OSError as error:
        raise CommandError(f"--http: {LOOPBACK}:{args.http}: {os.strerror(error.errno or 0)}") from None
    return ExitStatus.OK


def _token(console: Console, args: Args) -> str:
    """Return the token of HTTP: that of --token, else a random one. Raises UsageError, and CommandError for an
    unreadable file."""
    import secrets

    from kafkatools.core.secrets import remember
    from kafkatools.options.secret_sources import read_secret

    if args.token is None:
        token = secrets.token_urlsafe(24)
    else:
        token = read_secret(console.environ, "--token", args.token, "token").decode("utf-8", "replace")
        if re.fullmatch(r"[A-Za-z0-9._~-]{16,512}", token) is None:
            raise UsageError(
                "--token: a token has 16 to 512 characters: ASCII letters, digits, '.', '_', '~' and '-'",
                "openssl rand -hex 24 makes one.",
            )
    remember(token)
    return token


def _calls(console: Console, args: Args) -> Calls:
    """Return the tools that the options allow."""
    from kafkatools.options.masking import hash_key, parsed_masks
    from kafkatools.tools.mcp.calls import Calls, reading_tools
    from kafkatools.tools.mcp.changes import Changes
    from kafkatools.tools.mcp.command_runs import Runner
    from kafkatools.tools.mcp.plans import PlanError

    masks = parsed_masks(args.mask)
    environ = {name: value for name, value in console.environ.items() if name != "KT_DEBUG"}
    key = hash_key(console.environ, args.mask_key)  # read now, so that a mistake is an error of the start
    if masks and args.mask_key is None:
        environ[_MASK_KEY] = key.hex()
    timeout_s = args.timeout if args.timeout is not None else _DEFAULT_TIMEOUT_S
    connection = _connection(console, args)
    runner = Runner(environ, timeout_s, _sandbox_start(console, args))
    changes = None

    def ensure_unprotected() -> None:
        try:
            _ensure_unprotected(console, args)
        except UsageError as error:
            raise PlanError(str(error)) from None

    if args.allow_changes:
        changes = Changes(runner, connection, console.clock, ensure_unprotected)
    tools = reading_tools(
        with_records=not args.without_records, has_masks=bool(masks), has_registry=connection.has_registry
    )
    return Calls(tools, runner, connection, changes)


def _connection(console: Console, args: Args) -> Connection:
    """Return the connection as words of command lines, and remember its secrets, which no answer contains. Raises
    UsageError, CommandError and ConfigError for invalid addresses and settings; nothing is connected."""
    from kafkatools.options.common import client_settings
    from kafkatools.options.connection import connect_admin
    from kafkatools.tools.mcp.command_runs import Connection
    from kafkatools.tools.schemas.access import URL

    settings = client_settings(args)
    _remember_secrets(settings, args.schema_registry)
    connect_admin(console, args).close()
    before = ("--profile", args.profile.name) if args.profile is not None else ()
    config = (f"--command-config={args.command_config}",) if args.command_config is not None else ()
    servers = (f"--bootstrap-server={console.connect(args)}",)
    registry = (f"--schema-registry={args.schema_registry}",) if args.schema_registry is not None else ()
    has_registry = bool(registry) or URL in settings
    decodes = registry or (("--decode=both",) if has_registry else ())
    if not registry and "@" not in settings.get(URL, "@"):
        registry = (f"--schema-registry={settings[URL]}",)  # so that no default profile of another cluster is used
    masks = tuple(f"--mask={text}" for text in args.mask)
    keys = (f"--mask-key={args.mask_key or f'env:{_MASK_KEY}'}",) if masks else ()
    return Connection(before, servers + config, config + registry, (*decodes, *masks, *keys), has_registry)


def _sandbox_start(console: Console, args: Args) -> Callable[[], None] | None:
    """Return a function that starts the sandbox again at its address, since it ends after a time without clients. None
    if the cluster is another one, or a sandbox of several nodes."""
    from kafkatools.sandbox.single import SandboxError, SandboxOptions, ensure_started

    if args.bootstrap_server is not None or args.profile is not None:
        return None
    host, _, port = console.connect(args).rpartition(":")
    if "," in host:
        return None

    def start() -> None:
        with suppress(SandboxError):  # the command says that no broker responds
            ensure_started(console.home, None, SandboxOptions(port=int(port)))

    return start


def _remember_secrets(settings: dict[str, str], registry: str | None) -> None:
    """Remember the secrets of the settings and of the registry's URL as they are and in parts, so that an answer that
    repeats them is hidden. Raises UsageError and ConfigError for invalid ones."""
    from kafkatools.core.net.security.jaas import parse_jaas_config
    from kafkatools.core.secrets import remember, remember_url, secrets_of
    from kafkatools.tools.schemas.access import URL, registry_access

    remember(*secrets_of(settings))
    if "sasl.jaas.config" in settings:
        parse_jaas_config(settings["sasl.jaas.config"])
    if registry is not None:
        remember_url(registry)
    if registry is not None or URL in settings:
        registry_access(settings, registry)


def _ensure_unprotected(console: Console, args: Args) -> None:
    """Raise UsageError if the profile is protected, as its file says now."""
    from kafkatools.options.profiles import find_profile

    if args.profile is None:
        return
    profile = find_profile(args.profile.name, console.environ, os.getcwd())
    if profile is not None and profile.is_protected:
        raise UsageError(
            f"The profile '{profile.name}' is protected, so kt mcp makes no changes with it",
            "Start kt mcp without --allow-changes, or with another profile.",
        )


OPTIONS = (
    BOOTSTRAP_SERVER,
    command_config(),
    Option("--allow-changes", "Also offer tools that plan changes and carry them out. Not with a protected profile."),
    Option("--without-records", "Offer no tools that show contents of records."),
    Option(
        "--mask",
        "Hide contents of records. FIELD: key, value, headers.NAME, or a JSON field such as value.user.email. HOW: "
        "hash (default, HMAC-SHA-256), null, or last4. Leaves out the tools that search, which would reveal them.",
        value="FIELD[=HOW]",
        repeatable=True,
    ),
    Option(
        "--mask-key",
        "Secret key for the hashes of --mask: file:PATH or env:NAME. Default: a random key.",
        value="KEY",
    ),
    Option(
        "--schema-registry",
        "Decode Avro, Protobuf and JSON Schema keys and values to JSON by the schemas of this registry. Default: "
        "schema.registry.url of the profile or the properties file.",
        value="URL",
    ),
    Option(
        "--http",
        "Serve HTTP at this port of 127.0.0.1 instead of stdin and stdout. The URL and the token are printed.",
        value="PORT",
        type=_port,
    ),
    Option(
        "--token",
        "With --http: the token of the Authorization header, of at least 16 characters: file:PATH or env:NAME. "
        "Default: a random token, which is printed.",
        value="TOKEN",
    ),
    Option(
        "--timeout",
        f"Time limit of a call in seconds, at most {_MAX_TIMEOUT_S:g}. Default: {_DEFAULT_TIMEOUT_S:g}.",
        value="SECONDS",
        type=_seconds,
    ),
)

COMMAND = Command(
    "mcp",
    "Serve commands of kt to an assistant by the Model Context Protocol (MCP).",
    tuple(option._replace(ours=True) for option in OPTIONS),
    run,
    rules=(
        rules.Requirement(("mask",), when=("mask-key",), message="--mask-key needs --mask"),
        rules.Requirement(("http",), when=("token",), message="--token needs --http"),
        rules.Refusal("http", ("json",)),
    ),
    needs_arguments=False,
    examples=(
        "kt mcp",
        "kt --profile prod mcp --without-records",
        "kt mcp --bootstrap-server broker1:9092 --mask value.email",
        "kt --profile dev mcp --allow-changes",
        "kt mcp --http 8765 --token file:token",
    ),
)
