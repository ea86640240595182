"""auditing: for the owner, how much statements can be seen to lose, beside what they claim. Nothing is charged, and no statement is
asked of the data: they run on invented tables (neighbouring.py) that differ in one unit.

A statement is planned once and the engine runs once on each database; then its releases are drawn, many as one vector each, by the
release stage that draws an analyst's. A bound above the claim is a fault of dpsql, of the engine or of the noise, but for a chance that
is stated. A bound below it proves nothing: it is what one pair of databases and so many releases show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, sqrt
from statistics import NormalDist

import numpy as np

from dpsql.accounting.ledger import Ledger
from dpsql.core.columns import Column as Cell
from dpsql.core.domains import Categories, Interval
from dpsql.core.errors import Error, error
from dpsql.core.escaping import harmless
from dpsql.core.loss import EpsilonDelta, PrivacyLoss
from dpsql.dataset.opening import Dataset, open_dataset, sandbox_memory
from dpsql.engines.base import ExactTable
from dpsql.engines.writing import name
from dpsql.mechanisms.lower_bound import Outputs, eps_lower
from dpsql.mechanisms.source import NoiseSource, SystemNoise
from dpsql.plan.compiled import Compiled, CompiledRelease
from dpsql.planner.measure import Identities
from dpsql.planner.parse import Query, parse
from dpsql.planner.planning import bound, calibrate
from dpsql.planner.qualified import in_main
from dpsql.planner.resolve import resolve
from dpsql.planner.total import Texts
from dpsql.postprocess.declared import DeclaredTables
from dpsql.postprocess.sandbox import Sandbox
from dpsql.release.noisy import Group, repeated
from dpsql.schema.model import Column, Schema
from dpsql.session.neighbouring import neighbours

EPSILON = Fraction(1)
DELTA = Fraction(1, 100)
"""Of the price of an audited statement, and of the claim of Gaussian noise: smaller ones are not seen in so many releases."""
RELEASES = 100_000
CHOSEN = 10_000
"""Of what is chosen from a histogram, which is drawn one by one."""
ALPHA = 1e-9
"""The chance that a release is called one that exceeds its claim though it keeps it."""
FIRST_RELEASES, FIRST_CHOSEN, FIRST_CELLS = 4000, 400, 200_000
"""Of the first look."""
MOST_GROUPS = 6
_FIRST_ALPHA = 0.01
_TABLES = 3
_USUAL = (
    ("", "SELECT COUNT(*) FROM {t}"),
    ("number", "SELECT COUNT(*), SUM({c}), AVG({c}) FROM {t}"),
    ("number", "/* dpsql: mechanism=gaussian */ SELECT COUNT(*), SUM({c}) FROM {t}"),
    ("number", "SELECT MEDIAN({c}) FROM {t}"),
    ("listed", "SELECT {c}, COUNT(*) FROM {t} GROUP BY {c}"),
    ("unlisted", "SELECT {c}, COUNT(*) FROM {t} GROUP BY {c}"),
)
"""Statements about a table, and about its first column of a kind."""
_TOTAL = EpsilonDelta(Fraction(20), Fraction(1, 2))
_CUT = "0" * 64

Cells = Mapping[Group, list[Cell[int | None]]]
Pairs = list[tuple[Dataset, Dataset]]
Look = tuple[float, list[Group], tuple[Dataset, Dataset]]
"""A bound, the groups that were looked at, and the pair."""


@dataclass(frozen=True, slots=True)
class AuditedRelease:
    """One release of a statement.

    mechanisms  of its parts, in words
    claimed     what it is charged as, at a delta that can be measured
    bound       [nats] below what it loses, with confidence 1 - ALPHA
    releases    number of draws on each database
    seconds     [s] wall time of all of it
    """

    mechanisms: tuple[str, ...]
    claimed: EpsilonDelta
    bound: float
    releases: int
    seconds: float

    @property
    def exceeds(self) -> bool:
        return self.bound > self.claimed.epsilon

    def __str__(self) -> str:
        delta = f", delta {float(self.claimed.delta):.3g}" if self.claimed.delta else ""
        verdict = "EXCEEDS its claim" if self.exceeds else "within its claim" + ": nothing was seen" * (not self.bound)
        claim = f"claimed epsilon {float(self.claimed.epsilon):.3g}{delta}; at least {self.bound:.3g}; {verdict}"
        return f"  {'; '.join(dict.fromkeys(self.mechanisms))}\n    {claim}; {self.releases:,} releases, {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class AuditedStatement:
    """A statement with its releases, or the reason why it has none."""

    sql: str
    releases: tuple[AuditedRelease, ...]
    refused: str = ""

    def __str__(self) -> str:
        without = f"  refused: {self.refused}" if self.refused else "  free: nothing of people is released"
        return "\n".join([" ".join(self.sql.split()), *(map(str, self.releases) if self.releases else [without])])


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Findings of `audit`; str() is the text for the owner. Nothing in it is private."""

    statements: tuple[AuditedStatement, ...]

    @property
    def releases(self) -> list[AuditedRelease]:
        return [release for one in self.statements for release in one.releases]

    @property
    def exceeds(self) -> bool:
        return any(one.exceeds for one in self.releases)

    def __str__(self) -> str:
        alarm = ALPHA * len(self.releases)
        last = f"confidence {100 * (1 - ALPHA):.7f} % for each bound; a false alarm among all with a chance of at most {alarm:.0e}"
        return harmless("\n\n".join([*map(str, self.statements), last]), kept="\n")


