"""lower: Release -> CompiledRelease. The engine SQL, printed by us from scalars that cannot fail.

Where one unit has one row (row level, or verified keys) the rows of a group are summed as they are; nothing is cut, so groups whose
key is not declared may be left out after the sums. Otherwise the sums are made per (unit, group) first, and there every unit is cut to
its limits:

    1. rows: WHERE, rows without a unit left out, rows whose key is not declared left out - all before anything is cut (rule 13);
    2. sums of each (unit, group), a function of that unit's own rows;
    3. a unit's groups in the order of a keyed hash of (unit, key), then of the key: `turn` numbers them, and only the first
       `groups` stay. The order reads nothing of other units;
    4. per statistic, `before` rows were already used in earlier groups, so this group keeps cut = clamp(rows - before, 0, its rows);
       over all groups of a unit the cuts add up to at most `rows`;
    5. the statistic's sums are scaled and clamped to `cut` rows, then added up over units.

One unit, added or removed, changes step 5's addends of its own (unit, group) pairs and nothing else.

Where different values are counted, steps 2 to 4 say how many values each unit may take in each group, and the release stage sees who
takes which (aggregates/distinct_values.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpsql.aggregates.avg import Pair
from dpsql.aggregates.base import Limits, Matching, Statistic, UnitSums
from dpsql.aggregates.count import Rows
from dpsql.aggregates.count_distinct import Units
from dpsql.aggregates.sum import Total
from dpsql.aggregates.tally import Tally
from dpsql.core.domains import Categories, Value, integers
from dpsql.core.sqltypes import BIGINT, BOOLEAN, VARCHAR
from dpsql.expressions.arithmetic import narrow
from dpsql.expressions.mentions import mentions
from dpsql.expressions.scalar import Scalar, literal_sql, quoted
from dpsql.plan.compiled import CompiledMatching, CompiledRelease, CompiledTally, Verified
from dpsql.plan.releases import Release
from dpsql.plan.resolved import Bound, GroupKey, KeyList
from dpsql.plan.tables import KeyValue
from dpsql.planner.limit import travels_as_text
from dpsql.schema.facts import bounds_fact
from dpsql.schema.model import RESERVED

CUT = "$cut"
"""The parameter that the secret is bound to: it is in no text (rule 49)."""
_ADDED_UP = (Rows, Units, Total, Pair)
"""Statistics whose sums over units are those over rows where nothing is cut; of any other that is not known."""
_LISTED = quoted(f"{RESERVED}list")
"""A key list inside the condition that looks a row's keys up in it: no column of a statement can be of a table of that name."""


def lower(release: Release, bounds: Sequence[Bound] = ()) -> CompiledRelease:
    """The SQL of one release: group keys first, then the exact sums of its measures in order."""
    matchings = _matchings(release)
    matched = {matching.measure for matching in matchings}
    statistics = [m.statistic for i, m in enumerate(release.measures) if i not in matched]
    names, inputs = _inputs(statistics)
    rows = _worked_out(_rows_sql(release, inputs), statistics, names)
    if not statistics:
        sql = ""
    elif release.limited.enforced:
        sql = _per_unit(release, statistics, names, rows)
    else:
        sql = _per_row(release, [s.row_sums(n) for s, n in zip(statistics, names, strict=True)], rows)
    tallies = tuple(
        _tally(release, tally) for tally in {c.tallied.tally.identity: c.tallied.tally for c in release.chosen}.values()
    )
    listed = {part.bound for part in release.limited.block.lists}
    short = verified(release, statistics, names, inputs) if statistics else ()
    found = CompiledRelease(release, sql, (), short, tallies, matchings)
    used = tuple(b.name for b in bounds if b.name in listed or any(mentions(text, b.name) for text in found.texts))
    return replace(found, bounds=used)


