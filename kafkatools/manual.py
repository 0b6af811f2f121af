"""The manual pages of the commands, as `kt help COMMAND` shows them."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

CHECKOUT = pathlib.Path(__file__).parents[1] / "docs" / "man"
INSTALLED = pathlib.Path(sys.prefix, "share", "man", "man1")


def show(command: str) -> bool:
    """Show the manual page of a command, of the checkout or else of the installation, with man(1) and wait for its end;
    False without a page or the program, or if the program fails."""
    pages = (directory / f"kt-{command}.1" for directory in (CHECKOUT, INSTALLED))
    page, program = next((page for page in pages if page.is_file()), None), shutil.which("man")
    return page is not None and program is not None and subprocess.run([program, page], check=False).returncode == 0
