"""The status page as HTML: last frame with its decision, counts over the day, health, downloads.

No script and nothing from elsewhere: the page works on an orchard's Wi-Fi without an uplink and under the
strictest content security policy. It reloads itself; the picture is inside it, so that picture and decision are
always those of one frame.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edge.decision import UNCERTAIN, Decision

RELOAD_S = 10


@dataclass(frozen=True)
class Status:
    """What the page shows.

    Attributes:
        device: name of the device.
        now: the present local time, as text.
        problems: what is wrong, a sentence each.
        decision, when, picture: the last frame; picture as JPEG, None where none is at hand.
        span: what the counts are over, for example "Today, 2026-11-30".
        by_label, by_gate: used frames by label and unused ones by reason.
        health: name -> value, in this order.
        days: days of which the rows can be downloaded, newest first.
    """

    device: str
    now: str
    problems: Sequence[str] = ()
    decision: Decision | None = None
    when: str = ""
    picture: bytes | None = None
    span: str = ""
    by_label: Mapping[str, int] = field(default_factory=dict)
    by_gate: Mapping[str, int] = field(default_factory=dict)
    health: Mapping[str, object] = field(default_factory=dict)
    days: Sequence[str] = ()


STYLE = """\
:root { color-scheme: light dark; --ink: #1d2a1f; --paper: #fbfcf8; --line: #cfd8c8; --soft: #55644f; --alarm: #a32a14;
  --leaf: #2f7d32; --card: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ede0; --paper: #141a14; --line: #3a4638; --soft: #a5b39c; --alarm: #ff9d85; --leaf: #7ccf7f;
    --card: #1c241c; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.45 system-ui, sans-serif; }
header, main, footer { max-width: 62rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1rem; }
h1 { font-size: 1.3rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .6rem; }
header p, footer p, .note { color: var(--soft); margin: .1rem 0; font-size: .9rem; overflow-wrap: anywhere; }
main { display: grid; gap: 1rem; padding-top: 1rem; padding-bottom: 1rem; }
@media (min-width: 44rem) {
  main { grid-template-columns: 1fr 1fr; align-items: start; grid-auto-flow: dense; }
  .last { grid-row: span 3; }
  .problems { grid-column: 1 / -1; }
}
section, .card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem;
  min-width: 0; }
