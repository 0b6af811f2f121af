'use strict';
(() => {
const byId = (id) => document.getElementById(id);
const interval = Number(document.body.dataset.interval), mayRead = document.body.dataset.role === 'read';
// The token has become a cookie: it need not stay in the address, which is copied and shown.
if (new URLSearchParams(location.search).has('token')) history.replaceState(null, '', location.pathname + location.hash);
const SHOWN_TOPICS = 200;
let chosen = new URLSearchParams(location.hash.slice(1)).get('topic') || '';
let paused = false, last = null, timer = 0;
const sorted = {};
// The address keeps the chosen topic, and the records that were read.
const remember = (read) => {
  if (read !== undefined) shown = read;
  const parts = [chosen ? new URLSearchParams({topic: chosen}) : '', shown].filter((part) => String(part));
  history.replaceState(null, '', parts.length ? '#' + parts.join('&') : location.pathname);
};
let shown = '';

// -- words --
const known = (number) => number !== null && number !== undefined;
const count = (number) => known(number) ? number.toLocaleString('en') : '?';
const atLeast = (number, least) => known(number) || !least ? count(number) : '≥ ' + count(least);
const rate = (number) => !known(number) ? '?' : number >= 100 || number === 0 ? Math.round(number).toLocaleString('en')
  : number.toFixed(1);
const size = (number) => {
  if (!known(number)) return '?';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) { number /= 1024; unit += 1; }
  return (unit === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)) + ' ' + units[unit];
};
const span = (seconds) => {
  if (!known(seconds)) return '–';
  const left = Math.round(seconds);
  const parts = [[Math.floor(left / 86400), 'd'], [Math.floor(left / 3600) % 24, 'h'],
    [Math.floor(left / 60) % 60, 'min'], [left % 60, 's']];
  return parts.filter(([number]) => number).slice(0, 2).map((part) => part.join(' ')).join(' ') || '0 s';
};
const clock = (time) => new Date(time).toLocaleTimeString('en-GB');

// -- elements --
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== '') made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const drawn = (name, attributes, ...children) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
// Columns: [header, kind]; a kind is text, mood (text that says how bad it is) or number.
// Rows: {cells, mood}; cells are texts, elements or lists of them. What has not changed is left alone, so that focus
// stays. A click on a header sorts by it: descending, ascending, and as it was.
const UNITS = {KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4, PiB: 1024 ** 5, min: 60, h: 3600, d: 86400};
const weight = (text) => {
  const parts = [...text.replaceAll(',', '').matchAll(/(\d+(?:\.\d+)?)\s*([A-Za-z]*)/g)];
  return parts.length ? parts.reduce((sum, [, number, unit]) => sum + number * (UNITS[unit] || 1), 0) : -1;
};
const wordsOf = (cell) => Array.isArray(cell) ? cell.map(wordsOf).join(' ')
  : typeof cell === 'string' ? cell : cell.textContent;
