"""The rules of the soundness list, one test each; what does not exist yet is refused for nothing."""

from __future__ import annotations

from fractions import Fraction
from math import exp
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.aggregates.avg import Pair
from dpsql.aggregates.sum import Total
from dpsql.clients.dbapi import open_session
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.plan import CompiledRelease
from dpsql.planner.lower import with_secret
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.planner.planning import compile_statement
from tests.attacks.observing import (
    PERSON,
    SHARP,
    empty,
    everywhere,
    missing,
    opened,
    ordinary,
    patient,
    poisoned,
    see,
    sharp,
    visit,
)
from tests.support import clinic
from tests.support.clinic import NAN
from tests.support.noise import RecordedNoise, ZeroNoise

Rows = list[tuple[object, ...]]


def compiled(folder: Path, sql: str, unit: str = "patient") -> CompiledRelease:
    return compile_statement(parse(sql), Options(), clinic.schema(folder, unit=unit), "").releases[0]


def exact(folder: Path, sql: str, data: clinic.Database, unit: str = "patient") -> Rows:
    """A session's answer without noise."""
    clinic.write(folder, data)
    session = open_session(clinic.schema(folder, unit=unit), None, ":memory:", noise=ZeroNoise())
    rows = session.execute(SHARP + sql).rows
    session.close()
    return rows


def refused(folder: Path, statements: list[str]) -> None:
    for sql, found in everywhere(folder, statements).items():
        assert found[0].error is not None and found[0].error[1][6] in "123456", (sql, found[0])
        assert found[0].epsilon == found[0].delta == 0 and all(one == found[0] for one in found), sql


def test_rule_1_a_private_subquery_anywhere_makes_the_block_private(tmp_path: Path) -> None:
    """FROM a public table with people in WHERE, HAVING, ORDER BY or a CTE is not a public question."""
    private = "(SELECT COUNT(*) FROM patient)"
    refused(
        tmp_path,
        [
            f"SELECT label FROM drug WHERE drug > {private}",
            f"SELECT COUNT(*) FROM drug HAVING COUNT(*) > {private}",
            f"SELECT label FROM drug ORDER BY {private}",
            f"WITH n AS {private} SELECT label FROM drug, n",
            f"SELECT {private}",
            "SELECT 1 WHERE 77 NOT IN (SELECT age FROM patient)",
            "SELECT 1 WHERE 77 = ANY (SELECT age FROM patient)",
        ],
    )


def test_rule_2_membership_in_private_rows_is_refused(tmp_path: Path) -> None:
    """IN, EXISTS, ALL, ANY over people's rows; a row without a unit belongs to nobody."""
    refused(
        tmp_path,
        [
            "SELECT COUNT(*) FROM patient WHERE site IN (SELECT year FROM visit)",
            "SELECT COUNT(*) FROM patient WHERE patient_id NOT IN (SELECT patient_id FROM visit)",
            "SELECT COUNT(*) FROM patient WHERE age >= ALL (SELECT days FROM visit)",
            "SELECT COUNT(*) FROM patient p FULL JOIN visit v ON p.patient_id = v.patient_id",
        ],
    )
    nobody = {**ordinary(), "visit": ordinary()["visit"] + [visit(900, None), visit(901, None)]}
    assert exact(tmp_path, "SELECT COUNT(*), COUNT(DISTINCT patient_id) FROM visit", nobody) == [(36, 12)]


def test_rule_4_row_level_is_one_table_one_row(tmp_path: Path) -> None:
    """At row level a row is its own unit: K = 1, and no joins, no DISTINCT."""
    release = compiled(tmp_path, "SELECT COUNT(*), SUM(age) FROM patient", "row").release
    assert release.limited.limits.rows == release.limited.limits.groups == 1
    clinic.write(tmp_path, ordinary())
    connection = dpsql.connect(clinic.schema(tmp_path, unit="row"), ledger=":memory:")
    for sql in (
        "SELECT COUNT(DISTINCT patient_id) FROM patient",
        "SELECT COUNT(*) FROM patient a JOIN patient b USING (site)",
    ):
        assert see(connection, sql).error is not None and see(connection, sql).epsilon == 0
    connection.close()