def _inputs(statistics: list[Statistic]) -> tuple[list[list[str]], list[Scalar]]:
    """The distinct row expressions that the statistics read, and for each statistic their column names."""
    position: dict[str, int] = {}
    inputs: list[Scalar] = []
    names = []
    for statistic in statistics:
        for scalar in statistic.inputs:
            if scalar.sql not in position:
                position[scalar.sql] = len(inputs)
                inputs.append(scalar)
        names.append([f"x{position[scalar.sql]}" for scalar in statistic.inputs])
    steps: dict[str, str] = {}
    for statistic, own in zip(statistics, names, strict=True):
        own += [steps.setdefault(sql, f"y{len(steps)}") for sql in statistic.steps(own)]
    return names, inputs


def _worked_out(rows: str, statistics: list[Statistic], names: list[list[str]]) -> str:
    """Rows with what the statistics work out once of each."""
    steps = {
        name: sql
        for statistic, own in zip(statistics, names, strict=True)
        for name, sql in zip(own[len(statistic.inputs) :], statistic.steps(own), strict=True)
    }
    listed = ", ".join(f"{sql} AS {name}" for name, sql in steps.items())
    return f"SELECT *, {listed} FROM ({rows}) AS valued" if steps else rows


def _rows_sql(release: Release, inputs: list[Scalar], *, unit: bool | None = None) -> str:
    """The rows that count, with the unit, the keys and the inputs as columns.

    unit  whether the unit is a column; by default where the limits are enforced. Without it, rows that belong to nobody are
          kept out by the data's own structure: only for verified data
    """
    block = release.limited.block
    enforced = release.limited.enforced
    owner = block.source.unit.column if block.source.unit is not None else None
    shown = enforced if unit is None else unit
    columns, conditions = [], [c.sql for c in block.source.where]
    if owner is not None and (shown or unit is None):
        conditions.append(f"{owner.sql} IS NOT NULL")
        if shown:
            columns.append(f"{owner.sql} AS u")
    for key in release.keys:
        columns.append(f"{key_sql(key)} AS {key.name}")
        if key.values is not None and ((enforced and unit is None) or not _travels_whole(key)):
            conditions.append(_declared(key))
    conditions += [_on_list(release, listed) for listed in block.lists]
    columns += [f"{scalar.sql} AS x{i}" for i, scalar in enumerate(inputs)]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    source = block.source.from_sql(owner is not None and (shown or unit is None))
    return f"SELECT {', '.join(columns) or '1 AS one'} FROM {source}{where}"


def _on_list(release: Release, listed: KeyList) -> str:
    """The condition that a row's keys are on a bound table's list."""
    same = [
        f"{_LISTED}.{quoted(f'c{i}')} IS NOT DISTINCT FROM {release.keys[position].scalar.sql}"
        for i, position in enumerate(listed.keys)
    ]
    return f"EXISTS (SELECT 1 FROM {quoted(listed.bound)} AS {_LISTED} WHERE {' AND '.join(same)})"


def key_sql(key: GroupKey) -> str:
    """A key in the form in which it travels."""
    scalar = key.scalar
    if travels_as_text(scalar, key.values is not None):
        return f"CAST({scalar.sql} AS VARCHAR)"
    return f"TRY_CAST({scalar.sql} AS BIGINT)" if scalar.integral and not scalar.sqltype.is_boolean else scalar.sql


def _declared(key: GroupKey) -> str:
    """The condition that a row's key is on the declared list."""
    scalar = key.scalar
    listed = integers(scalar.domain) if scalar.integral or scalar.sqltype.name == "DATE" else scalar.domain
    assert isinstance(listed, Categories)
    inside = _inside(scalar, listed.values)
    return f"({inside} OR {scalar.sql} IS NULL)" if scalar.nullable else inside


def _inside(scalar: Scalar, values: tuple[Value, ...]) -> str:
    numbers = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    whole = scalar.integral or scalar.sqltype.name == "DATE"
    # Only where nothing lies between the values: 1.5 is not on the list 1, 2, 3.
    if whole and len(numbers) == len(values) > 2 and numbers[-1] - numbers[0] == len(values) - 1:
        return f"({scalar.sql} BETWEEN {literal_sql(values[0], scalar.sqltype)} AND {literal_sql(values[-1], scalar.sqltype)})"
    return f"({scalar.sql} IN ({', '.join(literal_sql(v, scalar.sqltype) for v in values)}))"


