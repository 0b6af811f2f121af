"""The command that installs an extra of kafkatools, for errors about a missing package."""

from __future__ import annotations

from kafkatools.version import IS_RELEASE


def install_command(extra: str, is_release: bool = IS_RELEASE) -> str:
    """Return the pip command for an extra: by name for a released version, otherwise from the checkout, since package
    indexes have no version between two releases."""
    if is_release:
        return f"pip install 'kafkatools[{extra}]'"
    return f"pip install '.[{extra}]' in a checkout of kafkatools"