def test_rule_5_joins_are_refused_and_references_keep_rows(tmp_path: Path) -> None:
    """Only the planner joins, up declared references, and a unit's rows stay within the first table's limit."""
    refused(
        tmp_path,
        [
            "SELECT COUNT(*) FROM patient JOIN visit USING (patient_id)",
            "SELECT COUNT(*) FROM visit UNION ALL SELECT COUNT(*) FROM visit",
        ],
    )
    assert compiled(tmp_path, "SELECT COUNT(*) FROM visit").release.limited.limits.rows == 3


def test_rule_7_distinct_is_the_declared_list_or_refused(tmp_path: Path) -> None:
    """DISTINCT of declared keys is free and data-free; of anything else it needs a threshold."""
    for found in everywhere(
        tmp_path, ["SELECT DISTINCT city FROM patient", "SELECT site FROM patient GROUP BY site HAVING site > 1"]
    ).values():
        assert len({repr(one.answer) for one in found}) == 1 and found[0].epsilon == 0
    refused(
        tmp_path,
        [
            "SELECT DISTINCT note FROM patient",
            "SELECT COUNT(DISTINCT note) FROM patient",
            "SELECT DISTINCT * FROM patient",
        ],
    )


def test_rule_10_one_persons_sums_do_not_depend_on_others_or_order(tmp_path: Path) -> None:
    """Per-unit sums are exact integers: without one person, in any order, everybody else's are the same bits."""
    part = compiled(tmp_path, "/* dpsql: max_rows=2 */ SELECT year, SUM(cost), COUNT(*) FROM visit GROUP BY year")
    per_unit = with_secret(part.sql, "00").partition("FROM (")[2].rpartition(") AS limited")[0]
    data = {**ordinary(), "visit": [visit(i, 1000 + i % 12, cost=5 + (i * 7919 % 4500) / 100.7) for i in range(60)]}
    seen = set()
    for stored in (data, clinic.without(data, PERSON), {**data, "visit": data["visit"][::-1]}):
        for threads in (1, 8):
            connection = duckdb.connect(config={"threads": str(threads)})
            clinic.fill(connection, stored)
            rows = connection.execute(f"SELECT * FROM ({per_unit}) WHERE u <> {PERSON}").fetchall()
            seen.add(repr(sorted(map(repr, rows))))
            connection.close()
    assert len(seen) == 1


def test_rule_11_the_cut_is_ordered_by_a_secret_and_the_units_own_groups(tmp_path: Path) -> None:
    """Which groups of a person are kept changes with the secret, and never with other people."""
    part = compiled(tmp_path, "/* dpsql: max_groups=1 */ SELECT year, COUNT(*) FROM visit GROUP BY year")
    connection = duckdb.connect()
    kept = set()
    for secret in ("00", "01", "02", "03", "04", "05", "06", "07"):
        clinic.fill(connection, ordinary())
        everybody = dict(connection.execute(with_secret(part.sql, secret)).fetchall())
        clinic.fill(connection, missing())
        others = dict(connection.execute(with_secret(part.sql, secret)).fetchall())
        assert sum(abs(int(everybody[k]) - int(others.get(k, 0))) for k in everybody) <= 3
        kept.add(repr(sorted(everybody.items())))
    assert len(kept) > 1


