// -- details: one broker, topic and group, which the brokers are asked for when it is opened and every 10 s --
const DETAIL_MS = 10000;
const loaded = {broker: {}, topic: {}, group: {}};
const partitionMood = (part) => part.offline || part.under_min_isr ? 'bad' : part.under_replicated ? 'warn' : '';
const partitionColumns = () => [
  column('partition', 'Partition', 'number', (row) => row.partition),
  column('leader', 'Leader', 'number', (row) => row.leader, (row) => known(row.leader) ? String(row.leader) : 'none'),
  column('replicas', 'Replicas', 'text', (row) => row.replicas.join(','), replicas),
  column('isr', 'ISR', 'text', (row) => row.isr.join(', ')),
  column('elr', 'ELR', 'text', (row) => row.elr === null ? null : row.elr.join(', ')),
  column('start', 'Start', 'number', (row) => row.start_offset, (row) => count(row.start_offset)),
  column('end', 'End', 'number', (row) => row.end_offset, (row) => count(row.end_offset)),
  column('size', 'Size', 'number', (row) => row.bytes, (row) => size(row.bytes)),
  column('messages', 'Messages/s', 'number', (row) => row.messages_per_second, (row) => rate(row.messages_per_second)),
  column('notes', 'Notes', 'mood', (row) => row.notes.join(', ')),
];
const SOURCES = {DYNAMIC_TOPIC_CONFIG: 'topic', DYNAMIC_BROKER_CONFIG: 'broker, dynamic', STATIC_BROKER_CONFIG:
  'broker, file', DYNAMIC_DEFAULT_BROKER_CONFIG: 'all brokers, dynamic', DEFAULT_CONFIG: 'default'};
const settingColumns = () => [
  column('name', 'Setting', 'text', (row) => row.name),
  column('value', 'Value', 'text', (row) => row.value, (row) => row.sensitive ? element('span', {class: 'null'},
    'hidden') : known(row.value) ? row.value : element('span', {class: 'null'}, 'none')),
  column('source', 'Set for', 'text', (row) => SOURCES[row.source] || row.source),
];
const settingMood = (row) => row.source === 'DEFAULT_CONFIG' ? '' : 'override';
const ofMember = (row) => row.client ? row.client : row.owner;
const defineDetails = () => {
  define('log-dirs', 'log directories of the broker', [
    column('path', 'Log directory', 'text', (row) => row.path),
    column('replicas', 'Replicas', 'number', (row) => row.replicas, (row) => count(row.replicas)),
    column('size', 'Size', 'number', (row) => row.bytes, (row) => size(row.bytes)),
    column('free', 'Free on the volume', 'number', (row) => row.usable_bytes, (row) => size(row.usable_bytes)),
    column('total', 'Volume', 'number', (row) => row.total_bytes, (row) => size(row.total_bytes)),
    column('error', 'State', 'mood', (row) => row.error || 'online'),
  ], {empty: 'Not reported.', mood: (row) => row.error ? 'bad' : ''});
  const [partition, , ...others] = partitionColumns().filter(({id}) => id !== 'start' && id !== 'elr');
  define('broker-partitions', 'partitions that the broker leads', [column('topic', 'Topic', 'text',
    (row) => row.topic), partition, ...others], {empty: 'It leads no partition.', mood: partitionMood});
  define('broker-settings', 'settings of the broker', settingColumns(), {empty: 'Not reported.', mood: settingMood});
  define('partitions', 'partitions of the topic', partitionColumns(), {empty: 'No partition.', mood: partitionMood});
  define('topic-groups', 'groups of the topic', [
    column('group', 'Group', 'text', (row) => row.group, (row) => opener('group', row.group)),
    column('lag', 'Lag in the topic', 'number', (row) => row.lag_at_least, (row) => atLeast(row.lag, row.lag_at_least)),
    column('state', 'State', 'text', (row) => row.state),
    column('members', 'Members', 'number', (row) => row.members, (row) => count(row.members)),
    column('consumed', 'Consumed/s', 'number', (row) => row.consumed_per_second,
      (row) => rate(row.consumed_per_second)),
  ], {empty: 'No group has committed offsets in this topic.'});
  define('topic-settings', 'settings of the topic', settingColumns(), {empty: 'Not reported.', mood: settingMood});
  define('members', 'members of the group', [
    column('client', 'Client id', 'text', (row) => row.client),
    column('host', 'Host', 'text', (row) => row.host),
    column('assigned', 'Partitions', 'number', (row) => row.assigned, (row) => count(row.assigned)),
    column('assignment', 'Assignment', 'text', (row) => row.words),
    column('member', 'Member id', 'text', (row) => row.member),
    column('instance', 'Instance id', 'text', (row) => row.instance),
    column('rack', 'Rack', 'text', (row) => row.rack),
    column('epoch', 'Epoch', 'number', (row) => row.epoch),
  ], {empty: 'No members.'});
  define('group-partitions', 'partitions of the group', [
    column('topic', 'Topic', 'text', (row) => row.topic),
    column('partition', 'Partition', 'number', (row) => row.partition),
    column('lag', 'Lag', 'number', (row) => row.lag, (row) => count(row.lag)),
    column('behind', 'Behind', 'number', (row) => known(row.lag_ms) ? row.lag_ms : row.least_lag_ms || null,
      (row) => known(row.lag) ? behind(row.lag_ms, row.least_lag_ms) : '?'),
    column('committed', 'Committed', 'number', (row) => row.committed, (row) => count(row.committed)),
    column('end', 'End', 'number', (row) => row.end_offset, (row) => count(row.end_offset)),
    column('member', 'Assigned to', 'text', ofMember),
  ], {empty: 'No committed offsets.', mood: (row) => known(row.lag) ? '' : 'warn'});
};

