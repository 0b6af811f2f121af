"""Find and read the manifests of a backup."""

from __future__ import annotations

from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.manifest import PROGRESS, Manifest, decode_manifest, generation_of, manifest_name
from kafkatools.tools.backup.store import Store, read_object


def generations(store: Store) -> list[int]:
    """Return the numbers of the generations, ascending. Raises CommandError when the storage cannot be read."""
    return sorted(number for name in store.sizes("") if (number := generation_of(name)) is not None)


def read_manifest(store: Store, generation: int) -> Manifest:
    """Return the manifest of a generation. Raises CommandError for one that is damaged or does not exist."""
    numbers = generations(store)
    if generation not in numbers:
        which = "no generation" if not numbers else f"the generations {numbers[0]} to {numbers[-1]}"
        raise CommandError(f"{store.url} has {which}, not {generation}")
    name = manifest_name(generation)
    return decode_manifest(f"{store.url}/{name}", read_object(store, name))


def last_manifest(store: Store) -> Manifest | None:
    """Return the newest manifest, None without one. Raises CommandError for one that is damaged."""
    numbers = generations(store)
    return read_manifest(store, numbers[-1]) if numbers else None


def required_manifest(store: Store, generation: int | None) -> Manifest:
    """Return the manifest of a generation (None: the newest). Raises CommandError."""
    if generation is not None:
        return read_manifest(store, generation)
    manifest = last_manifest(store)
    if manifest is None:
        raise no_generation(store)
    return manifest


def no_generation(store: Store) -> CommandError:
    """Return the error of a store without any manifest."""
    if PROGRESS not in store.sizes(""):
        return CommandError(f"{store.url} is no backup: it has no manifest")
    return CommandError(
        f"{store.url} has no complete backup",
        hint="Run kt backup, or kt migrate, again with the same URL: it goes on where it was cut off.",
    )


def read_progress(store: Store) -> Manifest | None:
    """Return the state of a run that did not end, None without one or when it is damaged. Raises CommandError if it
    cannot be read, or a later version of kt wrote it."""
    if PROGRESS not in store.sizes(""):
        return None
    try:
        return decode_manifest(PROGRESS, read_object(store, PROGRESS))
    except CommandError as error:
        if error.kind != "DAMAGED":
            raise
        return None
