"use strict";
/* Draws the data of the page: tables that sort and filter, and the map of nodes and devices.
   Text becomes nodes by textContent alone, so that no name is ever read as markup. Of long tables and of the map, only
   what is in sight is in the page. */

const FEW = 200; // rows up to which a table is in the page as a whole
const LONG = 40; // letters from which on a path may be broken
const PROSE = 80; // letters from which on a text has room of its own beside long names
const ROW = 26; // height of a row of longer ones, in pixels (also in the style sheet)
const HEIGHT = 460; // of what scrolls, in pixels (also in the style sheet)
const BEYOND = 10; // rows above and below what is in sight
const PRINTED = 1000; // rows of a table, and nodes of a map, on paper
const TILE = 164; // width of a node, in pixels (also in the style sheet)
const GAP = 6;
const CELL = 19; // a device and the gap beside it
const PER_LINE = 8;
const PER_TILE = 64; // devices; a node with more has several tiles
const NAME_HEIGHT = 29;
const LABEL = 15; // height of the name of a group of devices in a node, in pixels (also in the style sheet)
const COLOURS = 8;
const SHAPES = 4; // of devices, by their kind (also in the style sheet)
const AT_FIRST = 50; // rows and nodes on a narrow screen, where a button shows more
const BAR = 96; // width of a bar and the gap beside it, in pixels (also in the style sheet)
const NARROW = matchMedia("(max-width: 640px)"); // (also in the style sheet)

const collator = new Intl.Collator("en", { numeric: true });

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/* A time as people read it, the whole of it on hover; any other text is as it is. */
const TIME = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z$/;
function timeText(text) {
  const [, day, time] = TIME.exec(text) || [];
  if (!day) return text;
  return day === new Date().toISOString().slice(0, 10) ? time : `${day} ${time}`;
}

function button(text, use) {
  const made = make("button", { type: "button", class: "more" }, text);
  made.addEventListener("click", use);
  return made;
}

const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/* -- tables */

class Table {
  /* data: {id, caption, none, columns: [{title, isNumber}], bar: {column, parts: [{column, colour}], whole}, groups: [[key, rows]]}.
     A row of several that say the same has the rows of each behind its last cell, in which "" is what the row says. */
  constructor(data, place, isKnown = true) {
    this.data = data;
    this.groups = new Map(data.groups);
    this.sort = { column: -1, isDescending: false };
    this.words = [];
    this.texts = new WeakMap(); // what is searched, by row
    this.shown = new Map();
    this.open = new Set(); // rows of several, of which each is shown
    this.listeners = [];
    this.isPrinted = false;
    this.limit = AT_FIRST;
    this.isKnown = isKnown; // false until a running program has said what there is
    this.build(place);
    NARROW.addEventListener("change", () => this.refresh());
    this.reload();
  }

  build(place) {
    const { id, caption, columns } = this.data;
    this.count = make("output", { for: `filter-${id}` });
    this.input = filterInput(`filter-${id}`, (text) => this.filter(text));
    this.input.setAttribute("aria-label", `Filter: ${caption}`);
    const label = make("label", {}, "Filter ", this.input);
    this.headers = columns.map((column, at) => this.header(column, at));
    this.columns = make("colgroup", {}, ...columns.map(() => make("col")));
    this.body = make("tbody");
    this.above = this.gap();
    this.below = this.gap();
    const head = make("thead", {}, make("tr", { "aria-rowindex": "1" }, ...this.headers));
    const name = make("caption", { class: "unseen" }, caption); // the heading says it to those who see
    this.table = make("table", {}, name, this.columns, head, this.body);
    this.box = make("div", { class: "rows", tabindex: "0", role: "region", "aria-label": caption }, this.table);
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.more = button("", () => this.showMore());
    this.drawn = make("div", {}, make("h2", {}, caption), make("div", { class: "tools" }, label, this.count), this.box, this.more);
    this.none = make("p", { class: "none" }, this.data.none);
    place.append(this.drawn, this.none);
  }

  showMore() {
    this.limit *= 4;
    this.draw();
  }

  header(column, at) {
    const button = make("button", { type: "button" }, column.title);
    button.addEventListener("click", () => this.sortBy(at));
    const kind = column.isNumber ? { class: "number" } : {};
    return make("th", { scope: "col", "aria-sort": "none", ...kind }, button);
  }