const facts = (id, pairs) => byId(id).replaceChildren(...pairs.map(([title, value]) =>
  element('div', {}, element('dt', {}, title), element('dd', {}, name(value)))));
const cut = (id, total, sent) => {
  byId(id).textContent = total > sent ? 'The first ' + count(sent) + ' of ' + count(total) + ' partitions.' : '';
};
const ranges = (numbers) => {
  const parts = [];
  for (const number of numbers) {
    const before = parts[parts.length - 1];
    if (before && before[1] === number - 1) before[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, end]) => first === end ? first : first + '-' + end).join(',');
};
const DRAW = {
  broker: (detail) => {
    const {summary} = detail;
    facts('broker-facts', [['Address', summary.host + ':' + summary.port], ['Rack', summary.rack],
      ['State', brokerState(summary)], ['Leads', count(detail.partition_count) + ' partitions'],
      ['In sync', summary.in_sync + ' of ' + summary.replicas + ' replicas'],
      ...Object.entries(detail.listeners || {})]);
    const behind = detail.not_in_sync, more = detail.not_in_sync_count - 20;
    byId('broker-behind').textContent = !behind.length ? '' : 'Not in sync: ' + behind.slice(0, 20).map((part) =>
      part.join('-')).join(', ') + (more > 0 ? ' and ' + count(more) + ' more' : '');
    show('log-dirs', summary.log_dirs || []);
    show('broker-partitions', detail.partitions);
    cut('broker-more', detail.partition_count, detail.partitions.length);
    show('broker-settings', detail.configs || []);
  },
  topic: (detail) => {
    const {summary} = detail;
    facts('topic-facts', [['State', topicState(summary)], ['Partitions', count(summary.partitions)],
      ['Replicas', count(summary.replication_factor)], ['min.insync.replicas', known(summary.min_isr)
        ? summary.min_isr : '?'], ['Size of the leaders', size(summary.bytes)], ['Id', summary.topic_id]]);
    show('partitions', detail.partitions);
    cut('partitions-more', detail.partition_count, detail.partitions.length);
    show('topic-groups', detail.groups);
    show('topic-settings', detail.configs || []);
  },
  group: (detail) => {
    const {summary, coordinator} = detail;
    const clients = new Map((detail.members || []).map((member) => [member.member, member.client + ' ' + member.host]));
    facts('group-facts', [['State', summary.state], ['Protocol', summary.type], ['Assignor', detail.assignor],
      ['Coordinator', coordinator.id < 0 ? 'unknown' : coordinator.id + (coordinator.host ? ' (' + coordinator.host +
        ':' + coordinator.port + ')' : '')],
      ['Epoch', detail.group_epoch], ['Members', count(detail.member_count)],
      ['Lag', summary.unknown || known(summary.lag) ? atLeast(summary.lag, summary.lag_at_least) : '–'],
      ['Behind', summary.unknown ? '?' : behind(summary.lag_ms, summary.lag_ms_at_least)],
      ...(summary.unknown ? [['Unknown', summary.unknown]] : [])]);
    show('members', (detail.members || []).map((member) => ({...member,
      assigned: member.assignment.reduce((sum, {partitions}) => sum + partitions.length, 0),
      words: member.assignment.map(({topic, partitions}) => topic + ' ' + ranges(partitions)).join('; ')})));
    show('group-partitions', (detail.partitions || []).map((part) => ({...part, client: clients.get(part.owner)})));
    cut('group-more', detail.partition_count, (detail.partitions || []).length);
  },
};
const say = (kind, words) => {
  if (byId(kind + '-state').textContent !== words) byId(kind + '-state').textContent = words;
};
const fetchJson = async (address) => (await fetch(address, {cache: 'no-store'})).json();
const load = async (kind, takesFocus) => {
  const value = chosen[kind], mine = loaded[kind];
  byId(kind + '-section').hidden = !value;
  if (!value) { mine.name = ''; return; }
  const isOther = mine.name !== value;
  mine.name = value;
  mine.at = Date.now();
  if (isOther) {
    byId(kind + '-content').hidden = true;
    byId('h-' + kind).textContent = kind[0].toUpperCase() + kind.slice(1) + ' ' + visible(value);
    say(kind, 'Asking the brokers ...');
  }
  if (takesFocus) byId('h-' + kind).focus();
  const field = '?' + kind + '=' + encodeURIComponent(value);
  try {
    const [detail, history] = await Promise.all([fetchJson(kind + '.json' + field), fetchJson('history.json' + field)]);
    if (chosen[kind] !== value) return;
    if (detail.error) { say(kind, detail.error); return; }
    byId(kind + '-content').hidden = false;
    say(kind, 'As of ' + clock(detail.time) + '.');
    byId(kind + '-problems').replaceChildren(...detail.problems.map(({what, error}) =>
      element('li', {}, what + ': not reported: ' + error)));
    drawCharts(kind + '-charts', history);
    DRAW[kind](detail);
    document.body.dataset[kind] = value;
  } catch (error) {
    if (chosen[kind] === value) say(kind, 'No details: kt monitor has ended, or answers other requests. It is asked again.');
  }
};
const loadDue = () => {
  for (const kind of KINDS)
    if (chosen[kind] && Date.now() - (loaded[kind].at || 0) >= DETAIL_MS) load(kind, false);
};
const choose = (kind, value) => {
  const isClosed = !value || value === chosen[kind], before = chosen[kind];
  chosen[kind] = isClosed ? '' : value;
  if (mayRead && kind === 'topic' && chosen.topic) field('topic').value = chosen.topic;
  remember();
  if (last) draw(last);
  load(kind, !isClosed);
  if (isClosed) for (const button of document.querySelectorAll('[data-detail=' + kind + ']'))
    if (button.dataset.name === before) { button.focus(); break; }
};
const startDetails = () => {
  document.addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (!button) return;
    const {detail, name: value, close} = button.dataset;
    if (detail) choose(detail, value);
    if (close) choose(close, '');
  });
};