def _grouped(keys: list[str]) -> str:
    return f" GROUP BY {', '.join(keys)}" if keys else ""


def _as_text(sum_sql: str) -> str:
    """Sums cross as the digits of an integer: no driver's type holds HUGEINT exactly."""
    return f"CAST(COALESCE({sum_sql}, 0) AS VARCHAR)"


def _per_row(release: Release, sums: list[tuple[str, ...]], rows: str) -> str:
    keys = [key.name for key in release.keys]
    columns = keys + [f"{_crossing(sql)} AS s{i}" for i, sql in enumerate(sql for part in sums for sql in part)]
    return f"SELECT {', '.join(columns)} FROM ({rows}) AS counted{_grouped(keys)}{_only_declared(release.keys)}"


def verified(
    release: Release, statistics: list[Statistic], names: list[list[str]], inputs: list[Scalar]
) -> tuple[Verified, ...]:
    """Shorter SQL for data on which the limits, and then also the clamps, were verified to change nothing (rule 35).

    Why  where no unit has more rows than the limit that is enforced, and no more groups than that can be, every cut keeps
         everything: the sums per unit add up to the sums of the rows
    """
    source = release.limited.block.source
    if (
        not release.limited.enforced
        or not all(isinstance(s, _ADDED_UP) for s in statistics)
        or not _nothing_cut(release)
    ):
        return ()
    unit = any(isinstance(s, Units) for s in statistics)
    rows = _rows_sql(release, inputs, unit=unit)
    found = [Verified(_per_row(release, _row_sums(statistics, names), rows), source.facts)]
    bounded = [_without_clamp(s) for s in statistics]
    facts = [_bounds_facts(s) for s in statistics]
    if bounded != statistics and all(f is not None for f in facts):
        more = source.facts.union(*(f for f in facts if f is not None))
        rows = _rows_sql(release, _narrowed(inputs, bounded), unit=unit)
        found.insert(0, Verified(_per_row(release, _row_sums(bounded, names), rows), more))
    return tuple(found)


def _narrowed(inputs: list[Scalar], bounded: list[Statistic]) -> list[Scalar]:
    """What unclamped statistics add up, computed in the fewest digits that the verified bounds allow."""
    exact = {s.term.scalar.sql for s in bounded if isinstance(s, Total | Pair) and not s.term.clamped}
    found = []
    for scalar in inputs:
        fewer = narrow(scalar) if scalar.sql in exact and not scalar.is_column else scalar
        # The digits after the point say what a sum is worth.
        found.append(fewer if fewer.sqltype.scale == scalar.sqltype.scale else scalar)
    return found


def _row_sums(statistics: list[Statistic], names: list[list[str]]) -> list[tuple[str, ...]]:
    """Sums over rows as they are; people are counted once each."""
    found = []
    for statistic, columns in zip(statistics, names, strict=True):
        one = f"CASE WHEN {columns[0]} THEN u END" if columns else "u"
        found.append((f"count(DISTINCT {one})",) if isinstance(statistic, Units) else statistic.row_sums(columns))
    return found


def _groups_kept(release: Release) -> bool:
    """Whether the limit on groups is none: a unit cannot be in more."""
    limits = release.limited.limits
    listed = [len(key.values) for key in release.keys if key.values is not None]
    declared = math.prod(listed) if len(listed) == len(release.keys) else limits.rows
    constant = all(key.scalar.is_constant for key in release.keys)
    return constant or limits.groups >= min(limits.rows, declared)


def _without_clamp(statistic: Statistic) -> Statistic:
    """The statistic over values that need no clamp: exact types alone, where the bounds of a sum hold to the last digit."""
    if isinstance(statistic, Total | Pair) and (statistic.term.is_decimal or statistic.term.is_integer):
        return replace(statistic, term=replace(statistic.term, clamped=False))
    return statistic


