"""The page of --web: one HTML file with its style and its script in it; nothing is fetched but /view.json.

Texts of the cluster come in by the script as text nodes only. It can be read without colours, without a mouse and in
both colour schemes; what changes by itself can be paused (WCAG 2.2.2), and the one line that says how the cluster is is
what screen readers are told of.
"""

from __future__ import annotations

from kafkatools.core.package_files import package_text


def page(interval_ms: int) -> str:
    """The file; it asks for the view once in so many ms."""
    html, style, script = (package_text(__name__, f"page.{kind}") for kind in ("html", "css", "js"))
    return html.replace("@INTERVAL@", str(interval_ms)).replace("@STYLE@", style).replace("@SCRIPT@", script)