def test_rule_11_keys_with_null_still_have_one_order(tmp_path: Path) -> None:
    """NULL parts drop out of the hashed text: the keys themselves break the tie."""
    rows = [
        visit(i, 1000, tag=tag, days=days)
        for i, (tag, days) in enumerate([(None, 1), ("1", None), (None, None), ("1", 1)])
    ]
    part = compiled(
        tmp_path, "/* dpsql: max_groups=1, max_rows=1 */ SELECT tag, days, COUNT(*) FROM visit GROUP BY tag, days"
    )
    connection = duckdb.connect()
    seen = set()
    for shift in range(4):
        clinic.fill(connection, {**ordinary(1), "visit": rows[shift:] + rows[:shift]})
        seen.add(repr(connection.execute(with_secret(part.sql, "7f")).fetchall()))
    assert len(seen) == 1


def test_rule_12_twenty_orders_and_threads(tmp_path: Path) -> None:
    """HAVING over per-unit results does not exist yet: a group that is one person is refused."""
    refused(
        tmp_path,
        [
            "SELECT patient_id, SUM(cost) FROM visit GROUP BY patient_id HAVING SUM(cost) > 10",
            "SELECT SUM(s) FROM (SELECT SUM(cost) AS s FROM visit GROUP BY patient_id) t",
        ],
    )


def test_rule_13_undeclared_keys_are_dropped_before_the_cut(tmp_path: Path) -> None:
    """A person's rows with undeclared keys must not use up the groups that they may appear in."""
    odd = [visit(i, 1000, year=99 + i) for i in range(3)] + [visit(9, 1000, year=1)]
    rows = exact(tmp_path, "SELECT year, COUNT(*) FROM visit GROUP BY year", {**ordinary(1), "visit": odd})
    assert rows == [(1, 1), (2, 0), (3, 0), (4, 0)]
    limited = (
        "/* dpsql: max_groups=1, max_rows=1 */ SELECT days, COUNT(*) FROM visit WHERE days IN (1, 2, 4) GROUP BY days"
    )
    data = {**ordinary(1), "visit": [visit(i, 1000, days=d) for i, d in enumerate([3, 3, 5, 7, 4])]}
    clinic.write(tmp_path, data)
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=ZeroNoise())
    assert session.execute(limited).rows == [(1, 0), (2, 0), (4, 1)]
    session.close()


def test_rule_13_null_is_a_cell_only_where_declared(tmp_path: Path) -> None:
    """A nullable boolean has three cells, a guard that can give NULL adds one, an undeclared NULL is dropped."""
    assert [r[0] for r in exact(tmp_path, "SELECT female, COUNT(*) FROM patient GROUP BY 1", empty())] == [
        False,
        True,
        None,
    ]
    assert [r[0] for r in exact(tmp_path, "SELECT site // (site - 1), COUNT(*) FROM patient GROUP BY 1", ordinary())][
        -1
    ] is None
    assert exact(
        tmp_path, "SELECT site, COUNT(*) FROM patient GROUP BY 1", {**empty(), "patient": [patient(1, site=None)]}
    ) == [(1, 0), (2, 0), (3, 0)]


def test_rule_13_the_number_of_cells_is_capped(tmp_path: Path) -> None:
    """A product of declared domains beyond the owner's cap is refused."""
    refused(tmp_path, ["SELECT age, EXTRACT(YEAR FROM born), born, COUNT(*) FROM patient GROUP BY 1, 2, 3"])


def test_rule_14_null_and_rare_keys_pass_the_threshold_like_any(tmp_path: Path) -> None:
    """Under private selection NULL has no privilege: one person with NULL is not shown, forty are."""
    for people, shown in ((1, False), (40, True)):
        data = {**ordinary(1), "patient": [patient(i, code=None) for i in range(people)], "visit": []}
        rows = exact(tmp_path, "SELECT code, COUNT(*) FROM patient GROUP BY code", data) if shown else None
        if rows is None:
            with opened(tmp_path, data) as connection:
                rows = connection.execute(
                    "/* dpsql: epsilon=1, delta=1e-12 */ SELECT code, COUNT(*) FROM patient GROUP BY code"
                ).fetchall()
        assert (None in [row[0] for row in rows]) == shown


