"""Reading a schema file: every key, every default, and the schemas of the examples."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.accountants.registry import accountings
from dpsql.core.domains import UNBOUNDED, Categories, interval
from dpsql.core.errors import SchemaError
from dpsql.core.loss import EpsilonDelta
from dpsql.core.sqltypes import BIGINT, BOOLEAN, DOUBLE, decimal
from dpsql.schema import Analyst, Column, Guard, Reference, Reservation, Role, Schema, Table, read_schema
from dpsql.schema.model import WINDOWS
from tests.unit.schema.schema_files import CLINIC, FULL, changed, read

EXAMPLES = Path(__file__).parents[3] / "examples"


def table(schema: Schema, name: str) -> Table:
    found = schema.table(name)
    assert found is not None
    return found


def column(schema: Schema, where: str, name: str) -> Column:
    found = table(schema, where).column(name)
    assert found is not None
    return found


def with_column(declaration: str) -> str:
    return changed('income = { type = "DOUBLE", bounds = [0, 30000], step = 1 }', f"x = {declaration}")


def privacy(line: str) -> str:
    return changed("delta = 1e-6", f"delta = 1e-6\n{line}")


HOME = """
[tables.home]
source = "home.csv"
key = ["person_id"]
references = { person_id = "person.person_id" }
[tables.home.columns]
person_id = { type = "BIGINT" }
site = { type = "INTEGER", domain = [1, 2] }
"""


# --- sections -----------------------------------------------------------------------------------------------------


def test_dataset(tmp_path: Path) -> None:
    schema = read(tmp_path, changed('source = "."', 'source = "."\nledger = "spent.ledger"'))
    assert (schema.name, schema.source, schema.ledger, schema.folder) == ("clinic", ".", "spent.ledger", tmp_path)


def test_numbers_are_exact(tmp_path: Path) -> None:
    budget = read(tmp_path, changed("epsilon = 4.0", "epsilon = 0.1")).privacy.budget
    assert budget == EpsilonDelta(Fraction(1, 10), Fraction(1, 10**6))


def test_default_prices(tmp_path: Path) -> None:
    privacy = read(tmp_path, CLINIC).privacy
    assert privacy.query == EpsilonDelta(Fraction(1, 10), Fraction(1, 10**9))
    assert privacy.caps == EpsilonDelta(Fraction(1, 2), Fraction(1, 10**8))
    assert (privacy.units, privacy.max_cells) == (None, 1_000_000)
    assert (privacy.mechanism, privacy.household) == ("laplace", None)
    assert (privacy.accounting, privacy.window, privacy.partition) == ("auto", None, None)
    assert privacy.shared_answers


def test_a_default_never_passes_what_is_written(tmp_path: Path) -> None:
    small = read(tmp_path, changed("epsilon = 4.0", "epsilon = 0.05")).privacy
    assert small.query.epsilon == small.caps.epsilon == Fraction(1, 20)
    capped = read(tmp_path, changed("delta = 1e-6", "delta = 1e-6\ncaps = { epsilon = 0.02, delta = 1e-12 }")).privacy
    assert capped.query == capped.caps == EpsilonDelta(Fraction(2, 100), Fraction(1, 10**12))


def test_half_a_price_keeps_the_other_default(tmp_path: Path) -> None:
    privacy = read(tmp_path, changed("delta = 1e-6", "delta = 1e-6\nquery = { epsilon = 0.2 }")).privacy
    assert privacy.query == EpsilonDelta(Fraction(2, 10), Fraction(1, 10**9))
    assert privacy.caps.epsilon == 1


def test_guard(tmp_path: Path) -> None:
    assert read(tmp_path, CLINIC).guard == Guard("block", 20)
    assert read(tmp_path, CLINIC + '\n[guard]\nmode = "audit"\nk = 7\n').guard == Guard("audit", 7)


def test_analysts(tmp_path: Path) -> None:
    assert read(tmp_path, CLINIC).analysts is None
    named = read(tmp_path, CLINIC + "\n[analysts.ann]\nepsilon = 1\n[analysts.bob]\n")
    assert named.analysts == (Analyst("ann", Fraction(1)), Analyst("bob"))
    assert read(tmp_path, CLINIC + "\n[analysts]\n").analysts == ()


@pytest.mark.parametrize("accounting", accountings())
def test_accounting(tmp_path: Path, accounting: str) -> None:
    assert read(tmp_path, privacy(f'accounting = "{accounting}"')).privacy.accounting == accounting


@pytest.mark.parametrize("window", WINDOWS)
def test_window(tmp_path: Path, window: str) -> None:
    assert read(tmp_path, privacy(f'window = "{window}"')).privacy.window == window


@pytest.mark.parametrize("shared", [True, False])
def test_shared_answers(tmp_path: Path, shared: bool) -> None:
    assert read(tmp_path, privacy(f"shared_answers = {str(shared).lower()}")).privacy.shared_answers is shared


@pytest.mark.parametrize(
    "declaration",
    [
        '{ type = "INTEGER", domain = [1, 2] }',
        '{ type = "VARCHAR", domain = ["a", "b"], nullable = true, role = "quasi" }',
        '{ type = "BOOLEAN" }',
        '{ type = "INTEGER", bounds = [1, 1000] }',
    ],
)
def test_partition(tmp_path: Path, declaration: str) -> None:
    text = with_column(declaration).replace("delta = 1e-6", 'delta = 1e-6\npartition = "PERSON.X"')
    assert read(tmp_path, text).privacy.partition == ("person", "x")


def test_a_partition_of_another_table_with_one_row_per_unit(tmp_path: Path) -> None:
    text = privacy('partition = "home.site"') + HOME
    assert read(tmp_path, text).privacy.partition == ("home", "site")


def test_a_partition_of_rows(tmp_path: Path) -> None:
    text = privacy('partition = "home.site"').replace('unit = "person.person_id"', 'unit = "row"')
    text = text[: text.index("[tables")] + HOME.replace('references = { person_id = "person.person_id" }\n', "")
    assert read(tmp_path, text).privacy.partition == ("home", "site")


def test_roles_of_analysts(tmp_path: Path) -> None:
    assert read(tmp_path, CLINIC).roles == ()
    schema = read(tmp_path, FULL + "\n[roles.staff]\n")
    assert schema.roles == (Role("interns", Fraction(1), Fraction(1, 10**7)), Role("staff"))
    assert schema.analysts == (Analyst("ann", role="interns"), Analyst("bi", Fraction(3)))


def test_reservations(tmp_path: Path) -> None:
    assert read(tmp_path, CLINIC).reservations == ()
    kept = Reservation("board", "bi", 12, Fraction(1, 10), Fraction(1, 10**9))
    assert read(tmp_path, FULL).reservations == (kept,)
    free = CLINIC + '\n[reservations.board]\nanalyst = "anybody"\nrefreshes = 1\nepsilon = 0.5\n'
    assert read(tmp_path, free).reservations == (Reservation("board", "anybody", 1, Fraction(1, 2)),)


@pytest.mark.parametrize("accounting", ["auto", "advanced", "zcdp", "gdp"])
def test_only_plain_sums_say_how_much_can_be_kept(tmp_path: Path, accounting: str) -> None:
    text = FULL.replace("refreshes = 12", "refreshes = 100").replace("sequential", accounting)
    assert read(tmp_path, text).reservations[0].refreshes == 100


def test_all_of_the_total_can_be_kept(tmp_path: Path) -> None:
    assert read(tmp_path, FULL.replace("refreshes = 12", "refreshes = 40")).reservations[0].refreshes == 40


# --- tables -------------------------------------------------------------------------------------------------------


def test_tables(tmp_path: Path) -> None:
    schema = read(tmp_path, CLINIC)
    assert [(t.name, t.source, t.public) for t in schema.tables] == [
        ("person", "person.parquet", False),
        ("visit", "visit.parquet", False),
        ("ward", "ward.csv", True),
    ]
    visit = table(schema, "visit")
    assert (visit.key, visit.max_rows_per_unit, visit.references) == (
        ("visit_id",),
        5,
        (Reference(("person_id",), "person", ("person_id",)),),
    )
    assert table(schema, "ward").columns == ()


def test_a_reference_column_is_added_with_the_type_it_points_to(tmp_path: Path) -> None:
    visit = table(read(tmp_path, CLINIC), "visit")
    assert [(c.name, c.sqltype) for c in visit.columns] == [
        ("visit_id", BIGINT),
        ("cost", decimal(10, 2)),
        ("person_id", BIGINT),
    ]


def test_a_listed_reference_column_keeps_its_place(tmp_path: Path) -> None:
    visit = table(
        read(tmp_path, changed('visit_id = { type = "BIGINT" }', "person_id = {}\nvisit_id.type = 'INT'")), "visit"
    )
    assert [c.name for c in visit.columns] == ["person_id", "visit_id", "cost"]
    assert visit.columns[0].sqltype == BIGINT


def test_a_database_finds_tables_by_their_names(tmp_path: Path) -> None:
    text = changed('source = "."', 'source = "clinic.duckdb"').replace('source = "visit.parquet"\n', "")
    assert table(read(tmp_path, text), "visit").source == "visit"


def test_names_do_not_depend_on_case(tmp_path: Path) -> None:
    text = changed('unit = "person.person_id"', 'unit = "Person.PERSON_ID"')
    text = text.replace('{ person_id = "person.person_id" }', '{ PERSON_ID = "PERSON.Person_Id" }')
    text = text.replace('from = "ward.ward"', 'from = "WARD.Ward"').replace('key = ["visit_id"]', 'key = ["VISIT_ID"]')
    text = text.replace(
        'visit_id = { type = "BIGINT" }', 'visit_id = { type = "BIGINT" }\nperson_id = { type = "BIGINT" }'
    )
    schema = read(tmp_path, text)
    assert schema.privacy.unit == "person.person_id"
    assert table(schema, "visit").references == (Reference(("person_id",), "person", ("person_id",)),)
    assert table(schema, "visit").key == ("visit_id",)
    assert column(schema, "person", "ward").domain_from == ("ward", "ward")
    assert schema.unit_column(table(schema, "visit")) == "person_id"


ORDERS = """
[tables.orders]
source = "orders.parquet"
key = ["order_id"]
references = { buyer = "person.person_id", seller = "person.person_id" }
%s
[tables.orders.columns]
order_id = { type = "BIGINT" }
"""
LINES = """
[tables.line]
source = "line.parquet"
references = { order_id = "orders.order_id" }
unit_path = ["order_id", "Seller"]
"""


def test_unit_path_chooses_among_several(tmp_path: Path) -> None:
    schema = read(tmp_path, CLINIC + ORDERS % 'unit_path = ["seller"]' + LINES)
    assert schema.unit_column(table(schema, "orders")) == "seller"
    assert [r.name for r in schema.path_to_unit(table(schema, "line"))] == ["order_id", "seller"]
    assert [c.role for c in table(schema, "orders").columns] == ["identifier"] * 3
    assert column(schema, "line", "order_id").sqltype == BIGINT


def test_row_level_privacy(tmp_path: Path) -> None:
    text = changed('unit = "person.person_id"', 'unit = "row"').replace(
        'references = { person_id = "person.person_id" }\n', ""
    )
    text = text.replace("max_rows_per_unit = 5\n", "").replace(", unit_bounds = [0, 500]", "")
    schema = read(tmp_path, text.replace("[tables.person]", "[tables.person]\npopulation = 900"))
    assert schema.privacy.unit_table is None
    assert table(schema, "person").population == 900


def test_population(tmp_path: Path) -> None:
    assert (
        table(
            read(tmp_path, changed('key = ["person_id"]', 'key = ["person_id"]\npopulation = 900')), "person"
        ).population
        == 900
    )


# --- columns ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declaration", "domain"),
    [
        ('{ type = "DOUBLE", bounds = [-0.1, 2.5] }', interval(Fraction(-1, 10), Fraction(5, 2))),
        ('{ type = "BIGINT", bounds = [3, 3] }', interval(3, 3)),
        ('{ type = "BIGINT", bounds = [0.0, 1e3] }', interval(0, 1000)),
        ('{ type = "HUGEINT", bounds = [0, 1e30] }', interval(0, 10**30)),
        ('{ type = "DATE", bounds = [1970-01-02, 1971-01-01] }', interval(1, 365)),
        ('{ type = "DATE", domain = [1970-01-02, 1969-12-31] }', Categories((-1, 1))),
        ('{ type = "TIME", bounds = [00:00:01, 23:59:59.999999] }', interval(10**6, 86400 * 10**6 - 1)),
        ('{ type = "TIME", domain = [12:00:00, 08:30:00] }', Categories((30_600 * 10**6, 43_200 * 10**6))),
        (
            '{ type = "TIMESTAMP", bounds = [1970-01-01T00:00:01, 1970-01-02T00:00:00.000001] }',
            interval(10**6, 86400 * 10**6 + 1),
        ),
        ('{ type = "INTEGER", domain = [3, 1, 2] }', Categories((1, 2, 3))),
        ('{ type = "VARCHAR", domain = ["b", "a"] }', Categories(("a", "b"))),
        ('{ type = "DECIMAL(4,1)", domain = [0.5, 2] }', Categories((Fraction(1, 2), 2))),
        ('{ type = "BOOLEAN" }', Categories((False, True))),
        ('{ type = "text" }', UNBOUNDED),
    ],
)
def test_domains(tmp_path: Path, declaration: str, domain: object) -> None:
    assert column(read(tmp_path, with_column(declaration)), "person", "x").domain == domain


def test_a_boolean_domain_holds_booleans(tmp_path: Path) -> None:
    found = column(read(tmp_path, with_column('{ type = "BOOL" }')), "person", "x")
    assert found.sqltype == BOOLEAN
    assert found.domain.values[0] is False  # type: ignore[union-attr]


def test_the_rest_of_a_column(tmp_path: Path) -> None:
    text = with_column('{ type = "DOUBLE", bounds = [0, 9], step = 0.25, unit_bounds = [-1, 1e3], nullable = true }')
    found = column(read(tmp_path, text), "person", "x")
    assert found == Column("x", DOUBLE, interval(0, 9), True, "grid", Fraction(1, 4), interval(-1, 1000))


def test_dates_count_from_1970(tmp_path: Path) -> None:
    born = column(read(tmp_path, CLINIC), "person", "born")
    assert born.domain == interval(
        (date(1900, 1, 1) - date(1970, 1, 1)).days, (date(2020, 12, 31) - date(1970, 1, 1)).days
    )


@pytest.mark.parametrize(
    ("declaration", "role"),
    [
        ('{ type = "INTEGER", domain = [1] }', "dimension"),
        ('{ type = "BOOLEAN" }', "dimension"),
        ('{ type = "INTEGER", domain = { from = "ward.ward" } }', "dimension"),
        ('{ type = "DATE", bounds = [1970-01-02, 1971-01-01], step = 7 }', "grid"),
        ('{ type = "DOUBLE", bounds = [0, 1] }', "measure"),
        ('{ type = "DOUBLE", step = 1 }', "measure"),
        ('{ type = "VARCHAR" }', "measure"),
        ('{ type = "VARCHAR", role = "measure" }', "measure"),
        ('{ type = "INTEGER", domain = [1], role = "quasi" }', "quasi"),
        ('{ type = "INTEGER", bounds = [1, 9], role = "dimension" }', "dimension"),
    ],
)
def test_roles(tmp_path: Path, declaration: str, role: str) -> None:
    assert column(read(tmp_path, with_column(declaration)), "person", "x").role == role


def test_roles_of_keys_and_references(tmp_path: Path) -> None:
    schema = read(tmp_path, CLINIC.replace('domain = { from = "ward.ward" }', "nullable = true"))
    assert column(schema, "person", "person_id").role == "identifier"
    assert column(schema, "visit", "visit_id").role == "identifier"
    assert column(schema, "visit", "person_id").role == "identifier"
    assert column(schema, "person", "ward").role == "dimension"


def test_a_part_of_a_longer_key_is_not_an_identifier(tmp_path: Path) -> None:
    schema = read(tmp_path, changed('key = ["visit_id"]', 'key = ["person_id", "visit_id"]'))
    assert column(schema, "visit", "visit_id").role == "measure"


# --- files --------------------------------------------------------------------------------------------------------


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_bytes(b"\xef\xbb\xbf" + CLINIC.encode())
    assert read_schema(str(tmp_path / "schema.toml")).name == "clinic"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'[dataset]\nname = "\xff"\n', "is not UTF-8 at byte 18"),
        (b"[dataset]\nname = \n", "line 2"),
        (b'[dataset]\nname = "a"\nname = "b"\n', "line 3"),
        (b"[dataset", "line 1"),
        (b"[dataset]\nx = [1,\n", "line 2"),
        (b"[privacy]\nunits = " + b"9" * 5000, "too many digits"),
        (b"[privacy]\nunits = " + b"[" * 5000, "nested too deeply"),
    ],
)
def test_text_that_is_no_toml(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "schema.toml").write_bytes(content)
    with pytest.raises(SchemaError, match="DPSQL-801") as caught:
        read_schema(tmp_path / "schema.toml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing.toml", "does not exist"),
        (".", "is a folder"),
        ("a\0b", "cannot be read"),
        ("a" * 5000, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, path: str, said: str) -> None:
    with pytest.raises(SchemaError, match="DPSQL-801") as caught:
        read_schema(f"{tmp_path}/{path}")
    assert said in str(caught.value)


# --- examples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["randhie", "nhefs"])
def test_the_examples_have_the_types_of_their_files(name: str) -> None:
    schema = read_schema(EXAMPLES / name / "schema.toml")
    connection = duckdb.connect()
    for declared in schema.tables:
        query = "SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet(?))"
        found = connection.execute(query, [str(EXAMPLES / name / declared.source)]).fetchall()
        if not declared.public:
            assert found == [(c.name, str(c.sqltype)) for c in declared.columns]


def test_randhie_is_the_schema_of_the_documents() -> None:
    schema = read_schema(EXAMPLES / "randhie" / "schema.toml")
    assert schema.privacy.budget == EpsilonDelta(Fraction(4), Fraction(1, 10**6))
    assert schema.privacy.units == 6000
    assert schema.analysts is None
    assert column(schema, "person_year", "md_visits").unit_bounds == interval(0, 200)
    assert column(schema, "person_year", "family_size").role == "measure"
    assert column(schema, "person", "plan").role == "dimension"
    assert column(schema, "person", "income").role == "grid"