def audit(
    schema: Schema,
    ledger: Ledger,
    statements: Sequence[str] = (),
    releases: int = RELEASES,
    told: Callable[[str, int, int], None] = lambda step, done, total: None,
    noise: NoiseSource | None = None,
) -> AuditReport:
    """Draw statements many times on two neighbouring invented databases, and bound what they lose.

    statements  SELECTs; none: a few over each private table
    releases    number of draws on each database; of what is chosen from a histogram CHOSEN at most
    told        is called with each step that begins, the steps that are done, and all of them
    noise       tests alone pass one

    Raises 708 where the data is not approved.
    """
    with closing(open_dataset(schema, ledger, approve=schema.analysts is None)) as dataset:
        asked = tuple(statements) or tuple(usual_statements(dataset.schema))
        with neighbours(dataset, with_audited_price(dataset.schema)) as pairs:
            found = []
            for i, sql in enumerate(asked):
                told(f"statement {i + 1}", i, len(asked))
                found.append(audited(sql, pairs, releases, noise or SystemNoise()))
    return AuditReport(tuple(found))


def with_audited_price(schema: Schema) -> Schema:
    """The same declarations with a price at which a loss can be measured, and a total that holds it."""
    price = EpsilonDelta(EPSILON, DELTA)
    privacy = replace(schema.privacy, budget=_TOTAL, query=price, caps=price, least=None, partition=None, window=None)
    return replace(schema, privacy=privacy)


def usual_statements(schema: Schema) -> Iterator[str]:
    """A few over each of the first private tables: counts, sums, averages, choices, groups, both kinds of noise."""
    for table in [table for table in schema.tables if not table.public][:_TABLES]:
        held = {*table.key, *(c for reference in table.references for c in reference.columns)}
        kinds = {_kind(column, held): name(column.name) for column in reversed(table.columns)} | {"": ""}
        for kind, asked in _USUAL:
            if kind in kinds:
                yield asked.format(c=kinds[kind], t=name(table.name))


def _kind(column: Column, held: set[str]) -> str:
    """The kind by which it is asked about; "" where it is not."""
    if isinstance(column.domain, Interval):
        return "number" if column.sqltype.is_number else ""
    if isinstance(column.domain, Categories):
        return "listed" if column.role != "identifier" else ""
    return "" if column.element is not None or column.name in held else "unlisted"


# --- one statement ------------------------------------------------------------------------------------------------------


def audited(sql: str, pairs: Pairs, releases: int, noise: NoiseSource) -> AuditedStatement:
    """One statement over pairs of neighbours, planned as every statement is."""
    try:
        compiled = planned(sql, pairs[0][0])
        found = [_release(part, pairs, releases, noise) for part in compiled.releases if part.release.parts]
    except Error as problem:
        why = f"{problem.code}: {problem.message}" + (f"; {problem.hint}" if problem.hint else "")
        return AuditedStatement(sql, (), why)
    return AuditedStatement(sql, tuple(found))


def planned(sql: str, dataset: Dataset) -> Compiled:
    """The plan of a statement, by the stages of every statement. Raises 106 for what is not audited."""
    schema, limits = dataset.schema, (sandbox_memory(dataset.schema), dataset.schema.limits.rows)
    query = parse(sql, ())
    if not isinstance(query, Query):
        raise error(106, "only SELECT is audited", hint="ask the question behind it")
    with closing(DeclaredTables(schema, *limits)) as catalog, closing(Sandbox(*limits)) as sandbox:
        sandbox.share(dataset.engine, schema)
        asked = in_main(query, schema)
        asked.settled.price(schema)
        bounded = bound(asked, resolve(asked, schema, catalog, sandbox), schema)
        compiled = calibrate(bounded, asked.settled, schema, Identities(schema))
    if compiled.bounds:
        what = "a statement that reads other released or public values inside is not audited as one"
        raise error(106, what, hint="audit the questions that it is made of one by one")
    return compiled