@pytest.mark.parametrize(
    "where",
    [
        "site = 1 OR age > 0",
        "NOT site = 1",
        "site + 0 = 1",
        "(site = 1) = true",
        "(site = 1) IS NOT FALSE",
        "CASE WHEN site = 1 THEN true ELSE true END",
        "site <> 1",
    ],
)
def test_rule_15_only_bare_conjuncts_narrow_a_domain(tmp_path: Path, where: str) -> None:
    """A key list narrowed by OR, NOT or an expression would drop people that the statement asked for."""
    keys = compiled(tmp_path, f"SELECT site, COUNT(*) FROM patient WHERE {where} GROUP BY site").release.keys[0].values
    assert keys is not None and set(keys) >= {1, 2, 3}


def test_rule_15_narrowed_bounds_are_still_enforced(tmp_path: Path) -> None:
    """WHERE chooses a smaller clamp; a value that slips through WHERE is clamped all the same."""
    part = compiled(tmp_path, "SELECT SUM(income) FROM patient WHERE income >= 0 AND income <= 10")
    statistic = part.release.measures[0].statistic
    assert isinstance(statistic, Total) and statistic.term.magnitude * statistic.term.quantum == 10
    assert " BETWEEN " in part.sql.partition("SELECT")[2].partition("FROM")[0]
    assert sharp(tmp_path, poisoned(), "SELECT COUNT(*) FROM patient WHERE income >= 0 AND income <= 10")[0][0] == 2


def test_rule_16_where_and_group_by_see_raw_values(tmp_path: Path) -> None:
    """Bounds make no condition a tautology: people outside them are neither kept nor dropped by declaration."""
    data = {**empty(), "patient": [patient(1, age=2000), patient(2, age=None), patient(3, age=50)]}
    assert exact(tmp_path, "SELECT COUNT(*) FROM patient WHERE age <= 90", data) == [(1,)]
    assert exact(tmp_path, "SELECT COUNT(*) FROM patient WHERE age >= 10", data) == [(2,)]
    assert exact(tmp_path, "SELECT COUNT(*) FROM patient WHERE age IS NULL", data) == [(1,)]
    assert exact(
        tmp_path, "SELECT COUNT(*) FROM patient WHERE site IN (1, 2, 3)", {**empty(), "patient": [patient(1, site=9)]}
    ) == [(0,)]


@pytest.mark.parametrize("unit", ["patient", "row"])
def test_rule_17_one_row_moves_the_shared_cells_by_the_width(tmp_path: Path, unit: str) -> None:
    """(A, B, N) of a row with, without and beyond a value: always exactly W in L1, also with COUNT(*) beside NULLs."""
    part = compiled(tmp_path, "SELECT AVG(weight), COUNT(weight), COUNT(*), SUM(weight) FROM patient", unit)
    (measure,) = part.release.measures
    assert isinstance(measure.statistic, Pair) and measure.statistic.cells == 3
    connection = duckdb.connect()

    def cells(data: clinic.Database) -> list[int]:
        clinic.fill(connection, data)
        (row,) = connection.execute(part.sql).fetchall()
        return [c[0] for c in measure.statistic.to_cells([[int(str(cell).replace(".", ""))] for cell in row])]

    base = cells(ordinary())
    for value in (None, NAN, 40.0, 200.0, 120.5, -1e18, 1e18, float("inf")):
        moved = cells({**ordinary(), "patient": [*ordinary()["patient"], patient(99, weight=value)]})
        assert (
            sum(abs(a - b) for a, b in zip(base, moved, strict=True))
            == measure.statistic.term.width
            == measure.sensitivity.l1
        )


