"""A real browser without a window, and what it says of a page."""

from __future__ import annotations

import html
import json
import pathlib
import re
import shutil
import subprocess
from typing import Any

from support.requirements import require

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
_ANSWER = re.compile(r'<pre id="answer">(.*?)</pre>', re.DOTALL)


def find_browser() -> str:
    """The path of Chromium; the test ends when there is none."""
    for name in _NAMES:
        found = shutil.which(name)
        if found:
            return found
    require("No Chromium is installed (Debian: apt-get install chromium-headless-shell)")
    raise AssertionError


def ask(page: str, expression: str, directory: pathlib.Path, *, is_dark: bool = False, width: int = 1000) -> Any:
    """The value of a JavaScript expression in the page once it is drawn; the network is out of reach."""
    script = (
        "<script>window.addEventListener('load', () => { const answer = document.createElement('pre');"
        f"answer.id = 'answer'; answer.textContent = JSON.stringify({expression});"
        "document.body.appendChild(answer); });</script></body>"
    )
    path = directory / "page.html"
    path.write_text(page.replace("</body>", script), encoding="utf-8")
    arguments = [
        find_browser(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={directory / 'profile'}",
        f"--window-size={width},900",
        f"--blink-settings=preferredColorScheme={0 if is_dark else 1}",
        "--dump-dom",
        path.as_uri(),
    ]
    ran = subprocess.run(arguments, capture_output=True, timeout=60, check=False)
    found = _ANSWER.search(ran.stdout.decode(errors="replace"))
    assert found is not None, ran.stderr.decode(errors="replace")[-2000:]
    return json.loads(html.unescape(found[1]))
