"""Statements about models: CREATE MODEL, DROP MODEL, SHOW MODELS, and EXPLAIN of what buys one.

See naming.py. Its weights are made of what is stored alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from dpsql.accounting.amounts import at_least
from dpsql.accounting.models import MODELS, StoredModel, Weights
from dpsql.aggregates.design import INTERCEPT as INTERCEPT_OF_ROW
from dpsql.aggregates.design import Feature
from dpsql.aggregates.gradients import UNIT, Fit
from dpsql.core.errors import error
from dpsql.core.wording import counted, listed, number
from dpsql.plan.compiled import Compiled
from dpsql.planner.model_terms import LOGISTIC, PCA
from dpsql.planner.models import calibrate_model
from dpsql.planner.options import Options
from dpsql.planner.parse import CreateModel
from dpsql.planner.qualified import in_main
from dpsql.release.buying import Bought
from dpsql.release.fitting import moments_of, weights_of
from dpsql.release.staging import Columns
from dpsql.schema import spent
from dpsql.schema.mistakes import printable
from dpsql.session import naming, principal
from dpsql.session.naming import BoughtKind, Row, UpToNoise
from dpsql.session.planned import Planned
from dpsql.session.world import World
from dpsql.sql.duckdb import literal_sql


@dataclass(frozen=True, slots=True)
class PlannedModel(UpToNoise):
    """A model up to its noise, as the query that it is bought by."""

    statement: CreateModel

    @property
    def fit(self) -> Fit:
        fit = self.release.fit
        if fit is None:
            raise error(901, "a model is fitted by nothing")
        return fit


class ModelKind(BoughtKind[StoredModel, PlannedModel]):
    """Models, as CREATE MODEL makes them."""

    noun, register, table, creates = "model", MODELS, spent.MODELS, CreateModel

    def plan(self, statement: CreateModel, world: World) -> PlannedModel:
        own = Options(max_rows=statement.terms.max_rows)
        query = in_main(replace(statement.query, options=own, session=Options()), world.schema)
        bounded = naming.bounded(query, world)
        compiled = calibrate_model(bounded, statement.terms, statement.columns, world.schema, world.identities)
        compiled = naming.under_its_text(compiled, statement.query)
        planned = Planned(query, naming.judged(query, bounded, world), compiled)
        return PlannedModel(planned, world.stored.fingerprint(compiled.releases[0]), statement)

    def answers(self, statement: CreateModel, world: World) -> Columns:
        return _shown(statement.terms.kind)

    def in_short(self, planned: PlannedModel) -> Compiled:
        """The gradients after the first say nothing new."""
        few = replace(planned.release, measures=planned.release.measures[:3])
        return replace(planned.plan, releases=(replace(planned.plan.releases[0], release=few),))

    def told(self, planned: PlannedModel, is_stored: bool) -> Iterator[str]:
        fit, release, terms = planned.fit, planned.release, planned.statement.terms
        features = listed([_shape(one) for one in fit.design.features])
        of = f"{terms.label} by {features}" if terms.label else features
        yield f"model {printable(planned.statement.name)}: {terms.kind} of {of}"
        yield "  scaled by their bounds and lists alone; rows without one of the values are left out"
        price = planned.plan.plan.price
        if is_stored:
            yield "price: stored already, so it is free"
        else:
            yield (
                f"price: rho {at_least(release.loss.rho)}, the most that stays within epsilon {number(price.epsilon)} and delta "
                f"{number(price.delta)}; charged whole before the first pass"
            )
        parts = ("means, once", "second moments, once", f"gradients, {fit.passes} one after the other")
        for name, one in zip(parts, release.measures, strict=False):
            yield f"  {name}: noise of {sqrt(one.noise.squared_scale) / UNIT:.3g} people in every cell"

    def made(self, planned: PlannedModel, found: Bought, world: World) -> StoredModel:
        """As its released cells make it: weights of the values as they are, not as they were scaled; or second moments."""
        release = planned.release
        cells = found.staged.noisy[release.name].cells
        if planned.statement.terms.kind == PCA:
            return _second_moments(planned, *moments_of(release, planned.fit, cells), world)
        return _weighed(planned, weights_of(release, planned.fit, cells), world)

    def result(self, planned: PlannedModel, one: StoredModel) -> tuple[Columns, list[Row]]:
        return _shown(one.kind), principal.info(one) if one.kind == PCA else principal.weights(one)

    def row(self, one: StoredModel) -> Row:
        features = ", ".join(feature.name for feature in one.features)
        return (one.name, one.kind, one.label or None, features, *map(float, one.price))


KIND = ModelKind()


def _shown(kind: str) -> Columns:
    """The columns of what CREATE MODEL answers with."""
    return principal.INFO if kind == PCA else principal.WEIGHTS


def _shape(feature: Feature) -> str:
    return feature.told if feature.columns == 1 else f"{feature.told} ({counted(feature.columns, 'value')})"


# --- weights ------------------------------------------------------------------------------------------------------------


def _second_moments(planned: PlannedModel, triangle: Sequence[float], sigma: float, world: World) -> StoredModel:
    """A pca, in units of its columns: a number is in [-1, 1]."""
    design = planned.fit.design
    names = tuple(Weights(one.told, _levels(one) if one.columns > 1 else (), ()) for one in design.features)
    square = design.scale**2
    moments = tuple(value / square for value in triangle)
    model = _named(planned, (0.0, 0.0), INTERCEPT_OF_ROW, names, world)
    return replace(model, moments=moments, sigma=sigma / square)


def _weighed(planned: PlannedModel, scaled: Sequence[float], world: World) -> StoredModel:
    fit, terms = planned.fit, planned.statement.terms
    intercept, low, high, factor = scaled[0] * fit.design.intercept, 0.0, 1.0, 1.0
    if fit.design.label is not None and fit.design.label.term is not None:
        term = fit.design.label.term
        low, high = float(term.lower * term.quantum), float(term.upper * term.quantum)
        factor = (high - low) / 2
    place, features = 1, []
    for one in fit.design.features:
        own = [factor * weight * fit.design.scale * one.weight for weight in scaled[place : place + one.columns]]
        place += one.columns
        shift, made = _unscaled(one, own)
        intercept += shift / factor
        features.append(made)
    middle = (low + high) / 2 if terms.kind != LOGISTIC else 0.0
    return _named(planned, (low, high), middle + factor * intercept, tuple(features), world)


def _named(
    planned: PlannedModel,
    bounds: tuple[float, float],
    intercept: float,
    features: tuple[Weights, ...],
    world: World,
) -> StoredModel:
    release, terms, price = planned.release, planned.statement.terms, planned.plan.plan.price
    return StoredModel(
        planned.statement.name,
        world.analyst.name,
        naming.written(planned.statement.query.sql),
        planned.fingerprint,
        terms.kind,
        terms.label,
        bounds,
        intercept,
        features,
        release.limited.limits.rows,
        (price.epsilon, price.delta, release.loss.rho),
    )


def _unscaled(feature: Feature, own: list[float]) -> tuple[float, Weights]:
    """The part that a feature adds to the intercept, and its weights."""
    term = feature.term
    if term is not None:
        shift = -own[0] * (term.lower + term.upper) / term.width
        return shift, Weights(feature.told, (), (2 * own[0] / (term.width * float(term.quantum)),))
    texts = _levels(feature)
    return 0.0, Weights(feature.told, texts, tuple(own) if len(own) == len(texts) else (-own[0], own[0]))


def _levels(feature: Feature) -> tuple[str, ...]:
    """The values of a list as SQL."""
    return tuple(literal_sql(level, feature.scalar.sqltype) for level in feature.levels)