def test_rule_18_totals_and_counts_are_clamped_together(tmp_path: Path) -> None:
    """A heavy person's count and sum are those of some `max_rows` of their rows, inside the bounds of that many."""
    data = {**ordinary(1), "visit": [visit(i, 1000, cost=5.0) for i in range(50)]}
    for sql in (
        "SELECT SUM(cost), COUNT(cost), COUNT(*) FROM visit",
        "SELECT year, SUM(cost), COUNT(cost), COUNT(*) FROM visit GROUP BY year",
    ):
        rows = exact(tmp_path, sql, data)
        total, values, count = (sum(float(row[i]) for row in rows) for i in (-3, -2, -1))  # type: ignore[arg-type]
        assert count == values == 3 and total == pytest.approx(15)
    nothing = {**ordinary(1), "visit": [visit(i, 1000, cost=None) for i in range(50)]}
    assert exact(tmp_path, "SELECT SUM(cost), COUNT(cost) FROM visit", nothing) == [(0.0, 0)]


def test_rule_20_null_and_nan_are_decided_before_any_bound(tmp_path: Path) -> None:
    """A NaN that turns into the upper bound, or a NULL into the lower one, would be somebody's value."""
    odd = {**empty(), "patient": [patient(1, income=NAN, weight=NAN), patient(2, income=None, weight=None)]}
    sql = "SELECT SUM(income), COUNT(income), SUM(weight), COUNT(weight), COUNT(*) FROM patient"
    for unit in ("patient", "row"):
        assert exact(tmp_path, sql, odd, unit) == [(0.0, 0, 0.0, 0, 2)]
    assert exact(tmp_path, "SELECT AVG(income) FROM patient", odd) == [(None,)]


def test_rule_21_noise_is_drawn_for_zeros_and_added_in_python(tmp_path: Path) -> None:
    """Sums beyond BIGINT keep every digit, and the noise source never sees them."""
    data = {**empty(), "patient": [patient(i, age=90) for i in range(10)]}
    clinic.write(tmp_path, data)
    noise = RecordedNoise()
    session = open_session(clinic.schema(tmp_path), None, ":memory:", noise=noise)
    row = session.execute("SELECT SUM(age * 1000000000000000000) FROM patient").rows[0]
    session.close()
    # The grid is coarser than 1, so that scales stay below 2^52; every value lies within one quantum.
    assert abs(int(row[0]) - 900 * 10**18) <= 10 * 2**30  # type: ignore[call-overload]
    assert all(scale <= 2**52 for _, scale, _ in noise.drawn) and [size for *_, size in noise.drawn] == [1]


def test_rule_26_the_charge_is_that_of_the_sampler(tmp_path: Path) -> None:
    """Laplace costs its pure epsilon and no delta; a threshold costs delta beside it."""
    with opened(tmp_path, ordinary()) as connection:
        assert see(connection, "SELECT COUNT(*) FROM patient").delta == 0
        seen = see(connection, "SELECT note, COUNT(*) FROM patient GROUP BY note")
        assert (seen.epsilon, seen.delta) == (1, Fraction(1, 1000))
    for measure in compiled(tmp_path, "SELECT COUNT(*), SUM(days) FROM visit").release.measures:
        assert measure.noise.covers(measure.sensitivity.l1, measure.sensitivity.l2_squared, measure.loss)


def test_rule_27_gaussian_is_charged_by_its_conversion(tmp_path: Path) -> None:
    """While the ledger adds up (epsilon, delta), Gaussian noise is priced in both, and needs a delta."""
    part = compiled(tmp_path, "/* dpsql: mechanism=gaussian */ SELECT COUNT(*), SUM(days) FROM visit")
    assert all(isinstance(m.noise, DiscreteGaussian) and m.loss.delta > 0 for m in part.release.measures)
    assert part.release.loss.epsilon == 1 and part.release.loss.delta == Fraction(1, 1000)
    with opened(tmp_path, ordinary()) as connection:
        seen = see(connection, "/* dpsql: mechanism=gaussian */ SELECT COUNT(*) FROM visit")
        assert (seen.epsilon, seen.delta) == (1, Fraction(1, 1000))


