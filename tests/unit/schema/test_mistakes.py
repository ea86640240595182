"""Mistakes in a schema file: all at once, each with its place and what to write, and never anything but SchemaError."""

from __future__ import annotations

import re
import tomllib
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.errors import SchemaError
from dpsql.schema.mistakes import Mistakes
from dpsql.schema.read import read as read_document
from tests.unit.schema.schema_files import CLINIC, FULL, SITE, changed, mistakes, read

TEN = """\
[dataset]
name = "clinic"
sorce = "."
source = "."

[privacy]
unit = "person.person_id"
epsilon = "four"
delta = 1e-6

[guard]
mode = "blok"

[tables.person]
source = "person.parquet"
key = ["person_id"]
[tables.person.columns]
person_id = { type = "BIGINT" }
income = { type = "DOUBLE", bounds = [0] }
site = { type = "INTEGER", domain = [1, "2"] }
note = { type = "VARCHER" }
w = { type = "DOUBLE", bounds = [9, 1] }

[tables.visit]
source = "visit.parquet"
references = { person_id = "persn.person_id" }
max_rows_per_unit = -1
[tables.visit.columns]
person_id = { type = "BIGINT" }

[tables.ward]
source = "ward.parquet"
[tables.ward.columns]
beds = { type = "INTEGER" }
"""
TEN_LINES = """\
[dataset]: the key "sorce" is unknown; write source
[privacy]: epsilon needs a finite number above 0, not "four"; write epsilon = 4.0
[guard]: mode "blok" is unknown; write block
table visit: max_rows_per_unit needs a whole number, 1 or more, not -1; write max_rows_per_unit = 5
table person, column note: type "VARCHER" is not one that dpsql computes with; write VARCHAR
table person, column income: bounds needs two numbers [lower, upper]; write bounds = [0, 100]
table person, column site: domain lists "2", which is not a INTEGER value; write whole numbers it can hold
table person, column w: bounds has its lower end above its upper end; write bounds = [0, 100], the smaller one first
table visit, column person_id: refers to persn, which is not a declared table; write person
table ward: is private and no reference leads to the privacy unit; write references = { column = "person.person_id" }, \
or public = true if it is about nobody
"""


def test_ten_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    assert mistakes(tmp_path, TEN) == [f"schema.toml: {line}" for line in TEN_LINES.splitlines()]


