"""kt delegation-tokens: create, renew, expire and describe tokens (kafka-delegation-tokens.sh, DelegationTokenCommand).

The HMAC of a token is a secret: --hmac-file keeps it off the command line.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_long, rules
from kafkatools.options.connection import connect_admin

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.delegation_tokens import DelegationToken

_ROW = "\n%-15s %-30s %-15s %-15s %-25s %-15s %-15s %-15s"
_TITLES = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
_LAST_DATE_MS = 253_402_214_400_000
"""The start of 9999-12-31 in UTC: a later time may be in the year 10000 in local time."""
_PERIODS = ("max-life-time-period", "renew-time-period", "expiry-time-period")


def run(console: Console, args: Args) -> ExitStatus:
    """Run the action option of kt delegation-tokens, such as --create. Raises UsageError."""
    if args.command_config is None and args.profile is None:
        raise UsageError('Missing required argument "[command-config]"')
    for name in (*_PERIODS, "hmac"):
        if args.has_option(name) and getattr(args, name.replace("-", "_")) is None:
            raise UsageError(f"Option {name} requires an argument")
    owners, renewers = _principals(args.owner_principal), _principals(args.renewer_principal)
    if args.create and len(owners) > 1:
        raise UsageError("--create takes one --owner-principal only: a token has one owner")
    hmac = _hmac(args) if args.renew or args.expire else b""
    with connect_admin(console, args) as admin:
        if args.dry_run:
            _dry_run(console, args, admin, owners, renewers, hmac)
        elif args.create:
            _create(console, args, admin, owners, renewers)
        elif args.describe:
            _describe(console, args, admin, owners)
        else:
            _prolong(console, args, admin, hmac)
    return ExitStatus.OK


def _principals(texts: Iterable[str | None]) -> list[str]:
    """Return the principals, Type:name. Raises UsageError for any other text."""
    principals = [text.strip() for text in texts if text is not None]
    for principal in principals:
        if ":" not in principal:
            raise UsageError(f"expected a string in format principalType:principalName but got {principal}")
    return principals


def _hmac(args: Args) -> bytes:
    """Return the bytes of --hmac or --hmac-file, which no error message contains. Raises UsageError if they are empty
    or not base64, CommandError for a file with other characters, OSError if it cannot be read."""
    text: str = args.hmac or ""
    if args.hmac_file is not None:
        try:
            with open(args.hmac_file, encoding="ascii") as file:
                text = file.read().strip()
        except UnicodeDecodeError:
            raise CommandError(f"{args.hmac_file} does not contain base64") from None
    if not text:
        reason = "--hmac is empty" if args.hmac_file is None else f"{args.hmac_file} is empty"
        raise UsageError(f"The HMAC is missing: {reason}")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("The HMAC is not valid base64") from None


def _create(console: Console, args: Args, admin: AdminClient, owners: list[str], renewers: list[str]) -> None:
    from kafkatools.core.admin.delegation_tokens import create_delegation_token

    period_ms = args.max_life_time_period
    if not args.json:
        names = ", ".join(renewers)
        console.print(f"Calling create token operation with renewers :[{names}] , max-life-time-period :{period_ms}")
    token = create_delegation_token(admin, renewers, period_ms, owners[0] if owners else None)
    if not args.json:
        console.print(f"Created delegation token with tokenId : {token.token_id}")
    _show(console, args, [token])


def _describe(console: Console, args: Args, admin: AdminClient, owners: list[str]) -> None:
    from kafkatools.core.admin.delegation_tokens import describe_delegation_tokens

    if not args.json:
        of_whom = f"owners: [{', '.join(owners)}]" if owners else "current user."
        console.print(f"Calling describe token operation for {of_whom}")
    tokens = describe_delegation_tokens(admin, owners or None)
    if not args.json:
        console.write(b"Total number of tokens : %d" % len(tokens))
    _show(console, args, tokens)


def _prolong(console: Console, args: Args, admin: AdminClient, hmac: bytes) -> None:
    from kafkatools.core.admin.delegation_tokens import expire_delegation_token, renew_delegation_token

    if args.renew:
        verb, period, period_ms = "renew", "renew-time-period", args.renew_time_period
        change = renew_delegation_token
    else:
        verb, period, period_ms = "expire", "expire-time-period", args.expiry_time_period
        change = expire_delegation_token
    if not args.json:
        hmac_text = "[hidden]" if args.hmac is None else args.hmac
        console.print(f"Calling {verb} token operation with hmac :{hmac_text} , {period} :{period_ms}")
    expiry_timestamp = change(admin, hmac, period_ms)
    row = {"action": verb, "expiry_timestamp": expiry_timestamp}
    console.print(f"Completed {verb} operation. New expiry date : {_date(expiry_timestamp)}", row)


def _dry_run(
    console: Console, args: Args, admin: AdminClient, owners: list[str], renewers: list[str], hmac: bytes
) -> None:
    """Print what the action would do, and raise the KafkaError that it would raise.

    Knows only tokens that this user can describe. Source: DelegationTokenControlManager (KIP-48).
    """
    from kafkatools.core.admin.delegation_tokens import describe_delegation_tokens

    tokens = describe_delegation_tokens(admin)
    row: dict[str, object]
    if args.create:
        owner, period_ms = owners[0] if owners else None, args.max_life_time_period
        period = f"{period_ms} ms" if period_ms >= 0 else "the broker's limit"
        row = {"action": "create", "owner": owner, "renewers": renewers, "created": False}
        text = f"A token would be created: owner {owner or 'this user'}, renewers [{', '.join(renewers)}], "
        text += f"max life time: {period}."
    else:
        token = _token_to_prolong(tokens, hmac, console.clock.wall_ms(), is_removal=_is_removal(args))
        expiry_timestamp, new_expiry = _new_expiry(args, token, console.clock.wall_ms())
        row = {"action": "renew" if args.renew else "expire", "token_id": token.token_id}
        row |= {"expiry_timestamp": token.expiry_timestamp, "new_expiry_timestamp": expiry_timestamp}
        text = f"Token {token.token_id} would {'be renewed' if args.renew else 'expire'}: "
        text += f"{_date(token.expiry_timestamp)} -> {new_expiry}."
    console.print(text, row)


def _is_removal(args: Args) -> bool:
    return bool(args.expire and args.expiry_time_period < 0)


def _token_to_prolong(
    tokens: Iterable[DelegationToken], hmac: bytes, now_ms: int, *, is_removal: bool
) -> DelegationToken:
    from kafkatools.core.errors import DelegationTokenExpired, DelegationTokenNotFound

    token = next((token for token in tokens if token.hmac == hmac), None)
    if token is None:
        raise DelegationTokenNotFound
    if not is_removal and min(token.expiry_timestamp, token.max_timestamp) < now_ms:
        raise DelegationTokenExpired
    return token


def _new_expiry(args: Args, token: DelegationToken, now_ms: int) -> tuple[int | None, str]:
    """Return the new expiry timestamp in ms, None if the broker's settings decide, and its text."""
    if _is_removal(args):
        return now_ms, "at once"
    period_ms = args.renew_time_period if args.renew else args.expiry_time_period
    if period_ms < 0:
        return None, f"at a time set by the broker, {_date(token.max_timestamp)} at the latest"
    expiry_timestamp = min(now_ms + period_ms, token.max_timestamp)
    return expiry_timestamp, _date(expiry_timestamp)


