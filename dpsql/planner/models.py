"""models: Bounded -> Compiled. A model is one release of a block: its means, its second moments and, one after the other, gradients of
its loss.

Each of these is a vector of exact integer sums with discrete Gaussian noise (aggregates/gradients.py says what one unit can change).
The weights at which a gradient is asked are made of what is released before it, so by adaptive composition of zCDP the rho of all of
them add up: 10 % for the means, 10 % for the second moments, and the rest in equal parts for the gradients. Principal components are
made of the means and the second moments, which have the rest. All of it is charged before the first one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.aggregates.design import Design, Feature
from dpsql.aggregates.gradients import Fit
from dpsql.aggregates.record import Aggregate
from dpsql.aggregates.term import term
from dpsql.core.domains import Categories
from dpsql.core.errors import error
from dpsql.core.loss import total
from dpsql.expressions.scalar import Scalar, tree_of
from dpsql.mechanisms.bounds import up
from dpsql.mechanisms.calibration import NO_MU
from dpsql.mechanisms.conversions import gaussian
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Bounded, BoundedBlock, NoisyStatistic, Plan, Release
from dpsql.planner.cubes import LESS, require_least, rho_of
from dpsql.planner.lower import lower
from dpsql.planner.measure import Identities, depends_on, unread
from dpsql.planner.model_terms import LINEAR, LOGISTIC, PCA, ModelTerms
from dpsql.planner.partition import entries
from dpsql.planner.pricing import accounts_for_rho
from dpsql.planner.request import FOR_GRIDS
from dpsql.schema.model import Schema
from dpsql.sql.trees import VERSION, fingerprint

MOST_COLUMNS = 60
"""Columns of a model, with its intercept."""
MOST_OF_PCA = 40
"""Columns of a pca, of which each pair has a correlation."""
WIDEST_OF_MODEL = 2**20
"""Most quanta between the bounds of a value: its noise is many times as wide as rounding to them."""
OF_MEANS = OF_MOMENTS = Fraction(1, 10)
"""Shares of rho."""
REACH = {LINEAR: Fraction(2, 5), LOGISTIC: Fraction(1, 2), PCA: Fraction(2, 5)}
"""R, of the second moments of a row."""
CLIP = {LINEAR: Fraction(1, 5), LOGISTIC: Fraction(1, 2), PCA: Fraction(0)}
"""C, of rows whose root mean square is about 1. What a linear model errs is of a label in [-1, 1], and most err little; a smaller C
would pull log odds to the label that is more frequent."""
PASSES = {LINEAR: 8, LOGISTIC: 8, PCA: 0}
"""Gradients of one fit. All of these, weights of columns and what descent.py goes by were fixed on RAND's data:
grammar_notes/query/models.md."""


def calibrate_model(
    bounded: Bounded, terms: ModelTerms, names: Sequence[str], schema: Schema, identities: Identities
) -> Compiled:
    """The release of a model at its price, and its engine SQL. Raises 104, 106, 201, 303, 304, 502, 503.

    bounded  of a statement that counts its rows and then each of its columns, as model_terms.asked_columns makes it
    names    of these columns
    """
    price = terms.price(schema)
    if not accounts_for_rho(schema.privacy):
        what = "a model costs rho, and this dataset adds up epsilon alone"
        raise error(104, what, hint='its owner may write accounting = "auto" or "zcdp" in a new ledger\'s schema')
    require_least(price, schema, terms.NOUN)
    part = _only_block(bounded, names)
    design = _design(part.block.aggregates[1:], names, terms)
    fit = Fit(design, terms.kind == LOGISTIC, REACH[terms.kind], CLIP[terms.kind], PASSES[terms.kind])
    of = depends_on(part.block, schema)
    measures = _measured(part, fit, rho_of(price) * LESS, price.delta * FOR_GRIDS, schema)
    parts = (
        terms.kind,
        fit.clip,
        fit.passes,
        fit.statistics[1].identity,
        f"{price.epsilon} {price.delta}",
        identities.of(of),
    )
    release = Release(part, measures, None, (), total(m.loss for m in measures), _fingerprint(part, parts), fit=fit)
    release = replace(release, entries=entries(part.block.source, schema), tables=of, unread=unread(part, of, schema))
    compiled = Plan((release,), bounded.post_query, release.loss, price)
    # all gradients have one text but for their constants
    shown = lower(replace(release, measures=measures[:3]))
    return Compiled(compiled, (replace(shown, release=release),))


def _only_block(bounded: Bounded, names: Sequence[str]) -> BoundedBlock:
    if len(bounded.blocks) != 1 or bounded.bounds or bounded.blocks[0].block.keys:
        what = "a model is made of one SELECT over people's rows, and this is made of several"
        raise error(104, what, hint="write SELECT x, y FROM t, or grouped by a person's key in a subquery of FROM")
    part = bounded.blocks[0]
    if part.periods:
        # the rows of each period are summed apart, and a unit's gradient is clipped once
        raise error(104, "a model is not fitted to tables with periods", hint="fit it to a table without them")
    if len(part.block.aggregates) != len(names) + 1:
        raise error(104, "two columns of a model are the same", hint="leave one of them out")
    if any(a.condition is not None for a in part.block.aggregates):
        raise error(104, "a model has no FILTER", hint="write WHERE")
    return part


def _design(asked: Sequence[Aggregate], names: Sequence[str], terms: ModelTerms) -> Design:
    columns = {name.lower(): _value(one) for name, one in zip(names, asked, strict=True)}
    label = terms.label.lower()
    if terms.kind == PCA:
        return _pca(tuple(_feature(name, columns[name.lower()]) for name in names))
    if label not in columns:
        what = f"the label {terms.label[:60]!r} is none of the columns"
        raise error(104, what, hint=f"the columns are {', '.join(names[:12])}")
    features = tuple(_feature(name, columns[name.lower()]) for name in names if name.lower() != label)
    design = Design(features, _label(terms, columns[label]))
    if not features:
        raise error(104, "a model has features beside its label", hint="add columns to its SELECT")
    return _of_few(design, MOST_COLUMNS)


def _pca(features: tuple[Feature, ...]) -> Design:
    design = Design(features, None)
    if design.columns < 3:
        raise error(104, "a pca is of two columns or more", hint="add columns to its SELECT")
    return _of_few(design, MOST_OF_PCA)


def _of_few(design: Design, most: int) -> Design:
    if design.columns > most:
        what = f"a model has at most {most} columns, and this has {design.columns}: one for each value of a list"
        raise error(304, what, hint="leave some out, or group values with CASE")
    return design


def _value(one: Aggregate) -> Scalar:
    if one.argument is None:
        raise error(901, "a column of a model is no value")
    return one.argument


def _feature(name: str, value: Scalar) -> Feature:
    """Raises 106, 201 for a value without bounds and list."""
    if value.sqltype.is_boolean:
        return Feature(name, value, None, (False, True))
    if isinstance(value.domain, Categories):
        return Feature(name, value, None, value.domain.values)
    if not value.sqltype.is_number:
        hint = "declare a domain for the column, or group its values with CASE"
        raise error(201, f"the feature {name[:60]} has neither bounds nor a list of values", hint=hint)
    return Feature(name, value, term(value, f"the feature {name[:60]}", WIDEST_OF_MODEL))


def _label(terms: ModelTerms, value: Scalar) -> Feature:
    """Raises 104, 106, 201."""
    if terms.kind == LOGISTIC:
        if value.sqltype.is_boolean:
            return Feature(terms.label, value, None, (False, True))
        raise error(
            104,
            "the label of a logistic_reg is true or false",
            hint=f"write {terms.label[:40]} > 0 AS y, or a comparison",
        )
    if not value.sqltype.is_number:
        hint = "write CAST(... AS INTEGER), or model_type = 'logistic_reg'"
        raise error(104, "the label of a linear_reg is a number", hint=hint)
    return Feature(terms.label, value, term(value, f"the label {terms.label[:60]}", WIDEST_OF_MODEL))


def _measured(
    part: BoundedBlock, fit: Fit, rho: Fraction, for_grids: Fraction, schema: Schema
) -> tuple[NoisyStatistic, ...]:
    """The means, the second moments and the gradients with their noise.

    for_grids  [probability] the most that the grids of all noise may spend; where they need more, no mu is claimed
    """
    rest = 1 - OF_MEANS - OF_MOMENTS
    shares = [OF_MEANS, OF_MOMENTS, *[rest / fit.passes] * fit.passes] if fit.passes else [OF_MEANS, 1 - OF_MEANS]
    found: list[NoisyStatistic] = []
    for i, (statistic, share) in enumerate(zip(fit.statistics, shares, strict=True)):
        sensitivity = statistic.sensitivity(part.limits)
        noise = DiscreteGaussian.for_rho(sensitivity.l2_squared, rho * share)
        delta = DiscreteGaussian.approximation_delta(statistic.cells, schema.privacy.budget.epsilon)
        loss = gaussian(up(noise.rho(sensitivity.l2_squared)), delta)
        if delta > for_grids / len(shares):
            loss = replace(loss, delta=Fraction(0), mu_squared=NO_MU)
        found.append(NoisyStatistic(f"m{i}", statistic, sensitivity, noise, loss))
    return tuple(found)


def _fingerprint(part: BoundedBlock, parts: tuple[Hashable, ...]) -> str:
    """Fingerprint of the question: no variance, which follows from it."""
    source = part.block.source
    where = frozenset(condition.tree for condition in source.where)
    unit = tree_of(source.unit.column) if source.unit is not None else None
    return fingerprint(source.read(), VERSION, "model", unit, where, (part.limits.rows, part.enforced), *parts)
