// -- records: for the role read --
const PLACES = {last: 'How many', all: '', since: 'Since', offset: 'Offsets'};
const HINTS = {last: '50', all: '', since: '-1h, 2026-01-31T13:45', offset: '100:200, -5, @-1h'};
const field = (name) => byId('r-' + name);
let records = [], reading = null;

const stamp = (time) => {
  const date = new Date(time);
  if (time < 0) return '–';
  return isNaN(date) ? String(time) : date.toISOString().replace('T', ' ').replace('Z', '');
};
// The fields of the form as those of messages.json.
const selection = () => {
  const text = (name) => field(name).value.trim();
  const place = text('place'), found = {topic: text('topic')};
  const set = (name, value) => { if (value) found[name] = value; };
  if (!['', 'all'].includes(text('partitions').toLowerCase())) found.partitions = text('partitions');
  const range = field('range').value, isSearch = field('key').value || field('grep').value;
  if (range === 'last') set('last', place || (isSearch ? '10000' : text('limit')));
  else if (range !== 'all') set(range, place);
  if (range === 'since') set('until', text('until'));
  if (range === 'all' && !isSearch) found.offset = 'start';
  set('limit', text('limit'));
  set('seconds', text('seconds'));
  set('key', field('key').value);
  set('grep', field('grep').value);
  const parts = ['key', 'value', 'headers'].filter((name) => field('in-' + name).checked);
  if (field('grep').value && parts.length < 3) found.grep_in = parts.join(',');
  if (field('grep').value && field('case').checked) found.ignore_case = '1';
  return found;
};
// The other direction, for an address with a selection.
const select = (found) => {
  for (const name of ['topic', 'partitions', 'until', 'limit', 'key', 'grep', 'seconds'])
    if (found.has(name)) field(name).value = found.get(name);
  const range = ['last', 'since', 'offset'].find((name) => found.has(name));
  const isSearch = found.has('key') || found.has('grep');
  field('range').value = range || (found.has('until') ? 'since' : isSearch ? 'all' : 'last');
  field('place').value = range ? found.get(range) : '';
  if (found.has('grep_in')) for (const name of ['key', 'value', 'headers'])
    field('in-' + name).checked = found.get('grep_in').split(',').includes(name);
  field('case').checked = found.get('ignore_case') === '1';
  showRange();
};
const showRange = () => {
  const range = field('range').value;
  byId('r-place-words').textContent = PLACES[range];
  field('place').placeholder = HINTS[range];
  byId('r-place-label').hidden = range === 'all';
  byId('r-until-label').hidden = range !== 'since';
};

// A cell: texts of a record become text nodes, whatever they contain.
const content = (cell, words) => {
  if (cell === null) return element('span', {class: 'null'}, 'null');
  const isLong = cell.text.length > 600 || cell.text.split('\n').length > 12;
  const box = element('pre', isLong ? {class: 'long', tabindex: '0', role: 'group', 'aria-label': words} : {}, cell.text);
  const notes = [];
  if (cell.form === 'hex') notes.push('hex');
  if (cell.schema) notes.push('schema ' + cell.schema);
  if (cell.cut) notes.push('the beginning of ' + size(cell.bytes));
  const parts = [box];
  if (cell.text === '') parts.push(element('span', {class: 'null'}, 'empty'));
  if (notes.length) parts.push(element('p', {class: 'remark'}, notes.join(', ')));
  if (cell.not_decoded) parts.push(element('p', {class: 'remark bad'}, 'not decoded: ' + cell.not_decoded));
  return element('div', {}, ...parts);
};
const headerList = (record) => {
  const lines = record.headers.map(([name, value]) => element('div', {class: 'header'},
    element('span', {class: 'name'}, name.text), content(value, 'header ' + name.text)));
  const more = record.header_count - record.headers.length;
  if (more > 0) lines.push(element('p', {class: 'remark'}, 'and ' + count(more) + ' more'));
  return lines.length ? element('div', {}, ...lines) : '–';
};
const isCut = (record) => [record.key, record.value, ...record.headers.flat()].some((cell) => cell && cell.cut);
const placeOf = (record) => record.partition + ', offset ' + record.offset;
const texts = (cell) => cell === null ? '' : cell.text;
const offsetCell = (record) => {
  const cells = [String(record.offset)];
  if (isCut(record) && !record.whole) cells.push(element('button', {type: 'button', class: 'row-button whole',
    'data-partition': record.partition, 'data-offset': record.offset,
    'aria-label': 'Show the whole record of partition ' + placeOf(record)}, 'whole'));
  return cells;
};
const defineRecords = () => define('records', 'the records that were read', [
  column('time', 'Time (UTC)', 'text', (row) => BigInt(row.timestamp),
    (row) => element('span', {title: row.timestamp_type}, stamp(row.timestamp))),
  column('partition', 'Partition', 'number', (row) => row.partition),
  column('offset', 'Offset', 'number', (row) => BigInt(row.offset), offsetCell),
  column('key', 'Key', 'text', (row) => texts(row.key), (row) => content(row.key, 'key of partition ' + placeOf(row))),
  column('value', 'Value', 'text', (row) => texts(row.value),
    (row) => content(row.value, 'value of partition ' + placeOf(row))),
  column('headers', 'Headers', 'text', (row) => row.headers.map(([key, value]) => texts(key) + ' ' + texts(value)).join(' '),
    headerList),
], {empty: 'No record.'});
const drawRecords = () => show('records', records);

