# SPDX-License-Identifier: Apache-2.0
# peers_plot.py JSON_FILE SVG_FILE: the figures of bench/peers_load.py as bars, for the
# README: cold and a second start, at the shortest read-ahead measured. One file that
# reads well on light and dark pages. Bars far longer than most are shown broken.
import html
import json
import statistics
import sys
from pathlib import Path

results = json.loads(Path(sys.argv[1]).read_text())
kib = min(results["read_ahead_kib"], key=int)
peers = results["read_ahead_kib"][kib]
PANELS = (
    ("cold", "Cold: nothing in the page cache"),
    ("again", "Warm: a second start"),
)

WIDTH, LABELS, FIGURES, BAR, GAP, TOP = 880, 230, 80, 18, 8, 62
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 15px } .note { fill: #59636e }
  .bar { fill: #8c959f } .ours { fill: #0969da } .own { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .note { fill: #9198a1 }
    .bar { fill: #656c76 } .ours { fill: #4493f8 }
  }
"""


def duration(seconds):
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.{0 if seconds >= 0.01 else 1}f} ms"


def text(x, y, what, kind="", anchor="start"):
    return (
        f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">'
        f"{html.escape(what)}</text>"
    )


def bar(y, share, kind):
    """A bar of that share of the room; one that would be longer is shown broken."""
    room = WIDTH - LABELS - FIGURES
    pieces = [(0, share * room)] if share <= 1 else [(0, room - 30), (room - 24, 24)]
    rects = [
        f'<rect x="{LABELS + x:.1f}" y="{y}" width="{max(width, 1):.1f}" '
        f'height="{BAR}" class="{kind}"/>'
        for x, width in pieces
    ]
    return rects, LABELS + min(share, 1) * room


def panel(state, title, top):
    """One bar a peer, the fastest first; all on one scale from nothing."""
    times = {name: figures[state]["seconds"] for name, figures in peers.items()}
    longest = min(max(times.values()), 3 * statistics.median(times.values()))
    lines = [text(0, top, title, "title")]
    y = top + 14
    for name in sorted(times, key=times.get):
        own = "own" if name.startswith("weig") else ""
        rects, end = bar(y, times[name] / longest, "ours" if own else "bar")
        lines += [
            text(LABELS - 10, y + 14, name, own, "end"),
            *rects,
            text(f"{end + 6:.1f}", y + 14, duration(times[name]), own),
        ]
        y += BAR + GAP
    return lines, y


gigabytes = results["bytes"] / 1e9
note = (
    f"{gigabytes:.1f} GB to CPU tensors, every page touched; read-ahead {kib} KiB, "
    f"medians of {results['rounds']}. Broken bars are longer."
)
lines, y = [text(0, 18, note, "note")], TOP - 10
for state, title in PANELS:
    more, y = panel(state, title, y)
    lines += more
    y += 34
Path(sys.argv[2]).write_text(
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 30}" '
    f'role="img" aria-label="{html.escape(note)}">\n<style>{STYLE}</style>\n'
    + "\n".join(lines)
    + "\n</svg>\n"
)
