"""A20, trackers: of an attacker's list nearly everything is held, and hostile statements of one analyst take nothing from another.

The list (tests/support/tracking.py) was written without looking at the guard, and is asked without noise at a price at which every
difference can be read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.noise import ZeroNoise
from tests.support.tracking import (
    SCHEMAS,
    Attack,
    data_under,
    decision,
    declared,
    held,
    isolated,
    many_as_declared,
    read_attacks,
    read_out,
    read_poison,
)

LEAST = 400
"""As many attacks there are, in both files."""
THROUGH = 0.1
"""The most that get through, of all on people who are few as declared."""
SIZED = 0.5
"""The most that get through with bought sizes, of all on people who are many as declared and few in truth."""
FEW, MANY = "few as declared", "many as declared"
HOSTILE, OTHER = "mallory", "bob"


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_attack_isolates_somebody_and_fewer_than_k(schema: str) -> None:
    k, attacks = declared(schema).guard.k, read_attacks(schema)
    wrong = {str(attack): count for attack in attacks if not 1 <= (count := len(isolated(schema, attack))) < k}
    assert not wrong


def test_the_list_is_long_and_names_each_attack_once() -> None:
    attacks = [attack for schema in SCHEMAS for attack in read_attacks(schema)]
    assert len(attacks) >= LEAST
    for repeated in (Counter(map(str, attacks)), Counter(attack.statements for attack in attacks)):
        assert not [one for one, count in repeated.items() if count > 1]
    poison = read_poison()
    assert (len(set(poison.hostile)), len(set(poison.usual))) == (200, 50)


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS)
def test_without_the_guard_every_attack_gets_its_number(schema: str) -> None:
    """A refusal by the engine itself is no test of the guard."""
    data, missing = data_under(schema, "off"), []
    for attack in read_attacks(schema):
        with data.without_noise() as session:
            if read_out(attack, [session.execute(sql) for sql in attack.statements]) is None:
                missing.append(str(attack))
    assert not missing


@pytest.mark.slow
@pytest.mark.parametrize("sized", [False, True])
def test_nearly_every_attack_is_held(sized: bool) -> None:
    """Of those on people who are few as declared. Who is many as declared and few in truth is known to nobody who reads declarations:
    these are listed, and sizes that the owner buys hold most of them."""
    asked = [(schema, attack, _seen(schema, attack)) for schema in SCHEMAS for attack in read_attacks(schema)]
    through = [one for one in asked if not _held_alone(*one[:2], sized)]
    _tell(through)
    counts = {seen: (sum(o[2] == seen for o in through), sum(o[2] == seen for o in asked)) for seen in (FEW, MANY)}
    for seen, (missed, of) in counts.items():
        sys.stdout.write(f"{missed} of {of} {seen}\n")
    assert counts[FEW][0] <= THROUGH * counts[FEW][1]
    assert not sized or counts[MANY][0] <= SIZED * counts[MANY][1]


def _seen(schema: str, attack: Attack) -> str:
    return MANY if many_as_declared(schema, attack, declared(schema).guard.k) else FEW


def _tell(through: Sequence[tuple[str, Attack, str]]) -> None:
    sys.stdout.write(f"\n{len(through)} get through\n")
    for schema, attack, seen in through:
        sys.stdout.write(f"  {schema}, {seen}: {attack}\n")


def _held_alone(schema: str, attack: Attack, sized: bool) -> bool:
    """Tell whether it is held where nothing was asked before."""
    with data_under(schema, "block", sized).without_noise() as session:
        return held(session, attack)


@pytest.mark.slow
def test_what_one_analyst_asks_decides_nothing_for_another(tmp_path: Path) -> None:
    poison = read_poison()
    alone = _decisions(tmp_path / "alone.ledger", (), poison.usual)
    after = _decisions(tmp_path / "after.ledger", poison.hostile, poison.usual)
    changed = [sql for sql, one, other in zip(poison.usual, alone, after, strict=True) if one != other]
    sys.stdout.write(f"\n{len(changed)} of {len(alone)} decided otherwise\n" + "".join(f"  {sql}\n" for sql in changed))
    assert not changed


def _decisions(ledger: Path, hostile: Sequence[str], usual: Sequence[str]) -> list[str]:
    """The decisions on the usual statements, one after another, once the hostile ones were asked."""
    open_session(declared("nhefs"), None, ledger).close()
    with closing(_opened(HOSTILE, ledger)) as session:
        for sql in hostile:
            decision(session, sql)
    with closing(_opened(OTHER, ledger)) as session:
        return [decision(session, sql) for sql in usual]


def _opened(analyst: str, ledger: Path) -> Session:
    return open_session(declared("nhefs", analysts=(HOSTILE, OTHER)), analyst, ledger, noise=ZeroNoise())
