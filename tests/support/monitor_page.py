"""The page of kt monitor with data of a test in place of a server, for `support.browser.ask`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kafkatools.commands.monitor.access import Role
from kafkatools.commands.monitor.server import page
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.page_data import history_data, page_data

CELLS = "[...document.querySelectorAll('#{} tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
"""The texts of the cells of a table with this id, row by row."""


def with_data(board: Board, at: str = "", details: Mapping[str, Any] | None = None) -> str:
    """Return the page with what this board knows. `at`: the hash of its address; `details`: the JSON of the routes for
    details by their address. `window.asked` has the addresses that the page requests."""
    histories = {"history.json": history_data(board, "cluster", "")}
    for address in details or {}:
        field = address.partition("?")[2]
        histories[f"history.json?{field}"] = history_data(board, *field.split("=", 1))
    known = json.dumps({"view.json": page_data(board), **histories, **(details or {})}).replace("<", "\\u003c")
    stub = (
        f"const known = {known}; window.asked = []; window.fetch = async (url) => {{ window.asked.push(url);"
        "const found = known[decodeURIComponent(url)] || {error: 'not known: ' + url};"
        "return {status: 200, ok: true, json: async () => found}; };"
        f"if ({json.dumps(at)}) location.hash = {json.dumps(at)};"
    ).replace("</", "<\\/")
    return page(3_600_000, Role.VIEW).replace("<body", f"<script>{stub}</script><body", 1)


CONTRAST = """(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => { const l = [r, g, b].map((c) => { c /= 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
    return 0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2]; };
  const behind = (element) => { let colour = [0, 0, 0, 0];
    for (let e = element; e; e = e.parentElement) { const [r, g, b, a = 1] = parse(getComputedStyle(e).backgroundColor);
      const left = 1 - colour[3]; colour = [colour[0] + r*a*left, colour[1] + g*a*left, colour[2] + b*a*left,
        colour[3] + a*left]; } return colour; };
  const ratio = (one, other) => { const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05); };
  const bad = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.getClientRects().length || ['SCRIPT', 'STYLE', 'text'].includes(element.tagName)) continue;
    const found = ratio(parse(getComputedStyle(element).color), behind(element));
    if (found < 4.5) bad.push([element.tagName, element.className, element.textContent.slice(0, 20), found]);
  }
  return bad;
})()"""
"""The elements whose text has less than the contrast of WCAG AA, 4.5 to 1, to what is behind it."""
