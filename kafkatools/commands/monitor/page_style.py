"""The style of the page: one set of variables for light, one for dark, chosen by the reader's system."""

STYLE = """
:root { color-scheme: light dark; --page: #f9f9f7; --card: #ffffff; --ink: #16160f; --quiet: #5f5e58;
  --line: #e3e2dc; --axis: #b9b8b0; --mark: #2266bd; --wash: #2266bd22; --good: #1d6b34; --good-wash: #e5f4e8;
  --warn: #8a4300; --warn-wash: #fff1e0; --bad: #a11616; --bad-wash: #fdeaea; }
@media (prefers-color-scheme: dark) { :root { --page: #121211; --card: #1b1b19; --ink: #f3f2ec; --quiet: #a8a79f;
  --line: #32312d; --axis: #5b5a54; --mark: #6aa9f0; --wash: #6aa9f033; --good: #7fd698; --good-wash: #16301d;
  --warn: #ffb870; --warn-wash: #33240f; --bad: #ff9d96; --bad-wash: #3a1716; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
header, main { max-width: 76rem; margin: 0 auto; padding: 1.25rem; }
header { padding-bottom: 0; } main { padding-top: .5rem; }
h1 { font-size: 1.3rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h3 { font-size: .85rem; font-weight: 500; color: var(--quiet); margin: 0; }
p { margin: .25rem 0 .5rem; color: var(--quiet); }
#state { display: inline-block; font-weight: 600; border-radius: 8px; padding: .25rem .75rem; }
#state.good { color: var(--good); background: var(--good-wash); }
#state.bad { color: var(--bad); background: var(--bad-wash); }
#state.warn { color: var(--warn); background: var(--warn-wash); }
button, input { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--axis);
  border-radius: 6px; padding: .1rem .6rem; }
button { cursor: pointer; } .row-button { border: 0; background: none; padding: 0; color: var(--mark);
  text-align: left; text-decoration: underline; }
:focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem 1.25rem;
  margin-top: 1rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 1rem; margin: .5rem 0; }
.tiles div { border-left: 2px solid var(--line); padding-left: .75rem; }
.tiles div.bad { border-color: var(--bad); } .tiles div.bad dd { color: var(--bad); }
.tiles dt { color: var(--quiet); font-size: .8rem; }
.tiles dd { margin: 0; font-size: 1.3rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 1.25rem; }
.charts .now { font-size: 1.1rem; font-weight: 600; color: var(--ink); margin: 0; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: auto; font-size: 11px; overflow: visible; }
svg text { fill: var(--quiet); font-variant-numeric: tabular-nums; }
svg .area { fill: var(--wash); } svg .line { fill: none; stroke: var(--mark); stroke-width: 1.5;
  stroke-linejoin: round; vector-effect: non-scaling-stroke; }
svg .axis { stroke: var(--axis); } svg .grid { stroke: var(--line); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; min-width: 100%; }
caption { text-align: left; color: var(--quiet); }
th, td { text-align: right; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 500; color: var(--quiet); } .text { text-align: left; }
tr.bad td.mood { color: var(--bad); font-weight: 600; } tr.warn td.mood { color: var(--warn); font-weight: 600; }
tr.chosen td { background: var(--wash); }
.replica { display: inline-block; min-width: 1.5rem; padding: 0 .3rem; margin-right: .2rem; text-align: center;
  border: 1px solid var(--mark); border-radius: 4px; color: var(--ink); background: var(--wash); }
.replica.leader { background: var(--mark); color: var(--card); font-weight: 600; }
.replica.out { border: 1px dashed var(--bad); color: var(--bad); background: none; text-decoration: line-through; }
.key { font-size: .85rem; }
"""
