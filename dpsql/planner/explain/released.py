"""Lines of EXPLAIN about a release: its group keys, its measures with their noise, and how exact its columns will
be."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpsql.aggregates.record import Aggregate
from dpsql.aggregates.record import Words as Worded
from dpsql.core.loss import PrivacyLoss
from dpsql.core.wording import counted, listed, number
from dpsql.plan.releases import NoisyStatistic, Output, Release, Selected
from dpsql.plan.resolved import GroupKey, InputTable
from dpsql.planner.explain.words import Words
from dpsql.planner.shares import people
from dpsql.schema.model import ROW, Schema

LEVEL = Fraction(95, 100)


def asked(aggregate: Aggregate, words: Words) -> str:
    """An aggregate as SQL."""
    value = words.expression(aggregate.shown) if aggregate.shown is not None else "*"
    call = _worded(aggregate, aggregate.record.written, value)
    if not call:
        second = f", {words.expression(aggregate.second)}" if aggregate.second is not None else ""
        call = f"{aggregate.function.upper()}({value}{second})"
    condition = aggregate.condition
    return call + (f" FILTER (WHERE {words.expression(condition)})" if condition is not None else "")


def _worded(aggregate: Aggregate, form: Worded, value: str) -> str:
    if not isinstance(form, str):
        return form(value, aggregate.number)
    return form.format(value=value, number=number(aggregate.number or Fraction(0)))


def headline(release: Release, words: Words) -> str:
    """Headline of a release, in words."""
    keys = [words.expression(key.scalar) for key in release.keys]
    parts = [_in_words(a, words) for a in release.limited.block.aggregates]
    if not parts:
        return f"the values of {listed(keys)}" if keys else "nothing"
    return listed(parts) + (f", for each {listed(keys)}" if keys else "")


def _in_words(aggregate: Aggregate, words: Words) -> str:
    value = words.expression(aggregate.shown) if aggregate.shown is not None else ""
    condition = aggregate.condition
    found = _worded(aggregate, aggregate.record.told, value) or asked(replace(aggregate, condition=None), words)
    return found + (f" where {words.expression(condition)}" if condition is not None else "")


# --- group keys ---------------------------------------------------------------------------------------------------


def limits(release: Release) -> str:
    """The last step before the sums: what of one unit is kept."""
    if not release.limited.enforced:
        owner = release.limited.block.source.unit
        return (
            f"nothing to cut: {'one row is one unit' if owner and owner.column is None else 'one person has one row'}"
        )
    most = release.limited.limits
    kept = f"{counted(most.rows, 'row')} and {counted(most.groups, 'group')} of one person"
    return f"cut to {kept}: enforced (may be skipped)"


def keys(release: Release, bounds: tuple[InputTable, ...], words: Words) -> list[str]:
    block = release.limited.block
    lists = {i: found.bound for found in block.lists for i in found.keys}
    lines = [_key(key, lists.get(i), bounds, words) for i, key in enumerate(release.keys)]
    if release.present is not None:
        count = release.measures[release.present.measure].name
        lines.append(f"groups whose {count} may be 0 are left out of what is computed over them; groups=all keeps them")
    elif len(release.keys) > 1 and block.groups is not None:
        lines.append(f"groups: {block.groups:,}, all shown, with noise where there is nobody")
    return lines + _selection(release)


def _key(key: GroupKey, bound: str | None, bounds: tuple[InputTable, ...], words: Words) -> str:
    name = f"group key {words.expression(key.scalar)}"
    if bound is not None:
        return f"{name}: listed by {made_of(bound, bounds)}, in {bound}, all shown; other rows are left out"
    if key.values is None and key.selected is not None:
        return f"{name}: {counted(len(key.selected), 'value')} selected before; all others are one more"
    if key.values is None:
        return f"{name}: selected privately"
    values = len([v for v in key.values if v is not None])
    null = " and NULL" if None in key.values else ""
    return f"{name}: {counted(values, 'declared value')}{null}, all shown; other rows are left out"


def made_of(name: str, bounds: tuple[InputTable, ...]) -> str:
    """The public tables and releases that an input table is made of."""
    bound = next(b for b in bounds if b.name == name)
    return listed([*(f"{table} (public)" for table in bound.public), *bound.reads]) or "constants"


def _selection(release: Release) -> list[str]:
    if release.selection is None:
        return []
    selection, noise = release.selection, release.measures[release.selection.measure]
    cut = "" if selection.delta else ", by noise that ends there"
    delta = number(selection.delta or noise.loss.delta)
    return [
        f"key selection: a group is shown if its noisy number of people is at least {selection.tau:,}",
        f"  delta {delta}: how likely it is at most that a group of one person is shown{cut}",
    ]


# --- measures -----------------------------------------------------------------------------------------------------


def measure(part: NoisyStatistic, release: Release, words: Words) -> list[str]:
    """A statistic, how far one unit moves it, and its noise."""
    s = part.sensitivity
    owner = release.limited.block.source.unit
    unit = "one row" if owner is not None and owner.column is None else "one person"
    moved = f"l0 {s.l0:,}, linf {s.linf:,}, l1 {s.l1:,}, l2^2 {s.l2_squared:,}"
    return [
        f"measure {part.name}: {part.statistic.told(words.expression)}",
        f"  {unit} changes {moved}",
        f"  {part.noise.describe()}; {_price(part.loss)}",
    ]


def _price(loss: PrivacyLoss) -> str:
    if loss.epsilon is None:
        return f"rho {number(loss.rho)}"
    return f"epsilon {number(loss.epsilon)}" + (f", delta {number(loss.delta)}" if loss.delta else "")


def bounded(release: Release, words: Words) -> list[str]:
    """Name the values that have the bounds that its sums need."""
    summed = [line for part in release.measures for line in part.statistic.bounds_told(words.expression)]
    return summed + [line for choice in release.chosen for line in choice.over_histogram.bounds_told(words.expression)]


def chosen(part: Selected, words: Words) -> list[str]:
    """Describe what is released of a histogram, and how."""
    return [
        f"choice {part.name}: {part.over_histogram.told(words.expression)}",
        f"  one row changes {part.over_histogram.cost}; one person has at most {counted(part.terms.limits.rows, 'row')} here",
        f"  {part.describe()}; epsilon {number(part.terms.epsilon)}",
    ]


# --- columns ------------------------------------------------------------------------------------------------------


def outputs(release: Release, words: Words, schema: Schema) -> list[str]:
    """For each aggregate the half-width of its interval, in its own unit."""
    aggregates = {a.name: a for a in release.limited.block.aggregates}
    lines: list[str] = []
    for output in release.outputs:
        first, *more = _width(output, release, schema)
        lines += [f"{asked(aggregates[output.name], words)}: {first}", *(f"  {line}" for line in more)]
    for read in release.read:
        promise = read.reading.promise(release.chosen[read.chosen].terms, LEVEL)
        lines.append(f"{asked(aggregates[read.name], words)}: {promise}")
    return lines


def _width(output: Output, release: Release, schema: Schema) -> list[str]:
    noise = release.measures[output.measure].noise
    width = output.estimate.half_width(noise, LEVEL)
    if width is not None:
        return [f"95 % half-width {number(width)}"]
    found = output.estimate.over_rows
    if found is None:
        lines = ["the 95 % interval depends on what is released"]
    else:
        one = noise.half_width_of_sum(1, LEVEL) * found
        about = "at most about" if output.estimate.depends else "about"
        lines = [f"95 % half-width {about} {number(one)} / n in a group of n rows", _example(one, release, schema)]
    return [lines[0], *([output.estimate.remark] if output.estimate.remark else []), *lines[1:]]


def _example(one: Fraction, release: Release, schema: Schema) -> str:
    """The width where a declared number says how many people there are (rule 38)."""
    declared = people(release.limited.block.source, schema.privacy.units)
    what = "rows" if schema.privacy.unit == ROW else "people"
    if not declared:
        return f"declare privacy.units, the public number of {what}, to see it"
    groups = release.limited.block.groups or 1
    spread = f"spread evenly over {groups:,} groups" if groups > 1 else "in one group"
    rows = "" if schema.privacy.unit == ROW else ", one row each,"
    width = number(float(f"{float(one * groups / declared):.3g}"))
    return f"about {width} if the declared {declared:,} {what}{rows} were {spread}"
