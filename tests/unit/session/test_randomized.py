"""Randomized tables: reported once, kept by name, and read as a table; what is not about every declared person is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from dpsql.aggregates.reports import Reports
from dpsql.core.errors import Error
from dpsql.core.loss import PrivacyLoss
from dpsql.plan.releases import Selected
from dpsql.planner import randomized as planning
from dpsql.session.expanding import _EXPLAIN
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.opened import clinic_data
from tests.unit.session.test_models import DATA

TEXT = (
    clinic.schema_text()
    .replace("[tables.patient]", "[tables.patient]\npopulation = 3000")
    .replace("least = 1e-18", "least = 0.1")
)
CREATE = "CREATE RANDOMIZED TABLE sites OPTIONS (epsilon = 1) AS SELECT site FROM patient"
READ = "SELECT site, reports, estimate, half_width FROM randomized.sites ORDER BY site"
Patch = pytest.MonkeyPatch


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(clinic_data(TEXT, DATA).session(SeededNoise(3))) as opened:
        yield opened


def spent(session: Session) -> float:
    ((found,),) = session.execute("SELECT MAX(spent_epsilon) FROM dpsql.budget").rows
    return float(str(found))


def require_paid_once(session: Session) -> None:
    """The reports are drawn and charged once: read twice, made again and made under another name they are the same, and free."""
    promised = session.price(CREATE)[0].loss
    bought = session.execute(CREATE)
    assert bought.releases == 1 and bought.receipt.loss.epsilon == promised.epsilon == 1 and spent(session) == 1
    first = session.execute(READ)
    assert first.rows == bought.rows and session.execute(READ).rows == first.rows
    again = session.execute(CREATE)
    other = session.execute(CREATE.replace("TABLE sites", "TABLE others"))
    assert again.rows == other.rows == bought.rows
    assert not again.receipt.loss.epsilon and not other.receipt.loss.epsilon and spent(session) == 1


def test_reports_are_drawn_and_charged_once(session: Session) -> None:
    require_paid_once(session)


def test_what_is_asked_of_them_is_free(session: Session) -> None:
    rows = session.execute(CREATE).rows
    assert sum(int(str(reports)) for _, reports, *_ in rows) == 3000
    own = session.execute("SELECT SUM(estimate) AS n FROM randomized.sites AS t WHERE t.site < 3")
    assert own.rows == [(pytest.approx(float(str(rows[0][2])) + float(str(rows[1][2]))),)] and own.releases == 0
    joined = """SELECT c.name, randomized.sites.reports FROM (VALUES (1, 'x'), (2, 'y')) AS c(site, name)
    JOIN randomized.sites ON sites.site = c.site ORDER BY ALL"""
    assert session.execute(joined).rows == [("x", rows[0][1]), ("y", rows[1][1])]
    ((everyone,),) = session.execute("SELECT SUM(estimate) FROM (SELECT 1), randomized.sites").rows
    assert float(str(everyone)) == pytest.approx(3000)
    mine = "SELECT 0, randomized.estimate FROM (SELECT 7 AS estimate) AS randomized"
    assert session.execute(mine).rows == [(0, 7)], "a table of one's own may have any name"


def test_they_are_described_and_turned_as_any_table(session: Session) -> None:
    session.execute(CREATE)
    names = [("site", "INTEGER"), ("reports", "BIGINT"), ("estimate", "DOUBLE"), ("half_width", "DOUBLE")]
    for word in ("DESCRIBE", "desc"):
        assert [row[:2] for row in session.execute(f"{word} randomized.sites").rows] == names
    with pytest.raises(Error, match="no randomized table towns"):
        session.execute("DESCRIBE randomized.towns")
    turned = session.execute("PIVOT randomized.sites ON site IN (1, 2) USING SUM(reports) GROUP BY half_width")
    assert [name for name, _ in turned.columns] == ["half_width", "1", "2"] and turned.releases == 0


def test_without_noise_they_say_what_the_rows_say() -> None:
    with closing(clinic_data(TEXT, DATA).session(ZeroNoise())) as opened:
        for value, _, estimate, width in opened.execute(CREATE).rows:
            assert float(str(estimate)) == pytest.approx(1000, abs=3) and 100 < float(str(width)) < 200, value
        words = opened.execute(CREATE.replace("sites", "cities").replace("site ", "COALESCE(city, '-') AS c ")).rows
        assert [row[0] for row in words] == ["-", "a", "b", "c"]
        flags = opened.execute(CREATE.replace("sites", "old").replace("site ", "age > 50 AS is_old ")).rows
        assert [row[0] for row in flags] == [False, True]


def test_names_are_shown_dropped_and_taken_once(session: Session) -> None:
    session.execute(CREATE)
    shown = session.execute("SHOW RANDOMIZED TABLES").rows
    assert [(*row[:5], row[6]) for row in shown] == [("sites", "site", 3, 3000, 1.0, True)]
    with pytest.raises(Error, match="there is a randomized table sites already"):
        session.execute(CREATE.replace("epsilon = 1", "epsilon = 2"))
    (note,) = session.execute("DROP RANDOMIZED TABLE Sites").notes
    assert "stays charged" in note and session.execute("SHOW RANDOMIZED TABLES").rows == []
    with pytest.raises(Error, match="there is no randomized table sites"):
        session.execute(READ)
    session.execute(CREATE.replace("epsilon = 1", "epsilon = 2"))
    assert spent(session) == 3, "nothing was given back"


def test_the_plan_says_how_many_report_and_how_exact_a_count_is(session: Session) -> None:
    told = session.explain(CREATE)
    assert "3,000 reports of site, then public" in told and "kept with probability 0.5761" in told
    assert "95 % half-width about 131" in told and spent(session) == 0
    session.execute(CREATE)
    assert "stored already" in session.explain(CREATE)
    for before in ("", "/* EXPLAIN */ -- it\n "):
        (first, *_), *_ = session.execute(f"{before}explain {READ}").rows
        assert first and spent(session) == 1
    with pytest.raises(Error, match="DROP RANDOMIZED TABLE is free"):
        session.explain("DROP RANDOMIZED TABLE sites")


REFUSED = [
    ("SELECT site FROM patient WHERE age > 30", "104", "every row of one table"),
    ("SELECT site FROM (SELECT site FROM patient WHERE age > 30)", "104", "every row of one table"),
    ("SELECT site FROM patient JOIN visit USING (patient_id)", "104", "every row of one table"),
    ("SELECT DISTINCT site FROM patient", "104", "every row of one table"),
    ("SELECT site, age FROM patient", "104", "one column with a name"),
    ("SELECT * FROM patient", "104", "one column with a name"),
    ("SELECT age > 3 FROM patient", "104", "one column with a name"),
    ("WITH p AS (SELECT site FROM patient) SELECT site FROM p", "104", "one SELECT"),
    ("SELECT year FROM visit", "104", "one report of each person"),
    ("SELECT patient_id FROM patient", "302", "identifier"),
    ("SELECT income FROM patient", "203", "not DOUBLE"),
    ("SELECT COALESCE(note, '') AS note FROM patient", "203", "declared list"),
    ("SELECT city FROM patient", "203", "COALESCE"),
    ("SELECT 1 AS one FROM patient", "203", "the same for everybody"),
    ("SELECT age * 9 AS a FROM patient", "304", "2 to 100"),
    ("SELECT site AS Reports FROM patient", "104", "called so too"),
    ("SELECT age > (SELECT AVG(age) FROM patient) AS old FROM patient", "104", "a number of everybody"),
    ("SELECT site = (SELECT MAX(site) FROM patient) AS last FROM patient", "104", "a number of everybody"),
]


@pytest.mark.parametrize(("asked", "code", "match"), REFUSED)
def test_what_is_not_about_every_declared_person_is_refused(
    asked: str, code: str, match: str, session: Session
) -> None:
    with pytest.raises(Error, match=match) as raised:
        session.execute(f"CREATE RANDOMIZED TABLE t OPTIONS (epsilon = 1) AS {asked}")
    assert raised.value.code == f"DPSQL-{code}" and spent(session) == 0


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (("epsilon = 1", "epsilon = 1e9"), "502"),
        (("epsilon = 1", "epsilon = 50"), "104"),
        (("epsilon = 1", "epsilon = 0.09"), "503"),
        (("epsilon = 1", "delta = 1e-9"), "104"),
        (("AS SELECT", "SELECT"), "101"),
        (("sites", "'x'"), "101"),
    ],
)
def test_terms_are_within_what_the_owner_allows(changed: tuple[str, str], code: str, session: Session) -> None:
    with pytest.raises(Error) as raised:
        session.execute(CREATE.replace(*changed))
    assert raised.value.code == f"DPSQL-{code}"


def test_the_number_of_people_has_to_be_declared() -> None:
    with closing(clinic_data(clinic.schema_text(), DATA).session(ZeroNoise())) as opened:
        with pytest.raises(Error, match="number of people in patient is not declared") as raised:
            opened.execute(CREATE)
        assert "population = 10000" in str(raised.value)


# --- faults -----------------------------------------------------------------------------------------------------------


def drawn_anew(patch: Patch) -> None:
    """Each time that the statement is asked, it is another question."""
    turns = iter(range(1000))
    original = planning._fingerprint
    patch.setattr(
        planning, "_fingerprint", lambda part, chosen, identity: original(part, chosen, f"{identity}{next(turns)}")
    )


def not_charged(patch: Patch) -> None:
    patch.setattr(Reports, "events", lambda self, terms: ())


def charged_half(patch: Patch) -> None:
    original = Selected.loss.fget
    assert original is not None

    def half(self: Selected) -> PrivacyLoss:
        found: PrivacyLoss = original(self)
        return PrivacyLoss(found.epsilon / 2, found.delta, found.squares, found.rho, found.mu_squared)

    patch.setattr(Selected, "loss", property(half))


@pytest.mark.parametrize("fault", [drawn_anew, not_charged, charged_half], ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(fault: Callable[[Patch], None], session: Session, monkeypatch: Patch) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, Error)):
        require_paid_once(session)


def test_comments_before_a_statement_are_gone_through_once() -> None:
    """Each end of a comment was tried as the end of each: sixty of them took for ever."""
    assert _EXPLAIN.match("/**/" * 60 + "SELECT value FROM randomized.t") is None
    assert _EXPLAIN.match("/* a */ -- b\n /* c */ EXPLAIN SELECT 1") is not None
