// -- charts: lines over the times of the history; a value that was unknown is a gap --
const chart = (title, times, values, worded, pauseMs) => {
  const width = 320, height = 96, left = 4, bottom = 80, top = 16;
  const reported = values.filter(known);
  const last = values.length ? worded(values[values.length - 1]) : '?';
  const box = element('div', {}, element('h3', {}, title), element('p', {class: 'now'}, last));
  if (reported.length < 2) {
    box.append(element('p', {}, 'no history yet'));
    return box;
  }
  const most = Math.max(...reported), least = Math.min(...reported);
  const from = times[0], to = times[times.length - 1];
  const x = (time) => left + (time - from) / Math.max(1, to - from) * (width - 2 * left);
  const y = (value) => bottom - value / (most || 1) * (bottom - top);
  // Each run of known points is a line of its own; a run also ends where there was no snapshot.
  const runs = [];
  values.forEach((value, place) => {
    if (!known(value)) return;
    if (!place || !known(values[place - 1]) || times[place] - times[place - 1] > pauseMs) runs.push([]);
    runs[runs.length - 1].push([x(times[place]).toFixed(1), y(value).toFixed(1)]);
  });
  const path = (run) => run.map((point) => point.join(',')).join(' L ');
  const strokes = runs.map((run) => 'M ' + path(run.length > 1 ? run : [run[0], run[0]])).join(' ');
  const areas = runs.map((run) => 'M ' + run[0][0] + ',' + bottom + ' L ' + path(run) + ' L ' + run[run.length - 1][0] +
    ',' + bottom + ' Z').join(' ');
  const about = title + ': now ' + last + ', between ' + worded(least) + ' and ' + worded(most) + ' since ' +
    clock(from) + (runs.length > 1 ? ', unknown at times' : '');
  const text = (where, line, anchor, words) => drawn('text', {x: where, y: line, 'text-anchor': anchor}, words);
  box.append(drawn('svg', {viewBox: '0 0 ' + width + ' ' + height, role: 'img', 'aria-label': about},
    drawn('line', {class: 'grid', x1: left, x2: width - left, y1: top, y2: top}),
    drawn('path', {class: 'area', d: areas}),
    drawn('path', {class: 'line', d: strokes}),
    drawn('line', {class: 'axis', x1: left, x2: width - left, y1: bottom, y2: bottom}),
    text(width - left, top - 4, 'end', worded(most)), text(left, height - 3, 'start', clock(from)),
    text(width - left, height - 3, 'end', clock(to))));
  return box;
};
const CHARTS = {
  cluster: [['Messages per second', 'messages_per_second', rate], ['Bytes per second', 'bytes_per_second', size],
    ['Lag of all groups', 'lag', count], ['Under-replicated partitions', 'under_replicated', count],
    ['Partitions under min ISR', 'under_min_isr', count], ['Offline partitions', 'offline', count]],
  broker: [['Messages per second into its leaders', 'messages_per_second', rate], ['Leaders', 'leaders', count],
    ['Size of its logs', 'log_bytes', size]],
  topic: [['Messages per second', 'messages_per_second', rate], ['Bytes per second', 'bytes_per_second', size]],
  group: [['Lag', 'lag', count], ['Consumed per second', 'consumed_per_second', rate]],
};
const drawCharts = (id, history) => {
  const pause = 3 * Math.max(interval, history.step_ms);
  if (history.kept) byId(id).replaceChildren(...CHARTS[history.kind].map(([title, series, worded]) =>
    chart(title, history.times, history.series[series], worded, pause)));
  else byId(id).replaceChildren(element('p', {}, 'No history: it is kept of 1,000 topics and 1,000 groups only.'));
};
