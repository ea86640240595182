"""Budget allocation: the price of a release divided among its parts, from the text and the declared schema alone.

Let e_j be the epsilon of statistic j, D_j its sensitivity (L1 for Laplace noise, L2 for Gaussian) and w_j one over the value that is
expected of it. The relative variance of j is proportional to (w_j D_j / e_j)^2: for Laplace noise, of scale D_j / e_j, exactly; for
Gaussian noise rho_j is about e_j^2 / (4 ln(1 / delta_j)), and sigma^2 = D_j^2 / (2 rho_j). Under e_1 + e_2 + ... = epsilon their sum
is smallest where its derivatives (w_j D_j)^2 / e_j^3 are all the same:

    e_j is proportional to (w_j D_j)^(2/3)

The delta of Gaussian noise is shared equally: it enters by its logarithm. Where prices are divided in rho (planner/pricing.py), the
same sum is smallest for rho_j proportional to w_j D_j.

Only declared numbers say what is expected: the number of people, spread evenly over the declared groups, each with as many rows as the
limits leave, and values in the middle of their bounds, or a quarter of their spread from zero if that is more. No value is
expected to be below its own half-width at equal shares (rule 43). Where a number is not declared, shares are equal. What is chosen of
a histogram has its error in ranks and takes an equal share; the statistics divide the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction

from dpsql.aggregates.base import Limits, Statistic
from dpsql.core.wording import number
from dpsql.mechanisms.calibration import BY_NAME
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import BoundedBlock, NoisyCount, NoisyStatistic, Release
from dpsql.planner.pricing import Pricing, moved
from dpsql.relations.relations import Relation
from dpsql.schema.model import Schema

LEVEL = Fraction(95, 100)
STEPS = 1000
"""Unequal shares are multiples of this part of what is divided, so that they are short to print and add up exactly."""
_DIGITS = Context(prec=60)


def people(source: Relation, units: int | None) -> int | None:
    """Number of units by declaration: `population` of a table, else privacy.units (rule 38)."""
    return next((t.population for t in source.tables if t.population is not None), None) or units


def people_in_a_group(limited: BoundedBlock, units: int | None) -> Fraction | None:
    """The declared number of units, spread evenly over the declared groups; None where either is not declared."""
    groups, declared = limited.block.groups, people(limited.block.source, units)
    return Fraction(declared, max(1, groups)) if declared is not None and groups is not None else None


def sizes(measures: Sequence[NoisyStatistic], limits: Limits, in_a_group: Fraction | None) -> list[Fraction] | None:
    """Expected size of each measure; None where one is not known."""
    if in_a_group is None:
        return None
    units, rows = in_a_group * limits.groups, in_a_group * limits.rows
    found = [m.statistic.expected(units, rows) for m in measures]
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else None


def equal(measures: Sequence[Statistic], histograms: int) -> tuple[Fraction, ...]:
    """The same for each statistic, by so many as one stands for, and for what is chosen of each histogram."""
    whole = sum(m.parts for m in measures) + histograms
    return (*(Fraction(m.parts, whole) for m in measures), *(Fraction(1, whole),) * histograms)


def shares(
    measures: Sequence[NoisyStatistic], histograms: int, limits: Limits, in_a_group: Fraction | None, pricing: Pricing
) -> tuple[Fraction, ...]:
    """The part of the price for each measure, then for each histogram; they add up to 1.

    measures  as they are at equal shares
    """
    alike = equal([m.statistic for m in measures], histograms)
    values = sizes(measures, limits, in_a_group)
    if values is None or len(measures) < 2:
        return alike
    floored = [max(value, Fraction(m.noise.half_width(LEVEL))) for value, m in zip(values, measures, strict=True)]
    squares = [_square(m, pricing.mechanism) / value**2 for value, m in zip(floored, measures, strict=True)]
    if len(set(squares)) == 1:
        return alike
    own = sum(alike[: len(measures)], Fraction(0))
    return (*(own * share for share in by_error(squares, pricing.by_rho)), *alike[len(measures) :])


def by_error(squares: Sequence[Fraction], by_rho: bool = False) -> tuple[Fraction, ...]:
    """The shares for which the summed relative variance is smallest, from the squares (w_j D_j)^2 of the statistics."""
    return proportional(_roots(squares, 2 if by_rho else 3))


def _square(measure: NoisyStatistic, mechanism: str) -> Fraction:
    return Fraction(BY_NAME[mechanism].square(moved(measure.sensitivity)))


def _roots(numbers: Sequence[Fraction], degree: int) -> list[Fraction]:
    with localcontext(_DIGITS):
        # decimal arithmetic is the same on every machine
        return [Fraction(((Decimal(n.numerator) / Decimal(n.denominator)).ln() / degree).exp()) for n in numbers]


def proportional(weights: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Multiples of 1 / STEPS near to the weights, none of them 0, that add up to 1.

    >>> [str(share) for share in proportional([Fraction(2), Fraction(1), Fraction(3)])]
    ['333/1000', '167/1000', '1/2']
    """
    steps = max(STEPS, 10 * len(weights))
    exact = [weight * steps / sum(weights) for weight in weights]
    found = [max(1, int(part)) for part in exact]
    places = range(len(weights))
    while sum(found) < steps:
        found[max(places, key=lambda i: exact[i] - found[i])] += 1
    while sum(found) > steps:
        found[max(places, key=lambda i: found[i])] -= 1
    return tuple(Fraction(part, steps) for part in found)


