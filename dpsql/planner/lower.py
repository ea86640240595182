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
"""

from __future__ import annotations

import re

from dpsql.aggregates.base import Limits, Statistic
from dpsql.algebra.scalar import Scalar, literal_sql
from dpsql.domains import Categories, Value, integers
from dpsql.plan import CompiledRelease, GroupKey, KeyValue, Release
from dpsql.planner.limit import travels_as_text
from dpsql.sqltypes import BIGINT, BOOLEAN, VARCHAR

CUT = "$cut"
_QUOTED_OR_CUT = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$cut""")


def lower(release: Release) -> CompiledRelease:
    """The SQL of one release: group keys first, then the exact sums of its measures in order."""
    statistics = [m.statistic for m in release.measures]
    names, inputs = _inputs(statistics)
    rows = _rows_sql(release, inputs)
    summed = _per_unit if release.limited.enforced else _per_row
    sql = summed(release, statistics, names, rows)
    return CompiledRelease(release, sql, len(release.keys), sum(s.sums for s in statistics))


def with_secret(sql: str, secret: str) -> str:
    """Engine SQL with a hexadecimal secret where `$cut` stands; a caller's own text and names are left alone."""
    return _QUOTED_OR_CUT.sub(lambda found: f"'{secret}'" if found[0] == CUT else found[0], sql)


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
    return names, inputs


def _rows_sql(release: Release, inputs: list[Scalar]) -> str:
    """The rows that count, with the unit, the keys and the inputs as columns."""
    block = release.limited.block
    unit = block.source.unit
    columns, conditions = [], [c.sql for c in block.source.conditions]
    if unit is not None and unit.column is not None:
        conditions.append(f"{unit.column.sql} IS NOT NULL")
        if release.limited.enforced:
            columns.append(f"{unit.column.sql} AS u")
    for key in release.keys:
        columns.append(f"{_key_sql(key)} AS {key.name}")
        if key.values is not None and (release.limited.enforced or not _travels_whole(key)):
            conditions.append(_declared(key))
    columns += [f"{scalar.sql} AS x{i}" for i, scalar in enumerate(inputs)]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(columns) or '1 AS one'} FROM {block.source.from_sql}{where}"


def _key_sql(key: GroupKey) -> str:
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
    """Sums cross as text: no driver type holds HUGEINT and DECIMAL exactly."""
    return f"CAST(COALESCE({sum_sql}, 0) AS VARCHAR)"


def _per_row(release: Release, statistics: list[Statistic], names: list[list[str]], rows: str) -> str:
    keys = [key.name for key in release.keys]
    sums = [sql for s, n in zip(statistics, names, strict=True) for sql in s.row_sums(n)]
    columns = keys + [f"{_crossing(sql)} AS s{i}" for i, sql in enumerate(sums)]
    return f"SELECT {', '.join(columns)} FROM ({rows}) AS counted{_grouped(keys)}{_only_declared(release.keys)}"


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
    parts = [s.unit_sums(n) for s, n in zip(statistics, names, strict=True)]
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