  gap() {
    return make("tr", { class: "gap", "aria-hidden": "true" }, make("td", { colspan: String(this.data.columns.length) }));
  }

  /* All rows anew, after the groups have changed: by their names. */
  reload() {
    const groups = [...this.groups].sort(([one], [other]) => (one < other ? -1 : 1));
    this.all = groups.flatMap(([, rows]) => rows);
    this.hideEmpty();
    this.refresh();
  }

  /* Columns that say nothing of any row take no room. */
  hideEmpty() {
    const isEmpty = (at) => at > 0 && this.all.every((row) => row[at] === "-");
    this.empty = this.data.columns.map((_, at) => isEmpty(at));
    this.headers.forEach((header, at) => (header.hidden = this.empty[at]));
    [...this.columns.children].forEach((col, at) => (col.hidden = this.empty[at]));
    const shown = this.empty.filter((one) => !one).length;
    for (const gap of [this.above, this.below]) gap.firstChild.colSpan = shown;
  }

  filter(text) {
    if (this.input.value !== text) this.input.value = text;
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.box.scrollTop = 0;
    this.refresh();
  }

  has(row) {
    if (!this.words.length) return true;
    let text = this.texts.get(row);
    if (text === undefined) this.texts.set(row, (text = row.join("\n").toLowerCase()));
    return this.words.every((word) => text.includes(word));
  }

  sortBy(column) {
    const isDescending = this.sort.column === column && !this.sort.isDescending;
    this.sort = { column, isDescending };
    this.headers.forEach((header, at) => {
      header.setAttribute("aria-sort", at !== column ? "none" : isDescending ? "descending" : "ascending");
    });
    this.refresh();
  }

  sorted(rows) {
    const { column, isDescending } = this.sort;
    if (column < 0) return rows;
    const compare = this.data.columns[column].isNumber
      ? (a, b) => Number(a[column]) - Number(b[column])
      : (a, b) => collator.compare(a[column], b[column]);
    return [...rows].sort(isDescending ? (a, b) => compare(b, a) : compare);
  }

  refresh() {
    const found = this.sorted(this.words.length ? this.all.filter((row) => this.has(row)) : this.all);
    this.rows = this.open.size ? found.flatMap((row) => (this.open.has(row) ? [row, ...this.members(row)] : [row])) : found;
    this.drawn.hidden = !this.all.length; // a table without rows is one line
    this.none.hidden = Boolean(this.all.length);
    this.none.textContent = this.isKnown ? this.data.none : `${this.data.caption}: ...`;
    this.isLong = this.rows.length > FEW && !NARROW.matches;
    this.box.classList.toggle("many", this.isLong);
    this.table.setAttribute("aria-rowcount", String(this.rows.length + 1));
    const part = this.words.length ? `${found.length.toLocaleString("en")} of ` : "";
    this.count.textContent = part + counted(this.all.length, "row");
    this.clear();
    if (this.isLong) this.measure();
    this.draw();
    for (const listener of this.listeners) listener();
  }

  members(row) {
    const members = row[this.data.columns.length] || [];
    return members.map((cells) => cells.map((text, at) => text || row[at]));
  }

  /* Shows each of the several that a row stands for, or the row alone. */
  toggle(row) {
    if (!this.open.delete(row)) this.open.add(row);
    const at = this.rows.indexOf(row);
    this.refresh();
    const again = this.shown.get(at);
    if (again) again.querySelector("button").focus({ preventScroll: true });
  }

  toggler(row) {
    const isOpen = this.open.has(row);
    const made = button(isOpen ? "Show as one" : "Show each", () => this.toggle(row));
    made.setAttribute("aria-expanded", String(isOpen));
    return made;
  }

  clear() {
    this.shown.clear();
    this.body.replaceChildren(this.above, this.below);
    if (!this.isLong) for (const col of this.columns.children) col.style.width = "";
  }

