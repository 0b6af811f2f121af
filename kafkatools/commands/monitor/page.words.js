// -- words: an unknown number is a question mark, never 0 --
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
const behind = (ms, least) => known(ms) || !least ? span(known(ms) ? ms / 1000 : null) : '≥ ' + span(least / 1000);
const entitle = (words) => { document.title = words + ' – Kafka cluster'; };
const dayClock = (time) => (new Date(time).toDateString() === new Date().toDateString() ? ''
  : new Date(time).toLocaleDateString('sv') + ' ') + clock(time);
const clock = (time) => new Date(time).toLocaleTimeString('en-GB');
const name = (text) => known(text) && text !== '' ? String(text) : '–';

// -- elements: texts of the cluster become text nodes, whatever they contain --
// Characters that turn the direction of text, or that nobody sees, are escaped as on a terminal (control_characters.py).
const UNSEEN = new RegExp('[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f' +
  '\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff\\u{e0000}-\\u{e0fff}]', 'gu');
const escaped = (code) => code === 13 ? '\\r' : code < 0x100 ? '\\x' + code.toString(16).padStart(2, '0')
  : code < 0x10000 ? '\\u' + code.toString(16).padStart(4, '0') : '\\U' + code.toString(16).padStart(8, '0');
const visible = (text) => text.replace(UNSEEN, (character) => escaped(character.codePointAt(0)));
const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) if (value !== '') made.setAttribute(key, value);
  made.append(...children.map((child) => typeof child === 'string' ? visible(child) : child));
  return made;
};
const drawn = (tag, attributes, ...children) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const replicas = (part) => part.replicas.map((broker) => {
  const isLeader = broker === part.leader, isIn = part.isr.includes(broker);
  const words = isLeader ? ' (leader)' : isIn ? ' (in sync)' : ' (not in sync)';
  return element('span', {class: 'replica' + (isLeader ? ' leader' : isIn ? '' : ' out'),
    title: 'broker ' + broker + words, 'aria-label': broker + words}, String(broker));
});