const inOrder = (id, columns, rows) => {
  const order = sorted[id];
  if (!order || order.place >= columns.length) return rows;
  const isNumber = columns[order.place][1] === 'number';
  const keys = new Map(rows.map((row) => {
    const words = wordsOf(row.cells[order.place]);
    return [row, isNumber ? weight(words) : words.toLowerCase()];
  }));
  const sign = order.isDown ? -1 : 1;
  return [...rows].sort((one, other) => keys.get(one) < keys.get(other) ? -sign : keys.get(one) > keys.get(other)
    ? sign : 0);
};
const fill = (id, columns, rows, whenEmpty, most = rows.length) => {
  const head = element('tr', {}, ...columns.map(([header, kind], place) => {
    const order = sorted[id] && sorted[id].place === place ? sorted[id].isDown ? 'descending' : 'ascending' : '';
    return element('th', {scope: 'col', class: kind === 'number' ? '' : 'text', 'aria-sort': order},
      element('button', {type: 'button', class: 'sort', 'data-sort': id, 'data-place': place}, header));
  }));
  const lines = inOrder(id, columns, rows).slice(0, most).map(({cells, mood}) => element('tr', {class: mood || ''},
    ...cells.map((cell, place) => {
      const kind = columns[place][1];
      const names = (kind === 'number' ? '' : 'text') + (kind === 'mood' ? ' mood' : '');
      return element('td', {class: names, 'data-label': columns[place][0]}, ...(Array.isArray(cell) ? cell : [cell]));
    })));
  if (!rows.length) lines.push(element('tr', {}, element('td', {class: 'text', colspan: columns.length}, whenEmpty)));
  const table = element('table', {}, element('thead', {}, head), element('tbody', {}, ...lines));
  const old = byId(id);
  if (old.innerHTML === table.innerHTML) return;
  const focus = document.activeElement && old.contains(document.activeElement)
    ? JSON.stringify(document.activeElement.dataset) : '{}';
  old.replaceChildren(...table.childNodes);
  if (focus !== '{}') for (const button of old.querySelectorAll('button'))
    if (JSON.stringify(button.dataset) === focus) button.focus();
};

// -- charts: [time, value] points --
const chart = (title, points, worded) => {
  const width = 320, height = 96, left = 4, bottom = 80, top = 16;
  const reported = points.filter(([, value]) => known(value));
  const last = points.length ? worded(points[points.length - 1][1]) : '?';
  const box = element('div', {}, element('h3', {}, title));
  if (reported.length < 2) {
    box.append(element('p', {class: 'now'}, last),
      element('p', {}, 'no history yet'));
    return box;
  }
  const values = reported.map(([, value]) => value);
  const most = Math.max(...values), least = Math.min(...values);
  const from = points[0][0], to = points[points.length - 1][0];
  const x = (time) => left + (time - from) / Math.max(1, to - from) * (width - 2 * left);
  const y = (value) => bottom - value / (most || 1) * (bottom - top);
  // What is not known is a gap: each run of known points is a line of its own.
  const runs = [];
  points.forEach(([time, value], place) => {
    if (!known(value)) return;
    if (!place || !known(points[place - 1][1])) runs.push([]);
    runs[runs.length - 1].push([x(time).toFixed(1), y(value).toFixed(1)]);
  });
  const path = (run) => run.map((point) => point.join(',')).join(' L ');
  const lines = runs.map((run) => 'M ' + path(run.length > 1 ? run : [run[0], run[0]])).join(' ');
  const areas = runs.map((run) => 'M ' + run[0][0] + ',' + bottom + ' L ' + path(run) + ' L ' + run[run.length - 1][0] +
    ',' + bottom + ' Z').join(' ');
  const about = title + ': now ' + last + ', between ' + worded(least) + ' and ' + worded(most) + ' since ' +
    clock(from);
  const text = (where, height, anchor, words) => drawn('text', {x: where, y: height, 'text-anchor': anchor}, words);
  box.append(element('p', {class: 'now'}, last), drawn('svg',
    {viewBox: '0 0 ' + width + ' ' + height, role: 'img', 'aria-label': about},
    drawn('line', {class: 'grid', x1: left, x2: width - left, y1: top, y2: top}),
    drawn('path', {class: 'area', d: areas}),
    drawn('path', {class: 'line', d: lines}),
    drawn('line', {class: 'axis', x1: left, x2: width - left, y1: bottom, y2: bottom}),
    text(width - left, top - 4, 'end', worded(most)), text(left, height - 3, 'start', clock(from)),
    text(width - left, height - 3, 'end', clock(to))));
  return box;
};

