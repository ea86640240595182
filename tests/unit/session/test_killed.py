"""A process that is killed within what is bought in several parts has paid for all that was seen, and restarts soundly."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.session.opening import open_session
from tests.support import clinic
from tests.unit.session.test_cube_keys import DATA, TAGS
from tests.unit.session.test_cubes import OPTIONS, TEXT

KILLED = """
import importlib, os, sys
from dpsql.session.opening import open_session
schema, ledger, place, name, turn, sql = sys.argv[1:]
module, _, inner = place.partition(":")
place = importlib.import_module(module)
place = getattr(place, inner) if inner else place
original, calls = getattr(place, name), []
def counted(*arguments, **named):
    calls.append(1)
    if len(calls) == int(turn):
        os._exit(9)
    return original(*arguments, **named)
setattr(place, name, counted)
open_session(schema, None, ledger).execute(sql)
"""
TERMS = "model_type = '{}', epsilon = 1, delta = 1e-6"
LINEAR = f"""CREATE MODEL line OPTIONS ({TERMS.format("linear_reg")}, input_label_cols = ['income']) AS
SELECT site, age, income FROM patient"""
PCA = f"CREATE MODEL axes OPTIONS ({TERMS.format('pca')}) AS SELECT site, age, income FROM patient"
ONCE = [
    ("between two gradients", LINEAR, "dpsql.release.fitting:Descent", "step", 3),
    ("between means and moments", PCA, "dpsql.release.fitting", "_centre", 1),
]


def killed(folder: Path, sql: str, place: str, name: str, turn: int) -> None:
    (folder / "schema.toml").write_text(TEXT)
    clinic.write(folder, DATA)
    paths = [str(folder / "schema.toml"), str(folder / "ledger")]
    command = [sys.executable, "-c", KILLED, *paths, place, name, str(turn), sql]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 9, done.stderr


def restarted(folder: Path, sql: str, table: str) -> tuple[Fraction, list[Fraction], int, int]:
    """The price when all is made again, what was charged before, the releases of making it, and how many charges there are then."""
    with closing(open_session(folder / "schema.toml", None, folder / "ledger")) as session:
        ledger = session._world.ledger
        before = [entry.loss.rho for entry in ledger.history()]
        assert ledger.verify() == len(before)
        assert session.execute(f"SHOW {table}").rows == [], "what is not whole has no name"
        made = session.execute(sql)
        assert session.execute(sql).releases == 0
        assert len(session.execute(f"SHOW {table}").rows) == 1
        return made.receipt.loss.rho, before, made.releases, ledger.verify()


@pytest.mark.few(1)
@pytest.mark.parametrize(("sql", "place", "name", "turn"), [one[1:] for one in ONCE], ids=[one[0] for one in ONCE])
def test_a_model_that_is_killed_between_two_passes_was_charged_whole(
    sql: str, place: str, name: str, turn: int, tmp_path: Path
) -> None:
    """Passes that were seen are forgotten, so the model is bought once more."""
    killed(tmp_path, sql, place, name, turn)
    price, before, releases, charges = restarted(tmp_path, sql, "MODELS")
    assert before == [price] and price > 0
    assert (releases, charges) == (1, 2)


def test_a_cube_that_is_killed_behind_its_selection_is_bought_without_it(tmp_path: Path) -> None:
    """The selected values are stored, so they are the same ones, and are not paid for again."""
    killed(tmp_path, TAGS, "dpsql.session.naming:BoughtKind", "_free", 2)
    price, before, releases, charges = restarted(tmp_path, TAGS, "CUBES")
    assert OPTIONS in TAGS and len(before) == 1 and before[0] > 0
    assert before[0] / (before[0] + price) == pytest.approx(Fraction(1, 4), rel=1e-6), "its part of the whole"
    assert (releases, charges) == (1, 2)