def _date(timestamp: int) -> str:
    """Return a timestamp in local time, in the format of Kafka's tool; one after the year 9999 in ms since 1970."""
    if timestamp > _LAST_DATE_MS:
        return str(timestamp)
    return f"{datetime.fromtimestamp(timestamp / 1000).astimezone():%Y-%m-%dT%H:%M}"


def _show(console: Console, args: Args, tokens: Iterable[DelegationToken]) -> None:
    if args.json:
        for token in tokens:
            row = {**token._asdict(), "hmac": base64.b64encode(token.hmac).decode(), "renewers": list(token.renewers)}
            console.print_json(row)
        return
    console.print(_ROW % _TITLES)
    for token in tokens:
        dates = [_date(timestamp) for timestamp in (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp)]
        hmac = base64.b64encode(token.hmac).decode()
        renewers = f"[{', '.join(token.renewers)}]"
        console.print(_ROW % (token.token_id, hmac, token.owner, token.requester, renewers, *dates))


def _period(name: str, about: str) -> Option:
    return Option(name, about, value="MS", type=java_long, optional_value=True)


def _principal(name: str, about: str) -> Option:
    return Option(name, about, value="TYPE:NAME", repeatable=True, optional_value=True)


COMMAND = Command(
    "delegation-tokens",
    "Create, renew, expire and describe delegation tokens.",
    options=(
        BOOTSTRAP_SERVER,
        command_config("Properties file with settings of the client: brokers give tokens to authenticated users only."),
        Option("--create", "Create a token."),
        Option("--renew", "Extend the expiry of a token."),
        Option("--expire", "Set when a token expires."),
        Option("--describe", "List the tokens that this user may see, or those of the named owners."),
        _principal(
            "--owner-principal",
            "With --create: owner of the token, if not this user. With --describe: show tokens of this owner.",
        ),
        _principal("--renewer-principal", "With --create: another principal that may renew the token."),
        _period(
            "--max-life-time-period",
            "With --create: maximum lifetime in ms; -1: delegation.token.max.lifetime.ms of the broker.",
        ),
        _period(
            "--renew-time-period",
            "With --renew: time until expiry in ms; -1: delegation.token.expiry.time.ms of the broker.",
        ),
        _period("--expiry-time-period", "With --expire: time until expiry in ms; -1: expire at once."),
        Option("--hmac", "HMAC of the token, in base64.", value="HMAC", optional_value=True),
        Option(
            "--hmac-file",
            "File with the HMAC. Other users of this machine can read --hmac from the process list.",
            value="FILE",
            ours=True,
        ),
        Option(
            "--dry-run", "With --create, --renew, --expire: print what would happen, and change nothing.", ours=True
        ),
    ),
    run=run,
    destructive=("expire",),
    rules=(
        rules.ExactlyOne(
            ("create", "renew", "expire", "describe"),
            "Command must include exactly one action: --create, --renew, --expire or --describe",
        ),
        rules.Requirement(("max-life-time-period",), when=("create",)),
        rules.Requirement(("hmac", "hmac-file"), when=("renew",)),
        rules.Requirement(("renew-time-period",), when=("renew",)),
        rules.Requirement(("hmac", "hmac-file"), when=("expire",)),
        rules.Requirement(("expiry-time-period",), when=("expire",)),
        rules.Refusal("create", ("hmac", "renew-time-period", "expiry-time-period", "hmac-file")),
        rules.Refusal("renew", ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal")),
        rules.Refusal("expire", ("max-life-time-period", "renew-time-period", "owner-principal", "renewer-principal")),
        rules.Refusal(
            "describe", ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period", "hmac-file")
        ),
        rules.Refusal("describe", ("renewer-principal", "dry-run")),
        rules.Refusal("hmac", ("hmac-file",)),
    ),
    examples=(
        "kt delegation-tokens --command-config alice.properties --create --max-life-time-period -1",
        "kt delegation-tokens --command-config alice.properties --describe",
    ),
)
