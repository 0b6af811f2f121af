"""Options --mask and --mask-key of kt console-consumer."""

from __future__ import annotations

import secrets

from kafkatools.console import Console
from kafkatools.exit_status import CommandError, UsageError
from kafkatools.options import Args
from kafkatools.tools.lines.mask import Mask, MaskStep, parse_mask

_RANDOM_KEY_BYTES = 32
_KEY_FORM = "--mask-key takes file:PATH or env:NAME; a key on the command line would be visible to other users"


def mask_step(console: Console, args: Args) -> MaskStep:
    """Return the step that masks what --mask names. Raises UsageError, and CommandError for an unreadable key file."""
    masks: list[Mask] = []
    for text in args.mask:
        try:
            mask = parse_mask(text)
        except ValueError as error:
            raise UsageError(f"Invalid value of --mask: {error}") from None
        if mask.text in [other.text for other in masks]:
            raise UsageError(f"--mask {mask.text} is given twice")
        masks.append(mask)
    return MaskStep(masks, _hash_key(console, args.mask_key))


def _hash_key(console: Console, source: str | None) -> bytes:
    """Return the key of hashes: a random one for this run without --mask-key."""
    if source is None:
        return secrets.token_bytes(_RANDOM_KEY_BYTES)
    kind, _, place = source.partition(":")
    if kind == "env" and place:
        key = console.environ.get(place, "").encode("utf-8", "surrogateescape")
        if not key:
            raise UsageError(f"--mask-key: the environment variable {place} is not set")
        return key
    if kind != "file" or not place:
        raise UsageError(_KEY_FORM)
    try:
        with open(place, "rb") as file:
            key = file.read().rstrip(b"\r\n")
    except OSError as error:
        raise CommandError(f"--mask-key: {place} cannot be read: {error.strerror}") from None
    if not key:
        raise UsageError(f"--mask-key: {place} is empty")
    return key