def _bounds_facts(statistic: Statistic) -> frozenset[str] | None:
    """What must be verified for a statistic's clamp to change nothing; None where no fact says so."""
    if not isinstance(statistic, Total | Pair):
        return frozenset()
    scalar = statistic.term.scalar
    if any(part.function == "bounded" for part in scalar.walk()):
        return None
    leaves = list(scalar.leaves())
    if not all(leaf.origin for leaf in leaves):
        return None
    return frozenset(bounds_fact(*_place(leaf.origin)) for leaf in leaves)


def _place(origin: str) -> tuple[str, str]:
    table, _, name = origin.rpartition(".")
    return table, name


# --- different values ---------------------------------------------------------------------------------------------


def _matchings(release: Release) -> tuple[CompiledMatching, ...]:
    """What of a release is counted by letting units take values."""
    if not release.limited.enforced:
        return ()
    found = []
    for i, measure in enumerate(release.measures):
        (names,), inputs = _inputs([measure.statistic])
        part = measure.statistic.unit_sums(names)
        if isinstance(part, Matching):
            sql = _taking(release, part, _rows_sql(release, inputs))
            found.append(CompiledMatching(i, sql, _verified_matching(release, part, inputs)))
    return tuple(found)


def _taking(release: Release, part: Matching, rows: str) -> str:
    """Each value that a unit brings to a group, in the orders of values and of units; capacities are cut as rows are.

    Why  a unit needs no more of the limit on rows than it has different values, and takes no more than `most`
    """
    keys, limits = [key.name for key in release.keys], release.limited.limits
    owners = ", ".join(["u", *keys])
    brought = f"SELECT DISTINCT {owners}, v FROM (SELECT *, {part.value} AS v FROM ({rows}) AS counted) AS valued WHERE v IS NOT NULL"
    number = f"row_number() OVER (ORDER BY {_hashed('v')}, v) AS b"
    capacity = f"LEAST(count(*), {part.most}) AS r0"
    by_unit = f"SELECT {owners}, {capacity}, list(b) AS v0 FROM brought JOIN numbered ON v = w GROUP BY {owners}"
    cut = _cut(_ordered(by_unit, keys, limits, 1), limits, 1)
    turns = f"row_number() OVER (ORDER BY {_hashed('u')}, {owners}) AS t"
    columns = ", ".join([*keys, "unnest(v0) AS s0", "c0 AS s1", "t AS s2"])
    return (
        f"WITH brought AS MATERIALIZED ({brought}), "
        f"numbered AS (SELECT v AS w, {number} FROM (SELECT DISTINCT v FROM brought) AS different) "
        f"SELECT {columns} FROM (SELECT *, {turns} FROM ({cut}) AS limited WHERE c0 > 0) AS placed"
    )


def _hashed(column: str) -> str:
    return f"md5(concat_ws('|', {CUT}, CAST({column} AS VARCHAR)))"


def _verified_matching(release: Release, part: Matching, inputs: list[Scalar]) -> tuple[Verified, ...]:
    """Everybody takes what they bring, where no limit binds (see `verified`): as if one unit could take all of it."""
    source, keys = release.limited.block.source, [key.name for key in release.keys]
    unit = source.unit
    if not _nothing_cut(release) or unit is None or unit.max_rows is None or part.most < unit.max_rows:
        return ()
    rows = _rows_sql(release, inputs, unit=False)
    columns = ", ".join([*keys, f"count(DISTINCT {part.value}) AS n"])
    counts = f"SELECT {columns} FROM ({rows}) AS counted{_grouped(keys)}{_only_declared(release.keys)}"
    columns = ", ".join([*keys, "unnest(range(n)) AS s0", "n AS s1", "0 AS s2"])
    return (Verified(f"SELECT {columns} FROM ({counts}) AS different", source.facts),)


# --- tallies ------------------------------------------------------------------------------------------------------


