"""A mechanism and an accountant that nobody has, added as a newcomer would: one record each, in the registry. Run by itself, before
anything that reads the registries: python -m tests.support.made_up_noise. Prints what the house then says of them, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dpsql.accountants import registry as accountants
from dpsql.accountants.record import Measure, of_one
from dpsql.core.events import Event, Kind
from dpsql.core.loss import PrivacyLoss
from dpsql.mechanisms import calibration
from dpsql.mechanisms.calibration import Mechanism, Moved, Target
from dpsql.mechanisms.conversions import pure
from dpsql.mechanisms.laplace import DiscreteLaplace

# --- a mechanism: Laplace noise of twice the width that is owed -------------------------------------------------------

WIDE_EVENT = Kind("wide noise", ("l1", "width"), lambda l1, width: pure(2 * l1 / width))


@dataclass(frozen=True, slots=True)
class WideNoise(DiscreteLaplace):
    """Its epsilon is said to be twice as much as it is."""

    @property
    def kept(self) -> None:  # type: ignore[override]
        return None

    def covers(self, l1: int, l2_squared: int, loss: PrivacyLoss) -> bool:
        return pure(2 * l1 / self.scale).within(loss)

    def event(self, l1: int, loss: PrivacyLoss) -> Event:
        return WIDE_EVENT.event(l1, self.scale)

    def describe(self) -> str:
        return f"wide noise, width {self.scale}"


def _calibrated(moved: Moved, target: Target) -> tuple[WideNoise, PrivacyLoss]:
    return WideNoise(2 * moved.l1 / target.amount), pure(target.amount)


WIDE = Mechanism("wide", "wide noise", True, "permute_and_flip", _calibrated, lambda moved: moved.l1**2, (WIDE_EVENT,))

# --- an accountant: thrice the epsilons, read off the events ----------------------------------------------------------


def _thrice(event: Event) -> Fraction | None:
    if event.kind is WIDE_EVENT:
        l1, width = event.values
        return 6 * l1 / width
    return None if event.loss.epsilon is None else 3 * event.loss.epsilon


THRICE = of_one(
    "thrice",
    "threefold",
    Measure("thrice epsilon", _thrice, lambda total: 3 * total.epsilon, lambda e: 3 * e, lambda left: left / 3, None),
    shares=0,
)


def register() -> None:
    calibration.BY_NAME = {**calibration.BY_NAME, "wide": WIDE}
    accountants.ACCOUNTANTS += (THRICE,)


# --- what the house says of them --------------------------------------------------------------------------------------

ASKED = {
    "alone": "SELECT COUNT(*) FROM patient",
    "again": "SELECT COUNT(*) FROM patient",
    "groups": "SELECT site, COUNT(*), AVG(age) FROM patient GROUP BY site ORDER BY site",
    "finer groups": "SELECT city, female, COUNT(*) FROM patient GROUP BY city, female",
    "a sum of stored groups": "SELECT female, COUNT(*) FROM patient GROUP BY female ORDER BY female",
    "finer groups with Laplace noise": "/* dpsql: mechanism=laplace */ SELECT city, site, COUNT(*) FROM patient GROUP BY city, site",
    "a sum of those": "/* dpsql: mechanism=laplace */ SELECT city, COUNT(*) FROM patient GROUP BY city",
    "private keys": "/* dpsql: epsilon=100 */ SELECT note, COUNT(*) FROM patient GROUP BY note ORDER BY note",
    "a choice": "/* dpsql: epsilon=100 */ SELECT MODE(site) FROM patient",
    "with an accuracy": "/* dpsql: error=3 */ SELECT COUNT(*) FROM patient WHERE female",
    "beside Laplace noise": "/* dpsql: mechanism=laplace */ SELECT COUNT(*) FROM patient WHERE age > 40",
    "Gaussian noise": "/* dpsql: mechanism=gaussian, delta=1e-6 */ SELECT COUNT(*) FROM patient WHERE age > 50",
    "no such noise": "/* dpsql: mechanism=narrow */ SELECT COUNT(*) FROM patient",
    "too dear": "/* dpsql: epsilon=900 */ SELECT COUNT(*) FROM patient WHERE age > 60",
    "explained": "EXPLAIN SELECT COUNT(*) FROM patient WHERE age > 70",
    "budget": "SELECT accounting, epsilon, spent_epsilon, remaining_epsilon FROM dpsql.budget",
}


def main() -> None:
    register()
    # only now: what reads the registries
    from dpsql.accounting.ledger import Ledger
    from dpsql.accounting.reporting import report
    from dpsql.core.errors import Error
    from dpsql.mechanisms import renyi
    from dpsql.mechanisms.events import KINDS
    from dpsql.schema.model import mechanisms
    from dpsql.schema.toml import read_schema
    from dpsql.session.opening import open_session
    from tests.support import clinic
    from tests.support.noise import ZeroNoise

    found: dict[str, object] = {"listed": mechanisms(), "kind": "wide noise" in KINDS}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        clinic.write(folder, clinic.database(random.Random(17), wild=False))
        text = (
            clinic.schema_text(accounting="threefold")
            .replace("epsilon = 1000000.0\ndelta = 0.5", 'epsilon = 1000.0\ndelta = 0.5\nmechanism = "wide"')
            .replace("caps = { epsilon = 1000000.0", "caps = { epsilon = 1000.0")
        )
        (folder / "schema.toml").write_text(text)
        schema = read_schema(folder / "schema.toml")
        session = open_session(schema, None, folder / "ledger", noise=ZeroNoise())
        for name, sql in ASKED.items():
            try:
                answer = session.execute(sql)
                certified = session.certificates(answer.fingerprints)
                found[name] = {
                    "rows": [list(map(str, row)) for row in answer.rows],
                    "cached": answer.cached,
                    "remaining": str(answer.receipt.remaining.epsilon),
                    "events": [event["kind"] for each in certified for event in each["events"]],  # type: ignore[attr-defined]
                    "noises": [part["noise"] for each in certified for part in each["mechanisms"]],  # type: ignore[attr-defined]
                }
            except Error as refused:
                found[name] = str(refused)
        session.close()
        ledger = Ledger.open(folder / "ledger", "clinic (patient.patient_id)")
        spent = ledger.scope("dataset", "").ever
        found["spent"] = {name: str(amount) for name, amount in zip(spent.names, spent.amounts, strict=True)}
        found["verified"], found["report"] = ledger.verify(), str(report(schema, ledger))
        found["json"] = json.loads(report(schema, ledger).json)["budget"][0]["exact"]["spent"]
        ledger.close()
        for accounting in ("rdp", "narrow"):
            other = text.replace("threefold", accounting)
            (folder / "other.toml").write_text(other)
            try:
                open_session(folder / "other.toml", None, folder / "ledger", noise=ZeroNoise())
            except Error as refused:
                found[f"accounting {accounting}"] = str(refused)
        event = WIDE_EVENT.event(1, 20)
        found["renyi"] = renyi.of_event(Fraction(2), event) == renyi.of_pure(Fraction(2), Fraction(1, 10))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