  /* The width of each column is that of its longest text: it stays while other rows come in sight. */
  measure() {
    const pen = document.createElement("canvas").getContext("2d");
    const style = getComputedStyle(this.table);
    pen.font = `500 ${style.fontSize} ${style.fontFamily}`;
    [...this.columns.children].forEach((col, at) => {
      const longest = this.rows.reduce((one, row) => (row[at].length > one.length ? row[at] : one), "");
      const bar = this.data.bar && this.data.bar.column === at ? BAR : 0;
      const title = `${this.data.columns[at].title} \u2195`;
      const width = Math.max(pen.measureText(longest).width, pen.measureText(title).width + 4);
      col.style.width = `${Math.ceil(width) + 24 + bar}px`;
    });
  }

  range() {
    if (this.isPrinted) return [0, Math.min(this.rows.length, PRINTED)];
    if (NARROW.matches) return [0, Math.min(this.rows.length, this.limit)];
    if (!this.isLong) return [0, this.rows.length];
    const first = Math.floor(this.box.scrollTop / ROW);
    const start = Math.max(0, Math.min(first, this.rows.length) - BEYOND);
    return [start, Math.min(this.rows.length, first + Math.ceil(HEIGHT / ROW) + BEYOND)];
  }

  draw() {
    const [start, end] = this.range();
    for (const [at, row] of this.shown) {
      if (at >= start && at < end) continue;
      row.remove();
      this.shown.delete(at);
    }
    let next = this.below;
    for (let at = end - 1; at >= start; at--) next = this.placed(at, next);
    const isCut = !this.isLong && !this.isPrinted && end < this.rows.length;
    this.more.hidden = !isCut;
    this.more.textContent = `Show more of ${counted(this.rows.length, "row")}`;
    const left = this.isPrinted || isCut ? 0 : this.rows.length - end;
    this.above.firstChild.style.height = `${start * ROW}px`;
    this.below.firstChild.style.height = `${left * ROW}px`;
    this.above.hidden = !start;
    this.below.hidden = !left;
  }

  placed(at, next) {
    let row = this.shown.get(at);
    if (!row) {
      row = this.row(this.rows[at], at);
      this.shown.set(at, row);
      this.body.insertBefore(row, next);
    }
    return row;
  }

  row(cells, at) {
    const row = make("tr", { "aria-rowindex": String(at + 2) });
    const { length } = this.data.columns;
    cells.slice(0, length).forEach((text, column) => {
      const cell = document.createElement(column ? "td" : "th");
      if (!column) cell.scope = "row";
      const { title, isNumber } = this.data.columns[column];
      cell.dataset.title = title;
      cell.hidden = this.empty[column];
      if (isNumber) cell.className = "number";
      if (text === "-") cell.classList.add("nothing");
      if (text.length > PROSE && text.includes(" ")) cell.classList.add("prose");
      const shown = timeText(text);
      if ((this.isLong && text.length > 30) || shown !== text) cell.title = text;
      if (this.isLong) cell.textContent = shown; // on one line
      else cell.append(...breakable(shown));
      if (this.data.bar && this.data.bar.column === column) cell.append(this.bar(cells));
      if (!column && cells.length > length) cell.append(" ", this.toggler(cells));
      row.append(cell);
    });
    return row;
  }

  /* How many of its devices are in which state, or how much of the whole is in use: the numbers stand beside it. */
  bar(cells) {
    const { parts: shown, whole } = this.data.bar;
    const amounts = shown.map(({ column, colour }) => [Number(cells[column]) || 0, colour]);
    const rest = (whole || 0) - amounts.reduce((sum, [amount]) => sum + amount, 0);
    if (rest > 0) amounts.push([rest, null]);
    const parts = amounts.map(([amount, colour]) => {
      const part = make("span", { class: colour === null ? "free" : `colour-${colour}` });
      part.style.flexGrow = amount;
      return part;
    });
    return make("span", { class: "bar", "aria-hidden": "true" }, ...parts);
  }

  print(isPrinted) {
    this.isPrinted = isPrinted;
    this.draw();
  }
}

/* A list or a long path that can be broken after its commas or slashes, and is copied as it is. */
function breakable(text) {
  return text.split(text.length > LONG ? /(?<=[,\/])/ : /(?<=,)/).flatMap((part, at) => (at ? [make("wbr"), part] : [part]));
}

function filterInput(id, use) {
  const input = make("input", { type: "search", id, autocomplete: "off", spellcheck: "false" });
  input.addEventListener("input", () => use(input.value));
  return input;
}