def _tally(release: Release, tally: Tally) -> CompiledTally:
    """The rows of each group with each value. Where a unit may have several rows its values of a group are sorted, and of n that
    are cut to c those at evenly spread places stay: a function of its own rows, at most c of them.
    """
    names, inputs = [f"x{i}" for i in range(len(tally.inputs))], list(tally.inputs)
    value = tally.value_sql(names)
    enforced, limits = release.limited.enforced, release.limited.limits
    if not enforced:
        return CompiledTally(tally, _counted(release, tally, value, _rows_sql(release, inputs)))
    keys = [key.name for key in release.keys]
    owners = ", ".join(["u", *keys])
    by_unit = (
        f"SELECT {owners}, count(v) AS r0, list_sort(list(v) FILTER (WHERE v IS NOT NULL)) AS v0 "
        f"FROM (SELECT {owners}, {value} AS v FROM ({_rows_sql(release, inputs)}) AS counted) AS valued GROUP BY {owners}"
    )
    cut = _cut(_ordered(by_unit, keys, limits, 1), limits, 1)
    place = "TRY_CAST(1 + ((2 * i + 1) * CAST(r0 AS HUGEINT)) // (2 * c0) AS BIGINT)"
    kept = f"CASE WHEN c0 = r0 THEN v0 ELSE [v0[{place}] for i in range(c0)] END"
    columns = ", ".join([*keys, f"unnest({kept}) AS v"])
    sql = _bucketed(tally, keys, f"SELECT {columns} FROM ({cut}) AS limited WHERE c0 > 0")
    return CompiledTally(tally, sql, _verified_tally(release, tally, value, inputs))


def _counted(release: Release, tally: Tally, value: str, rows: str) -> str:
    """Every row counts as it is; groups whose key is not declared are left out after that."""
    keys = [key.name for key in release.keys]
    sql = _bucketed(tally, keys, f"SELECT {', '.join([*keys, f'{value} AS v'])} FROM ({rows}) AS counted")
    return sql + _only_declared(release.keys)


def _bucketed(tally: Tally, keys: list[str], values: str) -> str:
    columns = ["count(*) AS s0", *(["CAST(sum(v) AS VARCHAR) AS s1"] if tally.summed else [])]
    bucket = tally.bucket_sql("v")
    grouped = _grouped([*keys, "b"])
    return f"SELECT {', '.join([*keys, f'{bucket} AS b', *columns])} FROM ({values}) AS valued{grouped}"


def _verified_tally(release: Release, tally: Tally, value: str, inputs: list[Scalar]) -> tuple[Verified, ...]:
    """Without the cut, where it was verified to leave everything (see `verified`)."""
    if not _nothing_cut(release):
        return ()
    rows = _rows_sql(release, inputs, unit=False)
    return (Verified(_counted(release, tally, value, rows), release.limited.block.source.facts),)


def _nothing_cut(release: Release) -> bool:
    """Whether units with no more rows than they are verified to have keep all of them."""
    source, limits = release.limited.block.source, release.limited.limits
    most = source.unit.max_rows if source.unit is not None else None
    return most is not None and limits.rows >= most and _groups_kept(release)


def _only_declared(keys: tuple[GroupKey, ...]) -> str:
    """Leave out the groups whose key is not declared, where nothing is cut and so no row has to go before.

    Why  a condition on rows costs more than the sums. As it stands DuckDB cannot move this one below GROUP BY; it is
         always the condition itself, because every group has a row
    """
    conditions = [_among(key.name, key.values) for key in keys if key.values is not None]
    return f" HAVING CASE WHEN count(*) > 0 THEN {' AND '.join(conditions)} END" if conditions else ""


def _among(name: str, values: tuple[KeyValue, ...]) -> str:
    """The condition that a key, in the form in which it travels, is one of some values."""
    listed = [v for v in values if v is not None]
    numbers = [v for v in listed if isinstance(v, int) and not isinstance(v, bool)]
    if len(numbers) == len(listed) > 2 and max(numbers) - min(numbers) == len(set(numbers)) - 1:
        inside = f"{name} BETWEEN {_wire_sql(min(numbers))} AND {_wire_sql(max(numbers))}"
    else:
        inside = f"{name} IN ({', '.join(_wire_sql(v) for v in listed)})" if listed else "false"
    return f"({inside} OR {name} IS NULL)" if None in values else f"({inside})"


