// -- sections: what the latest view has --
const opener = (kind, value) => element('button', {type: 'button', class: 'row-button', 'data-detail': kind,
  'data-name': value, 'aria-pressed': String(chosen[kind] === String(value))}, String(value));
const choosable = (kind, value, row, mood) => (mood + (chosen[kind] === String(value(row)) ? ' chosen' : '')).trim();
const topicBadness = (topic) => topic.offline || topic.under_min_isr ? 2 : topic.under_replicated ? 1 : 0;
const offlineDirs = (broker) => (broker.log_dirs || []).filter((path) => path.error);
const brokerState = (broker) => {
  const states = [broker.fenced ? 'fenced' : broker.answering ? 'alive' : 'no response'];
  if (last && broker.id === last.controller) states.push('controller');
  const offline = offlineDirs(broker);
  if (offline.length) states.push('log directories offline: ' + offline.map((path) => path.path).join(', '));
  return states.join(', ');
};
const freeBytes = (broker) => {
  const free = (broker.log_dirs || []).map((path) => path.usable_bytes).filter(known);
  return free.length ? free.reduce((sum, each) => sum + each, 0) : null;
};
const topicState = (topic) => [[topic.offline, ' offline'], [topic.under_min_isr, ' under min ISR'],
  [topic.under_replicated, ' under-replicated']].filter(([number]) => number).map((part) => part.join('')).join(', ') ||
  'healthy';
const BAD_EVENTS = ['broker-gone', 'broker-silent', 'leader-lost', 'log-dir-offline', 'alert-firing', 'alert-repeated'];
const WARN_EVENTS = ['isr-shrank', 'group-empty', 'alert-unknown', 'webhook-failed', 'otlp-failed'];
const kindsOf = (incident) => Object.entries(incident.kinds).map(([kind, number]) => number + ' ' + kind).join(', ');
const incidentMood = ({kinds}) => BAD_EVENTS.some((kind) => kinds[kind]) ? 'bad'
  : WARN_EVENTS.some((kind) => kinds[kind]) ? 'warn' : '';
const list = (items, more) => element('ul', {}, ...items.map((text) => element('li', {}, text)),
  ...(more > 0 ? [element('li', {}, 'and ' + count(more) + ' more')] : []));

const defineSections = () => {
  define('brokers', 'brokers', [
    column('id', 'Broker', 'number', (row) => row.id, (row) => opener('broker', row.id)),
    column('address', 'Address', 'text', (row) => row.host + ':' + row.port),
    column('rack', 'Rack', 'text', (row) => row.rack),
    column('state', 'State', 'mood', brokerState),
    column('leaders', 'Leaders', 'number', (row) => row.leaders, (row) => count(row.leaders)),
    column('in-sync', 'In sync', 'number', (row) => row.in_sync, (row) => row.in_sync + ' of ' + row.replicas),
    column('logs', 'Logs', 'number', (row) => row.log_bytes, (row) => size(row.log_bytes)),
    column('free', 'Free', 'number', freeBytes, (row) => row.log_dirs && !known(freeBytes(row)) ? '–' : size(freeBytes(row))),
  ], {empty: 'No broker.', mood: (row) => choosable('broker', (each) => each.id, row,
    row.fenced || !row.answering || offlineDirs(row).length ? 'bad' : '')});
  define('findings', 'findings', [
    column('cause', 'Cause', 'mood', (row) => row.cause),
    column('partitions', 'Partitions', 'number', (row) => row.troubled, (row) => count(row.troubled)),
    column('offline', 'Offline', 'number', (row) => row.offline, (row) => count(row.offline)),
    column('min-isr', 'Under min ISR', 'number', (row) => row.under_min_isr, (row) => count(row.under_min_isr)),
    column('under-replicated', 'Under-replicated', 'number', (row) => row.under_replicated,
      (row) => count(row.under_replicated)),
  ], {empty: 'Nothing is wrong.', key: (row) => row.cause, mood: (row) => row.offline || row.under_min_isr ||
    !row.troubled ? 'bad' : 'warn', extra: (row) => list(row.partitions.map(([topic, partition, notes]) =>
    topic + '-' + partition + ': ' + notes.join(', ')), row.troubled - row.partitions.length)});
  define('alerts', 'alerts', [
    column('state', 'State', 'mood', (row) => row.state),
    column('since', 'Since', 'text', (row) => row.since, (row) => dayClock(row.since)),
    column('message', 'Alert', 'text', (row) => row.message),
  ], {empty: 'No alert.', mood: (row) => ({firing: 'bad', unknown: 'warn'})[row.state] || ''});
  define('events', 'events', [
    column('cause', 'Cause', 'mood', (row) => row.cause),
    column('events', 'Events', 'number', (row) => row.count, (row) => count(row.count)),
    column('kinds', 'Kinds', 'text', kindsOf),
    column('first', 'First', 'text', (row) => row.first, (row) => clock(row.first)),
    column('last', 'Last', 'text', (row) => row.last, (row) => clock(row.last)),
  ], {empty: 'No events since kt monitor started.', key: (row) => row.cause + ' ' + row.first, mood: incidentMood,
    extra: (row) => list(row.events.map(([time, kind, message]) => clock(time) + ' ' + kind + ': ' + message),
      row.count - row.events.length)});
  define('topics', 'topics', [
    column('topic', 'Topic', 'text', (row) => row.topic, (row) => opener('topic', row.topic)),
    column('state', 'State', 'mood', topicState),
    column('partitions', 'Partitions', 'number', (row) => row.partitions, (row) => count(row.partitions)),
    column('replicas', 'Replicas', 'number', (row) => row.replication_factor, (row) => count(row.replication_factor)),
    column('size', 'Size', 'number', (row) => row.bytes, (row) => size(row.bytes)),
    column('messages', 'Messages/s', 'number', (row) => row.messages_per_second,
      (row) => rate(row.messages_per_second)),
    column('bytes', 'Bytes/s', 'number', (row) => row.bytes_per_second, (row) => size(row.bytes_per_second)),
  ], {empty: 'No topic.', mood: (row) => choosable('topic', (each) => each.topic, row,
    ['', 'warn', 'bad'][topicBadness(row)]), accept: (row) => state.internal || !row.internal || topicBadness(row) > 0 ||
    row.topic === chosen.topic, controls: [element('label', {}, element('input', {type: 'checkbox', id: 'internal'}),
    ' internal topics too'), ' ']});
  define('groups', 'groups', [
    column('group', 'Group', 'text', (row) => row.group, (row) => opener('group', row.group)),
    column('lag', 'Lag', 'number', (row) => row.lag_at_least,
      (row) => row.unknown || known(row.lag) ? atLeast(row.lag, row.lag_at_least) : '–'),
    column('behind', 'Behind', 'number', (row) => known(row.lag_ms) ? row.lag_ms : row.lag_ms_at_least || null,
      (row) => row.unknown ? '?' : behind(row.lag_ms, row.lag_ms_at_least)),
    column('state', 'State', 'mood', (row) => row.state),
    column('consumed', 'Consumed/s', 'number', (row) => row.consumed_per_second,
      (row) => rate(row.consumed_per_second)),
    column('caught-up', 'Caught up in', 'number', (row) => row.catches_up_s,
      (row) => row.unknown ? '?' : span(row.catches_up_s)),
    column('members', 'Members', 'number', (row) => row.members, (row) => count(row.members)),
    column('coordinator', 'Coordinator', 'number', (row) => row.coordinator),
    column('type', 'Type', 'text', (row) => row.type),
  ], {empty: 'No group.', mood: (row) => choosable('group', (each) => each.group, row,
    row.unknown || row.state === 'Empty' && row.lag ? 'warn' : '')});
  define('quorum', 'the quorum', [
    column('node', 'Node', 'number', (row) => row.id),
    column('role', 'Role', 'text', (row) => row.role),
    column('end', 'Log end', 'number', (row) => row.log_end_offset, (row) => count(row.log_end_offset)),
    column('lag', 'Lag', 'number', (row) => row.lag, (row) => count(row.lag)),
    column('caught-up', 'Caught up ago', 'number', (row) => row.ago, (row) => span(row.ago)),
  ], {empty: 'No broker reported the quorum.'});
};

