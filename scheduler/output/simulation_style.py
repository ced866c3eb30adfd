"""The style sheet of the page of a simulation: light, dark and printed."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1c2024; --quiet: #5b636d; --rule: #d9dde2; --head: #f3f5f7;
  --colour-0: #0b5fa5; --colour-1: #c2410c; --colour-2: #047857; --colour-3: #7c3aed;
  --colour-4: #946200; --colour-5: #be185d; --colour-6: #0e7490; --colour-7: #374151;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171a; --ink: #e8eaed; --quiet: #a5adb6; --rule: #343a41; --head: #1e2226;
    --colour-0: #6cb6ff; --colour-1: #ff9b6b; --colour-2: #4fd1a5; --colour-3: #c4a7ff;
    --colour-4: #e3c04f; --colour-5: #ff8fc0; --colour-6: #5fd0e6; --colour-7: #d0d5dc;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 24px; max-width: 1100px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 21px; margin: 40px 0 8px; border-bottom: 1px solid var(--rule); padding-bottom: 4px; }
h3 { font-size: 16px; margin: 28px 0 4px; }
p { color: var(--quiet); margin: 4px 0 10px; }
h1, h2, h3, p { overflow-wrap: anywhere; unicode-bidi: isolate; }
.wide { overflow-x: auto; }
:focus-visible { outline: 2px solid var(--colour-0); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; margin: 8px 0; }
caption { text-align: left; font-weight: 600; padding: 8px 0 4px; white-space: nowrap; }
th, td { border-bottom: 1px solid var(--rule); padding: 4px 12px 4px 8px; text-align: right; vertical-align: top; }
thead th { background: var(--head); vertical-align: bottom; }
tbody th, th:first-child { text-align: left; font-weight: 500; }
th, td { overflow-wrap: break-word; max-width: 30em; unicode-bidi: isolate; }
thead th { max-width: 16em; }
tbody th { min-width: 12em; }
thead th:first-child { text-align: left; }
small { color: var(--quiet); display: block; font-size: 11px; white-space: nowrap; }
details { margin: 0 0 12px; }
summary { color: var(--quiet); cursor: pointer; width: fit-content; }
.values { max-height: 420px; overflow: auto; }
.values thead th { position: sticky; top: 0; }
.chart { display: block; width: 100%; height: auto; }
.narrow { display: none; max-width: 480px; }
.chart text { fill: var(--ink); font-size: 13px; }
.chart .grid { stroke: var(--rule); stroke-width: 1; }
.chart .axis, .chart .tick { stroke: var(--quiet); stroke-width: 1; }
.chart .line, .chart .sample { fill: none; stroke: var(--own); stroke-width: 2; stroke-linejoin: round; }
.chart .lead { fill: none; stroke: var(--own); stroke-width: 1; opacity: 0.6; }
.chart .mark { fill: var(--own); stroke: var(--paper); stroke-width: 1; }
.chart .area { fill: var(--own); opacity: 0.16; stroke: none; }
.colour-0 { --own: var(--colour-0); } .colour-1 { --own: var(--colour-1); }
.colour-2 { --own: var(--colour-2); } .colour-3 { --own: var(--colour-3); }
.colour-4 { --own: var(--colour-4); } .colour-5 { --own: var(--colour-5); }
.colour-6 { --own: var(--colour-6); } .colour-7 { --own: var(--colour-7); }
@media screen and (max-width: 820px) {
  body { padding: 12px; }
  .chart { display: none; }
  .chart.narrow { display: block; }
  tbody th { min-width: 8em; }
  th, td { max-width: 60vw; }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #ffffff; --ink: #000000; --quiet: #444444; --rule: #cccccc; --head: #eeeeee;
    --colour-0: #0b5fa5; --colour-1: #c2410c; --colour-2: #047857; --colour-3: #7c3aed;
    --colour-4: #946200; --colour-5: #be185d; --colour-6: #0e7490; --colour-7: #374151;
  }
  @page { size: A4; margin: 12mm; }
  body { padding: 0; max-width: none; font-size: 12px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  details { display: none; }
  section, table { break-inside: avoid; }
  h1 { font-size: 18px; } h2 { font-size: 15px; margin-top: 24px; } h3 { font-size: 12px; margin-top: 16px; }
  h2, h3 { break-after: avoid; }
  .wide { overflow: visible; }
  th, td { padding: 2px 6px; font-size: 10px; overflow-wrap: anywhere; max-width: none; min-width: 0; }
  thead th:first-child:nth-last-child(-n+9), thead th:first-child:nth-last-child(-n+9) ~ th { min-width: 6em; }
  small { font-size: 9px; white-space: normal; }
  caption { white-space: normal; }
}
"""