def _travels_whole(key: GroupKey) -> bool:
    """Whether different values stay different on their way: what no BIGINT holds would travel as NULL."""
    held = key.scalar.sqltype.range if key.scalar.sqltype.is_integer else None
    small = held is not None and held.lower >= -(2**63) and held.upper < 2**63
    return small or not key.scalar.integral or key.scalar.sqltype.is_boolean


def _wire_sql(value: int | str | bool) -> str:
    return literal_sql(value, BOOLEAN if isinstance(value, bool) else VARCHAR if isinstance(value, str) else BIGINT)


def _crossing(sql: str) -> str:
    return sql if sql.startswith("count(") else _as_text(sql)


def _per_unit(release: Release, statistics: list[Statistic], names: list[list[str]], rows: str) -> str:
    keys = [key.name for key in release.keys]
    limits = release.limited.limits
    asked = (s.unit_sums(n) for s, n in zip(statistics, names, strict=True))
    parts = [part for part in asked if isinstance(part, UnitSums)]
    inner = [f"{p.rows} AS r{i}" for i, p in enumerate(parts)]
    inner += [f"{sql} AS {name}{i}" for i, p in enumerate(parts) for name, sql in p.inner]
    by_unit = f"SELECT {', '.join(['u', *keys, *inner])} FROM ({rows}) AS counted GROUP BY {', '.join(['u', *keys])}"
    ordered = _ordered(by_unit, keys, limits, len(parts))
    cut = _cut(ordered, limits, len(parts))
    outer = []
    for i, part in enumerate(parts):
        columns = {"rows": f"r{i}", "cut": f"c{i}"} | {name: f"{name}{i}" for name, _ in part.inner}
        outer += [sql.format(**columns) for sql in part.outer]
    sums = [f"{_as_text(f'sum({sql})')} AS s{i}" for i, sql in enumerate(outer)]
    return f"SELECT {', '.join(keys + sums)} FROM ({cut}) AS limited{_grouped(keys)}"


def _ordered(by_unit: str, keys: list[str], limits: Limits, parts: int) -> str:
    """Each unit's groups numbered, and the rows of each statistic in the groups before.

    Why  a unit within all limits keeps everything in any order, so only the others' groups are sorted. Which units those
         are is decided for each by its own rows
    """
    if not keys:
        return f"{_numbered('1', ['0'] * parts)} FROM ({by_unit}) AS by_unit"
    texts = ", ".join(f"CAST({name} AS VARCHAR)" for name in ["u", *keys])
    window = f"(PARTITION BY u ORDER BY md5(concat_ws('|', {CUT}, {texts})), {', '.join(keys)}"
    before = [
        f"COALESCE(sum(r{i}) OVER {window} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)" for i in range(parts)
    ]
    above = " OR ".join([f"count(*) > {limits.groups}", *(f"sum(r{i}) > {limits.rows}" for i in range(parts))])
    return (
        f"WITH by_unit AS MATERIALIZED ({by_unit}), heavy AS (SELECT u AS unit FROM by_unit GROUP BY u HAVING {above}) "
        f"{_numbered('1', ['0'] * parts)} FROM by_unit ANTI JOIN heavy ON u = unit UNION ALL "
        f"{_numbered(f'row_number() OVER {window})', before)} FROM by_unit SEMI JOIN heavy ON u = unit"
    )


def _numbered(turn: str, before: list[str]) -> str:
    return f"SELECT *, {', '.join([f'{turn} AS turn', *(f'{sql} AS before{i}' for i, sql in enumerate(before))])}"


def _cut(ordered: str, limits: Limits, parts: int) -> str:
    """The rows that each statistic keeps of each (unit, group)."""
    cuts = ", ".join(
        f"CAST(GREATEST(0, LEAST(r{i}, {limits.rows} - before{i})) AS BIGINT) AS c{i}" for i in range(parts)
    )
    return f"SELECT *, {cuts} FROM ({ordered}) AS ordered WHERE turn <= {limits.groups}"