def by_weights(weights: Sequence[Fraction | None]) -> tuple[Fraction, ...]:
    """Exactly the proportions that were asked for; a part without a weight takes the average of the others."""
    known = [w for w in weights if w is not None]
    average = sum(known, Fraction(0)) / len(known)
    filled = [average if w is None else w for w in weights]
    whole = sum(filled, Fraction(0))
    return tuple(w / whole for w in filled)


# --- what the declared number of people tells ----------------------------------------------------------------------

REMEDY = "group by fewer or coarser columns"


def expected(compiled: Compiled, schema: Schema) -> tuple[str, ...]:
    """One sentence for each release that the declared number of people lets show nothing, or little, or that may be about few of them.

    Why  the number is an estimate, so it refuses nothing (rule 56); it stands in EXPLAIN and beside the answer, whatever the data
    """
    found = (line for release in compiled.plan.releases for line in _expected(release, schema))
    return tuple(dict.fromkeys(found))


def _deciding(release: Release) -> Iterator[NoisyCount]:
    """The numbers of people by which values are shown, and groups are there."""
    yield from (one.count for one in release.suppressed)
    if release.present is not None:
        yield release.present


def _expected(release: Release, schema: Schema) -> Iterator[str]:
    units = people(release.limited.block.source, schema.privacy.units)
    k = max((one.k for one in release.suppressed), default=0)
    told = tuple(_beyond(release, units, k)) if units is not None else ()
    yield from told
    if k and not told:
        yield f"few people may be asked about: a value of fewer than {k}, by their noisy number, is not shown"


def _beyond(release: Release, units: int, k: int) -> Iterator[str]:
    """Sentences that say that the declared number of people is small for what is asked."""
    block, selection = release.limited.block, release.selection
    if selection is not None and selection.tau > units:
        yield (
            f"a group is shown from {selection.tau:,} people on, and {units:,} are declared: none can be expected; "
            f"{REMEDY}, declare a domain, or spend more epsilon"
        )
    off = max(
        (count.estimate.errors(release.measures[count.measure].noise, LEVEL)[0] for count in _deciding(release)),
        default=0,
    )
    if off > units:
        yield (
            f"a number of people decides what is shown, and it is off by up to {off:,.0f} (95 %) where {units:,} are declared: "
            f"mostly noise decides; {REMEDY}, or spend more epsilon"
        )
    mean = Fraction(units * release.limited.limits.groups, block.groups) if block.groups else k
    if release.present is not None and block.groups and mean < off <= units:
        yield (
            f"groups whose number of people may be 0 are left out, and it is off by up to {off:,.0f} (95 %), where {block.groups:,} "
            f"groups and {units:,} declared people leave at most {number(Fraction(round(mean)))} for one: few can be expected; "
            f"write /* dpsql: groups=all */ to keep them, {REMEDY}, or spend more epsilon"
        )
    if mean < k:
        yield (
            f"{block.groups:,} groups and {units:,} declared people leave at most {number(Fraction(round(mean * 10), 10))} for one, "
            f"and values of fewer than {k} are not shown: few can be expected; {REMEDY}"
        )
