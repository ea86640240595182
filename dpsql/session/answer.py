"""One statement from text to answer, and the ways that end earlier: EXPLAIN, its price, its columns.

Everything above `buy` reads only the text and the declared schema, so its errors may speak freely and cost nothing. Everything below
has touched data: its errors are constant text, and the charge stands.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.accounting.amounts import at_most
from dpsql.accounting.charging import statement_of
from dpsql.accounting.cubes import StoredCube
from dpsql.answers.look_up import Held
from dpsql.answers.recent import LONGEST_PLANNED, MOST_ROWS, asked_for, calls_names, is_plain
from dpsql.core import cancellation
from dpsql.core.columns import ResultRows
from dpsql.core.errors import BudgetError, Error, error
from dpsql.core.escaping import harmless
from dpsql.core.loss import NO_LOSS, total
from dpsql.core.sqltypes import SqlType
from dpsql.core.wording import number
from dpsql.plan.charges import Receipt
from dpsql.plan.compiled import Compiled
from dpsql.plan.releases import Bounded
from dpsql.plan.suppressing import LEVEL
from dpsql.plan.tables import PublicTable
from dpsql.planner import explain as words
from dpsql.planner.accurate import name_of
from dpsql.planner.parse import Catalog, Explain, Kept, Parsed, Query, Setting, parse
from dpsql.planner.placeholders import inferred, samples
from dpsql.planner.planning import bound, calibrate
from dpsql.planner.qualified import in_main
from dpsql.planner.resolve import resolve
from dpsql.planner.resolve.catalog import catalog_text
from dpsql.release.buying import Bought, Patience
from dpsql.release.staging import Accuracies, Columns, Staged, describe
from dpsql.schema import spent
from dpsql.session import cubes, kept
from dpsql.session.planned import About, Planned, Prospect
from dpsql.session.remarks import remarks
from dpsql.session.result import Answer
from dpsql.session.world import World

Parameters = Sequence[object] | Mapping[str, object]


def answer(text: str, parameters: Parameters, world: World, key: str = "") -> Answer:
    """Answer one statement, or raise an Error that says why not. key  see Session.execute"""
    asked = asked_for(text, parameters, world.settings)
    recent = world.recent.get(asked) if asked is not None else None
    if recent is not None:
        world.sandbox.still_there(recent.public)
        return replace(recent, rows=list(recent.rows), receipt=world.receipt(NO_LOSS), cached=True, releases=0)
    with cancellation.current().planning():
        statement, bounded = _read(text, parameters, asked, world)
        if isinstance(statement, Explain | Setting | Catalog):
            return _without_releases(statement, world)
    if not isinstance(statement, Query):
        return kept.kind_of(statement).answer(statement, world, lambda one, own: _bought(one, (), world, own), key)
    with cancellation.current().planning():
        bounded = bounded or _kept_plan(statement, asked, world)
        read_off = cubes.at_once(statement, bounded, world) if world.stored.cubes.names.all() else None
        planned = read_off.planned if read_off is not None else _judged(statement, bounded, world)
        columns = describe(planned.plan, statement.plain, world.catalog, world.sandbox)
    told = remarks(planned.plan, world.schema)
    if planned.plan.plan.post_query.empty:
        return replace(_from_declared(planned.plan, columns, world), remarks=told)
    try:
        bought = _bought(planned, columns, world, key, read_off.held if read_off is not None else None)
    except BudgetError as raised:
        refused = raised
    else:
        found = replace(_finished(bought, columns, world), remarks=told)
        if asked is not None and _is_kept(statement, found):
            own = [world.stored.fingerprint(part) for part in planned.plan.releases if part.release.parts]
            names = tuple(dict.fromkeys([*found.fingerprints, *own]))
            recent = replace(found, rows=list(found.rows))
            world.recent.put(asked, recent, names, rows=len(recent.rows), for_all=_is_for_all(found, bought.held))
        return found
    raise _with_prospect(refused, planned, world).with_traceback(None)


def explain(text: str, parameters: Parameters, world: World) -> str:
    """The plan of a statement, without running or charging it; nothing for SET."""
    with cancellation.current().planning():
        statement = read(text, parameters, world)
        if isinstance(statement, Catalog):
            return f"free: {catalog_text(statement, world.schema)} of the declared schema"
        if isinstance(statement, Setting):
            return ""
        return _explained(statement.query if isinstance(statement, Explain) else statement, world)


def price(text: str, parameters: Parameters, world: World) -> tuple[Receipt, int]:
    """Estimate the price of a statement now and the number of releases it would buy, without running or charging it;
    nothing where it is free or stored."""
    asked = asked_for(text, parameters, world.settings)
    if asked is not None and world.recent.get(asked) is not None:
        return world.receipt(NO_LOSS), 0
    with cancellation.current().planning():
        statement = read(text, parameters, world)
        if isinstance(statement, Explain | Setting | Catalog):
            return world.receipt(NO_LOSS), 0
        if isinstance(statement, Query):
            missing = world.stored.look_up(plan(statement, world).plan, statement.settled).missing
        else:
            missing = kept.kind_of(statement).missing(statement, world)
    return world.receipt(total(one.part.release.loss for one in missing)), len(missing)


def prospect(text: str, world: World, planned: Sequence[StoredCube]) -> Prospect:
    """Estimate the price of a statement once some cubes are bought, without running or charging it."""
    with cancellation.current().planning():
        statement = read(text, (), world)
        if isinstance(statement, Explain | Setting | Catalog):
            return Prospect()
        if not isinstance(statement, Query):
            return kept.kind_of(statement).prospect(statement, world)
        compiled, off = plan(statement, world).plan, tuple[str, ...]()
        # what is free is not asked, so that only this tells whether it can be
        describe(compiled, statement.plain, world.catalog, world.sandbox)
        missing = world.stored.look_up(compiled, statement.settled).missing
        if missing and statement.settled.reads_cubes and not statement.options.fresh:
            compiled, off = world.stored.unanswered(compiled, planned)
            missing = world.stored.look_up(compiled, statement.settled).missing
    return Prospect((total(one.part.release.loss for one in missing),), None, off)


def about(text: str, world: World) -> About:
    """A statement as the ledger would keep it, and the tables that its answers depend on; free."""
    with cancellation.current().planning():
        statement = read(text, (), world)
        if isinstance(statement, Explain | Setting | Catalog):
            return About(text, frozenset())
        if isinstance(statement, Query):
            compiled: Compiled | None = plan(statement, world).plan
        else:
            compiled = kept.kind_of(statement).compiled(statement, world)
    if compiled is None:
        return About(text, frozenset())
    reads = [part.release.reads for part in compiled.releases if part.release.parts]
    return About(statement_of(compiled), frozenset[tuple[str, ...]]().union(*reads))


def columns(text: str, parameters: Parameters, world: World) -> Columns:
    """The columns that a statement would have, free; none for SET and RESET."""
    with cancellation.current().planning():
        statement = read(text, parameters, world)
        if isinstance(statement, Query):
            return describe(plan(statement, world).plan, statement.plain, world.catalog, world.sandbox)
        if isinstance(statement, Catalog):
            return tuple(world.catalog.rows(catalog_text(statement, world.schema))[0])
        if isinstance(statement, Explain | Setting):
            return (("plan", "VARCHAR"),) if isinstance(statement, Explain) else ()
        return kept.kind_of(statement).columns(statement, world)


def prepare(text: str, world: World) -> tuple[tuple[SqlType | None, ...], Columns]:
    """Types of a statement's parameters, None where nothing says one, and its columns, before anybody gives values; free.

    Why  the columns are those of values that the parameters could have: where the first are refused, the last declared ones are tried
    """
    with cancellation.current().planning():
        parameters = inferred(text, world.schema)
    types = tuple(one.type for one in parameters)
    try:
        return types, columns(text, samples(parameters), world)
    except Error as raised:
        if not parameters or raised.code in cancellation.ENDED:
            raise
        refused = raised
    try:
        return types, columns(text, samples(parameters, last=True), world)
    except Error:
        pass
    raise refused.with_traceback(None)


def parameter_types(text: str, world: World) -> tuple[SqlType | None, ...]:
    """The types of a statement's parameters alone."""
    with cancellation.current().planning():
        return tuple(one.type for one in inferred(text, world.schema))


