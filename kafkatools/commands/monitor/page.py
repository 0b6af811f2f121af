"""The web page of kt monitor --web: one HTML file with its style and script, which fetches /view.json only.

The script inserts texts of the cluster as text nodes only. The page works without colours, without a mouse and in both
colour schemes. Updates can be paused (WCAG 2.2.2), and screen readers announce only the line with the cluster's health.
"""

from __future__ import annotations

from kafkatools.core.package_files import package_text


def page(interval_ms: int) -> str:
    """Return the HTML of the page, which fetches the view every `interval_ms`."""
    html, style, script = (package_text(__name__, f"page.{kind}") for kind in ("html", "css", "js"))
    return html.replace("@INTERVAL@", str(interval_ms)).replace("@STYLE@", style).replace("@SCRIPT@", script)
