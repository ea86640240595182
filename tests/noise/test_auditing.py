"""`audit` finds faults that are planted, and passes what is real.

A false alarm has a chance of 10^-9 for each release that is looked at, and there are about 40 of them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.aggregates import base
from dpsql.aggregates.term import Term
from dpsql.core.columns import Column, combined
from dpsql.dataset.opening import Dataset, open_dataset
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.mechanisms.additive import AdditiveNoise
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.source import NoiseSource, SystemNoise
from dpsql.plan import releases
from dpsql.plan.compiled import Compiled
from dpsql.planner import pricing
from dpsql.planner.lower import cutting
from dpsql.schema.toml import read_schema
from dpsql.session import auditing
from dpsql.session.auditing import audit, audited, usual_statements, with_audited_price
from dpsql.session.neighbouring import neighbours
from dpsql.session.opening import ledger_identity
from tests.support.trees import unclamped

Patch = pytest.MonkeyPatch
Pairs = list[tuple[Dataset, Dataset]]
RUNS = 50_000
TOML = """
[dataset]
name = "club"
source = "."
[privacy]
unit = "member.id"
epsilon = 1
delta = 1e-6
units = 500
[tables.member]
source = "member.csv"
key = ["id"]
[tables.member.columns]
id = { type = "INTEGER" }
sex = { type = "VARCHAR", domain = ["f", "m"] }
fee = { type = "DECIMAL(8,2)", bounds = [-900, 100], nullable = true }
[tables.visit]
source = "visit.csv"
references = { id = "member.id" }
max_rows_per_unit = 4
[tables.visit.columns]
id = { type = "INTEGER" }
hour = { type = "INTEGER", domain = [8, 12, 18] }
minutes = { type = "INTEGER", bounds = [0, 100] }
spent = { type = "DOUBLE", bounds = [0, 1000] }
place = { type = "VARCHAR" }
"""


def club(folder: Path, members: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "schema.toml").write_text(TOML)
    (folder / "member.csv").write_text("id,sex,fee\n" + "".join(f"{i},f,1.5\n" for i in range(members)))
    (folder / "visit.csv").write_text(
        "id,hour,minutes,spent,place\n" + "".join(f"{i},8,5,1.5,x\n" for i in range(members))
    )
    return folder / "schema.toml"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pairs]:
    schema = read_schema(club(tmp_path_factory.mktemp("club")))
    with (
        closing(Ledger.open(":memory:", ledger_identity(schema))) as ledger,
        closing(open_dataset(schema, ledger, approve=True)) as dataset,
        neighbours(dataset, with_audited_price(dataset.schema)) as found,
    ):
        yield found


# --- planted faults -------------------------------------------------------------------------------------------------


class Half(SystemNoise):
    """Half the scale."""

    def laplace(self, scale: Fraction, size: int) -> Sequence[int]:
        return super().laplace(scale / 2, size)


class Seeded(SystemNoise):
    """Each vector of draws is the one before, at its own scale."""

    def laplace(self, scale: Fraction, size: int) -> Sequence[int]:
        drawn = np.random.default_rng(7).laplace(0, float(scale), size)
        return Column(np.rint(drawn).astype(np.int64))


class Coarse(SystemNoise):
    """Noise of single precision: wide noise has no last digits."""

    def laplace(self, scale: Fraction, size: int) -> Sequence[int]:
        return Column(np.asarray(super().laplace(scale, size)).astype(np.float32).astype(np.int64))


def no_clamp(patch: Patch) -> None:
    for part in ("own", "quanta"):
        patch.setattr(Term, part, lambda self, x: unclamped(x, self.quantum))


def one_row_per_unit(patch: Patch) -> None:
    """The noise is that of one row, and the plan does not look."""
    original = DiscreteLaplace.for_loss

    def for_loss(l1: int, epsilon: Fraction) -> DiscreteLaplace:
        return original(max(1, l1 // 4), epsilon)

    patch.setattr(DiscreteLaplace, "for_loss", staticmethod(for_loss))
    patch.setattr(DiscreteLaplace, "epsilon", lambda self, l1: max(1, l1 // 4) / self.scale)
    patch.setattr(releases.Plan, "__post_init__", lambda self: None)


def magnitude_ignores_the_lower_bound(patch: Patch) -> None:
    patch.setattr(Term, "magnitude", property(lambda self: max(1, abs(self.upper))))


def noise_reused_between_cells(patch: Patch) -> None:
    """All cells of a group have one draw."""

    def added(self: DiscreteLaplace, cells: Sequence[Sequence[int]], source: NoiseSource) -> list[Column[int | None]]:
        draws = self.sample(source, len(cells[0]))
        return [combined((1, cell), (1, draws)) for cell in cells]

    patch.setattr(AdditiveNoise, "added", added)


def low_threshold(patch: Patch) -> None:
    original = pricing.Selection
    patch.setattr(pricing, "Selection", lambda place, tau, delta: original(place, tau // 2, delta))
    patch.setattr(releases, "_selects_enough", lambda release: True)


def charge_of_half(patch: Patch) -> None:
    original = auditing.planned

    def planned(sql: str, dataset: Dataset) -> Compiled:
        found = original(sql, dataset)
        halves = tuple(
            replace(one, release=replace(one.release, loss=pricing.pure(one.release.loss.epsilon / 2)))  # type: ignore[operator]
            for one in found.releases
        )
        return replace(found, releases=halves)

    patch.setattr(auditing, "planned", planned)


def no_cut(patch: Patch) -> None:
    original = cutting._kept
    patch.setattr(cutting, "_kept", lambda sql, limits, parts: original(sql, base.Limits(10**6, limits.groups), parts))


def nothing(patch: Patch) -> None:
    """The fault is in the noise."""


COUNT = "SELECT COUNT(*) FROM visit"
FAULTS: list[tuple[str, Callable[[Patch], None], type[SystemNoise], str]] = [
    ("half the scale", nothing, Half, COUNT),
    ("no clamp", no_clamp, SystemNoise, "SELECT SUM(fee) FROM member"),
    ("one row per unit", one_row_per_unit, SystemNoise, COUNT),
    ("wrong sensitivity", magnitude_ignores_the_lower_bound, SystemNoise, "SELECT SUM(fee) FROM member"),
    ("noise reused", noise_reused_between_cells, SystemNoise, "SELECT VAR_POP(spent) FROM visit"),
    ("low threshold", low_threshold, SystemNoise, "SELECT place, COUNT(*) FROM visit GROUP BY place"),
    ("charge of half", charge_of_half, SystemNoise, COUNT),
    ("no cut", no_cut, SystemNoise, COUNT),
    ("seed reused", nothing, Seeded, "SELECT COUNT(*), COUNT(DISTINCT hour), SUM(minutes) FROM visit"),
    ("rounding of floats", nothing, Coarse, "SELECT SUM(spent) FROM visit"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "noise", "sql"), [one[1:] for one in FAULTS], ids=[one[0] for one in FAULTS])
def test_a_planted_fault_is_found(
    fault: Callable[[Patch], None], noise: type[SystemNoise], sql: str, pairs: Pairs, monkeypatch: Patch
) -> None:
    real = audited(sql, pairs, RUNS, SystemNoise())
    assert real.releases and not any(one.exceeds for one in real.releases), real
    fault(monkeypatch)
    found = audited(sql, pairs, RUNS, noise())
    assert any(one.exceeds for one in found.releases), found


# --- what is real -----------------------------------------------------------------------------------------------------

AGGREGATES = [
    "SELECT VAR_POP(fee), STDDEV(fee) FROM member",
    "SELECT CORR(minutes, spent) FROM visit",
    "SELECT COUNT(DISTINCT hour), COUNT(DISTINCT id) FROM visit",
    "SELECT MODE(hour) FROM visit",
    "SELECT QUANTILE_CONT(minutes, 0.9) FROM visit",
    "SELECT sex, AVG(m) FROM (SELECT id, SUM(minutes) AS m FROM visit GROUP BY id) AS v JOIN member USING (id) GROUP BY sex",
    "SELECT sex, SUM(spent) FROM member JOIN visit USING (id) GROUP BY sex",
    "/* dpsql: mechanism=gaussian */ SELECT place, COUNT(*), SUM(minutes) FROM visit GROUP BY place",
    "/* dpsql: mechanism=gaussian */ SELECT hour, COUNT(*), AVG(spent) FROM visit GROUP BY hour",
]


@pytest.mark.slow
def test_what_is_real_passes(pairs: Pairs) -> None:
    """The statements that are audited where none is named, and more aggregates."""
    asked = [*usual_statements(pairs[0][0].schema), *AGGREGATES]
    found = [audited(sql, pairs, RUNS, SystemNoise()) for sql in asked]
    bounds = [release.bound for one in found for release in one.releases]
    assert not any(release.exceeds for one in found for release in one.releases)
    assert sum(bound > 0.5 for bound in bounds) >= 10


# --- the owner's command ----------------------------------------------------------------------------------------------


def test_nothing_is_charged_and_nothing_of_the_data_is_read(tmp_path: Path, monkeypatch: Patch) -> None:
    """The engine that holds the data gives no exact sum; those of the invented tables do."""
    schema = read_schema(club(tmp_path))
    asked: list[str] = []
    original = DuckDBEngine.exact

    def exact(self: DuckDBEngine, *arguments: object) -> object:
        asked.append(str(self.tables["member"].source))
        return original(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(DuckDBEngine, "exact", exact)
    with closing(Ledger.open(tmp_path / "ledger", ledger_identity(schema))) as ledger:
        found = audit(schema, ledger, [COUNT], RUNS)
        assert not ledger.history()
    assert found.releases[0].bound > 0.5 and not found.exceeds
    assert asked and set(asked) == {"member"}


def test_neighbours_are_the_same_whatever_the_data_is(tmp_path: Path) -> None:
    """To the last row, and D' is D without one unit."""
    found = [_rows(club(tmp_path / str(members), members)) for members in (3, 9)]
    assert found[0] == found[1]
    rows = []
    for first, second in found[0]:
        (gone,) = {row[0] for row in first["member"]} - {row[0] for row in second["member"]}
        for table in ("member", "visit"):
            assert [row for row in first[table] if row[0] != gone] == second[table]
        rows.append(sum(row[0] == gone for row in first["visit"]))
    assert min(rows) > 4