def read(text: str, parameters: Parameters, world: World) -> Parsed:
    """The statement, with the declared tables by their own names and the session's options."""
    known = world.commons.parses
    statement = kept.parsed(text, parameters, world) if calls_names(text) else parse(text, parameters, kept=known)
    if spent.ROWS in text.lower():
        kept.load_synthetic(statement, world)
    if isinstance(statement, Query):
        return replace(in_main(statement, world.schema), session=world.options)
    if isinstance(statement, Explain) and isinstance(statement.query, Query):
        return Explain(replace(in_main(statement.query, world.schema), session=world.options))
    return statement


def plan(query: Query, world: World) -> Planned:
    """A query up to its noise: names and types, what one unit may contribute, whom it asks about, and noise for the price."""
    return _judged(query, _bounded(query, world), world)


def _read(text: str, parameters: Parameters, asked: Hashable | None, world: World) -> tuple[Parsed, Bounded | None]:
    """The statement, and what one unit may contribute where this thread planned the same before."""
    known = world.commons.plans.get((world.versions, asked)) if asked is not None else None
    if known is None:
        return read(text, parameters, world), None
    # keys are listed from public tables, which are read in place
    world.sandbox.still_there([table.name for table in world.schema.tables if table.public])
    return known


def _kept_plan(query: Query, asked: Hashable | None, world: World) -> Bounded:
    """A query with what one unit may contribute to it, kept for whoever asks the same."""
    bounded = _bounded(query, world)
    if asked is not None and bounded.blocks and not query.timed and len(query.sql) <= LONGEST_PLANNED:
        world.commons.plans.put((world.versions, asked), (query, bounded))
    return bounded


