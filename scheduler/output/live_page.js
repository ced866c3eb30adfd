"use strict";
/* A page that follows a running program: beside the script of all pages, which begins with the data of the page. */

const TOGETHER = 300; // events that come within so many milliseconds are drawn together
const SOON = 3000; // a stream that has ended is opened again before that
const RESTS = 10; // so many times as long as drawing took, nothing is drawn
const AGAIN = 5000; // milliseconds until a page that was refused asks again
const SILENT = 15000; // after so many milliseconds without an event, of which one comes every five seconds

/* -- the time line */

const HOUR = 3600000; // milliseconds
const [WIDE, HIGH, LEFT] = [320, 110, 44]; // of a chart, and of what is beside it, in units of its picture
const LINES = 8; // classes with a line of their own, by the number of colours

const SVG = new DOMParser().parseFromString("<svg>", "text/html").querySelector("svg").namespaceURI;

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/* Charts of the rows of a table, the newest first: time, pods that wait, decisions a second, `CLASS SHARE%, ...`. */
function drawTrends(place, table) {
  const draw = () => {
    place.hidden = table.all.length < 2;
    if (place.hidden) return;
    const rows = [...table.all].reverse();
    const times = rows.map((row) => Date.parse(row[0]));
    const shares = rows.map((row) => sharesOf(row[3]));
    const names = [...new Set(shares.flatMap((one) => [...one.keys()]))].sort(collator.compare);
    const lines = names.slice(0, LINES).map((name) => [name, shares.map((one) => one.get(name))]);
    const rest = names.length > LINES ? [`${names.length - LINES} more in the table`] : [];
    const numbers = (at) => [["", rows.map((row) => Number(row[at]))]];
    place.replaceChildren(
      make("h2", {}, "The last hour"),
      make(
        "div",
        { class: "trends" },
        trend("Allocated devices of each class, in %", times, lines, 100, rest),
        trend("Pods that wait", times, numbers(1)),
        trend("Decisions a second", times, numbers(2)),
      ),
    );
  };
  table.listeners.push(draw);
  draw();
}

function sharesOf(text) {
  const parts = text.endsWith("%") ? text.split(", ") : [];
  return new Map(parts.map((part) => [part.slice(0, part.lastIndexOf(" ")), parseFloat(part.slice(part.lastIndexOf(" ")))]));
}

/* lines: [name, values], undefined where a value is not known. top: of the scale; by default the highest value. */
function trend(title, times, lines, top = 0, rest = []) {
  const last = times.at(-1);
  const known = lines.flatMap(([, values]) => values.filter((value) => value !== undefined));
  const most = top || Math.max(1, ...known);
  const x = (time) => LEFT + ((WIDE - LEFT - 2) * Math.max(0, time - last + HOUR)) / HOUR;
  const y = (value) => HIGH - 20 - ((HIGH - 28) * value) / most;
  const drawn = lines.map(([, values], at) => {
    const points = values.map((value, place) => (value === undefined ? "" : `${x(times[place])},${y(value)}`));
    return svg("polyline", { class: `line colour-${at}`, points: points.filter(Boolean).join(" ") });
  });
  const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 1 });
  const ticks = [0, most].flatMap((value) => [
    svg("line", { class: "axis", x1: LEFT, x2: WIDE, y1: y(value), y2: y(value) }),
    svg("text", { x: LEFT - 4, y: y(value) + 4, "text-anchor": "end" }, number(value)),
  ]);
  const clock = (time, anchor, at) => svg("text", { x: at, y: HIGH - 4, "text-anchor": anchor }, timeOfDay(time));
  const ends = [clock(last - HOUR, "start", LEFT), clock(last, "end", WIDE)];
  const now = lines.map(([name, values]) => `${name} ${values.at(-1) === undefined ? "..." : number(values.at(-1))}`.trim());
  const view = { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${title}, now: ${[...now, ...rest].join(", ")}` };
  const legend = now.map((text, at) => make("li", {}, make("span", { class: `key colour-${at}` }), text));
  const others = rest.map((text) => make("li", {}, text));
  return make(
    "div",
    {},
    make("h3", {}, title),
    svg("svg", view, ...ticks, ...ends, ...drawn),
    make("ul", { class: "legend", "aria-hidden": "true" }, ...legend, ...others),
  );
}

const clock = (time) => new Date(time).toISOString().slice(11, 19);
const timeOfDay = (time) => clock(time).slice(0, 5);

/* -- its events */

/* A running program: its events say which groups of rows have changed. */
function follow(address, tables, since = 0) {
  const live = document.getElementById("live");
  const say = (text) => {
    if (live.textContent !== text) live.textContent = text; // said once, not once a second
  };
  const source = new EventSource(address);
  let heard = Date.now();
  let lost = 0; // since when the program is not heard
  let isWhole = false; // all that the program has said so far is here
  const hear = () => {
    heard = Date.now();
    if (lost && source.readyState === EventSource.OPEN && isWhole) say("Live.");
    lost = 0;
    document.body.classList.remove("old");
  };
  const lose = (since) => {
    lost = lost || since;
    document.body.classList.add("old");
    say(`The program cannot be reached since ${clock(lost)} UTC, or too many pages are open; trying again. What is shown is older.`);
  };
  const watch = setInterval(() => Date.now() - heard > SILENT && lose(heard), SOON);
  source.addEventListener("alive", hear);
  const changed = new Set();
  let timer = 0;
  let wait = TOGETHER;
  const draw = () => {
    const began = performance.now();
    timer = 0;
    for (const table of changed) table.reload();
    changed.clear();
    wait = Math.max(TOGETHER, RESTS * (performance.now() - began));
  };
  const later = () => {
    timer = timer || setTimeout(draw, wait);
  };
  source.addEventListener("start", () => {
    isWhole = false;
    hear();
    since = 0;
    for (const table of tables.values()) table.groups.clear();
    say("Reading the state of the program ...");
  });
  source.addEventListener("change", (event) => {
    for (const [name, group, rows] of JSON.parse(event.data)) {
      if (name === "answer") answer(rows.map(([sentence]) => sentence));
      const table = tables.get(name);
      if (!table) continue;
      if (rows) table.groups.set(group, rows);
      else table.groups.delete(group);
      changed.add(table);
    }
    later();
  });
  source.addEventListener("now", () => {
    isWhole = true;
    hear();
    for (const table of tables.values()) {
      if (!table.isKnown || (table.all.length && !table.groups.size)) changed.add(table);
      table.isKnown = true;
    }
    later();
    say("Live.");
    document.getElementById("moment").textContent = `As of ${clock(Date.now())} UTC`;
  });
  source.addEventListener("error", () => {
    const now = Date.now();
    if (source.readyState === EventSource.CLOSED) {
      lose(since || now); // it was refused, and does not try again by itself
      clearInterval(watch);
      setTimeout(() => follow(address, tables, lost), AGAIN);
    }
    setTimeout(() => source.readyState === EventSource.CONNECTING && lose(since || now), SOON);
  });
}

function answer([first, ...others]) {
  const place = document.querySelector(".answer");
  place.textContent = first;
  const points = make("ul", { class: "points" }, ...others.map((one) => make("li", {}, one)));
  const old = document.querySelector(".points");
  if (old) old.replaceWith(points);
  else place.after(points);
}
