"""Statements about models: CREATE MODEL, DROP MODEL, SHOW MODELS, and EXPLAIN of what buys one.

A model is bought as any release is: judged, charged whole, run and stored, and what is stored is given again free. Only then it has its
name. Its weights are made of what is stored alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from dpsql.accounting.amounts import at_least
from dpsql.accounting.models import MODELS, StoredModel, Weights
from dpsql.accounting.named import Names
from dpsql.aggregates.design import INTERCEPT as INTERCEPT_OF_ROW
from dpsql.aggregates.design import Feature
from dpsql.aggregates.gradients import UNIT, Fit
from dpsql.answers.look_up import Missing
from dpsql.core import cancellation
from dpsql.core.errors import error
from dpsql.core.escaping import harmless
from dpsql.core.wording import counted, listed, number
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Release
from dpsql.plan.tables import PublicTable
from dpsql.planner.explain import explain_cube
from dpsql.planner.model_terms import LOGISTIC, PCA, DropModel
from dpsql.planner.models import calibrate_model
from dpsql.planner.options import Options
from dpsql.planner.parse import CreateModel, parse
from dpsql.planner.qualified import in_main
from dpsql.release.buying import Bought
from dpsql.release.fitting import moments_of, weights_of
from dpsql.release.staging import Accuracies, Columns
from dpsql.schema import spent
from dpsql.schema.mistakes import printable
from dpsql.session import naming, principal
from dpsql.session.planned import Planned
from dpsql.session.result import Answer
from dpsql.session.world import World
from dpsql.sql.duckdb import literal_sql

_WEIGHTS: Columns = (("processed_input", "VARCHAR"), ("category", "VARCHAR"), ("weight", "DOUBLE"))
INTERCEPT = "__INTERCEPT__"


def names(world: World) -> Names[StoredModel]:
    return world.stored.names(MODELS)


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model up to its noise, as the query that it is bought by."""

    statement: CreateModel
    planned: Planned
    fingerprint: str

    @property
    def plan(self) -> Compiled:
        return self.planned.plan

    @property
    def release(self) -> Release:
        return self.planned.plan.releases[0].release

    @property
    def fit(self) -> Fit:
        fit = self.release.fit
        if fit is None:
            raise error(901, "a model is fitted by nothing")
        return fit


def asked(statement: CreateModel | DropModel, world: World) -> PlannedModel | Answer:
    """A model up to its noise; of DROP the answer. Raises 105 where its name stands for another."""
    with cancellation.current().planning():
        if isinstance(statement, DropModel):
            one = known(statement.name, world)
            return naming.dropped(names(world), one, "model", "make one under another name", world)
        planned = plan(statement, world)
        naming.require_free(names(world).get(statement.name), planned.fingerprint, "model", "DROP")
        return planned


def plan(statement: CreateModel, world: World) -> PlannedModel:
    """A model up to its noise."""
    own = Options(max_rows=statement.terms.max_rows)
    query = in_main(replace(statement.query, options=own, session=Options()), world.schema)
    bounded = naming.bounded(query, world)
    compiled = calibrate_model(bounded, statement.terms, statement.columns, world.schema, world.identities)
    judged = naming.judged(query, bounded, world)
    written = replace(compiled.plan.post_query, written=naming.written(statement.query), traced=False)
    compiled = replace(compiled, plan=replace(compiled.plan, post_query=written))
    planned = Planned(query, judged, compiled)
    return PlannedModel(statement, planned, world.stored.fingerprint(compiled.releases[0]))


def known(name: str, world: World) -> StoredModel:
    """The model of a name. Raises 105."""
    return naming.known(names(world), name, "model")


def missing(statement: CreateModel | DropModel, world: World) -> tuple[Missing, ...]:
    """The releases of a model that would be bought now; none for DROP."""
    if isinstance(statement, DropModel):
        return ()
    return world.stored.look_up(plan(statement, world).plan, Options()).missing


def columns(statement: CreateModel | DropModel) -> Columns:
    """The columns of the answer, free."""
    return naming.DROPPED if isinstance(statement, DropModel) else _shown(statement.terms.kind)


def _shown(kind: str) -> Columns:
    """The columns of what CREATE MODEL answers with."""
    return principal.INFO if kind == PCA else _WEIGHTS


def explain(statement: CreateModel | DropModel, world: World) -> str:
    """The plan of a model that is to be bought. Raises 103 for DROP."""
    if isinstance(statement, DropModel):
        raise naming.not_bought("model")
    planned = plan(statement, world)
    is_stored = not world.stored.look_up(planned.plan, Options()).missing
    # the gradients after the first say nothing new
    few = replace(planned.release, measures=planned.release.measures[:3])
    shown = replace(planned.plan, releases=(replace(planned.plan.releases[0], release=few),))
    guarded = world.guard.lines(planned.planned.judged, planned.plan.plan.releases)
    told = [*_told(planned, is_stored), explain_cube(shown, world.schema), *guarded]
    return "\n".join(harmless(line) for text in told for line in text.splitlines())


def _told(planned: PlannedModel, is_stored: bool) -> Iterator[str]:
    """Lines of EXPLAIN."""
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


def _shape(feature: Feature) -> str:
    return feature.told if feature.columns == 1 else f"{feature.told} ({counted(feature.columns, 'value')})"


# --- buying -------------------------------------------------------------------------------------------------------------


def named(planned: PlannedModel, found: Bought, world: World) -> Answer:
    """A model that was bought, or was stored already, under its name from now on."""
    model, count = fitted(planned, found, world), len(found.held.missing)
    naming.keep(names(world), model)
    rows, columns = principal.info(model) if model.kind == PCA else weights(model), _shown(model.kind)
    accuracy = Accuracies.nothing(len(columns), len(rows))
    free = () if count else ("it is stored already: nothing was charged",)
    notes = (*found.notes, *free)
    return Answer(columns, rows, accuracy, found.receipt, not count, count, notes, (model.fingerprint,))


def fitted(planned: PlannedModel, found: Bought, world: World) -> StoredModel:
    """The model as its released cells make it: weights of the values as they are, not as they were scaled; or second moments."""
    release = planned.release
    cells = found.staged.noisy[release.name].cells
    if planned.statement.terms.kind == PCA:
        return _second_moments(planned, *moments_of(release, planned.fit, cells), world)
    return _weighed(planned, weights_of(release, planned.fit, cells), world)


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
        naming.written(planned.statement.query),
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


def weights(model: StoredModel) -> list[tuple[object, ...]]:
    """Rows of ML.WEIGHTS."""
    rows: list[tuple[object, ...]] = [(INTERCEPT, None, model.intercept)]
    for one in model.features:
        levels = one.levels or (None,)
        rows += [(one.name, level, weight) for level, weight in zip(levels, one.weights, strict=True)]
    return rows


def table(world: World) -> PublicTable:
    """dpsql.models."""
    return naming.shown(spent.MODELS, [_row(model, world) for model in names(world).all()])


def _row(model: StoredModel, world: World) -> tuple[object, ...]:
    features = ", ".join(one.name for one in model.features)
    epsilon, delta, rho = (float(amount) for amount in model.price)
    made = model.time.partition("+")[0]
    current = naming.is_current(model.fingerprint, lambda: _again(model, world))
    return (model.name, model.kind, model.label or None, features, epsilon, delta, rho, made, current)


def _again(model: StoredModel, world: World) -> str | None:
    """The fingerprint that its statement has now."""
    statement = parse(model.statement)
    return plan(statement, world).fingerprint if isinstance(statement, CreateModel) else None
