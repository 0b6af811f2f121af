"""Files in TOML."""

from __future__ import annotations

from typing import Any


def read_toml(path: str) -> dict[str, Any]:
    """The content of a file. Raises ValueError that names the file and what is wrong with it."""
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
