"""Errors of six columns in one statement, beside those of the same columns bought apart. From declarations alone: nothing is drawn."""

from __future__ import annotations

from tests.bench.timing import heading, show
from tests.support.joint import SIX, apart, bought, errors, nhefs

UNITS = (None, 1600)
OF_TWO = ("CORR(age, school_years)", "STDDEV(age)", "STDDEV(school_years)", "AVG(age)", "SUM(school_years)", "COUNT(*)")


def compare() -> None:
    """COUNT(*) with six sums, then six averages, then six deviations, over NHEFS at epsilon 0.5: for an average at a bound and in the
    middle, for a variance halfway to a bound and in the middle."""
    heading(
        "COUNT(*) and six columns of NHEFS at epsilon 0.5: 95 % half-widths, as a part of those of the same columns bought apart"
    )
    lines = []
    for function in ("SUM", "AVG", "STDDEV"):
        for mechanism in ("laplace", "gaussian"):
            for accounting in ("sequential", "zcdp"):
                for units in UNITS:
                    lines.append(_line(function, mechanism, accounting, units))
    show(("", "accounting", "declared units", "COUNT(*)", *SIX, ""), lines)
    heading("CORR beside what is asked of its values, at epsilon 0.5: errors, as a part of those of each bought apart")
    show(("", "accounting", *OF_TWO), [_of_two(m, a) for m in ("laplace", "gaussian") for a in ("sequential", "zcdp")])


def _of_two(mechanism: str, accounting: str) -> tuple[str, ...]:
    schema = nhefs(accounting, None)
    sql = f"/* dpsql: epsilon=0.5, mechanism={mechanism} */ SELECT {', '.join(OF_TWO)} FROM patients"
    together, separate = errors(bought(sql, schema)), errors(apart(sql, schema))
    pairs = (zip(together[name], separate[name], strict=True) for name in sorted(together))
    return (mechanism, accounting, *(f"{max(a / b for a, b in pair):.2f}" for pair in pairs))


def _line(function: str, mechanism: str, accounting: str, units: int | None) -> tuple[str, ...]:
    schema = nhefs(accounting, units)
    columns = ", ".join(f"{function}({name})" for name in SIX)
    sql = f"/* dpsql: epsilon=0.5, mechanism={mechanism} */ SELECT {columns}, COUNT(*) FROM patients"
    together, separate = errors(bought(sql, schema)), errors(apart(sql, schema))
    *six, rows = (
        " ".join(f"{a / b:.2f}" for a, b in list(zip(together[name], separate[name], strict=True))[:2])
        for name in sorted(together)
    )
    return (f"{function}, {mechanism}", accounting, str(units or "-"), rows, *six, "")
