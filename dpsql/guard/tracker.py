"""The guard's rules. R1: no constant is compared with an identifier, and nothing but COUNT is aggregated over one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpsql.algebra.scalar import Scalar
from dpsql.errors import Error, error
from dpsql.plan import Release
from dpsql.schema.model import Guard


def check(releases: Iterable[Release], policy: Guard) -> list[Error]:
    """What the guard says against a statement; empty allows it.

    Output  in mode "warn" the findings are returned; in "block" and "audit" the first is raised (601); in "off" there are none
    Why     reads the plan alone, so the decision is the same on every database
    """
    if policy.mode == "off":
        return []
    findings = [finding for release in releases for finding in identifiers(release)]
    if findings and policy.mode in ("block", "audit"):
        raise findings[0]
    return findings


def identifiers(release: Release) -> Iterator[Error]:
    """R1: every use of an identifier but COUNT(identifier) and COUNT(DISTINCT identifier)."""
    block = release.limited.block
    counted = [a.argument for a in block.aggregates if a.function in ("count", "distinct")]
    for scalar in release.region:
        if scalar in counted and scalar.is_column and not scalar.computes_identifier:
            continue
        found = _identifier(scalar)
        if found is not None:
            origin = next((part.origin for part in found.walk() if part.origin), found.sql)
            name = origin.rpartition(".")[2].strip('"')
            yield error(
                601,
                f"rule R1: {name} is an identifier, and a condition on it can single out one person",
                hint=f"leave {name} out, and filter by what many people share",
            )


def _identifier(scalar: Scalar, seen: set[int] | None = None) -> Scalar | None:
    """The first identifier that is used; the same private key on both sides of `=` only says whose rows they are."""
    seen = seen if seen is not None else set()
    if not scalar.is_identifying or id(scalar) in seen:
        return None
    seen.add(id(scalar))
    if scalar.function == "=" and scalar.args[0].key and scalar.args[0].key == scalar.args[1].key:
        return None
    if scalar.role == "identifier":
        return scalar
    return next((found for arg in scalar.args if (found := _identifier(arg, seen)) is not None), None)
