"""The server's page: plain HTML without a script, and the budget over time as a drawing. Nothing in it follows from the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from html import escape
from typing import Any

from dpsql.clients.dbapi.packed import Json
from dpsql.clients.server.activity import GOOD, Told

MOST_LINES = 25
COLOURS = ("#0b6e99", "#c2571a", "#3d7a34", "#8a3ffc", "#b02a54", "#7a6a00", "#00796b", "#555555")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 860, 260, 50, 30, 12, 150
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;color:#222;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #ddd}h3{font-size:1rem;margin-bottom:.3rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;padding:.2rem .6rem .2rem 0;vertical-align:top}
th{border-bottom:1px solid #bbb;font-weight:600}td.n,th.n{text-align:right}.t{white-space:nowrap}p.faint{color:#666}
svg text{font-size:11px;fill:#444}
"""


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """One dataset of the page: the ledger's report, and what the server was asked since it started."""

    report: Mapping[str, Json]
    asked: Sequence[Told]


def write(reports: Sequence[DatasetReport]) -> str:
    """The page as HTML."""
    parts = [part for one in reports for part in _dataset(one)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>dpsql server</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{_STYLE}</style></head><body><h1>dpsql server</h1>{''.join(parts)}</body></html>\n"
    )


def _dataset(one: DatasetReport) -> Iterator[str]:
    told = one.report
    tables = [_section(table) for table in _listed(told, "tables") if isinstance(table, dict)]
    yield f"<h2>{_text(told.get('dataset'))}</h2>"
    window = f" for each {_text(told['window'])}" if told.get("window") else ""
    yield f"<p class=faint>budget{window}, by {_text(told.get('promise'))} accounting</p>"
    yield from tables[:2]
    yield "<h3>epsilon spent over time</h3>"
    yield _chart(_listed(told, "charges"))
    yield "<p class=faint>each line adds up what its analyst was charged; what the accountant counts together may be less</p>"
    yield from tables[2:3]
    yield "<h3>statements since the server started, newest first</h3>"
    yield _statements(one.asked)
    yield from tables[3:]


def _section(table: Mapping[str, Json]) -> str:
    return f"<h3>{_text(table.get('title'))}</h3>" + _table(_listed(table, "columns"), _listed(table, "rows"))


def _statements(asked: Sequence[Told]) -> str:
    rows = [
        (told.time[:16].replace("T", " "), told.user, told.statement if told.sql is None else told.sql,
         "answered" if told.code == GOOD else f"refused: {told.code}", float(Fraction(told.epsilon)) if told.epsilon else None)
        for told in asked[:MOST_LINES]
    ]  # fmt: skip
    return _table(("time", "analyst", "statement", "", "epsilon"), rows)


# --- the chart ------------------------------------------------------------------------------------------------------------


def _chart(charges: Sequence[Any]) -> str:
    """Steps of each analyst's sum of epsilon: of what was charged, so that it may exceed what an accountant counts together."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for time, who, epsilon in charges:
        line = lines.setdefault(who, [])
        line.append((datetime.fromisoformat(time).timestamp(), (line[-1][1] if line else 0.0) + epsilon))
    if not lines:
        return "<p class=faint>nothing was charged yet</p>"
    points = [point for line in lines.values() for point in line]
    first, last, most = min(p[0] for p in points), max(p[0] for p in points), max(p[1] for p in points)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(point: tuple[float, float]) -> tuple[float, float]:
        across = (point[0] - first) / (last - first) if last > first else 1.0
        return LEFT + wide * across, TOP + high * (1 - point[1] / most)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="epsilon spent over time, by analyst">']
    for share in (0.0, 0.5, 1.0):
        y = TOP + high * (1 - share)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{most * share:.3g}</text>')
    for x, moment, anchor in ((LEFT, first, "start"), (LEFT + wide, last, "end")):
        parts.append(
            f'<text x="{x}" y="{HEIGHT - 8}" text-anchor="{anchor}">{datetime.fromtimestamp(moment):%Y-%m-%d %H:%M}</text>'
        )
    for place, (name, line) in enumerate(sorted(lines.items())[: len(COLOURS)]):
        parts.append(_line(name, COLOURS[place], [(first, 0.0), *line, (last, line[-1][1])], at, place))
    return "".join(parts) + "</svg>"


def _line(name: str, colour: str, steps: Sequence[tuple[float, float]], at: object, place: int) -> str:
    assert callable(at)
    x, y = at(steps[0])
    path = [f"M{x:.1f} {y:.1f}"]
    for step in steps[1:]:
        x, y = at(step)
        path.append(f"H{x:.1f}V{y:.1f}")
    side, row = WIDTH - RIGHT + 14, TOP + 10 + 16 * place
    return (
        f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        f'<rect x="{side}" y="{row - 8}" width="10" height="10" fill="{colour}"/>'
        f'<text x="{side + 15}" y="{row + 1}">{escape(name[:20])} {steps[-1][1]:.4g}</text>'
    )


# --- cells ----------------------------------------------------------------------------------------------------------------


def _table(titles: Sequence[object], rows: Sequence[Any]) -> str:
    """A table; columns of numbers stand to the right, and times in one line."""
    if not rows:
        return "<p class=faint>none</p>"
    numbers = [
        all(cell is None or isinstance(cell, int | float) for cell in column) for column in zip(*rows, strict=True)
    ]
    kinds = ["n" if n else "t" if title == "time" else "" for n, title in zip(numbers, titles, strict=True)]
    head, *body = (
        "".join(f'<{tag} class="{k}">{_text(cell)}</{tag}>' for cell, k in zip(row, kinds, strict=True))
        for tag, row in (("th", titles), *(("td", row) for row in rows))
    )
    lines = "".join(f"<tr>{line}</tr>" for line in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _text(value: object) -> str:
    return "" if value is None else escape(f"{value:.6g}" if isinstance(value, float) else str(value))


def _listed(told: Mapping[str, Json], name: str) -> list[Json]:
    found = told.get(name)
    return found if isinstance(found, list) else []
