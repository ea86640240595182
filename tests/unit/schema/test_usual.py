"""`usual` and `readable`: what the owner takes for granted is read as values of the column, and every mistake says what to write."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dpsql.core.errors import Error
from dpsql.planner.measure import schema_identity
from dpsql.schema.model import Guard, Schema
from dpsql.schema.toml import read_schema

TEXT = """
[dataset]
name = "usual"
source = "."
[privacy]
unit = "person.id"
epsilon = 1.0
delta = 1e-6
[guard]
readable = {readable}
[tables.person]
source = "person.csv"
key = ["id"]
[tables.person.columns]
id = {{ type = "BIGINT" }}
x = {{ {column} }}
"""


def read(column: str, readable: str = "10") -> Schema:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "schema.toml"
        path.write_text(TEXT.format(column=column, readable=readable))
        return read_schema(path)


@pytest.mark.parametrize(
    ("column", "usual"),
    [
        ('type = "BIGINT", bounds = [0, 9], usual = { 0 = 0.5 }', ((0, Fraction(1, 2)),)),
        ('type = "DOUBLE", bounds = [0, 9], usual = { "2.5" = 0.25 }', ((Fraction(5, 2), Fraction(1, 4)),)),
        (
            'type = "BIGINT", nullable = true, usual = { NULL = 0.1, 7 = 0.2 }',
            ((None, Fraction(1, 10)), (7, Fraction(1, 5))),
        ),
        ('type = "VARCHAR", domain = ["a", "NULL"], usual = { NULL = 1 }', (("NULL", Fraction(1)),)),
        ('type = "BOOLEAN", usual = { true = 0.9 }', ((True, Fraction(9, 10)),)),
        ('type = "DATE", bounds = [2020-01-01, 2020-12-31], usual = { 2020-01-01 = 0.9 }', ((18262, Fraction(9, 10)),)),
        ('type = "TIME", usual = { "00:00:01" = 0.5 }', ((1_000_000, Fraction(1, 2)),)),
        ('type = "TIMESTAMP", usual = { "1970-01-01T00:00:01" = 0.5 }', ((1_000_000, Fraction(1, 2)),)),
    ],
)
def test_values_of_the_column(column: str, usual: tuple[object, ...]) -> None:
    schema = read(column)
    assert schema.tables[0].columns[1].usual == usual
    assert schema_identity(schema) == schema_identity(read(column.partition(", usual")[0])), "stored answers stay"


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ('type = "BIGINT", usual = 0.5', "usual needs a table"),
        ('type = "BIGINT", usual = { 0 = 0 }', "usual gives 0 no share"),
        ('type = "BIGINT", usual = { 0 = "half" }', "usual gives 0 no share"),
        ('type = "BIGINT", usual = { a = 0.5 }', "usual names 'a', which is no value"),
        ('type = "BIGINT", usual = { "2.5" = 0.5 }', "which is no value"),
        ('type = "BIGINT", usual = { NULL = 0.5 }', "usual names 'NULL', which is no value"),
        ('type = "BIGINT", bounds = [1, 9], usual = { 0 = 0.5 }', "usual names '0', which is no value"),
        ('type = "VARCHAR", domain = ["a"], usual = { b = 0.5 }', "usual names 'b', which is no value"),
        ('type = "BOOLEAN", usual = { yes = 0.5 }', "usual names 'yes', which is no value"),
        ('type = "DATE", usual = { today = 0.5 }', "usual names 'today', which is no value"),
        ('type = "BIGINT", usual = { 0 = 0.5, "0.0" = 0.1 }', "usual names a value twice"),
        ('type = "BIGINT", usual = { 0 = 0.5, 1 = 0.6 }', "more than 1"),
    ],
)
def test_mistakes(column: str, said: str) -> None:
    with pytest.raises(Error, match="DPSQL-801") as problem:
        read(column)
    assert said in str(problem.value).replace('"', "'")


def test_how_noisy_a_difference_must_be() -> None:
    assert read('type = "BIGINT"').guard == Guard() and read('type = "BIGINT"', "2.5").guard.readable == Fraction(5, 2)
    with pytest.raises(Error, match="readable needs a finite number above 0"):
        read('type = "BIGINT"', "0")


def test_no_analyst_has_a_name_of_dpsql_itself() -> None:
    with pytest.raises(Error, match="analyst dpsql owner: has a name that dpsql keeps for itself"):
        read('type = "BIGINT" }\n[analysts."dpsql owner"]\nepsilon = 0.5\n# {')
