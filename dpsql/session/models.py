"""Statements about models: CREATE MODEL, DROP MODEL, SHOW MODELS, and EXPLAIN of what buys one.

A model is bought as any release is: judged, charged whole, run and stored, and what is stored is given again free. Only then it has its
name. Its weights are made of what is stored alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt

from dpsql.accounting.amounts import at_least
from dpsql.accounting.models import MODELS, StoredModel, Weights
from dpsql.accounting.named import Names
from dpsql.aggregates.gradients import UNIT, Feature, Fit
from dpsql.answers.look_up import Missing
from dpsql.core import cancellation
from dpsql.core.errors import Error, error
from dpsql.core.escaping import harmless
from dpsql.core.loss import NO_LOSS
from dpsql.core.sqltypes import BOOLEAN
from dpsql.core.wording import counted, listed, number
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Bounded, Release
from dpsql.plan.tables import PublicTable
from dpsql.planner.explain import explain_cube
from dpsql.planner.model_terms import LOGISTIC, DropModel, summed
from dpsql.planner.models import calibrate_model
from dpsql.planner.options import Options
from dpsql.planner.parse import CreateModel, Query, parse
from dpsql.planner.planning import bound
from dpsql.planner.qualified import in_main
from dpsql.planner.resolve import resolve
from dpsql.release.buying import Bought
from dpsql.release.fitting import weights_of
from dpsql.release.staging import Accuracies, Columns
from dpsql.schema import spent
from dpsql.schema.mistakes import printable
from dpsql.session.planned import Planned
from dpsql.session.result import Answer
from dpsql.session.world import World
from dpsql.sql.duckdb import literal_sql

_DROPPED: Columns = (("dropped", "VARCHAR"),)
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
            return _dropped(known(statement.name, world), world)
        planned = plan(statement, world)
        other = names(world).get(statement.name)
        if other is not None and other.fingerprint != planned.fingerprint:
            what = f"there is a model {printable(other.name)} already, of another question or version of the data"
            raise error(105, what, hint=f"write DROP MODEL {other.name} before, or another name")
        return planned


def plan(statement: CreateModel, world: World) -> PlannedModel:
    """A model up to its noise."""
    own = Options(max_rows=statement.terms.max_rows)
    query = in_main(replace(statement.query, options=own, session=Options()), world.schema)
    bounded = _bounded(query, world)
    compiled = calibrate_model(bounded, statement.terms, statement.columns, world.schema, world.identities)
    judged = replace(world.guard.judge(_bounded(_asked_about(query, bounded), world)), bounded=bounded)
    written = replace(compiled.plan.post_query, written=_written(statement), traced=False)
    compiled = replace(compiled, plan=replace(compiled.plan, post_query=written))
    planned = Planned(query, judged, compiled)
    return PlannedModel(statement, planned, world.stored.fingerprint(compiled.releases[0]))


def _bounded(query: Query, world: World) -> Bounded:
    return bound(query, resolve(query, world.schema, world.catalog, world.sandbox), world.schema)


def _asked_about(query: Query, bounded: Bounded) -> Query:
    """The question as the guard judges it: of its rows and its values."""
    values = [one.argument for one in bounded.blocks[0].block.aggregates]
    places = [i for i, value in enumerate(values) if value is not None and value.sqltype == BOOLEAN]
    return replace(query, tree=summed(query.tree, places))


def _written(statement: CreateModel) -> str:
    return statement.query.sql.strip().rstrip(";").strip()


def known(name: str, world: World) -> StoredModel:
    """The model of a name. Raises 105."""
    found = names(world).get(name)
    if found is None:
        every = [printable(one.name) for one in names(world).all()]
        hint = f"the models are {', '.join(every)}" if every else "SHOW MODELS lists those there are"
        raise error(105, f"there is no model {printable(name)}", hint=hint)
    return found


def missing(statement: CreateModel | DropModel, world: World) -> tuple[Missing, ...]:
    """The releases of a model that would be bought now; none for DROP."""
    if isinstance(statement, DropModel):
        return ()
    return world.stored.look_up(plan(statement, world).plan, Options()).missing


def columns(statement: CreateModel | DropModel) -> Columns:
    """The columns of the answer, free."""
    return _DROPPED if isinstance(statement, DropModel) else _WEIGHTS


def explain(statement: CreateModel | DropModel, world: World) -> str:
    """The plan of a model that is to be bought. Raises 103 for DROP."""
    if isinstance(statement, DropModel):
        raise error(103, "DROP MODEL is free, and gives nothing back", hint="write DROP MODEL and its name")
    planned = plan(statement, world)
    is_stored = not world.stored.look_up(planned.plan, Options()).missing
    # the gradients after the first say nothing new
    few = replace(planned.release, measures=planned.release.measures[:2])
    shown = replace(planned.plan, releases=(replace(planned.plan.releases[0], release=few),))
    guarded = world.guard.lines(planned.planned.judged, planned.plan.plan.releases)
    told = [*_told(planned, is_stored), explain_cube(shown, world.schema), *guarded]
    return "\n".join(harmless(line) for text in told for line in text.splitlines())


def _told(planned: PlannedModel, is_stored: bool) -> Iterator[str]:
    """Lines of EXPLAIN."""
    fit, release, terms = planned.fit, planned.release, planned.statement.terms
    features = listed([_shape(one) for one in fit.design.features])
    yield f"model {printable(planned.statement.name)}: {terms.kind} of {terms.label} by {features}"
    yield "  scaled by their bounds and lists alone; rows without one of the values are left out"
    price = planned.plan.plan.price
    if is_stored:
        yield "price: stored already, so it is free"
    else:
        yield (
            f"price: rho {at_least(release.loss.rho)}, the most that stays within epsilon {number(price.epsilon)} and delta "
            f"{number(price.delta)}; charged whole before the first pass"
        )
    moments, gradient = release.measures[:2]
    for name, one in (("second moments, once", moments), (f"gradients, {fit.passes} one after the other", gradient)):
        yield f"  {name}: noise of {sqrt(one.noise.squared_scale) / UNIT:.3g} people in every cell"


def _shape(feature: Feature) -> str:
    return feature.told if feature.columns == 1 else f"{feature.told} ({counted(feature.columns, 'value')})"


# --- buying -------------------------------------------------------------------------------------------------------------


def named(planned: PlannedModel, found: Bought, world: World) -> Answer:
    """A model that was bought, or was stored already, under its name from now on."""
    model, count = fitted(planned, found, world), len(found.held.missing)
    other = names(world).get(model.name)
    if other is None or other.fingerprint != model.fingerprint:
        names(world).keep(model)
    rows = weights(model)
    accuracy = Accuracies.nothing(len(_WEIGHTS), len(rows))
    free = () if count else ("it is stored already: nothing was charged",)
    notes = (*found.notes, *free)
    return Answer(_WEIGHTS, rows, accuracy, found.receipt, not count, count, notes, (model.fingerprint,))


def fitted(planned: PlannedModel, found: Bought, world: World) -> StoredModel:
    """The model as its released cells make it: weights of the values as they are, not as they were scaled."""
    fit, release, terms = planned.fit, planned.release, planned.statement.terms
    scaled = weights_of(release, fit, found.staged.noisy[release.name].cells)
    intercept, low, high, factor = scaled[0] * fit.design.scale, 0.0, 1.0, 1.0
    if fit.design.label.term is not None:
        term = fit.design.label.term
        low, high = float(term.lower * term.quantum), float(term.upper * term.quantum)
        factor = (high - low) / 2
    place, features = 1, []
    for one in fit.design.features:
        own = [factor * weight * fit.design.scale for weight in scaled[place : place + one.columns]]
        place += one.columns
        shift, made = _unscaled(one, own)
        intercept += shift / factor
        features.append(made)
    price = planned.plan.plan.price
    middle = (low + high) / 2 if terms.kind != LOGISTIC else 0.0
    return StoredModel(
        planned.statement.name,
        world.analyst.name,
        _written(planned.statement),
        planned.fingerprint,
        terms.kind,
        terms.label,
        (low, high),
        middle + factor * intercept,
        tuple(features),
        release.limited.limits.rows,
        (price.epsilon, price.delta, release.loss.rho),
    )


def _unscaled(feature: Feature, own: list[float]) -> tuple[float, Weights]:
    """The part that a feature adds to the intercept, and its weights."""
    term = feature.term
    if term is not None:
        shift = -own[0] * (term.lower + term.upper) / term.width
        return shift, Weights(feature.told, (), (2 * own[0] / (term.width * float(term.quantum)),))
    texts = tuple(literal_sql(level, feature.scalar.sqltype) for level in feature.levels)
    return 0.0, Weights(feature.told, texts, tuple(own) if len(own) == len(texts) else (-own[0], own[0]))


def weights(model: StoredModel) -> list[tuple[object, ...]]:
    """Rows of ML.WEIGHTS."""
    rows: list[tuple[object, ...]] = [(INTERCEPT, None, model.intercept)]
    for one in model.features:
        levels = one.levels or (None,)
        rows += [(one.name, level, weight) for level, weight in zip(levels, one.weights, strict=True)]
    return rows


def _dropped(model: StoredModel, world: World) -> Answer:
    """Raises 105 where somebody else made it."""
    if model.analyst != world.analyst.name:
        what = f"the model {printable(model.name)} was made by another analyst, and others read it"
        raise error(105, what, hint="make one under another name")
    names(world).drop(model.name)
    rows: list[tuple[object, ...]] = [(model.name,)]
    notes = ("what was charged for it stays charged; made again by the same statement on the same data it is free",)
    return Answer(_DROPPED, rows, Accuracies.nothing(1, 1), world.receipt(NO_LOSS), notes=notes)


def table(world: World) -> PublicTable:
    """dpsql.models."""
    rows = [_row(model, world) for model in names(world).all()]
    shown = spent.TABLES[spent.MODELS]
    return PublicTable(spent.MODELS, shown, tuple([row[i] for row in rows] for i in range(len(shown))))


def _row(model: StoredModel, world: World) -> tuple[object, ...]:
    features = ", ".join(one.name for one in model.features)
    epsilon, delta, rho = (float(amount) for amount in model.price)
    made = model.time.partition("+")[0]
    return (model.name, model.kind, model.label, features, epsilon, delta, rho, made, _current(model, world))


def _current(model: StoredModel, world: World) -> bool | None:
    """True if it is of the data and declarations as they are; None where its statement can no longer be read."""
    try:
        statement = parse(model.statement)
        return isinstance(statement, CreateModel) and plan(statement, world).fingerprint == model.fingerprint
    except Error:
        return None