// -- sections --
const replicas = (part) => part.replicas.map((broker) => {
  const isLeader = broker === part.leader, isIn = part.isr.includes(broker);
  const words = isLeader ? ' (leader)' : isIn ? ' (in sync)' : ' (not in sync)';
  return element('span', {class: 'replica' + (isLeader ? ' leader' : isIn ? '' : ' out'),
    title: 'broker ' + broker + words, 'aria-label': broker + words}, String(broker));
});
const mood = (part) => part.offline || part.under_min_isr ? 'bad' : part.under_replicated ? 'warn' : '';
const PARTITION = [['Partition', 'number'], ['Leader', 'number'], ['Replicas', 'text'], ['ISR', 'text'],
  ['ELR', 'text'], ['End', 'number'], ['Size', 'number'], ['Notes', 'mood']];
const partition = (part) => [String(part.partition), known(part.leader) ? String(part.leader) : 'none', replicas(part),
  part.isr.join(', '), part.elr === null ? '–' : part.elr.join(', '), count(part.end_offset), size(part.bytes),
  part.notes.join(', ')];

const drawHead = (view) => {
  byId('cluster').textContent = view.cluster_id || '';
  const state = byId('state');
  const words = view.error ? 'The last refresh failed: ' + view.error
    : view.wrong.length ? 'Unhealthy: ' + view.wrong.join(', ') : 'Healthy';
  if (state.textContent !== words) state.textContent = words;
  state.className = view.error ? 'warn' : view.wrong.length ? 'bad' : 'good';
  document.title = (view.wrong.length ? 'Unhealthy' : 'Healthy') + ' – Kafka cluster';
  byId('when').textContent = 'as of ' + clock(view.time) + ', refreshed in ' + view.took_ms + ' ms';
  const totals = view.totals;
  const tiles = [
    ['Brokers', totals.answering + ' of ' + totals.brokers, totals.answering < totals.brokers],
    ['Controller', known(view.controller) ? String(view.controller) : '–',
      view.wrong.some((each) => each.includes('controller'))],
    ['Partitions', count(totals.partitions), false],
    ['Offline', count(totals.offline), totals.offline],
    ['Under min ISR', count(totals.under_min_isr), totals.under_min_isr],
    ['Under-replicated', count(totals.under_replicated), totals.under_replicated],
    ['Messages/s', rate(totals.messages_per_second), false],
    ['Lag', atLeast(totals.lag, totals.lag_at_least), false],
  ];
  byId('tiles').replaceChildren(...tiles.map(([name, value, bad]) =>
    element('div', {class: bad ? 'bad' : ''}, element('dt', {}, name), element('dd', {}, value))));
};
const drawCharts = (view) => {
  const column = (place) => view.history.map((point) => [point[0], point[place]]);
  byId('charts').replaceChildren(
    chart('Messages per second', column(1), rate), chart('Bytes per second', column(2), size),
    chart('Lag of all groups', column(3), count), chart('Under-replicated partitions', column(4), count));
};
const drawBrokers = (view) => {
  fill('brokers', [['Broker', 'number'], ['Address', 'text'], ['Rack', 'text'], ['State', 'mood'],
    ['Leaders', 'number'], ['In sync', 'number'], ['Logs', 'number'], ['Free', 'number']],
  view.brokers.map((broker) => {
    const offline = (broker.log_dirs || []).filter((path) => path.error);
    const states = [broker.fenced ? 'fenced' : broker.answering ? 'alive' : 'no response'];
    if (broker.id === view.controller) states.push('controller');
    if (offline.length) states.push('log directories offline: ' + offline.map((path) => path.path).join(', '));
    const free = (broker.log_dirs || []).map((path) => path.usable_bytes).filter(known);
    return {mood: broker.fenced || !broker.answering || offline.length ? 'bad' : '', cells: [String(broker.id),
      broker.host + ':' + broker.port, broker.rack || '–', states.join(', '), count(broker.leaders),
      broker.in_sync + ' of ' + broker.replicas, size(broker.log_bytes),
      free.length ? size(free.reduce((sum, each) => sum + each, 0)) : '–']};
  }), 'No broker.');
};
const drawTopics = (view) => {
  const wanted = byId('find').value.trim().toLowerCase(), internal = byId('internal').checked;
  const bad = (topic) => topic.offline || topic.under_min_isr ? 2 : topic.under_replicated ? 1 : 0;
  const found = view.topics.filter((topic) => topic.topic.toLowerCase().includes(wanted) &&
    (internal || !topic.internal || bad(topic) || topic.topic === chosen));
  found.sort((one, other) => bad(other) - bad(one) ||
    (other.messages_per_second || 0) - (one.messages_per_second || 0) || (one.topic < other.topic ? -1 : 1));
  fill('topics', [['Topic', 'text'], ['Partitions', 'number'], ['Replicas', 'number'], ['State', 'mood'],
    ['Size', 'number'], ['Messages/s', 'number'], ['Bytes/s', 'number']],
  found.map((topic) => {
    const states = [];
    if (topic.offline) states.push(topic.offline + ' offline');
    if (topic.under_min_isr) states.push(topic.under_min_isr + ' under min ISR');
    if (topic.under_replicated) states.push(topic.under_replicated + ' under-replicated');
    const button = element('button', {type: 'button', class: 'row-button', 'data-topic': topic.topic,
      'aria-pressed': String(topic.topic === chosen)}, topic.topic);
    return {mood: (['', 'warn', 'bad'][bad(topic)] + (topic.topic === chosen ? ' chosen' : '')).trim(), cells: [button,
      count(topic.partitions), count(topic.replication_factor), states.join(', ') || 'healthy', size(topic.bytes),
      rate(topic.messages_per_second), size(topic.bytes_per_second)]};
  }), 'No topic.', SHOWN_TOPICS);
  const more = found.length - SHOWN_TOPICS, unsent = view.totals.topics - view.topics.length;
  byId('topics-more').textContent = (more > 0 ? 'and ' + count(more) + ' more' : '') +
    (unsent > 0 ? ' of the ' + count(view.topics.length) + ' that matter most; there are ' + count(unsent) +
    ' others; kt monitor --topic shows them' : '');
};
const drawTopic = (view) => {
  const topic = view.topic;
  byId('topic-section').hidden = !topic;
  if (!topic) return;
  byId('h-topic').textContent = 'Topic ' + topic.topic;
  const groups = topic.groups, lags = topic.history.length ? topic.history[0][2].length : 0;
  byId('topic-charts').replaceChildren(
    chart('Messages per second', topic.history.map(([time, messages]) => [time, messages]), rate),
    ...groups.slice(0, lags).map((group, place) =>
      chart('Lag of ' + group, topic.history.map((point) => [point[0], point[2][place]]), count)));
  fill('partitions', [...PARTITION, ...groups.map((group) => ['Lag of ' + group, 'number'])],
    topic.partitions.map((part) => ({mood: mood(part),
      cells: [...partition(part), ...groups.map((group) => count(part.lags[group]))]})), 'No partition.');
  const more = topic.partition_count - topic.partitions.length;
  const others = topic.group_count - groups.length;
  byId('partitions-more').textContent = (more > 0 ? 'and ' + count(more) + ' more partitions ' : '') +
    (others > 0 ? 'and ' + count(others) + ' groups with less lag' : '');
};
const drawTroubled = (view) => {
  byId('troubled-section').hidden = !view.troubled.length;
  const more = view.troubled_count - view.troubled.length;
  byId('h-troubled').textContent = 'Unhealthy partitions' +
    (more > 0 ? ' (' + view.troubled.length + ' of ' + count(view.troubled_count) + ')' : '');
  fill('troubled', [['Topic', 'text'], ...PARTITION],
    view.troubled.map((part) => ({mood: mood(part), cells: [part.topic, ...partition(part)]})), 'None.');
};
const drawGroups = (view) => {
  const unsent = view.totals.groups - view.groups.length;
  byId('groups-more').textContent = unsent > 0 ? 'and ' + count(unsent) + ' more with less lag' : '';
  fill('groups', [['Group', 'text'], ['Type', 'text'], ['State', 'mood'], ['Members', 'number'],
    ['Coordinator', 'number'], ['Lag', 'number'], ['Behind', 'number'], ['Consumed/s', 'number'],
    ['Caught up in', 'number']],
  view.groups.filter((group) => group.group.toLowerCase().includes(byId('find-groups').value.trim().toLowerCase())).map(
    (group) => ({mood: group.unknown || group.state === 'Empty' && group.lag ? 'warn' : '',
    cells: [group.group, group.type, group.state, count(group.members), String(group.coordinator),
    group.unknown || known(group.lag) ? atLeast(group.lag, group.lag_at_least) : '–',
    group.unknown ? '?' : span(known(group.lag_ms) ? group.lag_ms / 1000 : null), rate(group.consumed_per_second),
    group.unknown ? '?' : span(group.catches_up_s)]})), 'No group.');
};
const drawQuorum = (view) => {
  const quorum = view.quorum;
  fill('quorum', [['Node', 'number'], ['Role', 'text'], ['Log end', 'number'], ['Lag', 'number'],
    ['Caught up ago', 'number']], (quorum ? quorum.replicas : []).map((node) => ({cells: [String(node.id),
    node.id === quorum.leader ? 'leader' : node.voter ? 'follower' : 'observer', count(node.log_end_offset),
    count(node.lag), span(known(node.caught_up_time) ? Math.max(0, view.time - node.caught_up_time) / 1000 : null)]})),
  'No broker reported the quorum.');
};
const BAD_EVENTS = ['broker-gone', 'broker-silent', 'leader-lost', 'log-dir-offline'];
const drawEvents = (view) => {
  fill('events', [['Time', 'text'], ['Event', 'mood'], ['What', 'text']], view.events.map((event) => ({
    mood: BAD_EVENTS.includes(event.event) ? 'bad' : ['isr-shrank', 'group-empty'].includes(event.event) ? 'warn' : '',
    cells: [clock(event.time), event.event, event.message]})), 'No events since kt monitor started.');
  byId('problems-section').hidden = !view.problems.length;
  byId('problems').replaceChildren(...view.problems.map((one) =>
    element('li', {}, (known(one.broker) ? 'broker ' + one.broker + ': ' : '') + one.what + ': ' + one.error)));
};
const draw = (view) => {
  for (const part of [drawHead, drawCharts, drawTroubled, drawBrokers, drawTopics, drawTopic, drawGroups, drawQuorum,
    drawEvents]) part(view);
  if (mayRead) offerTopics(view);
};