def test_rule_28_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    """One accountant: a charge above what is left is refused, and what is left stays the same."""
    with opened(tmp_path, ordinary()) as connection:
        connection.execute("/* dpsql: epsilon=999999 */ SELECT COUNT(*) FROM patient")
        seen = see(connection, "/* dpsql: epsilon=2 */ SELECT SUM(age) FROM patient")
        assert (
            seen.error is not None and seen.error[0] is dpsql.OperationalError.__subclasses__()[0] and seen.epsilon == 0
        )
        assert see(connection, "/* dpsql: epsilon=1 */ SELECT SUM(age) FROM patient").epsilon == 1


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_rule_29_a_threshold_holds_delta_with_equality_counted(tmp_path: Path, mechanism: str) -> None:
    """P(1 + Z >= tau) is at most delta over all groups of one unit, and tau - 1 would not do."""
    for table, key in (("patient", "note"), ("visit", "tag")):
        release = compiled(
            tmp_path, f"/* dpsql: mechanism={mechanism} */ SELECT {key}, COUNT(*) FROM {table} GROUP BY 1"
        ).release
        assert release.selection is not None
        noise, tau, l0 = release.measures[0].noise, release.selection.tau, release.measures[0].sensitivity.l0
        assert 1 - (1 - noise.tail(tau - 1)) ** l0 <= release.selection.delta
        assert 1 - (1 - noise.tail(tau - 2)) ** l0 > release.selection.delta
        assert release.loss.delta <= Fraction(1, 1000)
        assert exp(float(release.loss.epsilon)) > 1


def test_rule_33_losses_follow_from_the_text(tmp_path: Path) -> None:
    """The plan's loss is known before the engine, never above the price, and the same release twice is one."""
    for sql in (
        "SELECT COUNT(*), COUNT(*), SUM(age), SUM(age) * 2 FROM patient",
        "SELECT note, COUNT(*), AVG(age) FROM patient GROUP BY 1",
    ):
        plan = compile_statement(parse(sql), Options(), clinic.schema(tmp_path), "").plan
        assert plan.loss.fits(plan.price) and len(plan.releases) == 1
    assert (
        len(
            compiled(
                tmp_path, "SELECT COUNT(*), COUNT(*) + 1, COUNT(*) * 2 FROM patient HAVING COUNT(*) > 3"
            ).release.measures
        )
        == 1
    )
    refused(tmp_path, ["SELECT (SELECT COUNT(*) FROM patient) + (SELECT COUNT(*) FROM patient)"])


def test_rule_35_bounds_are_enforced_whatever_the_data(tmp_path: Path) -> None:
    """Opening does not fail because of a value, and EXPLAIN is the same on data that breaks every declaration."""
    texts = set()
    for data in (ordinary(), poisoned(), empty()):
        with opened(tmp_path, data) as connection:
            texts.add(connection.explain("SELECT year, SUM(cost), COUNT(*) FROM visit GROUP BY year"))
    assert len(texts) == 1 and "enforced" in texts.pop()


def test_rule_36_structure_that_cannot_be_enforced_is_verified(tmp_path: Path) -> None:
    """One row per patient is a promise of the key: data that breaks it is not opened, in words without its values."""
    data = ordinary()
    clinic.write(tmp_path, {**data, "patient": [*data["patient"], patient(3, note="again")]})
    with pytest.raises(dpsql.Error) as raised:
        dpsql.connect(clinic.schema(tmp_path), ledger=":memory:")
    assert raised.value.code == "DPSQL-804" and str(PERSON) not in str(raised.value)