def _release(part: CompiledRelease, pairs: Pairs, releases: int, noise: NoiseSource) -> AuditedRelease:
    """The pair on which a first look sees most, drawn many times."""
    began = time.monotonic()
    asked = part.release
    claim, size = claimed(asked.loss), asked.cell_starts[-1]
    exact = {id(one): _exact(part, one) for pair in pairs for one in pair}

    def seen(pair: tuple[Dataset, Dataset], times: int, alpha: float, most: list[Group] | None) -> Look:
        first, second = (repeated(part, noise, times, most, *exact[id(one)]) for one in pair)
        most = _most_moved(first, second) if most is None else most
        nothing: Outputs = np.full(times, None, dtype=np.object_)
        one, other = (
            [np.asarray(cells[group][i]) if group in cells else nothing for group in most for i in range(size)]
            for cells in (first, second)
        )
        return eps_lower(one, other, float(claim.delta), alpha), most, pair

    groups = max(len(repeated(part, noise, 1, None, *one)) for one in exact.values())
    few = max(20, min(FIRST_CHOSEN if asked.chosen else FIRST_RELEASES, FIRST_CELLS // max(1, groups)))
    _, most, pair = max((seen(pair, few, _FIRST_ALPHA, None) for pair in pairs), key=lambda look: look[0])
    times = min(releases, CHOSEN) if asked.chosen else releases
    bound, *_ = seen(pair, times, ALPHA, most)
    mechanisms = tuple(one.describe() for one in asked.parts)
    return AuditedRelease(mechanisms, claim, bound, times, time.monotonic() - began)


def _exact(part: CompiledRelease, dataset: Dataset) -> tuple[ExactTable | None, list[ExactTable], list[ExactTable]]:
    """Exact sums, histograms and matchings of one release over one database."""
    dialect = dataset.engine.dialect
    texts = Texts(dataset.schema, frozenset(), dialect.write, dialect.guards, dialect.verbatim)

    def exact(sql: str, keys: int, sums: int) -> ExactTable:
        # never the shorter text for verified data: what enforces the limits is what is looked at
        return dataset.engine.exact(texts.printed(sql, (), (), everywhere=False), keys, sums, (), _CUT)

    keys = part.key_columns
    histograms = [exact(t.sql, keys + t.valued, t.sums) for t in part.histograms]
    matchings = [exact(m.sql, keys, 3) for m in part.matchings]
    return exact(part.sql, keys, part.sum_columns) if part.sql else None, histograms, matchings


def _most_moved(first: Cells, second: Cells) -> list[Group]:
    """The groups whose cells differ most, by their means and by how often they are shown."""

    def moved(group: Group) -> float:
        if group not in first or group not in second:
            return float("inf")
        found = 0.0
        for pair in zip(first[group], second[group], strict=True):
            # where nothing is shown, a value that is far below all others
            a, b = (np.nan_to_num(np.array(cell.tolist(), dtype=np.float64), nan=-1e6) for cell in pair)
            found = max(found, abs(float(a.mean() - b.mean())) / (float(a.std() + b.std()) or 1e-9))
        return found

    return sorted(dict.fromkeys([*first, *second]), key=moved, reverse=True)[:MOST_GROUPS]


def claimed(loss: PrivacyLoss) -> EpsilonDelta:
    """The promise of a loss: its epsilon and delta, else those of Gaussian differential privacy at a delta that can be measured.

    Why     delta(epsilon) = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu), and the loss's own delta adds to it
    Source  Dong, Roth, Su 2022, Gaussian Differential Privacy, corollary 2.13
    """
    if loss.epsilon is not None:
        return EpsilonDelta(loss.epsilon, loss.delta)
    mu, normal = sqrt(loss.mu_squared), NormalDist().cdf
    low, high = 0.0, mu * mu / 2 + 10 * mu + 1
    for _ in range(60):
        middle = (low + high) / 2
        delta = normal(mu / 2 - middle / mu) - exp(middle) * normal(-mu / 2 - middle / mu)
        low, high = (low, middle) if delta <= DELTA else (middle, high)
    return EpsilonDelta(Fraction(high), DELTA + loss.delta)