const drawHead = (view) => {
  byId('cluster').textContent = view.cluster_id || '';
  const line = byId('state');
  const words = view.error ? 'The last refresh failed: ' + view.error
    : view.wrong.length ? 'Unhealthy: ' + view.wrong.join(', ') : 'Healthy';
  if (line.textContent !== words) line.textContent = words;
  line.className = view.error ? 'warn' : view.wrong.length ? 'bad' : 'good';
  entitle(view.error ? 'Not refreshed' : view.wrong.length ? 'Unhealthy' : 'Healthy');
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
  byId('tiles').replaceChildren(...tiles.map(([title, value, bad]) =>
    element('div', {class: bad ? 'bad' : ''}, element('dt', {}, title), element('dd', {}, value))));
};
const drawQuorum = (view) => show('quorum', (view.quorum ? view.quorum.replicas : []).map((node) => ({...node,
  role: node.id === view.quorum.leader ? 'leader' : node.voter ? 'follower' : 'observer',
  ago: known(node.caught_up_time) ? Math.max(0, view.time - node.caught_up_time) / 1000 : null})));
const unsent = (id, total, sent, what) => {
  byId(id + '-more').textContent = total > sent ? 'The ' + count(sent) + ' ' + what + '; ' + count(total - sent) +
    ' others are not shown: choose with kt monitor --topic and --group.' : '';
};
const draw = (view) => {
  drawHead(view);
  show('brokers', view.brokers);
  byId('findings-section').hidden = !view.findings.length;
  show('findings', view.findings);
  byId('alerts-section').hidden = !view.alerts.length;
  show('alerts', view.alerts);
  byId('alerts-more').textContent = view.alerts_left_out ? count(view.alerts_left_out) + ' others are not shown.' : '';
  show('events', view.incidents);
  show('topics', view.topics);
  show('groups', view.groups);
  drawQuorum(view);
  unsent('topics', view.totals.topics, view.topics.length, 'unhealthy and busiest topics');
  unsent('groups', view.totals.groups, view.groups.length, 'groups with the largest lag');
  byId('problems-section').hidden = !view.problems.length;
  byId('problems').replaceChildren(...view.problems.map((one) => element('li', {}, (known(one.broker)
    ? 'broker ' + one.broker + ': ' : '') + one.what.join(', ') + (one.count > one.what.length
    ? ' and ' + count(one.count - one.what.length) + ' more' : '') + ': ' + one.error)));
  if (mayRead) offerTopics(view);
};