const summary = (body) => {
  const number = body.records.length, sentences = [];
  if (body.search) {
    sentences.push(body.search.summary + '.');
    if (body.is_full && body.search.found > number) sentences.push('These are the newest ' + count(number) + '.');
    else if (body.is_full) sentences.push('The search ended there: there may be more.');
  } else sentences.push(count(number) + (number === 1 ? ' record.' : ' records.') +
    (body.is_full ? ' There are more.' : ''));
  if (body.stopped) sentences.push(body.stopped + ': not everything was read.');
  if (body.not_decoded) sentences.push(count(body.not_decoded) +
    (body.not_decoded === 1 ? ' key or value was' : ' keys or values were') + ' not decoded.');
  return sentences.join(' ');
};
const tell = (words, mood) => {
  byId('records-state').textContent = words;
  byId('records-state').className = mood;
};
// Returns the body of the reply, null if it is an error, which is shown.
const fetchRecords = async (found) => {
  const response = await fetch('messages.json?' + new URLSearchParams(found),
    {cache: 'no-store', signal: reading.signal});
  const text = await response.text();
  const isJson = (response.headers.get('Content-Type') || '').startsWith('application/json');
  // Numbers of 16 digits and more lose digits in JavaScript. Quotes in strings are escaped, so no string matches.
  const exact = text.replace(/"(offset|timestamp)":\s?(-?\d{16,})/g, '"$1":"$2"');
  const body = isJson ? JSON.parse(exact) : {error: text.trim()};
  if (response.ok) return body;
  tell(body.error, 'bad');
  return null;
};
const busy = (is) => {
  byId('r-read').disabled = is;
  byId('r-stop').disabled = !is;
};
const whileReading = async (read) => {
  if (reading) reading.abort();
  const mine = reading = new AbortController();
  busy(true);
  try {
    await read();
  } catch (error) {
    if (mine === reading) tell(error.name === 'AbortError' ? 'Stopped.' : 'No response from kt monitor.', 'warn');
  }
  if (mine === reading) { reading = null; busy(false); }
};
const readRecords = () => whileReading(async () => {
  const found = selection();
  if (found.grep_in === '') { tell('Choose where the expression is searched: keys, values or headers.', 'bad'); return; }
  const hash = new URLSearchParams(found);
  hash.delete('topic');
  remember('records=' + encodeURIComponent(found.topic) + (String(hash) ? '&' + hash : ''));
  tell('Reading ' + found.topic + ' ...', '');
  const body = await fetchRecords(found);
  records = body ? body.records : [];
  if (body) tell(summary(body), body.is_complete && !body.not_decoded ? 'good' : 'warn');
  byId('records-notes').replaceChildren(...(body ? body.notes : []).map((note) => element('li', {}, note)));
  drawRecords();
  document.body.dataset.read = 'yes';
});
const readWhole = (partition, offset) => whileReading(async () => {
  const body = await fetchRecords({topic: field('topic').value.trim(), partitions: partition,
    offset: offset + ':' + (BigInt(offset) + 1n), whole: '1'});
  const [whole] = body ? body.records : [];
  if (!whole) return;
  whole.whole = true;
  records = records.map((record) => String(record.partition) === partition && String(record.offset) === offset
    ? whole : record);
  drawRecords();
});
const startRecords = () => {
  byId('records-section').hidden = false;
  byId('records-form').addEventListener('submit', (event) => { event.preventDefault(); readRecords(); });
  byId('r-stop').addEventListener('click', () => { if (reading) reading.abort(); });
  field('range').addEventListener('change', () => { field('place').value = ''; showRange(); });
  byId('records').addEventListener('click', (event) => {
    const place = event.target.dataset;
    if (place.offset !== undefined) readWhole(place.partition, place.offset);
  });
  const found = new URLSearchParams(location.hash.slice(1));
  if (!found.has('records')) { showRange(); return; }
  found.set('topic', found.get('records'));
  select(found);
  readRecords().then(() => byId('records-section').scrollIntoView({block: 'nearest'}));
};
// Thousands of options take longer than a click may: they are made again only when the topics are others.
let offered = {view: null, names: ''};
const offerTopics = (view) => {
  if (view === offered.view) return;
  const topics = view.topics.map((topic) => topic.topic).sort(), names = topics.join('\n');
  if (names !== offered.names)
    byId('r-topics').replaceChildren(...topics.map((topic) => element('option', {value: topic})));
  offered = {view, names};
};
