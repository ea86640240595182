"""A20, trackers: what is released as a whole, of which no cell can be hidden, is of enough people."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.core.errors import Error
from dpsql.session.session import Session
from tests.support.tracking import data_under

ONE = "age = 62 AND school_years = 17 AND sex = 'female'"


@pytest.fixture
def session() -> Iterator[Session]:
    with data_under("nhefs", "block").without_noise() as found:
        yield found


def model(kind: str, features: str, condition: str = "TRUE") -> str:
    label = "" if kind == "pca" else ", input_label_cols = ['weight_1982_kg']"
    select = f"SELECT {features}, weight_1982_kg FROM patients WHERE {condition}"
    return f"CREATE MODEL {kind}_m OPTIONS (model_type = '{kind}'{label}, epsilon = 0.5) AS {select}"


@pytest.mark.parametrize("kind", ["linear_reg", "pca"])
def test_a_model_of_few_is_refused(session: Session, kind: str) -> None:
    for sql in (
        model(kind, "age", ONE),
        model(kind, f"age, ({ONE}) AS one"),
        model(kind, f"age, NOT ({ONE}) AS others"),
    ):
        with pytest.raises(Error) as raised:
            session.execute(sql)
        assert raised.value.code == "DPSQL-602"
    assert len(session.execute(model(kind, "age, sex", "school_years > 8")).rows) > 0