@RECORDS@// -- the loop --
const lost = (words) => {
  byId('state').textContent = words;
  byId('state').className = 'warn';
};
const ask = async () => {
  clearTimeout(timer);
  try {
    const response = await fetch('view.json?topic=' + encodeURIComponent(chosen), {cache: 'no-store'});
    if (response.status === 401) {
      lost('This address is no longer valid: open the one that kt monitor printed when it started.');
      return;
    }
    const view = await response.json();
    if (view.totals) { last = view; draw(view); document.body.dataset.drawn = String(view.time); }
    else lost(view.error);
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
byId('topics').addEventListener('click', (event) => {
  const topic = event.target.dataset.topic;
  if (topic === undefined) return;
  chosen = topic === chosen ? '' : topic;
  if (mayRead && chosen) field('topic').value = chosen;
  remember();
  ask();
});
document.addEventListener('click', (event) => {
  const {sort, place} = event.target.dataset;
  if (sort === undefined) return;
  const order = sorted[sort], number = Number(place);
  if (!order || order.place !== number) sorted[sort] = {place: number, isDown: true};
  else if (order.isDown) order.isDown = false;
  else delete sorted[sort];
  if (sort === 'records') drawRecords(); else if (last) draw(last);
});
for (const id of ['find', 'internal']) byId(id).addEventListener('input', () => { if (last) drawTopics(last); });
byId('find-groups').addEventListener('input', () => { if (last) drawGroups(last); });
if (mayRead) startRecords();
ask();
})();
