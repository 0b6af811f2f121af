"""The style of the page: one set of variables for light, one for dark, chosen by the reader's system."""

CSS = """
:root { color-scheme: light dark; --page: #f9f9f7; --card: #ffffff; --ink: #16160f; --quiet: #5f5e58;
  --line: #e3e2dc; --axis: #b9b8b0; --mark: #2a78d6; --wash: #2a78d626; --warn: #a34a00; --warn-wash: #fff1e0; }
@media (prefers-color-scheme: dark) { :root { --page: #121211; --card: #1b1b19; --ink: #f3f2ec; --quiet: #a8a79f;
  --line: #32312d; --axis: #5b5a54; --mark: #4c93ea; --wash: #4c93ea33; --warn: #ffb870; --warn-wash: #33240f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .25rem; }
h3 { font-size: .85rem; font-weight: 500; color: var(--quiet); margin: 1.25rem 0 .25rem; }
p { margin: .25rem 0 1rem; color: var(--quiet); max-width: 42rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1.25rem;
  margin-top: 1rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 1rem; margin: 1.5rem 0 0; }
.tiles div { border-left: 2px solid var(--line); padding-left: .75rem; }
.tiles dt { color: var(--quiet); font-size: .8rem; }
.tiles dd { margin: 0; font-size: 1.3rem; font-weight: 600; }
.warning { color: var(--warn); background: var(--warn-wash); border-radius: 8px; padding: .5rem .75rem;
  margin: 1rem 0 0; }
svg { display: block; width: 100%; height: auto; margin: .5rem 0; font-size: 12px; overflow: visible; }
svg text { fill: var(--ink); dominant-baseline: central; font-variant-numeric: tabular-nums; }
svg .name { text-anchor: end; }
svg .value, svg .tick { fill: var(--quiet); }
svg .middle { text-anchor: middle; } svg .end { text-anchor: end; }
svg .mark { fill: var(--mark); } svg .area { fill: var(--wash); }
svg .line { fill: none; stroke: var(--mark); stroke-width: 1.5; stroke-linejoin: round; }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--axis); }
svg .hit { fill: transparent; } svg g:hover .mark { opacity: .8; } svg rect.hit:hover { fill: var(--wash); }
details { margin-top: .75rem; } summary { cursor: pointer; color: var(--quiet); font-size: .85rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; margin-top: .5rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 500; color: var(--quiet); } .text { text-align: left; }
footer { color: var(--quiet); font-size: .8rem; margin-top: 1.5rem; }
@media print { section { break-inside: avoid; } }
"""
