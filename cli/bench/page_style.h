// SPDX-License-Identifier: Apache-2.0
// What the page of a report looks like, and the little that it does: constants.
#pragma once

namespace weig::cli::bench {

// Light and dark by what the reader's system prefers; no font but the system's own.
inline constexpr const char* kPageStyle = R"(
:root {
  color-scheme: light dark;
  --page: #f7f6f3; --card: #ffffff; --text: #1b1b19; --soft: #64635e; --line: #e3e1da;
  --start: #b4b2a9; --open: #e39a00; --resident: #2a78d6; --use: #1a9e6f;
  --anonymous: #e0662b; --file: #5b9be3; --raw: #c8322f; --whisker: #33322e;
  --h0: #eceae4; --h1: #cfe0f5; --h2: #a3c6ee; --h3: #6ba4e4; --h4: #3b83d6;
  --h5: #1d5fae; --hover: rgba(0, 0, 0, 0.09);
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #161615; --card: #21211f; --text: #f1f0eb; --soft: #a9a79f; --line: #3a3936;
    --start: #77756d; --open: #d99a1e; --resident: #4a90e6; --use: #2fae80;
    --anonymous: #e57a45; --file: #4a86cc; --raw: #f0716d; --whisker: #e5e4df;
    --h0: #2d2d2a; --h1: #21405f; --h2: #275685; --h3: #2f70b3; --h4: #4a90e6;
    --h5: #8fbdf5; --hover: rgba(255, 255, 255, 0.13);
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 6px; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0 0 4px; }
h3 { font-size: 0.95rem; margin: 0; font-weight: 600; }
p { margin: 0 0 10px; }
.soft { color: var(--soft); }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 18px 20px; margin: 18px 0 0;
}
.tiles { display: grid; gap: 18px; margin-top: 18px;
  grid-template-columns: repeat(auto-fit, minmax(240px, 1fr)); }
.tiles .card { margin: 0; }
.big { font-size: 2rem; font-weight: 650; line-height: 1.15; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 6px 0 12px; padding: 0;
  list-style: none; font-size: 0.85rem; color: var(--soft); }
.legend span { display: inline-block; width: 12px; height: 12px; border-radius: 3px;
  margin-right: 6px; vertical-align: -1px; }
.legend .dash { width: 0; height: 14px; border-left: 2px dashed var(--raw);
  border-radius: 0; margin: 0 9px 0 3px; vertical-align: -2px; }
.legend .dot { width: 10px; height: 10px; border-radius: 50%; background: var(--card);
  border: 2px solid var(--whisker); vertical-align: -1px; }
.dot { fill: var(--card); stroke: var(--whisker); stroke-width: 2; }
.ramp { width: auto !important; height: auto !important; white-space: nowrap; }
.ramp i { display: inline-block; width: 14px; height: 12px; vertical-align: -1px; }
.bars { display: grid; grid-template-columns: max-content 1fr max-content;
  column-gap: 12px; font-variant-numeric: tabular-nums; }
.bars ul { list-style: none; margin: 20px 0 0; padding: 0; font-size: 0.9rem; }
.bars li { height: 30px; line-height: 30px; white-space: nowrap; }
.bars .values { text-align: right; font-weight: 600; }
.bars .values small { font-weight: 400; color: var(--soft); }
.weig { font-weight: 650; }
svg { display: block; overflow: visible; }
svg text { font-size: 11px; fill: var(--soft); paint-order: stroke; stroke: var(--card);
  stroke-width: 3px; stroke-linejoin: round; }
.grid { stroke: var(--line); stroke-width: 1; }
.start { fill: var(--start); background: var(--start); }
.open { fill: var(--open); background: var(--open); }
.resident { fill: var(--resident); background: var(--resident); }
.use { fill: var(--use); background: var(--use); }
.anonymous { fill: var(--anonymous); background: var(--anonymous); }
.file { fill: var(--file); background: var(--file); }
.whisker { stroke: var(--whisker); stroke-width: 1.5; }
.raw { stroke: var(--raw); stroke-width: 1.5; stroke-dasharray: 5 4; }
svg text.rawlabel { fill: var(--raw); font-weight: 600; }
.hit { fill: transparent; }
.hit:hover { fill: var(--hover); }
.h0 { fill: var(--h0); background: var(--h0); } .h1 { fill: var(--h1); background: var(--h1); }
.h2 { fill: var(--h2); background: var(--h2); } .h3 { fill: var(--h3); background: var(--h3); }
.h4 { fill: var(--h4); background: var(--h4); } .h5 { fill: var(--h5); background: var(--h5); }
.traces { display: grid; gap: 26px 28px; margin-top: 8px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 290px), 1fr)); }
.traces header { display: flex; justify-content: space-between; gap: 8px;
  align-items: baseline; margin-bottom: 6px; font-size: 0.9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums;
  width: 100%; }
caption { text-align: left; font-weight: 600; padding: 12px 0 6px; font-size: 0.95rem; }
th, td { text-align: right; padding: 5px 9px; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
thead th { color: var(--soft); font-weight: 500; }
th:first-child { text-align: left; padding-left: 0; position: sticky; left: 0;
  background: var(--card); }
td.wide { text-align: left; white-space: normal; min-width: 220px; }
ul.notes { margin: 0 0 10px; padding-left: 18px; font-size: 0.9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; margin: 0;
  font-size: 0.9rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
#tip { position: fixed; z-index: 1; pointer-events: none; max-width: min(320px, 90vw);
  background: var(--text); color: var(--card); padding: 6px 10px; border-radius: 6px;
  font-size: 0.82rem; line-height: 1.4; white-space: pre-line; }
@media (max-width: 560px) {
  main { padding: 18px 10px 36px; }
  .card { padding: 14px 12px; }
  .bars { column-gap: 8px; }
  .bars ul { font-size: 0.82rem; }
}
)";

// Shows what an element's data-t says beside the pointer or the finger.
inline constexpr const char* kPageScript = R"(
const tip = document.getElementById("tip");
function show(event) {
  const owner = event.target.closest ? event.target.closest("[data-t]") : null;
  tip.hidden = !owner;
  if (!owner) return;
  tip.textContent = owner.dataset.t;
  const width = tip.offsetWidth, height = tip.offsetHeight;
  const left = Math.min(event.clientX + 14, innerWidth - width - 6);
  const below = event.clientY + 16;
  tip.style.left = Math.max(6, left) + "px";
  tip.style.top = (below + height > innerHeight ? event.clientY - height - 10 : below) + "px";
}
for (const name of ["pointermove", "pointerdown"]) document.addEventListener(name, show);
addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
document.addEventListener("pointerleave", () => { tip.hidden = true; });
)";

}  // namespace weig::cli::bench