/* -- the map */

class NodeMap {
  /* data: {table, name, node, state, holders, marks, markText, kind, place, whole, check, checks: [[symbol, text]], groups, closed,
     states: [{name, letter, colour, text}]}: columns. title: of one of two maps, the second of which has no tools. */
  constructor(data, table, place, title = "Nodes and devices", other = null) {
    this.data = data;
    this.title = title;
    this.other = other; // the map whose tools and details serve this one, too
    this.table = table;
    this.states = new Map(data.states.map((state) => [state.name, state]));
    this.tiles = [];
    this.shown = new Map();
    this.current = 0;
    this.chosen = "";
    this.by = "state";
    this.isPrinted = false;
    this.build(place);
    table.listeners.push(() => this.refresh());
    if (data.closed) data.closed.listeners.push(() => this.refresh());
    new ResizeObserver(() => this.arrange()).observe(this.box);
    this.refresh();
  }

  build(place) {
    this.input = filterInput("filter-map", (text) => this.table.filter(text));
    this.count = make("output", { for: "filter-map" });
    this.colours = make("select", { id: "colours" });
    for (const [value, text] of [["state", "State"], ...this.data.groups]) {
      this.colours.append(make("option", { value }, text));
    }
    this.colours.addEventListener("change", () => this.colourBy(this.colours.value));
    if (this.other) this.other.colours.addEventListener("change", () => this.colourBy(this.other.colours.value));
    const find = make("label", {}, "Find a node, device, claim or pod ", this.input);
    const tools = make("div", { class: "tools" }, find, make("label", {}, "Colour by ", this.colours), this.count);
    this.tools = tools;
    this.legend = make("ul", { class: "legend", "aria-label": "Meaning of the letters and colours" });
    this.space = make("div", { class: "space" });
    const label = "Nodes and devices. Arrow keys go from node to node, Enter shows the devices of one.";
    this.box = make("div", { class: "map", tabindex: "0", role: "group", "aria-label": label }, this.space);
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.details = make("div", { "aria-live": "polite" });
    this.limit = AT_FIRST;
    this.more = button("", () => this.showMore());
    const head = make("h2", {}, this.title);
    if (this.other) place.append(head, this.box, this.more);
    else place.append(head, tools, this.legend, this.box, this.more, this.details);
  }

  showMore() {
    this.limit *= 4;
    this.arrange();
  }

  colourBy(what) {
    this.by = what;
    this.refresh();
  }

  /* Anew from the rows of the table, in the order of the nodes' names. */
  refresh() {
    if (this.input.value !== this.table.input.value) this.input.value = this.table.input.value;
    const nodes = new Map();
    for (const row of this.table.all) {
      const name = row[this.data.node];
      if (row[this.data.state] === "-") continue; // it was not there
      if (!nodes.has(name)) nodes.set(name, []);
      nodes.get(name).push(row);
    }
    this.closed = this.closedNodes();
    this.rank();
    const kinds = this.data.kind === null ? [] : [...new Set(this.table.all.map((row) => row[this.data.kind]))];
    this.kinds = kinds.length > 1 ? kinds.sort(collator.compare) : [];
    const names = [...nodes.keys()].sort(collator.compare);
    const found = names.filter((name) => nodes.get(name).some((row) => this.table.has(row)));
    this.tiles = found.flatMap((name) => this.tilesOf(name, nodes.get(name)));
    this.current = Math.min(this.current, Math.max(0, this.tiles.length - 1));
    this.count.textContent = (found.length < names.length ? `${found.length} of ` : "") + counted(names.length, "node");
    this.explain();
    this.arrange();
    this.show(nodes.get(this.chosen));
  }

  /* The nodes that take no pods, or not all, and why. */
  closedNodes() {
    const rows = this.data.closed ? this.data.closed.all : [];
    return new Map(rows.map((row) => [row[0], row[this.data.why]]).filter(([, why]) => why !== "-"));
  }

  tilesOf(node, rows) {
    const tiles = [];
    rows = this.grouped(rows);
    for (let from = 0; from < rows.length; from += PER_TILE) {
      const number = rows.length > PER_TILE ? ` (${from / PER_TILE + 1})` : "";
      const own = rows.slice(from, from + PER_TILE);
      tiles.push({ node, title: node + number, rows: own, groups: this.groupsOf(own) });
    }
    return tiles;
  }

