"""Rows of what a model says: its weights, or of a pca its components, what each explains, and the correlations of its columns; made of
released numbers alone."""

from __future__ import annotations

from dpsql.accounting.models import StoredModel
from dpsql.postprocess.principal import NoisyMoments, components, correlations, noise_alone
from dpsql.release.staging import Columns

Row = tuple[object, ...]

INTERCEPT = "__INTERCEPT__"
WEIGHTS: Columns = (("processed_input", "VARCHAR"), ("category", "VARCHAR"), ("weight", "DOUBLE"))
INFO: Columns = (
    ("principal_component_id", "BIGINT"),
    ("eigenvalue", "DOUBLE"),
    ("explained_variance_ratio", "DOUBLE"),
    ("cumulative_explained_variance_ratio", "DOUBLE"),
    ("eigenvalue_of_noise", "DOUBLE"),
)
COMPONENTS: Columns = (
    ("principal_component_id", "BIGINT"),
    ("feature", "VARCHAR"),
    ("category", "VARCHAR"),
    ("value", "DOUBLE"),
)
CORRELATIONS: Columns = (
    ("feature", "VARCHAR"),
    ("category", "VARCHAR"),
    ("other_feature", "VARCHAR"),
    ("other_category", "VARCHAR"),
    ("correlation", "DOUBLE"),
    ("low", "DOUBLE"),
    ("high", "DOUBLE"),
)


def weights(model: StoredModel) -> list[Row]:
    """Of each feature its weights, the intercept first."""
    rows: list[Row] = [(INTERCEPT, None, model.intercept)]
    for one in model.features:
        levels = one.levels or (None,)
        rows += [(one.name, level, weight) for level, weight in zip(levels, one.weights, strict=True)]
    return rows


def info(model: StoredModel) -> list[Row]:
    """Of each component what it explains, the largest first."""
    moments = _moments(model)
    noise = noise_alone(moments)
    return [(i, one.eigenvalue, one.share, one.so_far, noise) for i, one in enumerate(components(moments))]


def component_rows(model: StoredModel) -> list[Row]:
    """Each component's entries."""
    named = _named(model)
    found = enumerate(components(_moments(model)))
    return [(i, *name, entry) for i, one in found for name, entry in zip(named, one.entries, strict=True)]


def correlation_rows(model: StoredModel) -> list[Row]:
    """Each pair of columns once."""
    named = _named(model)
    found = correlations(_moments(model))
    return [(*named[one.first], *named[one.second], one.value, one.low, one.high) for one in found]


def _moments(model: StoredModel) -> NoisyMoments:
    return NoisyMoments(model.moments, model.intercept, model.sigma)


def _named(model: StoredModel) -> list[tuple[str, str | None]]:
    """The columns: of a list one for each value."""
    return [(one.name, level) for one in model.features for level in one.levels or (None,)]
