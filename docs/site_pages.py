"""A hook of mkdocs (mkdocs.yml): pages that lie beside docs/ (BESIDE) become pages of the site.

Rules: the files themselves are not changed. Links are rewritten so that they lead where they lead in the repository,
and an escaped bar in a table's code is shown as a bar, as repository browsers do.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parents[1]
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie beside docs/."""
    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Link the pages of docs/ to them."""
    for name in BESIDE:
        markdown = markdown.replace(f"](../{name}", f"]({name}")
    return re.sub(r"\[([^]]*)\]\(\.\./(examples/[^)]*)\)", r"\1 (`\2`)", markdown)  # files of the checkout


def on_page_content(html: str, **_: Any) -> str:
    """Show the bars that are escaped in code within tables."""
    return re.sub(r"<td[^>]*>.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.DOTALL)