  /* Where in its node a device is, and what it is cut from: what the table says of it. */
  groupOf(row) {
    const { place, whole } = this.data;
    if (place === null) return "";
    return [row[whole], row[place]].filter((text) => text !== "-").join(", ");
  }

  grouped(rows) {
    if (this.data.place === null) return rows;
    const names = new Map(rows.map((row) => [row, this.groupOf(row)]));
    const kind = (row) => row[this.data.kind];
    return [...rows].sort((a, b) => collator.compare(names.get(a), names.get(b)) || collator.compare(kind(a), kind(b)));
  }

  groupsOf(rows) {
    const groups = new Map();
    for (const row of rows) {
      const name = this.groupOf(row);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    return [...groups];
  }

  heightOf({ groups }) {
    return groups.reduce((sum, [name, rows]) => sum + (name ? LABEL : 0) + CELL * Math.ceil(rows.length / PER_LINE), 0);
  }

  holder(row) {
    const first = row[this.data.holders].split(",", 1)[0];
    if (first === "-" || first === "") return "";
    return this.by === "namespace" ? first.split("/", 1)[0] : first;
  }

  /* Holders by how many devices they have: the first ones have a number and a colour of their own. */
  rank() {
    const numbers = new Map();
    if (this.by !== "state") {
      for (const row of this.table.all) {
        const holder = this.holder(row);
        if (holder) numbers.set(holder, (numbers.get(holder) || 0) + 1);
      }
    }
    this.ranking = [...numbers].sort((a, b) => b[1] - a[1] || collator.compare(a[0], b[0]));
    this.rankOf = new Map(this.ranking.map(([holder], at) => [holder, at]));
  }

  looks(row) {
    const looks = this.looksWithoutCheck(row);
    const symbol = this.data.check === null || this.by !== "state" ? "-" : row[this.data.check];
    return symbol === "-" ? looks : { ...looks, letter: symbol };
  }

  looksWithoutCheck(row) {
    const holder = this.by === "state" ? "" : this.holder(row);
    if (holder) return this.looksOf(holder);
    return this.states.get(row[this.data.state]) || { letter: "?", colour: COLOURS - 1 };
  }

  cell({ letter, colour }) {
    const kind = colour === null ? "free" : `colour-${colour}`;
    return make("span", { class: `cell ${kind}` }, letter);
  }

  explain() {
    const inUse = new Set(this.table.all.map((row) => row[this.data.state]));
    const entries =
      this.by === "state"
        ? this.data.states.filter((one) => inUse.has(one.name)).map((one) => [one, `${one.name}: ${one.text}`])
        : this.ranking.slice(0, COLOURS).map(([holder, number]) => [this.looksOf(holder), `${holder}: ${number}`]);
    const rest = this.ranking.length - COLOURS;
    const items = entries.map(([looks, text]) => make("li", {}, this.cell(looks), text));
    if (rest > 0) items.push(make("li", {}, this.cell({ letter: "+", colour: null }), `${rest} more, in the same colours`));
    if (this.by === "state") {
      for (const [letter, text] of this.data.checks) items.push(make("li", {}, this.cell({ letter, colour: null }), text));
    }
    const shaped = this.kinds.slice(0, SHAPES - 1).map((kind) => [this.shapeOf(kind), kind]);
    const others = this.kinds.slice(SHAPES - 1);
    if (others.length) shaped.push([this.shapeOf(others[0]), others.length === 1 ? others[0] : `${others.length} other kinds`]);
    for (const [shape, text] of shaped) items.push(make("li", {}, make("span", { class: `cell free ${shape}` }), text));
    if (this.closed.size) {
      const mark = make("span", { class: "cell free" }, "\u2298");
      items.push(make("li", {}, mark, "before a node: it is cordoned, tainted or removed"));
    }
    if (this.data.marks !== null) {
      items.push(make("li", {}, make("span", { class: "cell free marked" }), `border: ${this.data.markText}`));
    }
    this.legend.replaceChildren(...items);
  }

  /* A number, since letters are states; + for those that the legend does not name. */
  looksOf(holder) {
    const rank = this.rankOf.get(holder);
    return { letter: rank < COLOURS ? String(rank + 1) : "+", colour: rank % COLOURS };
  }

  /* Where each tile is: rows of tiles, each as high as its highest. */
  arrange() {
    this.perRow = Math.max(1, Math.floor((this.box.clientWidth - GAP) / (TILE + GAP)));
    this.tops = [GAP];
    const number = NARROW.matches && !this.isPrinted ? Math.min(this.limit, this.tiles.length) : this.tiles.length;
    this.more.hidden = number === this.tiles.length;
    this.more.textContent = `Show more of ${counted(this.tiles.length, "node")}`;
    for (let from = 0; from < number; from += this.perRow) {
      const most = Math.max(...this.tiles.slice(from, from + this.perRow).map((tile) => this.heightOf(tile)));
      this.tops.push(this.tops.at(-1) + NAME_HEIGHT + most + GAP);
    }
    const hadFocus = this.space.contains(document.activeElement);
    this.space.style.height = `${this.tops.at(-1)}px`;
    this.space.replaceChildren();
    this.shown.clear();
    this.draw();
    if (hadFocus && this.shown.has(this.current)) this.shown.get(this.current).focus({ preventScroll: true });
  }

  /* The first row of tiles that ends below this height. */
  rowAt(height) {
    let low = 0;
    let high = this.tops.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] > height) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  range() {
    if (this.isPrinted) return [0, Math.min(this.tiles.length, PRINTED)];
    if (NARROW.matches) return [0, Math.min(this.tiles.length, this.limit)];
    const start = this.rowAt(this.box.scrollTop) - 1;
    const end = this.rowAt(this.box.scrollTop + this.box.clientHeight) + 2;
    return [Math.max(0, start * this.perRow), Math.min(this.tiles.length, end * this.perRow)];
  }

