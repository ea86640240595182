"""The features that SQLAlchemy's suite may ask of dpsql, where they differ from those of any database."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

OPEN = (
    *("boolean_col_expressions", "nullsordering", "standalone_binds", "intersect", "except_", "tuple_in"),
    *("window_functions", "ctes", "table_value_constructor", "order_by_label_with_expression"),
    *("fetch_first", "fetch_no_order_by", "fetch_expression", "mod_operator_as_percent_sign", "percent_schema_names"),
    *("unicode_ddl", "implicit_default_schema", "datetime_literals", "date_historic"),
    *("precision_numerics_enotation_small", "precision_numerics_enotation_large"),
    *("precision_numerics_many_significant_digits", "precision_numerics_retains_significant_digits"),
    *("infinity_floats", "float_or_double_precision_behaves_generically"),
)
CLOSED = (
    # of a database that is written to
    *("autoincrement_insert", "empty_inserts", "insert_from_select", "implements_get_lastrowid", "sane_rowcount"),
    *("duplicate_key_raises_integrity_error", "savepoints"),
    # what a declared schema does not have
    *("schemas", "views", "temporary_tables", "temporary_views", "temp_table_reflection", "index_reflection"),
    *("indexes_with_ascdesc", "unique_constraint_reflection", "self_referential_foreign_keys"),
    # types that dpsql does not compute with
    *("time", "time_microseconds", "time_implicit_bound", "binary_literals", "binary_comparisons"),
)


class Requirements(SuiteRequirements):  # type: ignore[misc]
    """One property for each question that the suite asks before a test."""


def _answer(found: Any) -> property:
    return property(lambda requirements: found())


for _names, _found in ((OPEN, exclusions.open), (CLOSED, exclusions.closed)):
    for _name in _names:
        setattr(Requirements, _name, _answer(_found))