def _bounded(query: Query, world: World) -> Bounded:
    """A query with what one unit may contribute to it."""
    query.settled.price(world.schema)
    return bound(query, resolve(query, world.schema, world.catalog, world.sandbox), world.schema)


def _judged(query: Query, bounded: Bounded, world: World) -> Planned:
    judged = world.guard.judge(bounded)
    return Planned(query, judged, calibrate(bounded, query.settled, world.schema, world.identities, judged.small))


def _bought(planned: Planned, columns: Columns, world: World, key: str = "", held: Held | None = None) -> Bought:
    """Releases of a statement, stored or bought now.

    held  what is stored, where it was looked up already

    While somebody else works one of them out, their answer is waited for; where they fail, or take longer than they may, it is
    charged here. A request that was charged before has what is stored of it. Raises 701 where that is not all.
    """
    limits, options = world.schema.limits, planned.query.settled
    # a cube and a model have options of their own, but what a session is not to buy it does not
    options = options if options.buy else replace(options, buy=world.options.buy)
    patience = Patience(float(limits.seconds))
    while True:
        charged = world.stored.is_charged(key)
        with cancellation.current().planning():
            held = held or world.stored.look_up(planned.plan, options)
        if charged and not world.release.is_claimed(held):
            held = _charged_before(planned, world)
        elif charged:
            patience.wait(lambda held=held: world.release.is_claimed(held))  # type: ignore[misc]
            held = None
            continue
        elif not world.is_owners:
            world.stored.require_agreed(held, options)
        most = world.schema.privacy.max_cells, limits.rows
        staged = Staged(held, columns, world.sandbox, *most, options.is_joint, options.is_of_sample)
        bought = world.release.buy(held, planned.judged, staged, options.fresh, key)
        if bought is not None:
            return bought
        patience.wait(lambda held=held: world.release.is_claimed(held))  # type: ignore[misc]
        held = None


def _charged_before(planned: Planned, world: World) -> Held:
    """Stored answers of a request that was charged, once nobody works it out any more. Raises 701."""
    with cancellation.current().planning():
        held = world.stored.look_up(planned.plan, replace(planned.query.settled, fresh=False))
    if held.missing:
        what = "the request with this key was charged before, and ended without its answer, or was another statement"
        raise error(
            701, f"{what}; what was charged stays charged", hint="ask again with another key, which is charged anew"
        )
    return held


def _finished(bought: Bought, columns: Columns, world: World) -> Answer:
    """The final query over released and public tables."""
    held, staged, sandbox = bought.held, bought.staged, world.sandbox
    post_query = held.plan.plan.post_query
    sandbox.still_there(post_query.public)
    sandbox.need(post_query.public)
    rows = staged.rows(post_query)
    sandbox.still_there(post_query.public)
    accuracy = Accuracies.nothing(len(columns), len(rows))
    if post_query.traced or post_query.totals:
        positions, rows = rows.columns[-1], ResultRows(rows.columns[:-1])
        accuracy = staged.accuracies(post_query, [sqltype for _, sqltype in columns], positions)
    count = len(held.missing)
    paid = bool(held.missing or held.tables)
    public = {*post_query.public, *(name for one in held.plan.bounds for name in one.public)}
    return Answer(
        columns,
        rows,
        accuracy,
        bought.receipt,
        paid and not count,
        count,
        (*bought.notes, *staged.notes),
        held.fingerprints,
        tuple(sorted(public)),
        as_of=held.as_of,
    )


