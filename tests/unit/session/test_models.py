"""Models: fitted once, kept by name, and asked by ML functions; without noise they find what the rows say."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import closing

import pytest

from dpsql.core.errors import Error
from dpsql.release.buying import Buying
from dpsql.session.result import Answer
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.opened import clinic_data


def patients(count: int) -> list[clinic.Row]:
    """Income is a line of age and weight, the site beside it; the older the likelier a patient is female."""
    chance = random.Random(7)
    found: list[clinic.Row] = []
    for i in range(count):
        site, age, weight = 1 + i % 3, chance.randint(10, 90), chance.randint(80, 400) / 2
        income = 20 + 0.5 * (age - 50) - 0.2 * (weight - 120) + 10 * (site == 2) + chance.uniform(-3, 3)
        female = chance.random() < 1 / (1 + math.exp(-0.08 * (age - 50)))
        found.append((i, site, female, income, weight, age, "50.00", "abc"[i % 3], None, "1995-01-01", None))
    return found


VISITS: list[clinic.Row] = [(i, i % 700, 1 + i % 4, 10.0 + i % 7 + (i % 4), i % 20, None) for i in range(2000)]
DATA: clinic.Database = {"patient": patients(3000), "visit": VISITS, "item": [], "drug": []}
TEXT = clinic.schema_text().replace("query = { epsilon = 1.0", "query = { epsilon = 0.1")
LINEAR = """CREATE MODEL line OPTIONS (model_type = 'linear_reg', input_label_cols = ['income'], epsilon = 8, delta = 1e-6) AS
SELECT site, age, weight, income FROM patient"""
LOGISTIC = """CREATE MODEL odds OPTIONS (model_type = 'LOGISTIC_REG', input_label_cols = ['female'], epsilon = 8, delta = 1e-6) AS
SELECT age, city, female FROM patient WHERE site < 3"""

PCA = (
    "CREATE MODEL axes OPTIONS (model_type = 'pca', epsilon = 8, delta = 1e-6) AS SELECT site, age, weight FROM patient"
)


@pytest.fixture
def session() -> Iterator[Session]:
    with closing(clinic_data(TEXT, DATA).session(ZeroNoise())) as opened:
        yield opened


def weights(answer: Answer) -> dict[object, float]:
    return {(row[0], row[1]) if row[1] else row[0]: float(str(row[2])) for row in answer.rows}


def test_a_linear_model_finds_the_line(session: Session) -> None:
    found = weights(session.execute(LINEAR))
    assert found["age"] == pytest.approx(0.5, abs=0.05) and found["weight"] == pytest.approx(-0.2, abs=0.03)
    assert found["site", "2"] - found["site", "1"] == pytest.approx(10, abs=1)
    sql = "SELECT AVG(ML.PREDICT(MODEL line, site, age, weight)) AS p, AVG(income) AS y FROM patient"
    assert session.execute(f"EXPLAIN {sql}").rows
    ((predicted, mean),) = session.execute(sql).rows
    assert float(str(predicted)) == pytest.approx(float(str(mean)), abs=0.5)
    rows = "(SELECT site, age, weight, income FROM patient)"
    ((absolute, square, r2),) = session.execute(f"SELECT * FROM ML.EVALUATE(MODEL line, {rows})").rows
    assert float(str(absolute)) < 2.5 and float(str(square)) < 8 and float(str(r2)) > 0.95


def test_a_logistic_model_finds_the_odds(session: Session) -> None:
    found = weights(session.execute(LOGISTIC))
    assert 0.08 < found["age"] < 0.13, "the clip pulls it away from 0"
    at = "SELECT ML.PREDICT_PROBA(MODEL odds, 50, 'a') AS p, ML.PREDICT(MODEL odds, 80, 'b') AS yes"
    ((half, yes),) = session.execute(at).rows
    assert float(str(half)) == pytest.approx(0.5, abs=0.08) and yes is True
    ((accuracy, square),) = session.execute(
        "SELECT * FROM ML.EVALUATE(MODEL odds, (SELECT age, city, female FROM patient))"
    ).rows
    assert float(str(accuracy)) > 0.75 and float(str(square)) < 0.17


def test_several_rows_a_person_and_joins(session: Session) -> None:
    joined = """CREATE MODEL costs OPTIONS (model_type = 'linear_reg', input_label_cols = ['cost'], epsilon = 8, delta = 1e-6) AS
    SELECT v.year, p.age, v.cost FROM visit AS v JOIN patient AS p ON v.patient_id = p.patient_id"""
    found = weights(session.execute(joined))
    assert found["year", "4"] > found["year", "1"]
    told = session.explain(joined)
    assert "one person's clipped to 0.2" in told and "3 rows and 1 group of one person" in told


def test_a_model_is_charged_whole_before_the_first_pass(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = Buying._sums

    def fails(self: Buying, *args: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError
        return original(self, *args)  # type: ignore[arg-type]

    promised = session.price(LINEAR)[0].loss
    assert promised.rho > 0
    with monkeypatch.context() as patch:
        patch.setattr(Buying, "_sums", fails)
        with pytest.raises(Error, match="what was charged stays charged"):
            session.execute(LINEAR)
    ((spent,),) = session.execute("SELECT MAX(spent_rho) FROM dpsql.budget").rows
    assert float(str(spent)) == pytest.approx(float(promised.rho), rel=1e-4)


def test_what_is_stored_is_free_and_dropping_gives_nothing_back(session: Session) -> None:
    bought = session.execute(LINEAR)
    assert bought.releases == 1 and bought.receipt.loss.rho > 0
    sql = "SELECT AVG(ML.PREDICT(MODEL {}, site, age, weight)) AS p FROM patient"
    asked = session.execute(sql.format("line"))
    again = session.execute(LINEAR)
    assert again.rows == bought.rows and not again.receipt.loss.rho
    (note,) = session.execute("DROP MODEL line").notes
    assert "stays charged" in note
    with pytest.raises(Error, match="there is no model line"):
        session.execute("SELECT * FROM ML.WEIGHTS(MODEL line)")
    other = session.execute(LINEAR.replace("MODEL line", "MODEL other"))
    assert other.rows == bought.rows and not other.receipt.loss.rho
    same = session.execute(sql.format("other"))
    assert same.rows == asked.rows and not same.receipt.loss.rho, "by what a model is, not by its name"
    ((name, kind, label, features, *_, current),) = session.execute("SHOW MODELS").rows
    assert (name, kind, label, features, current) == ("other", "linear_reg", "income", "site, age, weight", True)


def test_a_name_stands_for_one_model(session: Session) -> None:
    session.execute(LINEAR)
    with pytest.raises(Error, match="there is a model line already"):
        session.execute(LINEAR.replace("site, ", ""))


def test_noise_differs_from_model_to_model() -> None:
    with closing(clinic_data(TEXT, DATA).session(SeededNoise(1))) as opened:
        one = weights(opened.execute(LINEAR))
        two = weights(opened.execute(LINEAR.replace("MODEL line", "MODEL less").replace("epsilon = 8", "epsilon = 7")))
        assert one != two and one["age"] == pytest.approx(0.5, abs=0.3)


def test_predictions_stay_within_bounds(session: Session) -> None:
    session.execute(LINEAR)
    session.execute(LOGISTIC)
    sql = """SELECT ML.PREDICT(MODEL line, 1, 1e6, 40) AS high, ML.PREDICT(MODEL line, 1, -1e6, 40) AS low,
    ML.PREDICT_PROBA(MODEL odds, 1e300, 'a') AS sure"""
    assert [float(str(value)) for value in session.execute(sql).rows[0]] == pytest.approx([100, -50, 1])


REFUSED = [
    ("CREATE MODEL m AS SELECT age, income FROM patient", "101"),
    (LINEAR.replace("'linear_reg'", "'kmeans'"), "104"),
    (LINEAR.replace("['income']", "['wealth']"), "104"),
    (LINEAR.replace("['income']", "['income', 'age']"), "104"),
    (LINEAR.replace("epsilon = 8", "ways = 8"), "104"),
    (LINEAR.replace("epsilon = 8", "epsilon = 8000000"), "502"),
    (LINEAR.replace("delta = 1e-6", "delta = 0"), "104"),
    (LINEAR.replace("site, age", "age, age"), "104"),
    (LINEAR.replace("site, age", "site, age + 1, age"), "104"),
    (LINEAR.replace("site, age", "note, age"), "201"),
    (LINEAR.replace("site, age", "code, age"), "201"),
    (LINEAR.replace("site, age, weight, income", "*"), "104"),
    (LINEAR.replace("site, age, weight, ", ""), "104"),
    (LINEAR + " LIMIT 5", "104"),
    (LINEAR + " GROUP BY site", "104"),
    (LINEAR.replace("SELECT", "SELECT DISTINCT"), "104"),
    (LOGISTIC.replace("['female']", "['age']"), "104"),
    (LINEAR.replace("['income']", "['site']").replace("site, age", "female, female AS site, age"), "104"),
    (LINEAR.replace("'linear_reg'", "'pca'"), "104"),
    (PCA.replace("site, age, weight", "age"), "104"),
    (PCA.replace("epsilon = 8", "epsilon = 8, max_iterations = 3"), "104"),
    (PCA.replace("site", "note"), "201"),
    (PCA + " GROUP BY site", "104"),
    (f"/* dpsql: epsilon=1 */ {LINEAR}", "104"),
    ("DROP MODEL line", "105"),
    ("DROP MODEL line now", "101"),
    ("EXPLAIN DROP MODEL line", "103"),
    ("SELECT ML.PREDICT(MODEL odds, 1, 'a') FROM patient", "105"),
    ("SELECT AVG(ML.PREDICT(line, age)) FROM patient", "104"),
    ("SELECT ML.PREDICT(MODEL line, age FROM patient", "101"),
]


@pytest.mark.parametrize(("sql", "code"), REFUSED)
def test_what_is_no_model_is_refused_before_anything_is_charged(sql: str, code: str, session: Session) -> None:
    with pytest.raises(Error) as raised:
        session.execute(sql)
    assert raised.value.code == f"DPSQL-{code}" and raised.value.hint
    ((spent,),) = session.execute("SELECT MAX(spent_rho) FROM dpsql.budget").rows
    assert not spent


def test_rule_74_a_model_costs_no_less_than_any_statement_may() -> None:
    with closing(clinic_data(TEXT.replace("least = 1e-18", "least = 0.01"), DATA).session(ZeroNoise())) as opened:
        with pytest.raises(Error, match="503: a model at epsilon"):
            opened.execute(LINEAR.replace("epsilon = 8", "epsilon = 0.001"))
        assert opened.execute("SHOW MODELS").rows == [] and opened.execute(LINEAR).releases == 1


CALLS = [
    ("SELECT ML.PREDICT(MODEL line, 1, 30) AS p", "takes 3 values"),
    ("SELECT ML.PREDICT_PROBA(MODEL line, 1, 30, 80) AS p", "no probability"),
    ("SELECT * FROM ML.WEIGHTS(MODEL line, 1)", "nothing behind the model"),
    ("SELECT * FROM ML.EVALUATE(MODEL line, patient)", "a model and a query"),
    ("SELECT * FROM ML.CORRELATIONS(MODEL line)", "line is a linear_reg, which has no ML.CORRELATIONS"),
    ("SELECT * FROM ML.WEIGHTS(MODEL axes)", "axes is a pca, which has no ML.WEIGHTS"),
    ("SELECT ML.PREDICT(MODEL axes, 1, 30, 80) AS p", "axes is a pca"),
    ("SELECT * FROM ML.PRINCIPAL_COMPONENTS(MODEL axes, 3)", "nothing behind the model"),
]


@pytest.mark.parametrize(("sql", "match"), CALLS)
def test_a_call_says_what_it_takes(sql: str, match: str, session: Session) -> None:
    session.execute(LINEAR)
    session.execute(PCA)
    with pytest.raises(Error, match=match) as raised:
        session.execute(sql)
    assert raised.value.code == "DPSQL-104" and "ML." in (raised.value.hint or "")


def test_calls_may_be_nested_and_texts_are_left_alone(session: Session) -> None:
    session.execute(LINEAR)
    nested = (
        "SELECT ML.PREDICT(MODEL line, 1, ML.PREDICT(MODEL line, 2, 30, 80), 80) AS p, 'ML.PREDICT(MODEL x)' AS told"
    )
    ((predicted, told),) = session.execute(nested).rows
    ((inner,),) = session.execute("SELECT ML.PREDICT(MODEL line, 2, 30, 80) AS p").rows
    ((outer,),) = session.execute(f"SELECT ML.PREDICT(MODEL line, 1, {inner}, 80) AS p").rows
    assert predicted == outer and told == "ML.PREDICT(MODEL x)"
    remarked = "SELECT ML.PREDICT(MODEL line, 2 -- site, or\n, 30, 80 -- pounds\n) AS p"
    assert session.execute(remarked).rows == [(inner,)]


def test_explain_names_passes_noise_and_price(session: Session) -> None:
    told = session.explain(LINEAR)
    assert "model line: linear_reg of income by site (3 values), age and weight" in told
    assert "gradients, 8 one after the other" in told and "charged whole before the first pass" in told
    session.execute(LINEAR)
    assert "price: stored already, so it is free" in session.explain(LINEAR)
    assert [name for name, _ in session.describe(LINEAR)] == ["processed_input", "category", "weight"]