  draw() {
    const [start, end] = this.range();
    for (const [at, tile] of this.shown) {
      if (at >= start && at < end) continue;
      tile.remove();
      this.shown.delete(at);
    }
    for (let at = start; at < end; at++) {
      if (this.shown.has(at)) continue;
      const tile = this.tile(at);
      this.shown.set(at, tile);
      this.space.append(tile);
    }
  }

  tile(at) {
    const { node, title, rows, groups } = this.tiles[at];
    const cells = groups.flatMap(([name, own]) => {
      const drawn = make("span", { class: "cells", "aria-hidden": "true" }, ...own.map((row) => this.device(row)));
      return name ? [make("span", { class: "group", "aria-hidden": "true", title: name }, name), drawn] : [drawn];
    });
    const why = this.closed.get(node);
    const name = make("span", { class: "name", "aria-hidden": "true" }, why ? `\u2298 ${title}` : title);
    const tile = make(
      "button",
      {
        class: why ? "node closed" : "node",
        type: "button",
        tabindex: at === this.current ? "0" : "-1",
        "aria-label": this.words(title, rows) + (why ? `; ${why}` : ""),
        "aria-pressed": String(node === this.chosen),
        title: why ? `${title}: ${why}` : title,
      },
      name,
      ...cells,
    );
    tile.style.left = `${GAP + (at % this.perRow) * (TILE + GAP)}px`;
    tile.style.top = `${this.tops[Math.floor(at / this.perRow)]}px`;
    tile.addEventListener("click", () => this.choose(at));
    return tile;
  }

  device(row) {
    const cell = this.cell(this.looks(row));
    const kind = this.data.kind === null ? [] : [row[this.data.kind]];
    cell.title = [row[this.data.name], ...kind, row[this.data.state], row[this.data.holders]].join(", ");
    if (!this.table.has(row)) cell.classList.add("dim");
    if (this.data.marks !== null && row[this.data.marks] !== "-") cell.classList.add("marked");
    if (this.kinds.length) cell.classList.add(this.shapeOf(row[this.data.kind]));
    return cell;
  }

  shapeOf(kind) {
    return `shape-${Math.min(this.kinds.indexOf(kind), SHAPES - 1)}`;
  }

  words(title, rows) {
    const numbers = new Map();
    for (const row of rows) {
      const state = row[this.data.state];
      numbers.set(state, (numbers.get(state) || 0) + 1);
    }
    const states = [...numbers].map(([state, number]) => `${number} ${state}`).join(", ");
    return `${title}: ${counted(rows.length, "device")}: ${states}`;
  }

