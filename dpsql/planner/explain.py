"""EXPLAIN: what will be released, how one person can change it, what it costs and how exact it will be. Free, and data-free."""

from __future__ import annotations

from fractions import Fraction

from dpsql.plan import Compiled, CompiledRelease, Measure, Output, Release
from dpsql.schema.model import Schema

LEVEL = Fraction(95, 100)


def explain(compiled: Compiled, schema: Schema) -> str:
    """The plan as text, one fact a line."""
    if not compiled.releases:
        return "public: reads no people's rows, so the answer is exact and free\nsql: " + compiled.plan.shell.sql
    lines = [line for part in compiled.releases for line in _release(part, schema)]
    loss = compiled.plan.loss
    lines.append(
        f"price: epsilon {_number(loss.epsilon)}, delta {_number(loss.delta)} (free where the answer is stored)"
    )
    lines.append(f"answer: {compiled.plan.shell.sql}")
    return "\n".join(lines)


def _release(part: CompiledRelease, schema: Schema) -> list[str]:
    release = part.release
    lines = [f"release {release.name}", f"  rows: {release.limited.block.source.from_sql()}"]
    lines += [f"  where: {condition.sql}" for condition in release.limited.block.source.where]
    lines.append(f"  privacy unit: {schema.privacy.unit}; {_limits(release)}")
    lines += [
        f"  group key {key.name}: {key.scalar.sql}, {_values(len(key.values) if key.values else 0)}"
        for key in release.keys
    ]
    if not release.measures:
        return [*lines, "  the declared keys are public: free"]
    lines += [_measure(m) for m in release.measures]
    if release.selection is not None:
        lines.append(
            f"  key selection: a group is shown if its noisy number of units is at least {release.selection.tau},"
            f" delta {_number(release.selection.delta)}"
        )
    lines += [_output(o, release) for o in release.outputs]
    return [*lines, f"  engine: {part.sql}"]


def _limits(release: Release) -> str:
    if not release.limited.enforced:
        return "one row per unit (by declared keys), nothing to cut"
    limits = release.limited.limits
    rows, groups = _counted(limits.rows, "row"), _counted(limits.groups, "group")
    return f"at most {rows} and {groups} of one unit, enforced (may be skipped)"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _values(count: int) -> str:
    return (
        f"{count:,} declared values, all shown; rows with other values are left out" if count else "selected privately"
    )


def _measure(measure: Measure) -> str:
    s = measure.sensitivity
    return (
        f"  measure {measure.name}: {measure.statistic.identity}; one unit changes l0 {s.l0}, linf {s.linf}, l1 {s.l1},"
        f" l2^2 {s.l2_squared}; {measure.noise.describe()}; epsilon {_number(measure.loss.epsilon)}"
        + (f", delta {_number(measure.loss.delta)}" if measure.loss.delta else "")
    )


def _output(output: Output, release: Release) -> str:
    width = output.estimate.half_width(release.measures[output.measure].noise, LEVEL)
    expected = f"95 % half-width {width:.6g}" if width is not None else "95 % interval depends on the released count"
    return f"  column {output.name}: {expected}"


def _number(value: Fraction) -> str:
    return f"{float(value):.6g}"