def _is_kept(query: Query, found: Answer) -> bool:
    """True if an answer is kept for who asks the same text again."""
    again = bool(found.fingerprints) and not (query.timed or query.options.fresh)
    return again and len(found.rows) <= MOST_ROWS and is_plain(found.columns)


def _is_for_all(found: Answer, held: Held) -> bool:
    """True if nothing in an answer is of whoever asked first: no note of the guard on what they asked before, nothing off a cube that
    is compared with their other answers, and no intervals that their own sandbox works out."""
    return not found.notes and not held.narrow and found.accuracy.computed is None


# --- statements that release nothing ----------------------------------------------------------------------------------


def _without_releases(statement: Explain | Setting | Catalog, world: World) -> Answer:
    if isinstance(statement, Explain):
        return _free(
            (("plan", "VARCHAR"),), [(line,) for line in _explained(statement.query, world).splitlines()], world
        )
    if isinstance(statement, Catalog):
        return _free(*world.catalog.rows(catalog_text(statement, world.schema)), world)
    if statement.options is not None:
        # a price above the owner's cap is refused at once
        statement.options.price(world.schema)
    world.settings.pop(statement.name, None)
    if statement.options is not None:
        world.settings[statement.name] = statement.options
    return _free((), [], world)


def _from_declared(plan: Compiled, columns: Columns, world: World) -> Answer:
    """From the declared tables, which are empty, or from the ledger."""
    if plan.plan.post_query.spent:
        world.catalog.spent(_spent(plan.plan.post_query.spent, world))
    held = world.catalog.shown if plan.plan.post_query.catalog else world.catalog
    return _free(columns, held.rows(plan.plan.post_query.sql)[1], world)


def _spent(names: Sequence[str], world: World) -> list[PublicTable]:
    asked = [table for schema, _, table in (name.partition(".") for name in names) if not spent.is_synthetic(schema)]
    others = world.spent([name for name in asked if name not in kept.TABLES])
    return [*others, *(kept.TABLES[name](world) for name in asked if name in kept.TABLES)]


def _free(columns: Sequence[tuple[str, str]], rows: list[tuple[object, ...]], world: World) -> Answer:
    return Answer(tuple(columns), rows, Accuracies.nothing(len(columns), len(rows)), world.receipt(NO_LOSS))


def _explained(query: Query | Kept, world: World) -> str:
    if not isinstance(query, Query):
        return kept.kind_of(query).explain(query, world)
    planned = plan(query, world)
    describe(planned.plan, query.plain, world.catalog, world.sandbox)
    guarded = map(harmless, world.guard.lines(planned.judged, planned.plan.plan.releases))
    dated = world.stored.as_of([part.release for part in planned.plan.releases])
    off = cubes.read_off(planned, world)
    return "\n".join([words.explain(planned.plan, world.schema), *guarded, *dated, *off])


# --- a price that does not fit ----------------------------------------------------------------------------------------


def _with_prospect(refused: BudgetError, planned: Planned, world: World) -> BudgetError:
    """The refusal, with how exact the statement would be at the price that fits."""
    if refused.fits is not None:
        width = _error_at(planned, refused.fits, world)
        if width is not None:
            refused.hint = f"{refused.hint}; at epsilon={at_most(refused.fits)} the 95 % error of {width}"
    return refused


def _error_at(planned: Planned, epsilon: Fraction, world: World) -> str | None:
    """The half-width of the first column that has one before it is released, in words."""
    cheaper = replace(planned.query.settled, epsilon=epsilon, error=None, relative=False, confidence=None)
    bounded, small = planned.judged.bounded, planned.judged.small
    try:
        with cancellation.current().planning():
            releases = calibrate(bounded, cheaper, world.schema, world.identities, small).plan.releases
    except Error:
        return None
    for one in releases:
        for output in one.outputs:
            width = output.estimate.half_width(one.measures[output.measure].noise, LEVEL)
            if width is not None:
                aggregate = next(a for a in one.limited.block.aggregates if a.name == output.name)
                return f"{name_of(aggregate)} would be +-{number(float(f'{width:.3g}'))}"
    return None
