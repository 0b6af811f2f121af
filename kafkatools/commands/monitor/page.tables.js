// -- tables: each can be sorted by its headers and searched, and shows 50 rows at a time --
// The address keeps what is sought, the order and the page of each table; a table draws only the rows of one page.
const PAGE_ROWS = 50;
const tables = {}, opened = {};
let state = {find: {}, sort: {}, page: {}, internal: false};

// A column: id, title, kind (number, text, or mood: text that says how bad it is), the value of a row, which sorts and
// is searched, and the cell of a row: a text, an element or a list of them; by default the value as text.
const column = (id, title, kind, value, cell = (row) => name(value(row))) => ({id, title, kind, value, cell});
// What may be defined: mood(row), a class; accept(row), false for a hidden row; key(row) and extra(row), the content
// below a row that is opened; empty, the text for no rows.
const define = (id, label, columns, more = {}) => {
  tables[id] = {rows: [], columns, empty: 'None.', mood: () => '', ...more};
  const wide = byId(id).closest('.wide');
  wide.before(element('p', {class: 'controls'}, element('label', {}, 'Find ', element('input', {type: 'search',
    id: 'find-' + id, 'data-find': id, autocomplete: 'off', spellcheck: 'false', 'aria-label': 'Find in ' + label})),
  ' ', ...(more.controls || []), element('span', {id: id + '-found', role: 'status'})));
  wide.after(element('p', {class: 'controls pager', id: id + '-pager', hidden: ''},
    element('button', {type: 'button', 'data-turn': id, 'data-by': '-1', 'aria-label': 'Previous page of ' + label},
      'Previous'), ' ', element('span', {id: id + '-page'}), ' ',
    element('button', {type: 'button', 'data-turn': id, 'data-by': '1', 'aria-label': 'Next page of ' + label}, 'Next')));
  byId(id + '-pager').hidden = true;
  byId(id).setAttribute('aria-label', label);
};
const searched = new WeakMap();
const wordsOf = (table, row) => {
  let words = searched.get(row);
  if (words === undefined) {
    words = table.columns.map(({value}) => value(row)).filter(known).join(' ').toLowerCase();
    searched.set(row, words);
  }
  return words;
};
const isEmpty = (value) => !known(value) || value === '';
const inOrder = (table, order, rows) => {
  const sortedBy = order && table.columns.find(({id}) => id === order.column);
  if (!sortedBy) return rows;
  const keyed = rows.map((row) => {
    const value = sortedBy.value(row);
    return [typeof value === 'string' ? value.toLowerCase() : value, row];
  });
  const sign = order.isDown ? -1 : 1;
  keyed.sort(([one], [other]) => isEmpty(one) || isEmpty(other) ? isEmpty(one) - isEmpty(other)
    : one < other ? -sign : one > other ? sign : 0);  // unknown values are last in both directions
  return keyed.map(([, row]) => row);
};
const foundIn = (id) => {
  const table = tables[id], wanted = (state.find[id] || '').toLowerCase().split(/\s+/).filter(Boolean);
  const accepted = table.accept ? table.rows.filter(table.accept) : table.rows;
  const found = wanted.length ? accepted.filter((row) => {
    const words = wordsOf(table, row);
    return wanted.every((word) => words.includes(word));
  }) : accepted;
  return inOrder(table, state.sort[id], found);
};
const header = (id, {id: columnId, title, kind}) => {
  const order = state.sort[id] && state.sort[id].column === columnId ? state.sort[id] : null;
  return element('th', {scope: 'col', class: kind === 'number' ? '' : 'text',
    'aria-sort': order ? order.isDown ? 'descending' : 'ascending' : ''},
  element('button', {type: 'button', class: 'sort', 'data-sort': id, 'data-column': columnId}, title));
};
const lines = (id, row) => {
  const {columns, mood, key, extra} = tables[id];
  const cells = columns.map(({title, kind, cell}, place) => {
    const content = cell(row), classes = (kind === 'number' ? '' : 'text') + (kind === 'mood' ? ' mood' : '');
    const made = element('td', {class: classes, 'data-label': title}, ...(Array.isArray(content) ? content : [content]));
    if (extra && !place) made.replaceChildren(element('button', {type: 'button', class: 'row-button opener',
      'data-open': id, 'data-key': key(row), 'aria-expanded': String(isOpen(id, key(row)))}, ...made.childNodes));
    return made;
  });
  const made = [element('tr', {class: mood(row)}, ...cells)];
  if (extra && isOpen(id, key(row)))
    made.push(element('tr', {class: 'extra'}, element('td', {class: 'text', colspan: columns.length}, extra(row))));
  return made;
};
const isOpen = (id, key) => opened[id] !== undefined && opened[id].has(key);
const drawTable = (id, isRefresh = false) => {
  const {columns, rows, empty} = tables[id];
  const found = foundIn(id), pages = Math.max(1, Math.ceil(found.length / PAGE_ROWS));
  const page = Math.min(state.page[id] || 1, pages), first = (page - 1) * PAGE_ROWS;
  const shownRows = found.slice(first, first + PAGE_ROWS);
  const body = shownRows.flatMap((row) => lines(id, row));
  if (!body.length) body.push(element('tr', {}, element('td', {class: 'text', colspan: columns.length},
    state.find[id] ? 'Nothing found.' : empty)));
  const table = element('table', {}, element('thead', {}, element('tr', {}, ...columns.map((each) => header(id, each)))),
    element('tbody', {}, ...body));
  byId(id + '-found').textContent = state.find[id] ? count(found.length) + ' of ' + count(rows.length) : '';
  byId(id + '-pager').hidden = pages === 1;
  byId(id + '-page').textContent = count(first + 1) + ' to ' + count(first + shownRows.length) + ' of ' +
    count(found.length);
  const old = byId(id);
  if (isRefresh && old.innerHTML === table.innerHTML) return;  // so that focus and selection stay
  const focus = old.contains(document.activeElement) ? JSON.stringify(document.activeElement.dataset) : '{}';
  old.replaceChildren(...table.childNodes);
  if (focus !== '{}') for (const button of old.querySelectorAll('button'))
    if (JSON.stringify(button.dataset) === focus) button.focus();
};
const show = (id, rows) => {
  tables[id].rows = rows;
  drawTable(id, true);
};