.problems { border-color: var(--alarm); }
.problems h2, .problems li { color: var(--alarm); }
.problems ul { margin: 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
img { display: block; width: 100%; height: auto; max-height: 60vh; object-fit: contain; border-radius: .4rem;
  background: #000; }
.verdict { font-size: 1.6rem; font-weight: 700; margin: .6rem 0 0; overflow-wrap: anywhere; }
table { width: 100%; border-collapse: collapse; }
th, td { text-align: left; font-weight: normal; padding: .25rem 0; vertical-align: middle; overflow-wrap: break-word; }
.health td { overflow-wrap: anywhere; }
td:last-child { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; padding-left: .6rem; }
tr + tr > * { border-top: 1px solid var(--line); }
meter { width: 100%; min-width: 2.5rem; height: .8rem; }
td.bar { width: 30%; padding-left: .6rem; }
.health td:last-child { white-space: normal; }
ul.days { list-style: none; margin: .5rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .5rem; }
a, button { color: var(--leaf); }
ul.days a, button { display: inline-block; padding: .5rem .8rem; border: 1px solid var(--line); border-radius: .4rem;
  background: none; font: inherit; }
input { font: inherit; padding: .5rem; width: 100%; margin-bottom: .6rem; }
h3 { font-size: .95rem; margin: 1rem 0 .2rem; color: var(--soft); }
footer { padding-bottom: 2rem; }
"""

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#2f7d32" d="M14 2C6 2 2 6 2 12l-1'
    ' 2 1 1 2-2c7 1 10-4 10-11zM4 12c2-4 4-6 7-7-3 2-5 4-7 7z"/></svg>'
)


def render(status: Status) -> str:
    """The page; every text in it is escaped."""
    text = html.escape
    parts = [
        _head(status.device, reload=True),
        f"<header>\n<h1>{text(status.device)}</h1>\n<p>{text(status.now)}</p>\n</header>\n<main>\n",
    ]
    if status.problems:
        items = "".join(f"<li>{text(problem)}</li>\n" for problem in status.problems)
        parts.append(
            f'<section class="problems">\n<h2>Needs attention</h2>\n<ul>\n{items}</ul>\n</section>\n'
        )
    parts.append(f'<section class="last">\n<h2>Last frame</h2>\n{_last(status)}</section>\n')
    parts.append(f"<section>\n<h2>{text(status.span or 'Today')}</h2>\n{_counts(status)}</section>\n")
    parts.append("<section>\n<h2>Health</h2>\n")
    if status.health:
        rows = "".join(
            f'<tr><th scope="row">{text(name)}</th><td>{text(str(value))}</td></tr>\n'
            for name, value in status.health.items()
        )
        parts.append(f'<table class="health">\n<tbody>\n{rows}</tbody>\n</table>\n')
    else:
        parts.append("<p>Nothing is reported.</p>\n")
    parts.append("</section>\n<section>\n<h2>Download</h2>\n")
    parts.append('<p class="note">All decisions of a day as CSV, times in UTC.</p>\n<ul class="days">\n')
    parts += [f'<li><a href="decisions.csv?day={text(day)}">{text(day)}</a></li>\n' for day in status.days]
    parts.append('<li><a href="decisions.csv?day=all">all</a></li>\n</ul>\n</section>\n</main>\n')
    parts.append(f"<footer>\n<p>This page reloads every {RELOAD_S} seconds.</p>\n</footer>\n</body></html>")
    return "".join(parts)


def render_message(title: str, sentence: str, ask_token: bool = False) -> str:
    """A page that says one thing, with a field for the access token where that helps."""
    form = (
        '<form method="get" action="/">\n<label for="token">Access token</label>\n'
        '<input id="token" name="token" type="password" autocomplete="current-password" required="">\n'
        '<button type="submit">Open</button>\n</form>\n'
        if ask_token
        else ""
    )
    return (
        f"{_head(title)}<header>\n<h1>{html.escape(title)}</h1>\n</header>\n<main>\n"
        f'<div class="card">\n<p>{html.escape(sentence)}</p>\n{form}</div>\n</main>\n</body></html>'
    )


def _head(title: str, reload: bool = False) -> str:
    again = f'<meta http-equiv="refresh" content="{RELOAD_S}">\n' if reload else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{again}'
        f"<title>{html.escape(title)}</title>\n"
        '<link rel="icon" href="/icon.svg" type="image/svg+xml">\n<link rel="stylesheet" href="/style.css">\n'
        "</head>\n<body>\n"
    )


def _last(status: Status) -> str:
    decision = status.decision
    if decision is None:
        return "<p>No frame yet.</p>\n"
    said = decision.label if decision.used else f"not used: {decision.gate}"
    parts = []
    if status.picture is not None:
        data = base64.b64encode(status.picture).decode("ascii")
        alternative = html.escape(f"Last frame of the camera, {said}")
        parts.append(f'<img src="data:image/jpeg;base64,{data}" alt="{alternative}">\n')
    if decision.used and decision.label != UNCERTAIN:
        said = f"{decision.label}, {decision.confidence:.0%}"
    parts.append(f'<p class="verdict">{html.escape(said)}</p>\n')
    where = f"{decision.source}, frame {decision.frame_number}"
    parts.append(f'<p class="note">{html.escape(status.when)}, {html.escape(where)}</p>\n')
    ranked = sorted(zip(decision.labels, decision.probabilities, strict=False), key=lambda pair: -pair[1])
    if ranked:
        parts.append(
            _bars([(label, value, f"{value:.1%}") for label, value in ranked], "probability of", 1.0)
        )
    return "".join(parts)


def _counts(status: Status) -> str:
    parts = []
    total = sum(status.by_label.values()) + sum(status.by_gate.values())
    if not total:
        return "<p>No decisions yet.</p>\n"
    if status.by_label:
        ranked = sorted(status.by_label.items(), key=lambda pair: -pair[1])
        rows = [(label, count, f"{count:,}") for label, count in ranked]
        parts.append(_bars(rows, "frames with", sum(status.by_label.values())))
    if status.by_gate:
        ranked = sorted(status.by_gate.items(), key=lambda pair: -pair[1])
        parts.append("<h3>Frames not used</h3>\n")
        parts.append(_bars([(gate, count, f"{count:,}") for gate, count in ranked], "frames", total))
    return "".join(parts)


def _bars(rows: Sequence[tuple[str, float, str]], of: str, highest: float) -> str:
    lines = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td class="bar"><meter min="0" max="{highest:g}"'
        f' value="{max(0.0, min(value, highest)):.6g}" aria-label="{html.escape(f"{of} {name}")}"></meter></td>'
        f"<td>{html.escape(shown)}</td></tr>\n"
        for name, value, shown in rows
    )
    return f"<table>\n<tbody>\n{lines}</tbody>\n</table>\n"