  choose(at) {
    const before = this.chosen;
    this.current = at;
    this.chosen = this.tiles[at].node === before ? "" : this.tiles[at].node;
    for (const [number, tile] of this.shown) {
      tile.setAttribute("aria-pressed", String(this.tiles[number].node === this.chosen));
      tile.tabIndex = number === at ? 0 : -1;
    }
    this.show(this.table.all.filter((row) => row[this.data.node] === this.chosen));
  }

  /* The devices of the chosen node, below the map. */
  show(rows) {
    const text = JSON.stringify([this.chosen, rows]);
    if (text === this.told || this.other) return; // a screen reader would read it again
    this.told = text;
    this.details.replaceChildren();
    if (!this.chosen || !rows || !rows.length) return;
    const columns = this.table.data.columns;
    const head = make("tr", {}, ...columns.map((one) => make("th", { scope: "col" }, one.title)));
    const body = rows.slice(0, PRINTED).map((row) => {
      const [first, ...others] = row;
      const cells = others.map((text, at) => {
        const kind = text === "-" ? { class: "nothing" } : {};
        return make("td", { "data-title": columns[at + 1].title, ...kind }, ...breakable(text));
      });
      return make("tr", {}, make("th", { scope: "row" }, first), ...cells);
    });
    const table = make("table", {}, make("caption", {}, this.chosen), make("thead", {}, head), make("tbody", {}, ...body));
    const label = `Devices of ${this.chosen}`;
    this.details.append(make("div", { class: "wide chosen", tabindex: "0", role: "region", "aria-label": label }, table));
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / 60)) * this.perRow;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.perRow, ArrowDown: this.perRow };
    Object.assign(steps, { PageUp: -page, PageDown: page, Home: -this.tiles.length, End: this.tiles.length });
    const step = steps[event.key];
    if (step === undefined || !this.tiles.length || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const isInside = event.target !== this.box;
    this.focus(Math.max(0, Math.min(this.tiles.length - 1, this.current + (isInside ? step : 0))));
  }

  focus(at) {
    const old = this.shown.get(this.current);
    if (old) old.tabIndex = -1;
    this.current = at;
    const row = Math.floor(at / this.perRow);
    const [top, bottom] = [this.tops[row], this.tops[row + 1]];
    if (top < this.box.scrollTop) this.box.scrollTop = top - GAP;
    else if (bottom > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = bottom - this.box.clientHeight;
    this.draw();
    const tile = this.shown.get(at);
    tile.tabIndex = 0;
    tile.focus({ preventScroll: true });
  }

  print(isPrinted) {
    this.isPrinted = isPrinted;
    this.arrange();
  }
}

/* -- the page */

function start(data) {
  const place = document.getElementById("drawn");
  const trends = data.events && make("section", { "aria-label": "The last hour" });
  if (trends) place.append(trends);
  const map = data.map && make("section", { "aria-label": "Nodes and devices" });
  if (map) place.append(map);
  const tables = new Map();
  for (const one of data.tables) {
    const section = make("section", { "aria-label": one.caption });
    place.append(section);
    tables.set(one.id, new Table(one, section, !data.events));
  }
  const drawn = [...tables.values()];
  if (map) drawn.push(...maps({ ...data.map, why: 1, closed: tables.get(data.map.nodes) }, tables.get(data.map.table), map));
  const print = (isPrinted) => drawn.forEach((one) => one.print(isPrinted));
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  if (trends) drawTrends(trends, tables.get("time-line"));
  if (data.events) follow(data.events, tables);
}

/* One map, or two beside each other: before a change, and after it. */
function maps(data, table, place) {
  if (!data.before) return [new NodeMap(data, table, place)];
  const [left, right] = [make("div"), make("div")];
  const after = new NodeMap(data, table, right, "After the change");
  const before = new NodeMap({ ...data, ...data.before, why: 2 }, table, left, "Before the change", after);
  place.append(make("h2", {}, "Nodes and devices"), after.tools, after.legend);
  place.append(make("div", { class: "beside" }, left, right), after.details);
  return [before, after];
}

start(JSON.parse(document.getElementById("data").textContent));
