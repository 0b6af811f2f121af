"""Options --mask and --mask-key, which hide contents of records."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from kafkatools.exit_status import UsageError
from kafkatools.options.secret_sources import read_secret
from kafkatools.tools.lines.mask import Mask, MaskStep, parse_mask

_RANDOM_KEY_BYTES = 32


def parsed_masks(texts: Sequence[str]) -> list[Mask]:
    """Return the masks of --mask. Raises UsageError for an invalid mask and for one that is given twice."""
    masks: list[Mask] = []
    for text in texts:
        try:
            mask = parse_mask(text)
        except ValueError as error:
            raise UsageError(f"Invalid value of --mask: {error}") from None
        if mask.text in [other.text for other in masks]:
            raise UsageError(f"--mask {mask.text} is given twice")
        masks.append(mask)
    return masks


def hash_key(environ: Mapping[str, str], source: str | None) -> bytes:
    """Return the key of the hashes: that of --mask-key, a random one for this run without it. Raises UsageError, and
    CommandError for an unreadable key file."""
    if source is None:
        return secrets.token_bytes(_RANDOM_KEY_BYTES)
    return read_secret(environ, "--mask-key", source, "key")


def mask_step(environ: Mapping[str, str], texts: Sequence[str], key_source: str | None) -> MaskStep:
    """Return the step that masks what --mask names. Raises UsageError, and CommandError for an unreadable key file."""
    return MaskStep(parsed_masks(texts), hash_key(environ, key_source))