def test_rule_36_declared_analysts_need_the_owners_approval(tmp_path: Path) -> None:
    """Where analysts are declared, opening approves nothing by itself."""
    clinic.write(tmp_path, ordinary())
    clinic.schema(tmp_path)
    path = tmp_path / "patient.toml"
    path.write_text(path.read_text() + "\n[analysts.alice]\nepsilon = 1.0\n")
    with pytest.raises(dpsql.Error) as raised:
        dpsql.connect(path, analyst="alice", ledger=tmp_path / "x.ledger")
    assert raised.value.code == "DPSQL-708"
    with pytest.raises(dpsql.Error):
        dpsql.connect(path, analyst=None, ledger=tmp_path / "x.ledger")


def test_rule_37_versions_are_random_and_say_nothing_of_the_contents(tmp_path: Path) -> None:
    """Equal contents under two ledgers have two versions; EXPLAIN and errors name none."""
    clinic.write(tmp_path, ordinary())
    versions = []
    for ledger in ("a.ledger", "b.ledger"):
        session = open_session(clinic.schema(tmp_path), None, tmp_path / ledger)
        version = session._dataset.version
        assert version not in session.explain("SELECT COUNT(*) FROM visit")
        versions.append(version)
        session.close()
    assert versions[0] != versions[1]


def test_rule_38_estimates_do_not_use_the_datas_size(tmp_path: Path) -> None:
    """Widths in EXPLAIN and half-widths of counts are those of the noise alone, on 12 rows as on none."""
    texts = set()
    for data in (ordinary(), ordinary(50), empty()):
        with opened(tmp_path, data) as connection:
            texts.add(connection.explain("SELECT site, COUNT(*), AVG(age) FROM patient GROUP BY site"))
    assert len(texts) == 1


def test_rule_39_functions_without_a_guard_are_refused(tmp_path: Path) -> None:
    """What DuckDB raises on is either guarded (test_totality.py) or not in the grammar."""
    calls = [
        "factorial(age)",
        "chr(code)",
        "make_date(age, 1, 1)",
        "strptime(note, '%Y')",
        "age << code",
        "to_timestamp(income)",
        "epoch_ms(code)",
        "regexp_matches(note, '(')",
        "regexp_replace(note, note, '')",
        "format(note, age)",
        "printf(note)",
        "repeat(note, code)",
        "list_extract([1], code)",
        "note::INTEGER[]",
        "note::JSON",
        "age & code",
        "gamma(income)",
        "acos(income)",
        "cot(income)",
        "error(note)",
        "bar(age, 1, 2)",
    ]
    refused(tmp_path, [f"SELECT COUNT(*) FROM patient WHERE {call} IS NULL" for call in calls])


def test_rule_40_the_fingerprint_leaves_out_scales_and_what_was_drawn(tmp_path: Path) -> None:
    """The stored answer is found by the question and the version, in another session with other noise."""
    clinic.write(tmp_path, ordinary())
    rows = []
    for noise in (None, ZeroNoise()):
        session = open_session(clinic.schema(tmp_path), None, tmp_path / "x.ledger", noise=noise)
        answer = session.execute("SELECT site, SUM(age) FROM patient GROUP BY site")
        rows.append(answer.rows)
        session.close()
    assert rows[0] == rows[1] and answer.cached and answer.receipt.loss.epsilon == 0


def test_rule_40_the_charge_is_on_disk_before_the_engine_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that explodes leaves the charge; no answer is stored, and asking again is charged again."""
    from dpsql.engines.duckdb import DuckDBEngine

    with opened(tmp_path, ordinary()) as connection:

        def explode(engine: DuckDBEngine, sql: str, keys: int, sums: int) -> object:
            raise dpsql.OperationalError(701, "the engine failed")

        monkeypatch.setattr(DuckDBEngine, "exact", explode)
        for spent in (1, 1):
            assert see(connection, "SELECT COUNT(*) FROM patient").epsilon == spent
        monkeypatch.undo()
        assert see(connection, "SELECT COUNT(*) FROM patient").epsilon == 1
        assert see(connection, "SELECT COUNT(*) FROM patient").epsilon == 0
