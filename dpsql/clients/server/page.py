"""The server's page: plain HTML without a script, and the budget over time as a drawing. Nothing in it follows from the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from html import escape

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
Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """One dataset of the page: the ledger's report, what the server was asked since it started, and who looks."""

    report: Mapping[str, Json]
    asked: Sequence[Told]
    is_owner: bool


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
    yield f"<h2>{_text(told.get('dataset'))}</h2>"
    window = f" for each {_text(told['window'])}" if told.get("window") else ""
    yield f"<p class=faint>budget{window}, by {_text(told.get('promise'))} accounting</p>"
    yield _table(
        ("", "total epsilon", "spent", "left"),
        [(t["holder"], _number(t["epsilon"]), _number(t["spent"]), _number(t["remaining"])) for t in _objects(told, "totals")],
        numbers=(1, 2, 3),
    )  # fmt: skip
    yield from _charged(one)
    yield "<h3>statements since the server started, newest first</h3>"
    yield _statements(one.asked)
    if one.is_owner:
        yield from _of_owner(told)


def _charged(one: DatasetReport) -> Iterator[str]:
    told, charges = one.report, _lists(one.report, "charges")
    analysts = _objects(told, "analysts")
    yield "<h3>by analyst</h3>"
    yield _table(
        ("analyst", "cap", "spent", "left", "charges"),
        [(a["name"], _number(a["cap"]), _number(a["spent"]), _number(a["remaining"]), a["charges"]) for a in analysts],
        numbers=(1, 2, 3, 4),
    )
    yield "<h3>epsilon spent over time</h3>"
    yield _chart(charges)
    yield "<p class=faint>each line adds up what its analyst was charged; what the accountant counts together may be less</p>"
    yield "<h3>charges, newest first</h3>"
    newest = list(reversed(charges))[:MOST_LINES]
    yield _table(
        ("charge", "time", "analyst", "epsilon", "statement"),
        [(number, _minute(time), who, _number(epsilon), text) for number, time, who, epsilon, text in newest],
        numbers=(0, 3),
    )


def _statements(asked: Sequence[Told]) -> str:
    rows = [
        (_minute(told.time), told.user, told.statement if told.sql is None else told.sql,
         "answered" if told.code == GOOD else f"refused: {told.code}", _number(told.epsilon or None))
        for told in asked[:MOST_LINES]
    ]  # fmt: skip
    return _table(("time", "analyst", "statement", "", "epsilon"), rows, numbers=(4,))


def _of_owner(told: Mapping[str, Json]) -> Iterator[str]:
    yield "<h3>versions of the data</h3>"
    versions = [(table, period or "", one, _minute(at)) for table, one, at, period in _lists(told, "versions")]
    yield _table(("table", "period", "version", "as of"), versions)
    yield "<h3>cubes</h3>"
    cubes = [(name, keys, numbers, _number(e), _minute(made)) for name, keys, numbers, e, made in _lists(told, "cubes")]
    yield _table(("cube", "keys", "numbers", "epsilon", "made"), cubes, numbers=(3,))
    yield "<h3>failures after the charge, not looked at yet</h3>"
    failures = [(f["charge"], _minute(f["time"]), f["analyst"], f["kind"]) for f in _objects(told, "failures")]
    yield _table(("charge", "time", "analyst", "kind"), failures, numbers=(0,))


# --- the chart ------------------------------------------------------------------------------------------------------------


def _chart(charges: Sequence[Row]) -> str:
    """Steps of each analyst's sum of epsilon: of what was charged, so that it may exceed what an accountant counts together."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for _, time, who, epsilon, _ in charges:
        line = lines.setdefault(str(who), [])
        line.append((_seconds(time), (line[-1][1] if line else 0.0) + float(Fraction(str(epsilon)))))
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
        parts.append(f'<text x="{x}" y="{HEIGHT - 8}" text-anchor="{anchor}">{_minute_of(moment)}</text>')
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


def _table(titles: Sequence[str], rows: Sequence[Row], numbers: Sequence[int] = ()) -> str:
    if not rows:
        return "<p class=faint>none</p>"
    kind = ["n" if at in numbers else "t" if title == "time" else "" for at, title in enumerate(titles)]
    head = "".join(f'<th class="{k}">{escape(title)}</th>' for title, k in zip(titles, kind, strict=True))
    body = "".join(
        "<tr>" + "".join(f'<td class="{k}">{_text(cell)}</td>' for cell, k in zip(row, kind, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: object) -> str:
    return "" if value is None else escape(str(value))


def _number(value: object) -> str:
    """An amount that is a number, or text of an exact one."""
    return "" if value is None else f"{float(Fraction(str(value))):.6g}"


def _seconds(time: object) -> float:
    return datetime.fromisoformat(str(time)).timestamp()


def _minute(time: object) -> str:
    return str(time)[:16].replace("T", " ")


def _minute_of(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(sep=" ")[:16]


def _objects(told: Mapping[str, Json], name: str) -> list[dict[str, Json]]:
    found = told.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _lists(told: Mapping[str, Json], name: str) -> list[list[Json]]:
    found = told.get(name)
    return [one for one in found if isinstance(one, list)] if isinstance(found, list) else []
