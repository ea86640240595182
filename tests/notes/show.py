"""The text that each kind of fence must hold, from what the code does now."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from dpsql.clients.output.table import fitted
from dpsql.core.errors import Error
from dpsql.plan.compiled import Compiled
from dpsql.schema.mistakes import Mistakes
from dpsql.schema.read import read
from tests.notes.datasets import FILES, opened
from tests.notes.pages import Case, Fence
from tests.notes.relations import relational
from tests.support.trees import told


def shown(case: Case, fence: Fence) -> str:
    """The body of a generated fence. Raises Error where an accepted statement is refused."""
    sql, parameters = case.fence.body, case.fence.parameters
    if fence.kind == "text message":
        return message(refusal(case))
    dataset = opened(case.schema)
    match fence.kind:
        case "text plan":
            return dataset.session.explain(sql, parameters)
        case "text answer":
            return answer(case)
        case "text relations":
            return relational(dataset.compile(sql, parameters))
        case "text sensitivity":
            return sensitivities(dataset.compile(sql, parameters))
    raise ValueError(f"nothing is shown in a fence {fence.info!r}")


def answer(case: Case) -> str:
    """The rows without noise, as the command line prints them."""
    # anew: what other pages asked is not added up for this one
    given = opened(case.schema).session.execute(f"/* dpsql: fresh */ {case.fence.body}", case.fence.parameters)
    text = fitted([name for name, _ in given.columns], given.rows)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def refusal(case: Case) -> Error:
    """The error of a statement that must be refused. Raises AssertionError where it is answered."""
    try:
        opened(case.schema).session.execute(case.fence.body, case.fence.parameters)
    except Error as problem:
        return problem
    raise AssertionError(f"{case.name} is answered: {case.fence.body}")


def message(problem: Error) -> str:
    """An error's text, as a page shows it."""
    return "\n".join(line.rstrip() for line in str(problem).split("\n"))


def sensitivities(compiled: Compiled) -> str:
    """One line a measure, in quanta, for one unit added or removed."""
    measures = [measure for part in compiled.releases for measure in part.release.measures]
    lines = []
    for measure in measures:
        s = measure.sensitivity
        lines.append(told(measure.statistic.identity))
        lines.append(f"  l0 {s.l0}, linf {s.linf}, l1 {s.l1}, l2_squared {s.l2_squared}")
    return "\n".join(lines)


def schema_mistakes(case: Case) -> list[str]:
    """The mistakes of a schema snippet, read as an addition to the page's schema; a snippet with [dataset] stands alone."""
    written = tomllib.loads(case.fence.body, parse_float=Decimal)
    if "dataset" not in written:
        written = _merged(tomllib.loads(FILES[case.schema].read_text(encoding="utf-8"), parse_float=Decimal), written)
    mistakes = Mistakes(case.name)
    read(written, Path(), mistakes)
    return mistakes.lines


def _merged(base: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    result = dict(base)
    for key, value in more.items():
        old = result.get(key)
        result[key] = (
            _merged(old, value)
            if isinstance(old, Mapping) and isinstance(value, Mapping) and "type" not in value
            else value
        )
    return result
