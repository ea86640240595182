"""A test of the tests: faults in what is read off stored answers, each caught by a check of the suite."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsql.accounting import claims
from dpsql.answers import look_up, questions, recent, reusing
from dpsql.answers.questions import Questions
from dpsql.answers.refining import Refinement
from dpsql.core.errors import Error
from dpsql.core.loss import NO_LOSS, PrivacyLoss
from dpsql.plan.compiled import CompiledRelease
from dpsql.plan.releases import Release
from dpsql.plan.tables import NoisyTable
from dpsql.planner.parse import parse
from dpsql.session import answer
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support import clinic
from tests.support.cases import some
from tests.support.noise import SeededNoise, ZeroNoise
from tests.support.planning import compiled_by

Patch = pytest.MonkeyPatch
TEXT = clinic.UNIT.replace("delta = 0.5\n", 'delta = 0.5\naccounting = "zcdp"\n') + clinic.PATIENT + clinic.VISIT
ASKED = "/* dpsql: epsilon={epsilon}, mechanism={mechanism}{more} */ {sql}"


def ask(
    session: Session, sql: str, epsilon: str = "0.1", mechanism: str = "laplace", more: str = ""
) -> list[tuple[object, ...]]:
    return session.execute(ASKED.format(epsilon=epsilon, mechanism=mechanism, more=more, sql=sql)).rows


def opened(folder: Path, noise: object = None) -> Session:
    if not (folder / "clinic.duckdb").exists():
        clinic.write(folder, clinic.database(random.Random(5), wild=False))
    (folder / "s.toml").write_text(TEXT)
    return open_session(folder / "s.toml", None, folder / "x.ledger", noise=noise or ZeroNoise())  # type: ignore[arg-type]


# --- checks -------------------------------------------------------------------------------------------------------


def conditions(folder: Path) -> None:
    """A count of some is not the count of all, in a session and as a sum of groups."""
    session = opened(folder)
    ask(session, "SELECT female, COUNT(*) FROM patient GROUP BY 1", "0.2")
    found = ask(session, "SELECT COUNT(*) FROM patient WHERE age > 1000")
    session.close()
    assert found == [(0,)]


def versions(folder: Path) -> None:
    """People gone from the data are gone from the count."""
    session = opened(folder)
    (before,) = ask(session, "SELECT COUNT(*) FROM patient", "0.2")
    session.close()
    data = clinic.database(random.Random(5), wild=False)
    clinic.write(folder, clinic.without(data, data["patient"][0][0]))
    session = opened(folder)
    (after,) = ask(session, "SELECT COUNT(*) FROM patient")
    session.close()
    assert after[0] == before[0] - 1  # type: ignore[operator]


def cut_groups(folder: Path) -> None:
    """People who are counted in one year alone are not all rows."""
    session = opened(folder)
    ask(session, "SELECT year, COUNT(*) FROM visit GROUP BY year", "0.2", more=", max_groups=1")
    found, exact = (ask(session, "SELECT COUNT(*) FROM visit", more=more) for more in ("", ", fresh"))
    session.close()
    assert found == exact


def differences(folder: Path) -> None:
    """A refinement costs the difference in rho."""
    session = opened(folder)
    for epsilon in ("0.5", "1", "3"):
        ask(session, "SELECT COUNT(*) FROM patient", epsilon, "gaussian")
    rho = float(session._world.ledger.spent().rho)
    session.close()
    assert rho == pytest.approx(3 * np.tanh(1.5), rel=1e-6)


def averages(folder: Path) -> None:
    """The spread of averages is that of one draw at the whole price."""
    chance = np.random.default_rng(8)
    session = opened(folder)
    sql = "/* dpsql: epsilon={}, mechanism=gaussian */ SELECT COUNT(*) FROM patient"
    session.execute(sql.format(1))
    part = _topped(session, sql.format(3))
    session.close()
    ((_, first_rho),) = part.first
    second = part.part.release.measures[0].loss.rho
    draws = [
        np.rint(1000 * chance.normal(0, float(1 / (2 * rho)) ** 0.5, 4000)).astype(int) for rho in (first_rho, second)
    ]
    table = NoisyTable((), (draws[1].tolist(),), 4000)
    found = replace(part, first=((([*draws[0].tolist()],), first_rho),)).combined(table).cells[0]
    assert np.std(found) / 1000 == pytest.approx(float(1 / (2 * (first_rho + second))) ** 0.5, rel=0.06)


def _topped(session: Session, sql: str) -> Refinement:
    (part,) = compiled_by(session, parse(sql)).releases
    found = look_up.refine(session._world.stored.questions, part)
    assert found is not None
    return found


def at_once(folder: Path) -> None:
    """Two threads that ask for the same make one charge."""

    class Slow(ZeroNoise):
        def laplace(self, scale: Fraction, size: int) -> list[int]:
            started.set()
            done.wait(0.3)
            return [0] * size

    started, done = threading.Event(), threading.Event()
    one, other = opened(folder, Slow()), opened(folder)
    first = threading.Thread(target=lambda: ask(one, "SELECT COUNT(*) FROM patient"))
    first.start()
    started.wait(10)
    ask(other, "SELECT COUNT(*) FROM patient")
    done.set()
    first.join(10)
    charges = len(one._world.ledger.history())
    one.close()
    other.close()
    assert charges == 1


def newest(folder: Path) -> None:
    """A fresh answer of another session is the answer of every session."""
    one, other = opened(folder, SeededNoise(1)), opened(folder, SeededNoise(2))
    sql = "SELECT SUM(age) FROM patient"
    ask(one, sql)
    fresh = ask(other, sql, more=", fresh")
    found = ask(one, sql)
    one.close()
    other.close()
    assert found == fresh


def texts(folder: Path) -> None:
    """Parameters of other values are other questions."""
    session = opened(folder)
    found = [session.execute("SELECT COUNT(*) FROM patient WHERE age > ?", [n]).rows[0][0] for n in (0, 1000)]
    session.close()
    assert found[1] == 0 != found[0]


def widths(folder: Path) -> None:
    """A sum of six cells has a wider interval than one of them."""
    session = opened(folder)
    finer = session.execute(
        "/* dpsql: epsilon=0.1 */ SELECT site, female, COUNT(*) FROM patient GROUP BY ALL"
    ).accuracy[0][2]
    coarser = session.execute("/* dpsql: epsilon=0.1 */ SELECT COUNT(*) FROM patient").accuracy[0][0]
    session.close()
    assert finer is not None and coarser is not None
    assert coarser.high - coarser.low > 2 * (finer.high - finer.low)


# --- faults -------------------------------------------------------------------------------------------------------


def _hashed_without(patch: Patch, left_out: Callable[[Questions], None]) -> None:
    original = Questions._hash

    def hashed(self: Questions, release: Release, what: str) -> str:
        again = Questions(self.answers, self.vectors, self._identity, self._version)
        left_out(again)
        return original(again, release, what)

    patch.setattr(Questions, "_hash", hashed)


def a_question_without_its_conditions(patch: Patch) -> None:
    original = Questions._hash

    def hashed(self: Questions, release: Release, what: str) -> str:
        limited = release.limited
        source = replace(limited.block.source, where=())
        return original(
            self, replace(release, limited=replace(limited, block=replace(limited.block, source=source))), what
        )

    patch.setattr(Questions, "_hash", hashed)


def a_question_without_the_version(patch: Patch) -> None:
    def left_out(again: Questions) -> None:
        again._version = ""

    _hashed_without(patch, left_out)


def a_roll_up_of_cut_groups(patch: Patch) -> None:
    for module in (questions, reusing):
        patch.setattr(module, "is_whole", lambda release: True)


def a_top_up_that_is_charged_nothing(patch: Patch) -> None:
    original = look_up.refine

    def refine(stored: Questions, part: CompiledRelease) -> Refinement | None:
        found = original(stored, part)
        if found is None:
            return None
        little = PrivacyLoss(None, NO_LOSS.delta, None, Fraction(1, 10**6), Fraction(2, 10**6))
        return replace(found, part=replace(found.part, release=replace(found.part.release, loss=little)))

    patch.setattr(look_up, "refine", refine)


def a_top_up_that_is_charged_twice(patch: Patch) -> None:
    """The whole price, and the noise of the difference."""
    original = look_up.refine

    def refine(stored: Questions, part: CompiledRelease) -> Refinement | None:
        found = original(stored, part)
        if found is None:
            return None
        whole = replace(found.part.release, loss=part.release.loss)
        return replace(found, part=replace(found.part, release=whole))

    patch.setattr(look_up, "refine", refine)


def averages_with_equal_weights(patch: Patch) -> None:
    def combined(self: Refinement, second: NoisyTable) -> NoisyTable:
        cells = [c for before, _ in self.first for c in before]
        means = tuple(
            [round((a + b) / 2) for a, b in zip(x, y, strict=True)] for x, y in zip(cells, second.cells, strict=True)
        )
        return replace(second, cells=means)

    patch.setattr(Refinement, "combined", combined)


def averages_with_the_weights_swapped(patch: Patch) -> None:
    def combined(self: Refinement, second: NoisyTable) -> NoisyTable:
        cells: list[list[int]] = []
        for measure, ((cell,), rho) in zip(self.part.release.measures, self.first, strict=True):
            share = float(measure.loss.rho / (rho + measure.loss.rho))
            cells.append(
                [round(share * a + (1 - share) * b) for a, b in zip(cell, second.cells[len(cells)], strict=True)]
            )
        return replace(second, cells=tuple(cells))

    patch.setattr(Refinement, "combined", combined)


def claims_that_nobody_heeds(patch: Patch) -> None:
    patch.setattr(claims, "is_taken", lambda connection, fingerprint, now: False)


def newest_answers_whatever_is_stored(patch: Patch) -> None:
    def get(self: recent.Recent[object], asked: object) -> object:
        entry = self._entries.get(asked)  # type: ignore[call-overload]
        return entry.kept if entry is not None else None

    patch.setattr(recent.Recent, "get", get)


def newest_answers_whatever_the_parameters(patch: Patch) -> None:
    patch.setattr(answer, "asked_for", lambda sql, parameters, options: sql)


def a_sum_with_the_noise_of_one_cell(patch: Patch) -> None:
    patch.setattr(reusing, "summed", lambda noise, count: noise)


PLANTED: list[tuple[Callable[[Patch], None], Callable[[Path], None]]] = [
    (a_question_without_its_conditions, conditions),
    (a_question_without_the_version, versions),
    (a_roll_up_of_cut_groups, cut_groups),
    (a_top_up_that_is_charged_nothing, differences),
    (a_top_up_that_is_charged_twice, differences),
    (averages_with_equal_weights, averages),
    (averages_with_the_weights_swapped, averages),
    (claims_that_nobody_heeds, at_once),
    (newest_answers_whatever_is_stored, newest),
    (newest_answers_whatever_the_parameters, texts),
    (a_sum_with_the_noise_of_one_cell, widths),
]


@pytest.mark.few(2)
@pytest.mark.parametrize("check", dict.fromkeys(check for _, check in PLANTED), ids=lambda check: check.__name__)
def test_rule_40_checks_pass_without_a_fault(check: Callable[[Path], None], tmp_path: Path) -> None:
    check(tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize(("fault", "check"), some(PLANTED, 4), ids=lambda one: one.__name__)
def test_a_planted_fault_in_reuse_is_caught(
    fault: Callable[[Patch], None], check: Callable[[Path], None], tmp_path: Path, monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    with pytest.raises((AssertionError, Error)):
        check(tmp_path)
