"""The events of a charge are kept with it, read back, and lose what was charged; rows of earlier layouts say it in words."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accountants.filters import Promise
from dpsql.accounting import ran, rows
from dpsql.accounting.ledger import Ledger
from dpsql.core.events import read
from dpsql.core.loss import EpsilonDelta, PrivacyLoss, Sums, total
from dpsql.mechanisms import laplace, renyi, truncated
from dpsql.mechanisms.conversions import choice, gaussian, pure
from dpsql.mechanisms.events import KINDS, of_loss
from dpsql.plan.charges import Portion
from dpsql.plan.compiled import Compiled
from dpsql.planner.options import Options
from dpsql.planner.parse import parse
from dpsql.session.opening import open_session
from tests.support import clinic, staging
from tests.support.planning import compile_statement

STATEMENTS = (
    "SELECT COUNT(*) FROM patient",
    "SELECT note, COUNT(*) FROM patient GROUP BY note",
    "/* dpsql: mechanism=gaussian */ SELECT year, SUM(days), AVG(cost) FROM visit GROUP BY year",
    "/* dpsql: mechanism=gaussian */ SELECT note, COUNT(*), MEDIAN(age) FROM patient GROUP BY note",
    "/* dpsql: mechanism=auto */ SELECT MODE(city), MAX(age), QUANTILE_CONT(income, 0.9) FROM patient",
    "SELECT dp_sum(income, bounds := 'auto'), APPROX_TOP_K(city, 2), BOOL_OR(female) FROM patient",
    "/* dpsql: epsilon=3 */ SELECT dp_randomized_response(female, 0.5), COUNT(DISTINCT note) FROM patient",
    "SELECT a.n + b.n FROM (SELECT COUNT(*) AS n FROM patient) AS a, (SELECT COUNT(*) AS n FROM visit) AS b",
)
ACCOUNTING = ("sequential", "advanced", "zcdp", "gdp", "rdp", "auto")
RDP = Promise.under(EpsilonDelta(Fraction(1), Fraction(1, 10**6)), "rdp")
ORDER = Fraction(RDP.more[0].split()[1])


def compiled(folder: Path, sql: str, accounting: str) -> Compiled:
    declared = clinic.schema(folder, accounting=accounting)
    return compile_statement(parse(sql), Options(), declared, staging.Types())


def row(portions: Sequence[Portion], events: str, mechanisms: Sequence[str] = ()) -> tuple[object, ...]:
    fields = dict.fromkeys(rows.TIED, "")
    charged = rows.written([rows.Charged(Sums.of(portion.loss).kept, portion.entries) for portion in portions])
    kept = {"portions": charged, "events": events, "mechanisms": json.dumps(mechanisms)}
    return tuple({**fields, **kept}.values())


@pytest.mark.parametrize("accounting", ACCOUNTING)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_runs_loses_what_is_charged(sql: str, accounting: str, tmp_path: Path) -> None:
    found = [part.release for part in compiled(tmp_path, sql, accounting).releases]
    for release in found:
        assert release.events and total(event.loss for event in release.events) == release.loss
        assert all(read(json.loads(event.text), KINDS) == event for event in release.events)
    portions = [Portion(release.loss, release.entries, release.events) for release in found]
    assert ran.of_row(row(portions, ran.written(portions))) == [release.events for release in found]
    charged = ran.charged(portions, (), RDP)
    assert charged is not None and charged == ran.recharged(row(portions, ran.written(portions)), RDP)
    for portion, one in zip(portions, charged, strict=True):
        assert one.loss == Sums.of(portion.loss).kept.loss
        bounds = [renyi.of_event(ORDER, event) for event in portion.events]
        assert one.sums[RDP.more[0]] == sum(bounds)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_the_ledger_and_the_certificate_keep_it(sql: str, tmp_path: Path) -> None:
    clinic.write(tmp_path, clinic.database(random.Random(1), wild=False))
    session = open_session(clinic.schema(tmp_path), None, tmp_path / "ledger")
    session.execute(sql)
    session.close()
    ledger = Ledger.open(tmp_path / "ledger", "clinic (patient.patient_id)")
    kept = ledger.store.read(lambda c: c.execute(f"SELECT {rows.FIELDS} FROM charge").fetchall())
    assert ledger.verify() == len(kept) == 1
    shown = [[event.fields for event in each] for each in ran.of_row(kept[0]) or []]
    assert shown == [certified["events"] for certified in ledger.certificates(1)] and all(shown)
    ledger.close()


def test_a_row_that_says_more_or_something_else_than_was_charged_is_none(tmp_path: Path) -> None:
    (part,) = compiled(tmp_path, STATEMENTS[0], "auto").releases
    release = part.release
    portions = [Portion(release.loss, None, release.events)]
    (text,) = json.loads(ran.written(portions))
    assert ran.of_row(row(portions, json.dumps([text]))) is not None
    event = release.events[0]
    for damaged in (
        json.loads(ran.written([Portion(release.loss, None, (event, event))])),
        [text.replace('"portion": 0', '"portion": 1')],
        [text, text],
        [text.replace("discrete Laplace", "discrete")],
        [text.replace('"l1"', '"l2"')],
        [text.replace('"scale": "1"', '"scale": "1/0"')],
        ["{"],
    ):
        assert ran.of_row(row(portions, json.dumps(damaged))) is None, damaged
    assert ran.of_row(row([*portions, *portions], json.dumps([text]))) is None


def test_what_runs_is_all_that_is_charged(tmp_path: Path) -> None:
    """Events that lose less or more than their portion, or are missing in one of two, are no charge."""
    (part,) = compiled(tmp_path, STATEMENTS[0], "auto").releases
    loss, events = part.release.loss, part.release.events
    whole, twice, none = Portion(loss, None, events), Portion(loss, None, (*events, *events)), Portion(loss)
    less = Portion(loss + loss, None, events)
    assert ran.charged([whole], (), RDP) is not None and ran.charged([none], (), RDP) is not None
    for wrong in ([twice], [less], [whole, none], [none, whole]):
        assert ran.charged(wrong, (), RDP) is None


EARLIER: tuple[tuple[str, PrivacyLoss, str], ...] = (
    ("discrete Laplace, scale 300", pure(Fraction(1, 100)), "discrete Laplace"),
    ("discrete Laplace, scale 6.66667", pure(Fraction(3, 10)), "discrete Laplace"),
    ("truncated Laplace, scale 10, at most 132", pure(Fraction(1), Fraction(1, 10**6)), "truncated Laplace"),
    ("discrete Gaussian, sigma 5.34998", gaussian(Fraction(1, 50), Fraction(0)), "discrete Gaussian"),
    ("permute-and-flip at rate 0.1", pure(Fraction(1, 5)), "pure"),
    ("exponential mechanism at rate 0.1", choice(Fraction(1, 5)), "exponential mechanism"),
    # what the words do not say
    ("exponential mechanism at rate 0.1", pure(Fraction(1, 5)), "charge"),
    ("discrete Laplace, scale 300", gaussian(Fraction(1, 50), Fraction(0)), "charge without epsilon"),
    ("", pure(Fraction(1, 5)), "charge"),
    ("something new", gaussian(Fraction(1, 50), Fraction(1, 9)), "charge without epsilon"),
)


@pytest.mark.parametrize(("words", "loss", "kind"), EARLIER)
def test_a_row_of_an_earlier_layout_is_what_its_words_say_or_its_loss(words: str, loss: PrivacyLoss, kind: str) -> None:
    found = ran.of_row(row([Portion(loss)], "[]", [words] if words else []))
    assert found is not None
    ((event,),) = found
    assert (event.kind.name, event.loss) == (kind, loss)


def test_of_several_mechanisms_together_only_the_loss_is_known() -> None:
    loss = pure(Fraction(1, 10)) + pure(Fraction(1, 5))
    words = ["discrete Laplace, scale 10", "discrete Laplace, scale 5"]
    assert ran.of_row(row([Portion(loss)], "[]", words)) == [(of_loss(loss),)]
    assert ran.of_row(row([Portion(loss), Portion(loss)], "[]", words)) == [(of_loss(loss),), (of_loss(loss),)]


def test_numbers_are_exact_and_all_there() -> None:
    event = laplace.EVENT.event(3, Fraction(10, 3))
    assert event.fields == {"kind": "discrete Laplace", "l1": "3", "scale": "10/3"} and event.loss == pure(
        Fraction(9, 10)
    )
    with pytest.raises(ValueError, match="each number"):
        truncated.EVENT.event(1, 2)
    assert len(KINDS) == len({kind.name for kind in KINDS.values()})