const sortBy = (id, columnId) => {
  const order = state.sort[id];
  if (!order || order.column !== columnId) state.sort[id] = {column: columnId, isDown: true};
  else if (order.isDown) state.sort[id] = {column: columnId, isDown: false};
  else delete state.sort[id];
  delete state.page[id];
};
const startTables = () => {
  document.addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (!button) return;
    const {sort, column: columnId, turn, by, open, key} = button.dataset, id = sort || turn || open;
    if (!id) return;
    if (sort) sortBy(id, columnId);
    if (turn) state.page[id] = Math.max(1, Math.min((state.page[id] || 1) + Number(by),
      Math.ceil(foundIn(id).length / PAGE_ROWS)));
    if (open) {
      opened[id] = opened[id] || new Set();
      if (!opened[id].delete(key)) opened[id].add(key);
    }
    remember();
    drawTable(id);
  });
  document.addEventListener('input', (event) => {
    const id = event.target.dataset.find;
    if (!id) return;
    state.find[id] = event.target.value.trim();
    delete state.page[id];
    remember();
    drawTable(id);
  });
};

// -- the address: what is sought and sorted, the open details, and the records that were read --
const KINDS = ['broker', 'topic', 'group'];
const chosen = {broker: '', topic: '', group: ''};
let shown = '';
const remember = (read) => {
  if (read !== undefined) shown = read;
  const parts = new URLSearchParams();
  for (const kind of KINDS) if (chosen[kind]) parts.set(kind, chosen[kind]);
  for (const [id, text] of Object.entries(state.find)) if (text) parts.set('find.' + id, text);
  for (const [id, {column: columnId, isDown}] of Object.entries(state.sort))
    parts.set('sort.' + id, (isDown ? '-' : '') + columnId);
  for (const [id, page] of Object.entries(state.page)) if (page > 1) parts.set('page.' + id, page);
  if (state.internal) parts.set('internal', '1');
  const hash = [String(parts), shown].filter(Boolean).join('&');
  history.replaceState(null, '', hash ? '#' + hash : location.pathname);
};
const recall = () => {
  const found = new URLSearchParams(location.hash.slice(1));
  state = {find: {}, sort: {}, page: {}, internal: found.get('internal') === '1'};
  for (const kind of KINDS) chosen[kind] = found.get(kind) || '';
  for (const [key, value] of found) {
    const [what, id] = key.split('.');
    if (!id || !Object.hasOwn(tables, id)) continue;
    if (what === 'find') state.find[id] = value;
    if (what === 'page') state.page[id] = Math.max(1, Math.floor(Number(value)) || 1);
    if (what === 'sort') state.sort[id] = {column: value.replace(/^-/, ''), isDown: value.startsWith('-')};
  }
  for (const id of Object.keys(tables)) byId('find-' + id).value = state.find[id] || '';
  byId('internal').checked = state.internal;
};
