"""The page of --web: one HTML file with its style and its script in it; nothing is fetched but /view.json.

Texts of the cluster come in by the script as text nodes only. It can be read without colours, without a mouse and in
both colour schemes; what changes by itself can be paused (WCAG 2.2.2), and the one line that says how the cluster is is
what screen readers are told of.
"""

from __future__ import annotations

from kafkatools.commands.monitor.page_script import SCRIPT
from kafkatools.commands.monitor.page_style import STYLE

_BODY = """
<header>
  <h1>Kafka cluster <span id="cluster"></span></h1>
  <p id="state" role="status" aria-live="polite">Waiting for the first view.</p>
  <p class="controls">
    <button type="button" id="pause" aria-pressed="false">Pause</button>
    <span id="when"></span>
  </p>
</header>
<main>
  <dl class="tiles" id="tiles"></dl>
  <section aria-labelledby="h-rates">
    <h2 id="h-rates">Over time</h2>
    <div class="charts" id="charts"></div>
  </section>
  <section id="troubled-section" aria-labelledby="h-troubled" hidden>
    <h2 id="h-troubled">Unhealthy partitions</h2>
    <div class="wide"><table id="troubled"></table></div>
  </section>
  <section aria-labelledby="h-brokers">
    <h2 id="h-brokers">Brokers</h2>
    <div class="wide"><table id="brokers"></table></div>
  </section>
  <section aria-labelledby="h-topics">
    <h2 id="h-topics">Topics</h2>
    <p class="controls"><label>Find <input type="search" id="find" autocomplete="off"></label>
    <label><input type="checkbox" id="internal"> internal topics too</label></p>
    <div class="wide"><table id="topics"></table></div>
    <p id="topics-more"></p>
  </section>
  <section id="topic-section" aria-labelledby="h-topic" hidden>
    <h2 id="h-topic" tabindex="-1">Topic</h2>
    <p class="key"><span class="replica leader">1</span> leads <span class="replica">2</span> in sync
    <span class="replica out">3</span> not in sync</p>
    <div class="charts" id="topic-charts"></div>
    <div class="wide"><table id="partitions"></table></div>
    <p id="partitions-more"></p>
  </section>
  <section aria-labelledby="h-groups">
    <h2 id="h-groups">Groups</h2>
    <div class="wide"><table id="groups"></table></div>
    <p id="groups-more"></p>
  </section>
  <section aria-labelledby="h-quorum">
    <h2 id="h-quorum">Quorum</h2>
    <div class="wide"><table id="quorum"></table></div>
  </section>
  <section aria-labelledby="h-events">
    <h2 id="h-events">Events</h2>
    <div class="wide"><table id="events"></table></div>
  </section>
  <section id="problems-section" aria-labelledby="h-problems" hidden>
    <h2 id="h-problems">Not told</h2>
    <ul id="problems"></ul>
  </section>
  <noscript><p>A script draws this page; <a href="view.json">view.json</a> has the same numbers.</p></noscript>
</main>
"""


def page(interval_ms: int) -> str:
    """The file; it asks for the view once in so many ms."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>Kafka cluster</title>\n<link rel="icon" href="data:,">\n<style>{STYLE}</style>\n</head>\n'
        f'<body data-interval="{interval_ms}">{_BODY}<script>{SCRIPT}</script>\n</body>\n</html>\n'
    )
