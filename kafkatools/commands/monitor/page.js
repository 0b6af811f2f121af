'use strict';
(() => {
const byId = (id) => document.getElementById(id);
const interval = Number(document.body.dataset.interval), mayRead = document.body.dataset.role === 'read';
// The token has become a cookie: it need not stay in the address, which is copied and shown.
if (new URLSearchParams(location.search).has('token')) history.replaceState(null, '', location.pathname + location.hash);
let paused = false, last = null, timer = 0;

@WORDS@
@TABLES@
@CHARTS@
@SECTIONS@
@DETAILS@
@RECORDS@
// -- the loop --
const lost = (words) => {
  byId('state').textContent = words;
  byId('state').className = 'warn';
  entitle('Not refreshed');
};
const ask = async () => {
  clearTimeout(timer);
  try {
    const response = await fetch('view.json', {cache: 'no-store'});
    if (response.status === 401) {
      lost('This address is no longer valid: open the one that kt monitor printed when it started.');
      return;
    }
    const view = await response.json();
    if (view.totals) {
      last = view;
      draw(view);
      drawCharts('charts', await fetchJson('history.json'));
      loadDue();
      document.body.dataset.drawn = String(view.time);
    } else lost(view.error);
  } catch (error) {
    lost('No response from kt monitor: it has ended or cannot be reached.');
  }
  if (!paused) timer = setTimeout(ask, interval);
};
byId('pause').addEventListener('click', () => {
  paused = !paused;
  byId('pause').setAttribute('aria-pressed', String(paused));
  byId('pause').textContent = paused ? 'Resume' : 'Pause';
  if (paused) clearTimeout(timer); else ask();
});
defineSections();
defineDetails();
defineRecords();
startTables();
startDetails();
recall();
byId('internal').addEventListener('input', (event) => {
  state.internal = event.target.checked;
  remember();
  drawTable('topics');
});
window.addEventListener('hashchange', () => {
  recall();
  if (last) draw(last);
  for (const kind of KINDS) load(kind, false);
});
if (mayRead) startRecords();
ask();
})();