def test_the_first_line_is_useful_alone(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        read(tmp_path, TEN)
    first = str(caught.value).splitlines()[0]
    assert first == f"DPSQL-801: {tmp_path}/schema.toml has 10 mistakes: {TEN_LINES.splitlines()[0]}"


def test_one_mistake_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        read(tmp_path, changed("[0, 30000], step = 1", "[0, 30000], stepp = 1"))
    assert (
        str(caught.value)
        == f'DPSQL-801: {tmp_path}/schema.toml: table person, column income: the key "stepp" is unknown; write step'
    )


INCOME = 'income = { type = "DOUBLE", bounds = [0, 30000], step = 1 }'
WARD = 'ward = { type = "INTEGER", domain = { from = "ward.ward" } }'
DELTA = "delta = 1e-6"
KEY = 'key = ["person_id"]'
VISITS = 'references = { person_id = "person.person_id" }'
HOUSE = """
[tables.house]
source = "house.csv"
key = ["house_id"]
%s
[tables.house.columns]
house_id = { type = "BIGINT" }
"""
BUYERS = (
    '\n[tables.sale]\nsource = "sale.csv"\nreferences = { buyer = "person.person_id", seller = "person.person_id" }\n'
)


def income(rest: str) -> str:
    return changed(INCOME, f"income = {{ {rest} }}")


def privacy(line: str) -> str:
    return changed(DELTA, f"{DELTA}\n{line}")


def full(old: str, new: str) -> str:
    assert old in FULL
    return FULL.replace(old, new, 1)


def site(declaration: str) -> str:
    return full(SITE, f"site = {{ {declaration} }}")


BOARD = '[reservations.board]\nanalyst = "bi"\nrefreshes = 12\nepsilon = 0.1\ndelta = 1e-9\n'


def board(*lines: str) -> str:
    return full(BOARD, "\n".join(["[reservations.board]", *lines, ""]))


def row_level(text: str) -> str:
    return text.replace('unit = "person.person_id"', 'unit = "row"')


SINGLE = {
    # sections
    "no dataset": (CLINIC.replace('[dataset]\nname = "clinic"\nsource = "."\n', ""), "the file: [dataset] is missing; write"),
    "no source": (changed('source = "."\n', ""), '[dataset]: source is missing; write source = "."'),
    "source a number": (changed('source = "."', "source = 1"), "[dataset]: source needs text on one line, not 1"),
    "ledger a list": (changed('source = "."', 'source = "."\nledger = []'),
     "[dataset]: ledger needs text on one line, not a list of 0"),
    "name leads elsewhere": (changed('"clinic"', '"../x"'), "[dataset]: name needs a name that can begin a file's name"),
    "dataset a number": ("dataset = 1\n" + CLINIC.replace('[dataset]\nname = "clinic"\nsource = "."\n', ""),
     "dataset needs a table, not 1"),
    "unknown section": (CLINIC + "\n[gaurd]\n", 'the file: the key "gaurd" is unknown; write guard'),
    "unknown far key": (privacy("colour = 1"), "unknown; remove it (the keys here are unit, epsilon"),
    "no unit": (changed('unit = "person.person_id"\n', ""), '[privacy]: unit is missing; write unit = "person.person_id"'),
    "unit without a dot": (changed('"person.person_id"', '"person"'), "[privacy]: unit needs the form table.column"),
    "epsilon zero": (changed("epsilon = 4.0", "epsilon = 0"), "[privacy]: epsilon needs a finite number above 0, not 0"),
    "epsilon nan": (changed("epsilon = 4.0", "epsilon = nan"), "epsilon needs a finite number above 0, not nan"),
    "epsilon inf": (changed("epsilon = 4.0", "epsilon = inf"), "epsilon needs a finite number above 0, not inf"),
    "epsilon true": (changed("epsilon = 4.0", "epsilon = true"), "epsilon needs a finite number above 0, not true"),
    "epsilon absurd": (changed("epsilon = 4.0", "epsilon = 1e999999999"), "epsilon needs a finite number above 0"),
    "epsilon beyond Decimal": (changed("epsilon = 4.0", "epsilon = 1e99999999999999999999"),
     "epsilon needs a finite number above 0"),
    "delta one": (changed(DELTA, "delta = 1"), "[privacy]: delta needs a number above 0 and below 1, not 1"),
    "delta negative": (changed(DELTA, "delta = -1e-6"), "[privacy]: delta needs a number above 0 and below 1"),
    "units zero": (privacy("units = 0"), "[privacy]: units needs a whole number, 1 or more, not 0"),
    "max_cells a float": (privacy("max_cells = 1.5"), "max_cells needs a whole number, 1 or more, not 1.5"),
    "mechanism unknown": (privacy('mechanism = "none"'), 'mechanism needs one of laplace, gaussian, auto, not "none"'),
    "mechanism a number": (privacy("mechanism = 1"), 'mechanism needs text on one line, not 1; write mechanism = "auto"'),
    "household of one": (privacy("household = 1"), "household needs a whole number from 2 to 100, not 1"),
    "household of a town": (privacy("household = 101"), "household needs a whole number from 2 to 100, not 101"),
    "household a word": (privacy('household = "big"'), "household needs a whole number, 1 or more"),
    "query above caps": (
        privacy("query = { epsilon = 1 }\ncaps = { epsilon = 0.5 }"),
        "[privacy]: query has more epsilon than caps; write query with less epsilon, or raise caps",
    ),
    "query above total": (
        privacy("query = { delta = 1e-3 }"),
        "[privacy]: query has more delta than the dataset's total",
    ),
    "caps above total": (
        privacy("caps = { epsilon = 5 }"),
        "[privacy]: caps has more epsilon than the dataset's total; write caps with epsilon of at most 4.0",
    ),
    "caps a number": (
        privacy("caps = 1"),
        "[privacy]: caps needs a table, not 1; write caps = { epsilon = 0.5, delta = 1e-8 }",
    ),
    "query key": (privacy("query = { epsilom = 1 }"), '[privacy], query: the key "epsilom" is unknown; write epsilon'),
    "guard mode": (CLINIC + '\n[guard]\nmode = "on"\n', '[guard]: mode "on" is unknown; write'),
    "guard k": (CLINIC + "\n[guard]\nk = 0\n", "[guard]: k needs a whole number, 1 or more, not 0"),
    "analyst cap": (CLINIC + "\n[analysts.ann]\nepsilon = 0\n", "analyst ann: epsilon needs a finite number above 0, not 0"),
    "analyst a number": (
        CLINIC + "\n[analysts]\nann = 1\n",
        "[analysts]: ann needs a table, not 1; write ann = { epsilon = 1.0 }",
    ),
    "analyst twins": (CLINIC + "\n[analysts.ann]\n[analysts.Ann]\n",
     "[analysts]: the analyst names ann and Ann differ in case only"),
    # how the total is spent
    "accounting unknown": (privacy('accounting = "renyi"'),
     '[privacy]: accounting needs one of auto, sequential, advanced, zcdp, gdp, rdp, not "renyi"; write accounting = "auto"'),
    "accounting a number": (privacy("accounting = 2"),
     '[privacy]: accounting needs text on one line, not 2; write accounting = "auto"'),
    "window unknown": (privacy('window = "year"'),
     '[privacy]: window needs one of day, week, month, not "year"; write window = "month"'),
    "window a number": (privacy("window = 30"), "[privacy]: window needs text on one line, not 30"),
    "shared_answers a text": (privacy('shared_answers = "no"'),
     '[privacy]: shared_answers needs true or false, not "no"; write shared_answers = true'),
    "partition form": (privacy('partition = "site"'),
     '[privacy]: partition needs the form table.column, not "site"; write partition = "person.site"'),
    "partition of no table": (full('"person.site"', '"persn.site"'),
     '[privacy]: partition is "persn.site", but no such table is declared; write person'),
    "partition of no column": (full('"person.site"', '"person.sit"'),
     '[privacy]: partition is "person.sit", but no such column is declared; write site'),
    "partition is public": (full('"person.site"', '"ward.ward"'),
     "[privacy]: partition is in the public table ward; write a column of a private table"),
    "partition of several rows": (full('"person.site"', '"visit.cost"'),
     '[privacy]: partition is "visit.cost", but one unit can have several rows there; write a column of person'),
    "partition is an identifier": (site('type = "INTEGER", domain = [1], role = "identifier"'),
     '[privacy]: partition is "person.site", whose role is identifier; write a column that many people share'),
    "partition of public values": (full('"person.site"', '"person.ward"'),
     '[privacy]: partition is "person.ward", whose values a public table lists and may change; write its domain ='),
    "partition without a domain": (site('type = "INTEGER"'),
     '[privacy]: partition is "person.site", which has no finite domain; write its domain = [...]'),
    "partition of numbers with decimals": (full('"person.site"', '"person.income"'),
     '[privacy]: partition is "person.income", which has no finite domain'),
    "partition of days": (full('"person.site"', '"person.born"'),
     '[privacy]: partition is "person.born", which has no finite domain'),
    "partition of many whole numbers": (site('type = "INTEGER", bounds = [0, 1000]'),
     '[privacy]: partition is "person.site", which has 1001 values; write a column with at most 1000 values'),
    "partition of a long list": (site(f'type = "INTEGER", domain = [{", ".join(map(str, range(1001)))}]'),
     '[privacy]: partition is "person.site", which has 1001 values; write a column with at most 1000 values'),
    "partition of a wrong column": (site('type = "INTEGER", domain = []'), "table person, column site: domain needs a list"),
    "partition without a unit": (full('unit = "person.person_id"', 'unit = "persn.person_id"'),
     '[privacy]: unit is "persn.person_id", but no such table is declared'),
    # roles and reservations
    "roles a list": (
        "roles = []\n" + CLINIC,
        "the file: roles needs a table, not a list of 0; write roles = { ... }",
    ),
    "role a number": (
        CLINIC + "\n[roles]\ninterns = 1\n[analysts.ann]\nrole = 'interns'\n",
        "[roles]: interns needs a table, not 1; write interns = { epsilon = 1.0 }",
    ),
    "role twins": (CLINIC + "\n[roles.a]\n[roles.A]\n", "[roles]: the role names a and A differ in case only; rename one"),
    "role key": (CLINIC + "\n[roles.interns]\nepsilom = 1\n", 'role interns: the key "epsilom" is unknown; write epsilon'),
    "role cap": (CLINIC + "\n[roles.interns]\nepsilon = 0\n",
     "role interns: epsilon needs a finite number above 0, not 0; write epsilon = 1.0"),
    "role delta": (CLINIC + "\n[roles.interns]\ndelta = 1\n",
     "role interns: delta needs a number above 0 and below 1, not 1; write delta = 1e-7"),
    "role of an analyst undeclared": (full('role = "interns"', 'role = "interms"'),
     "analyst ann: role interms is not declared; write interns"),
    "role of an analyst where there is none": (CLINIC + "\n[analysts.ann]\nrole = 'a b'\n",
     'analyst ann: role a b is not declared; write [roles."a b"] with epsilon = 1.0'),
    "role of an analyst a number": (full('role = "interns"', "role = 1"),
     'analyst ann: role needs text on one line, not 1; write role = "interns"'),
    "analysts a number": (
        "analysts = 1\n" + FULL.replace('[analysts.ann]\nrole = "interns"\n[analysts.bi]\nepsilon = 3\n', ""),
        "the file: analysts needs a table, not 1; write analysts = { ... }",
    ),
    "reservations a text": (
        'reservations = "bi"\n' + CLINIC,
        'the file: reservations needs a table, not "bi"; write reservations = { ... }',
    ),
    "reservation a number": (
        CLINIC + "\n[reservations]\nboard = 1\n",
        '[reservations]: board needs a table, not 1; write board = { analyst = "bi", refreshes = 12, epsilon = 0.1 }',
    ),
    "reservation twins": (FULL + BOARD.replace("board", "Board").replace('"bi"', '"ann"'),
     "[reservations]: the reservation names board and Board differ in case only"),
    "reservation key": (board('analyst = "bi"', "refresh = 1", "refreshes = 1", "epsilon = 0.1"),
     'reservation board: the key "refresh" is unknown; write refreshes'),
    "reservation of nobody": (board("refreshes = 1", "epsilon = 0.1"),
     'reservation board: analyst is missing; write analyst = "bi"'),
    "reservation of never": (board('analyst = "bi"', "epsilon = 0.1"),
     "reservation board: refreshes is missing; write refreshes = 12"),
    "reservation of nothing": (board('analyst = "bi"', "refreshes = 1"),
     "reservation board: epsilon is missing; write epsilon = 0.1"),
    "reservation analyst a number": (board("analyst = 1", "refreshes = 1", "epsilon = 0.1"),
     "reservation board: analyst needs text on one line, not 1"),
    "reservation of no refresh": (board('analyst = "bi"', "refreshes = 0", "epsilon = 0.1"),
     "reservation board: refreshes needs a whole number, 1 or more, not 0"),
    "reservation free of charge": (board('analyst = "bi"', "refreshes = 1", "epsilon = 0"),
     "reservation board: epsilon needs a finite number above 0, not 0"),
    "reservation delta": (board('analyst = "bi"', "refreshes = 1", "epsilon = 0.1", "delta = 1"),
     "reservation board: delta needs a number above 0 and below 1, not 1; write delta = 1e-9"),
    "reservation of an undeclared analyst": (full('analyst = "bi"', 'analyst = "an"'),
     "reservation board: analyst an is not declared; write ann"),
    "reservation where nobody may ask": (CLINIC + "\n[analysts]\n" + BOARD,
     "reservation board: analyst bi is not declared; remove it"),
    "reservation of a broken analyst": (CLINIC + "\n[analysts]\nbi = 1\n" + BOARD, "[analysts]: bi needs a table, not 1"),
    "reservation twice": (FULL + BOARD.replace("board", "second"),
     "reservation second: analyst bi has reservation board already; write one reservation an analyst"),
    "refresh above caps": (full("refreshes = 12\nepsilon = 0.1", "refreshes = 1\nepsilon = 0.6"),
     "reservation board: one refresh has more epsilon than caps; write epsilon = 0.5, or raise caps"),
    "refresh above the delta of caps": (board('analyst = "bi"', "refreshes = 1", "epsilon = 0.1", "delta = 2e-8"),
     "reservation board: one refresh has more delta than caps; write delta = 1e-8, or raise caps"),
    "refresh above caps in any accounting": (full("epsilon = 0.1", "epsilon = 0.6").replace('"sequential"', '"zcdp"'),
     "reservation board: one refresh has more epsilon than caps"),
    "reservations above the total": (
        full("refreshes = 12", "refreshes = 20")
        + BOARD.replace("board", "second").replace("bi", "ann").replace("12", "21"),
        "[reservations]: together keep more epsilon than the dataset's total; write fewer refreshes, or less epsilon of",
    ),
    "reservations above the total's delta": (
        board('analyst = "bi"', "refreshes = 10", "epsilon = 0.001", "delta = 1e-8")
        + BOARD.replace("board", "second")
        .replace('"bi"', '"ann"')
        .replace("epsilon = 0.1", "epsilon = 0.001")
        .replace("12", "901"),
        "[reservations]: together keep more delta than the dataset's total; write fewer refreshes, or less delta of one",
    ),
    "reservations of an unknown total": (full("epsilon = 4.0", "epsilon = 0"),
     "[privacy]: epsilon needs a finite number above 0, not 0"),
    # tables
    "no tables": (CLINIC[: CLINIC.index("[tables")], "the file: no table is declared; write [tables.person]"),
    "tables a list": ("tables = []\n" + CLINIC[: CLINIC.index("[tables")], "the file: tables needs a table, not a list of 0"),
    "table twins": (CLINIC + '\n[tables.WARD]\npublic = true\nsource = "w.csv"\n',
     "[tables]: the table names ward and WARD differ in case"),
    "table name": (CLINIC + '\n[tables."a\\nb"]\npublic = true\nsource = "w.csv"\n',
     "is empty or not printable; give it another name"),
    "table a text": (CLINIC.replace("[dataset]", 'tables.x = "y"\n[dataset]', 1), '[tables]: x needs a table, not "y"'),
    "folder without source": (changed('source = "visit.parquet"\n', ""),
     "table visit: source is missing, and a folder holds files; write"),
    "no private table": (CLINIC[: CLINIC.index("[tables")] + '[tables.w]\npublic = true\nsource = "w.csv"\n',
     "[tables]: every table is public, so there is nothing to protect"),
    "public with a limit": (changed("public = true", "public = true\nmax_rows_per_unit = 2"),
     "table ward: max_rows_per_unit makes no sense"),
    "public with columns": (changed("public = true", "public = true\ncolumns = {}"),
     "table ward: columns is not for a public table"),
    "public text": (changed("public = true", 'public = "no"\ncolumns.ward.type="INT"'),
     'table ward: public needs true or false, not "no"'),
    "public twin of a private": (changed('"ward.csv"', '"./Visit.parquet"'),
     "table ward: is public, but its source is also that of the private"),
    "key a text": (changed('key = ["visit_id"]', 'key = "visit_id"'), "table visit: key needs a list of different column names"),
    "key twice": (changed('["visit_id"]', '["visit_id", "Visit_ID"]'), "table visit: key needs a list of different column names"),
    "key undeclared": (changed('["visit_id"]', '["visitid"]'), "table visit: key names visitid, which is not a declared column"),
    "no columns": (CLINIC + '\n[tables.x]\nsource = "x.csv"\nreferences = 1\n', "table x: references needs a table, not 1"),
    "negative rows": (changed("max_rows_per_unit = 5", "max_rows_per_unit = -5"),
     "max_rows_per_unit needs a whole number, 1 or more"),
    "groups a text": (changed("max_rows_per_unit = 5", 'max_groups_per_unit = "5"'),
     'max_groups_per_unit needs a whole number, 1 or more, not "5"'),
    "population of many rows": (changed("max_rows_per_unit = 5", "population = 9"),
     "table visit: population needs a table with one row per unit"),
    # references and paths
    "reference form": (
        changed(VISITS, 'references = { person_id = "person" }'),
        "table visit, references: person_id needs the form table.column",
    ),
    "reference to nothing": (
        changed(VISITS, 'references = { person_id = "persom.person_id" }'),
        "refers to persom, which is not a declared table; write person",
    ),
    "reference to no key": (
        changed(VISITS, 'references = { person_id = "person.income" }'),
        'refers to person.income, which is not the key of that table; write "person.person_id"',
    ),
    "reference into a longer key": (
        CLINIC.replace(KEY, 'key = ["person_id", "born"]').replace(
            'unit = "person.person_id"', 'unit = "visit.visit_id"'
        ),
        'which is not the key of that table; write key = ["person_id"] for table person if that is unique there',
    ),
    "reference of another type": (
        changed('visit_id = { type = "BIGINT" }', 'visit_id = { type = "BIGINT" }\nperson_id = { type = "INTEGER" }'),
        'column person_id: type INTEGER differs from BIGINT, the type of person.person_id; write type = "BIGINT"',
    ),
    "public reference without type": (changed(WARD, ""),
     "table person, column ward: type is missing, and public table ward is not read yet"),
    "public to private": (
        changed("public = true", 'public = true\nreferences = { boss = "person.person_id" }'),
        "from a public one",
    ),
    "no path": (changed(f"{VISITS}\n", ""), "table visit: is private and no reference leads to the privacy unit; write references"),
    "two paths": (CLINIC + BUYERS, 'only the people on one are protected; write unit_path = ["buyer"] or unit_path = ["seller"]'),
    "unit_path that is none": (CLINIC + BUYERS + 'unit_path = ["person_id"]\n',
     "table sale: unit_path is not a path of references"),
    "unit_path at the unit": (changed(KEY, KEY + '\nunit_path = ["ward"]'),
     "table person: unit_path makes no sense for the table that holds"),
    "circle": (
        CLINIC + HOUSE % 'references = { boss = "house.house_id" }',
        "table house: references go in a circle (house); remove one",
    ),
    # the unit
    "unit of no table": (changed('unit = "person.', 'unit = "persons.'),
     '[privacy]: unit is "persons.person_id", but no such table is declared; write person'),
    "unit of no column": (changed('.person_id"\nepsilon', '.personid"\nepsilon'),
     "but no such column is declared; write person_id"),
    "unit is public": (changed('unit = "person.person_id"', 'unit = "ward.ward"'), "[privacy]: unit is in the public table ward"),
    "unit is no key": (changed('unit = "person.person_id"', 'unit = "person.income"'),
     'table person: holds the privacy unit, which must be its key; write key = ["income"]'),
    "unit hidden by its role": (
        changed('person_id = { type = "BIGINT" }', 'person_id = { type = "BIGINT", role = "measure" }'),
        "table person, column person_id: role measure would hide that this is the privacy unit",
    ),
    # rows as units
    "rows with limits": (row_level(CLINIC.replace(f"{VISITS}\n", "").replace(", unit_bounds = [0, 500]", "")),
     'table visit: max_rows_per_unit makes no sense with unit = "row"; remove max_rows_per_unit'),
    "rows with references": (row_level(CLINIC.replace("max_rows_per_unit = 5\n", "").replace(", unit_bounds = [0, 500]", "")),
     'table visit, column person_id: a reference to the private table person makes no sense with unit = "row"'),
    "rows with totals": (row_level(CLINIC.replace("max_rows_per_unit = 5\n", "").replace(f"{VISITS}\n", "")),
     'table visit, column cost: unit_bounds makes no sense with unit = "row"'),
    # columns
    "column a text": (
        changed(INCOME, 'income = "DOUBLE"'),
        'table person: income needs a table, not "DOUBLE"; write income = { type',
    ),
    "column twins": (changed(INCOME, 'a.type = "INT"\nA.type = "INT"'),
     "table person: the column names a and A differ in case only"),
    "no type": (income("bounds = [0, 1]"), 'table person, column income: type is missing; write type = "DOUBLE"'),
    "type a number": (income("type = 1"), "table person, column income: type needs text on one line, not 1"),
    "type unknown": (income('type = "INTEGR"'), 'type "INTEGR" is not one that dpsql computes with; write INTEGER'),
    "bounds one number": (income('type = "DOUBLE", bounds = [1]'),
     "bounds needs two numbers [lower, upper]; write bounds = [0, 100]"),
    "bounds booleans": (income('type = "INTEGER", bounds = [false, true]'), "bounds needs two whole numbers [lower, upper]"),
    "bounds nan": (income('type = "DOUBLE", bounds = [nan, 1]'), "bounds needs two numbers"),
    "bounds halves": (income('type = "INTEGER", bounds = [0.5, 1]'), "bounds needs two whole numbers"),
    "bounds turned": (income('type = "DOUBLE", bounds = [2, 1]'), "bounds has its lower end above its upper end"),
    "bounds beyond the type": (income('type = "TINYINT", bounds = [0, 128]'), "bounds reaches beyond what TINYINT can hold"),
    "bounds beyond DOUBLE": (income('type = "DOUBLE", bounds = [0, 1e309]'), "bounds reaches beyond what DOUBLE can hold"),
    "bounds beyond FLOAT": (income('type = "FLOAT", bounds = [0, 3.5e38]'), "bounds reaches beyond what FLOAT can hold"),
    "bounds of text": (income('type = "VARCHAR", bounds = ["a", "b"]'), "bounds make no sense for text; remove bounds"),
    "bounds of a boolean": (income('type = "BOOLEAN", bounds = [0, 1]'),
     "bounds makes no sense for a BOOLEAN, which has its domain"),
    "bounds of dates as text": (income('type = "DATE", bounds = ["2020-01-01", "2021-01-01"]'),
     "write bounds = [2020-01-01, 2024-12-31]"),
    "bounds of times as dates": (income('type = "TIMESTAMP", bounds = [2023-02-01, 2023-04-30]'),
     "write bounds = [2023-02-01T00:00:00, 2023-04-30T23:59:59]"),
    "bounds of dates as times": (income('type = "DATE", bounds = [2020-01-01T00:00:00, 2021-01-01T00:00:00]'),
     "bounds needs two dates"),
    "times with a zone": (income('type = "TIMESTAMP", bounds = [2020-01-01T00:00:00Z, 2021-01-01T00:00:00Z]'),
     "times without a zone"),
    "bounds of times of day as text": (income('type = "TIME", bounds = ["08:00:00", "18:00:00"]'),
     "bounds needs two times of day [lower, upper]; write bounds = [08:00:00, 18:00:00]"),
    "bounds and domain": (income('type = "INTEGER", bounds = [1, 2], domain = [1]'), "bounds and domain exclude each other"),
    "domain empty": (
        income('type = "INTEGER", domain = []'),
        "domain needs a list of 1 to 100000 values, or { from = ... }, not a list of 0",
    ),
    "domain a text": (income('type = "VARCHAR", domain = "pool"'), 'not "pool"; write domain = ["pool"]'),
    "domain a number": (income('type = "INTEGER", domain = 3'), "domain needs a list of 1 to 100000 values"),
    "domain with a repeated value": (income('type = "INTEGER", domain = [1, 2, 1]'), "domain lists 1 twice; write it once"),
    "domain of halves": (income('type = "INTEGER", domain = [1, 2.5]'), "domain lists 2.5, which is not a INTEGER value"),
    "domain of booleans": (income('type = "INTEGER", domain = [1, true]'), "domain lists true, which is not a INTEGER value"),
    "domain beyond the type": (income('type = "UTINYINT", domain = [1, 256]'), "domain lists 256, which is not a UTINYINT value"),
    "domain finer than the type": (income('type = "DECIMAL(4,1)", domain = [0.25]'),
     "domain lists 0.25, which is not a DECIMAL(4,1) value"),
    "domain of DOUBLE": (income('type = "DOUBLE", domain = [1, 2]'),
     "domain makes no sense for DOUBLE, which is never compared exactly"),
    "domain from DOUBLE": (income('type = "DOUBLE", domain = { from = "ward.x" }'), "domain makes no sense for DOUBLE"),
    "domain of a boolean": (income('type = "BOOLEAN", domain = [true]'), "domain makes no sense for a BOOLEAN"),
    "domain from a private table": (changed('from = "ward.ward"', 'from = "visit.visit_id"'),
     "column ward: domain comes from visit, which is private"),
    "domain from nothing": (changed('from = "ward.ward"', 'from = "wrd.ward"'),
     "domain comes from wrd, which is not a declared table; write ward"),
    "domain from what": (changed('from = "ward.ward"', 'form = "ward.ward"'),
     'column ward, domain: the key "form" is unknown; write from'),
    "step zero": (income('type = "DOUBLE", step = 0'), "step needs a finite number above 0, not 0"),
    "step of half a day": (income('type = "DATE", step = 0.5'), "step needs a whole number for DATE, not 0.5"),
    "step of text": (income('type = "VARCHAR", step = 1'), "step makes no sense for VARCHAR; remove step"),
    "unit_bounds turned": (income('type = "DOUBLE", unit_bounds = [1, 0]'),
     "unit_bounds needs two numbers [lower, upper], the smaller one first"),
    "unit_bounds of dates": (income('type = "DATE", unit_bounds = [0, 1]'),
     "unit_bounds makes no sense for DATE, which has no totals"),
    "unit_bounds beyond DOUBLE": (income('type = "DOUBLE", unit_bounds = [0, 1e309]'),
     "unit_bounds reaches beyond what DOUBLE can hold"),
    "nullable a text": (income('type = "DOUBLE", nullable = "yes"'), 'nullable needs true or false, not "yes"'),
    "role unknown": (income('type = "DOUBLE", role = "mesure"'), 'role "mesure" is unknown; write measure'),
    "role dimension": (income('type = "DOUBLE", bounds = [0, 1], role = "dimension"'),
     "role dimension needs a finite list of values"),
    "role grid": (income('type = "DOUBLE", bounds = [0, 1], role = "grid"'), "role grid needs bounds and step"),
}  # fmt: skip


@pytest.mark.few(101)
@pytest.mark.parametrize(("text", "said"), SINGLE.values(), ids=SINGLE.keys())
def test_a_single_mistake(tmp_path: Path, text: str, said: str) -> None:
    lines = mistakes(tmp_path, text)
    assert any(said in line for line in lines), lines
    assert all(re.fullmatch(r"schema\.toml: [^;]+: .+; .+", line) for line in lines)


ALSO = {
    "public text": 3,  # read as private, it lacks what a private table needs
    "no columns": 2,
    "reference into a longer key": 2,  # person does not lead to visit
    "domain from what": 2,
}


@pytest.mark.few(106)
@pytest.mark.parametrize("name", SINGLE)
def test_one_mistake_is_not_reported_as_several(tmp_path: Path, name: str) -> None:
    assert len(mistakes(tmp_path, SINGLE[name][0])) == ALSO.get(name, 1)


def test_a_circle_is_reported_once(tmp_path: Path) -> None:
    text = CLINIC + HOUSE % 'references = { flat = "flat.flat_id" }'
    text += '\n[tables.flat]\nsource = "flat.csv"\nkey = ["flat_id"]\nreferences = { house_id = "house.house_id" }\n'
    text += 'columns = { flat_id = { type = "BIGINT" } }\n'
    assert [line.partition(";")[0] for line in mistakes(tmp_path, text)] == [
        "schema.toml: table house: references go in a circle (house, flat)"
    ]


# --- whatever stands there ----------------------------------------------------------------------------------------

odd = st.recursive(
    st.none().map(lambda _: [])
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**5000, max_value=10**5001)
    | st.sampled_from(
        [Decimal(d) for d in ("nan", "inf", "-inf", "sNaN", "-0.0", "1e999999", "1e-999999", "0.5", "1e-7")]
    )
    | st.text(max_size=8)
    | st.sampled_from(
        ["row", "person", "ward.ward", "visit.visit_id", "person.person_id", "BIGINT", "DATE", ".", "a.", ".b"]
    )
    | st.sampled_from([date(1, 1, 1), datetime(9999, 12, 31), datetime(2020, 1, 1, tzinfo=UTC), time(1)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.sampled_from(["type", "from"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to every value of a document."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [path] * bool(path) + [p for key, inner in items for p in places(inner, (*path, key))]


PLACES = places(tomllib.loads(FULL))


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), odd), min_size=1, max_size=3))
def test_no_value_raises_anything_but_a_schema_error(changes: list[tuple[tuple[str | int, ...], object]]) -> None:
    document = tomllib.loads(FULL, parse_float=Decimal)
    for path, value in changes:
        replace_at(document, path, value)
    found = Mistakes("schema.toml")
    read_document(document, Path(), found)
    try:
        found.raise_any()
    except SchemaError as caught:
        assert all(line.isprintable() for line in str(caught).splitlines())


def replace_at(document: object, path: tuple[str | int, ...], value: object) -> None:
    """Put a value somewhere, unless an earlier change took the place away."""
    *way, last = path
    for key in way:
        if not isinstance(document, dict | list) or (isinstance(document, dict) and key not in document):
            return
        if isinstance(document, list) and not (isinstance(key, int) and key < len(document)):
            return
        document = document[key]  # type: ignore[index]
    named = isinstance(document, dict) and isinstance(last, str)
    if named or (isinstance(document, list) and isinstance(last, int) and last < len(document)):
        document[last] = value


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(FULL)), st.integers(0, 12), st.text(max_size=3))
def test_no_text_raises_anything_but_a_schema_error(at: int, length: int, text: str) -> None:
    from dpsql.schema.toml import _parsed

    found = Mistakes("schema.toml")
    try:
        read_document(_parsed(FULL[:at] + text + FULL[at + length :], "schema.toml"), Path(), found)
        found.raise_any()
    except SchemaError as caught:
        assert str(caught).startswith("DPSQL-801: schema.toml")
