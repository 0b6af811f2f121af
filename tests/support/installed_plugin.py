"""A distribution with entry points in a directory of its own, as pip leaves it, without pip."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping


def install(
    directory: pathlib.Path, distribution: str, points: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> None:
    """Writes the metadata of a distribution (its version is 1.0) and its modules. `points`: GROUP/NAME -> target."""
    metadata = directory / f"{distribution.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n\nVersion: 2.0\n")
    sections: dict[str, list[str]] = {}
    for place, target in points.items():
        group, _, name = place.partition("/")
        sections.setdefault(group, []).append(f"{name} = {target}\n")
    (metadata / "entry_points.txt").write_text(
        "# made by hand\n" + "".join(f"[{group}]\n{''.join(lines)}\n" for group, lines in sections.items())
    )
    for name, text in (modules or {}).items():
        (directory / f"{name}.py").write_text(text)