Rows = list[tuple[object, ...]]


def _rows(path: Path) -> list[tuple[dict[str, Rows], dict[str, Rows]]]:
    schema = read_schema(path)
    with (
        closing(Ledger.open(":memory:", ledger_identity(schema))) as ledger,
        closing(open_dataset(schema, ledger, approve=True)) as dataset,
        neighbours(dataset, with_audited_price(dataset.schema)) as pairs,
    ):
        return [tuple(_tables(one) for one in pair) for pair in pairs]  # type: ignore[misc]


def _tables(dataset: Dataset) -> dict[str, Rows]:
    return {table: dataset.engine.owner_rows(f"SELECT * FROM {table} ORDER BY ALL") for table in ("member", "visit")}


def test_rows_that_are_their_own_units(tmp_path: Path) -> None:
    text = TOML[: TOML.index("[tables.visit]")].replace('"member.id"', '"row"')
    path = club(tmp_path)
    path.write_text(text)
    schema = read_schema(path)
    with closing(Ledger.open(":memory:", ledger_identity(schema))) as ledger:
        found = audit(schema, ledger, ["SELECT COUNT(*), SUM(fee) FROM member"], RUNS)
    assert found.releases and 0.5 < found.releases[0].bound <= 1


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT id FROM member", "305"),
        ("SHOW TABLES", "106"),
        ("SELECT COUNT(*) FROM member WHERE fee > (SELECT AVG(fee) FROM member)", "106"),
        ("SELECT", "DPSQL-1"),
    ],
)
def test_what_is_not_audited_is_refused(sql: str, code: str, pairs: Pairs) -> None:
    assert code in audited(sql, pairs, RUNS, SystemNoise()).refused


def test_what_is_free_says_so(pairs: Pairs) -> None:
    assert "free" in str(audited("SELECT COUNT(*) FROM member WHERE sex = 'x'", pairs, RUNS, SystemNoise()))
