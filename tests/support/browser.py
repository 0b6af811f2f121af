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
from support.waiting import PATIENCE_S

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


def ask(
    page: str,
    expression: str,
    directory: pathlib.Path,
    *,
    is_dark: bool = False,
    width: int = 1000,
    has_real_time: bool = False,
) -> Any:
    """The value of a JavaScript expression in the page once it is drawn; the network is out of reach. The expression
    may be a promise: it has some seconds of the page's own time, which passes only while the page waits. With
    `has_real_time` the page has the time of the machine, and no time to wait."""
    script = (
        "<script>window.addEventListener('load', async () => { const answer = document.createElement('pre');"
        f"answer.id = 'answer'; answer.textContent = JSON.stringify(await ({expression}));"
        "document.body.appendChild(answer); });</script></body>"
    )
    path = directory / "page.html"
    path.write_text(page.replace("</body>", script), encoding="utf-8")
    look = (f"--window-size={width},900", f"--blink-settings=preferredColorScheme={0 if is_dark else 1}")
    times = () if has_real_time else ("--virtual-time-budget=3000",)
    text, said = _dump(path.as_uri(), directory, "--host-resolver-rules=MAP * ~NOTFOUND", *times, *look)
    found = _ANSWER.search(text)
    assert found is not None, said
    return json.loads(html.unescape(found[1]))


def drawn(url: str, directory: pathlib.Path) -> str:
    """What a page of this machine looks like, as HTML, after it had some seconds of its own time to draw itself."""
    only_here = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    text, said = _dump(url, directory, only_here, "--virtual-time-budget=3000")
    assert text, said
    return text


def _dump(url: str, directory: pathlib.Path, *more: str) -> tuple[str, str]:
    """The page as HTML, and the end of what the browser said."""
    arguments = [
        find_browser(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={directory / 'profile'}",
        *more,
        "--dump-dom",
        url,
    ]
    ran = subprocess.run(arguments, capture_output=True, timeout=PATIENCE_S, check=False)
    return ran.stdout.decode(errors="replace"), ran.stderr.decode(errors="replace")[-2000:]
