"""Dashboards that Superset exports, for `dpsql workload --dashboard`: the statements are those that it sends, and cubes answer them.

`exported/` is the export of the example's dashboard.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import date
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from sqlglot import exp

from dpsql.clients.cli.main import main
from dpsql.clients.superset import exported
from dpsql.clients.superset.charts import DashboardStatements, statements, statements_of
from dpsql.clients.superset.exported import read_export
from dpsql.core.errors import Error
from dpsql.planner.options import Options
from dpsql.planner.parse import Query, parse
from dpsql.session.opening import open_session
from dpsql.session.session import Session
from tests.support.copies import unused

yaml = pytest.importorskip("yaml")

HERE = Path(__file__).parent
RANDHIE = HERE.parents[1] / "examples/randhie"
Files = Mapping[str, object]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's dashboard as Superset's zip."""
    path = tmp_path_factory.mktemp("export") / "dashboard.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted((HERE / "exported").rglob("*.yaml")):
            archive.write(file, f"dashboard_export_20261127T000000/{file.relative_to(HERE / 'exported')}")
    return path


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return unused(RANDHIE, tmp_path / "randhie") / "schema.toml"


@pytest.fixture
def session(schema: Path) -> Iterator[Session]:
    with closing(open_session(schema, None, None)) as found:
        yield found


def test_two_cubes_answer_the_example_and_every_filter(example: Path, session: Session) -> None:
    """Bought once, all statements are free, with every filter, and where nothing may be bought; a click on a bar too."""
    found = statements_of(str(example), session)
    assert found.left == []
    report = session.workload(found.sql, Fraction(2))
    free = [one for one in report.statements if one.reason == "free"]
    assert len(report.cubes) == 2 and len(free) == 2 and all(one.cube for one in report.statements if one not in free)
    told = [one.sql[3 : one.sql.index(" */")] for one in report.statements]
    assert {"People by site", "People by site, filtered by Site, Female"} <= set(told)
    assert {"Person-years by age, a click on year", "Visits to physicians by year, a click on age_from"} <= set(told)
    for cube in report.cubes:
        session.execute(cube.sql)
    spent = session.execute("SHOW BUDGET").rows
    for sql in found.sql:
        assert not session.execute(sql).releases
    assert session.execute("SHOW BUDGET").rows == spent


def test_the_command_line(example: Path, schema: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", str(schema), "--dashboard", str(example), "--epsilon", "1", "--yes"]) == 0
    said = capsys.readouterr().out
    assert (
        "/* Mean income, filtered by Site, Female */ SELECT AVG(income)" in said and said.count(": bought, charge") == 2
    )


# --- statements of charts

DATASET = {
    "table_name": "visits",
    "schema": "main",
    "sql": None,
    "uuid": "d",
    "database_uuid": "b",
    "columns": [
        {"column_name": "site", "type": "INTEGER"},
        {"column_name": "Kind", "type": "VARCHAR"},
        {"column_name": "paid", "type": "BOOLEAN"},
        {"column_name": "seen", "type": "TIMESTAMP", "is_dttm": True},
        {"column_name": "band", "type": "INTEGER", "expression": "age // 10"},
    ],
    "metrics": [{"metric_name": "count", "expression": "COUNT(*)"}],
}


def adhoc(subject: str, operator: str, comparator: object, clause: str = "WHERE") -> dict[str, object]:
    told = {"subject": subject, "operator": operator, "comparator": comparator}
    return {"expressionType": "SIMPLE", "clause": clause, **told}


SUM = {"expressionType": "SIMPLE", "aggregate": "SUM", "column": {"column_name": "usd"}, "label": "paid in all"}
MINE = {"expressionType": "SQL", "sqlExpression": "AVG(usd) / 2", "label": "half"}
CASES: list[tuple[dict[str, object], str]] = [
    ({"viz_type": "big_number_total", "metric": "count"}, 'SELECT COUNT(*) AS count FROM main.visits'),
    (
        {"viz_type": "pie", "groupby": ["site"], "metric": SUM, "row_limit": 100},
        'SELECT site AS site, SUM(usd) AS "paid in all" FROM main.visits GROUP BY site LIMIT 100',
    ),
    (
        {"viz_type": "echarts_timeseries_line", "x_axis": "seen", "time_grain_sqla": "P1M", "metrics": ["count"], "groupby": ["band"]},
        "SELECT DATE_TRUNC('MONTH', seen) AS seen, age // 10 AS band, COUNT(*) AS count FROM main.visits "
        "GROUP BY DATE_TRUNC('MONTH', seen), age // 10",
    ),
    (
        {"viz_type": "line", "granularity_sqla": "seen", "time_grain_sqla": "P1W", "metrics": [MINE],
         "time_range": "2020-02-01 : 2020-06-01"},
        "SELECT DATE_TRUNC('WEEK', seen) AS __timestamp, AVG(usd) / 2 AS half FROM main.visits "
        "WHERE seen >= CAST('2020-02-01 00:00:00.000000' AS TIMESTAMP) AND seen < CAST('2020-06-01 00:00:00.000000' AS TIMESTAMP) "
        "GROUP BY DATE_TRUNC('WEEK', seen)",
    ),
    (
        {
            "viz_type": "table", "groupby": ["Kind"], "metrics": ["count"], "timeseries_limit_metric": "count",
            "adhoc_filters": [
                adhoc("site", "IN", ["1", 2]), adhoc("Kind", "==", "it's"), adhoc("paid", "==", "true"),
                adhoc("paid", "IS NOT NULL", None),
                adhoc("seen", "TEMPORAL_RANGE", " : 2021-01-01"), adhoc("seen", "TEMPORAL_RANGE", "No filter"),
                {"expressionType": "SQL", "clause": "HAVING", "sqlExpression": "COUNT(*) > 9"},
            ],
        },
        'SELECT "Kind" AS "Kind", COUNT(*) AS count FROM main.visits WHERE site IN (1, 2) AND "Kind" = \'it\'\'s\' AND paid = TRUE '
        "AND NOT paid IS NULL AND seen < CAST('2021-01-01 00:00:00.000000' AS TIMESTAMP) "
        'GROUP BY "Kind" HAVING (COUNT(*) > 9) ORDER BY COUNT(*) DESC',
    ),
    (
        {"viz_type": "table", "query_mode": "raw", "all_columns": ["site", "Kind"], "row_limit": "10"},
        'SELECT site AS site, "Kind" AS "Kind" FROM main.visits LIMIT 10',
    ),
]  # fmt: skip


def exported_as(folder: Path, files: Files) -> Path:
    path = folder / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, told in files.items():
            archive.writestr(f"root/{name}", told if isinstance(told, bytes) else yaml.safe_dump(told))
    return path


def board(
    *charts: dict[str, object], dataset: object = DATASET, uri: str = "dpsql:////x.toml", **metadata: object
) -> dict[str, object]:
    """An export of one dashboard with some charts."""
    made: dict[str, object] = {"databases/b.yaml": {"uuid": "b", "sqlalchemy_uri": uri}, "datasets/b/d.yaml": dataset}
    position: dict[str, object] = {"DASHBOARD_VERSION_KEY": "v2"}
    for i, params in enumerate(charts):
        made[f"charts/{i}.yaml"] = {"uuid": f"c{i}", "slice_name": f"chart {i}", "dataset_uuid": "d", "params": params}
        position[f"CHART-{i}"] = {"meta": {"chartId": i, "uuid": f"c{i}"}, "parents": ["ROOT_ID", f"TAB-{i % 2}"]}
    told = {"cross_filters_enabled": False, **metadata}
    return made | {"dashboards/one.yaml": {"dashboard_title": "one", "position": position, "metadata": told}}


VALUES = {"site": [None, 3, 4], "paid": [True], "age // 10": [], "seen": [date(2020, 1, 1)]}


def listed(sql: str) -> list[object]:
    """Declared values of the column that a filter asks for."""
    return VALUES.get(sql.partition("SELECT ")[2].partition(" AS value")[0], [])


def of(folder: Path, files: Files, values: Callable[[str], list[object]] = listed) -> DashboardStatements:
    return statements(read_export(str(exported_as(folder, files))), values)


@pytest.mark.parametrize(("params", "sql"), CASES)
def test_a_chart_asks_what_superset_asks(params: dict[str, object], sql: str, tmp_path: Path) -> None:
    found = of(tmp_path, board(params))
    assert found.sql == [f"/* chart 0 */ {sql}"] and found.left == []


def test_a_chart_of_two_queries_asks_both(tmp_path: Path) -> None:
    params = {
        "viz_type": "mixed_timeseries",
        "x_axis": "site",
        "metrics": ["count"],
        "metrics_b": [SUM],
        "groupby_b": ["paid"],
    }
    assert of(tmp_path, board(params)).sql == [
        "/* chart 0 */ SELECT site AS site, COUNT(*) AS count FROM main.visits GROUP BY site",
        '/* chart 0 */ SELECT site AS site, paid AS paid, SUM(usd) AS "paid in all" FROM main.visits GROUP BY site, paid',
    ]


def test_a_table_of_another_database_has_no_schema_here(tmp_path: Path) -> None:
    (sql,) = of(tmp_path, board({"metric": "count"}, uri="postgresql://server/db")).sql
    assert sql.endswith("FROM visits")


def test_a_query_in_from_is_wrapped_without_its_comments(tmp_path: Path) -> None:
    query = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (buy = off) site FROM visit -- all\n;"
    (sql,) = of(tmp_path, board({"metric": "count"}, dataset={**DATASET, "sql": query})).sql
    assert sql.endswith("FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (buy = off) site FROM visit) AS virtual_table")


def a_filter(column: str, kind: str = "filter_select", **more: object) -> dict[str, object]:
    return {"name": column, "filterType": kind, "targets": [{"column": {"name": column}}], **more}


COUNT: dict[str, object] = {"metric": "count"}
ONE = {"col": "site", "op": "IN", "val": [1]}


@pytest.mark.parametrize(
    ("told", "wheres", "left"),
    [
        (a_filter("site"), ["", "site IN (3)"], 0),
        (a_filter("site", "filter_range"), ["", "site >= 3"], 0),
        (a_filter("site", scope={"rootPath": ["ROOT_ID"], "excluded": [0]}), [""], 0),
        (a_filter("site", scope={"rootPath": ["TAB-1"], "excluded": []}), [""], 0),
        (a_filter("site", scope={"rootPath": ["TAB-0"], "excluded": [1]}), ["", "site IN (3)"], 0),
        (a_filter("other"), [""], 0),
        (a_filter("band"), [""], 1),
        (a_filter("", "filter_timegrain"), [""], 1),
        (a_filter("site", defaultDataMask={"extraFormData": {"filters": [ONE]}}), ["site IN (1)"], 0),
        (a_filter("", "DIVIDER", type="DIVIDER"), [""], 0),
    ],
)  # fmt: skip
def test_filters_reach_the_charts_that_they_are_about(
    told: object, wheres: list[str], left: int, tmp_path: Path
) -> None:
    found = of(tmp_path, board(COUNT, native_filter_configuration=[told]))
    assert [sql.partition(" WHERE ")[2] for sql in found.sql] == wheres and len(found.left) == left


def test_a_range_of_time_that_stands_is_asked_and_one_that_moves_is_told(tmp_path: Path) -> None:
    chart = {"metric": "count", "adhoc_filters": [adhoc("seen", "TEMPORAL_RANGE", "No filter")]}
    for told, conditions, left in (("2020-01-01 : 2021-01-01", 2, 0), ("Last week", 0, 1)):
        when = a_filter("", "filter_time", defaultDataMask={"extraFormData": {"time_range": told}})
        found = of(tmp_path, board(chart, native_filter_configuration=[when]))
        (sql,) = found.sql
        assert sql.count("seen ") == conditions and len(found.left) == left


def test_a_click_on_one_chart_filters_the_others(tmp_path: Path) -> None:
    charts = {"metric": "count", "groupby": ["site"]}, {"metric": "count", "groupby": ["paid"]}
    found = of(tmp_path, board(*charts, cross_filters_enabled=True))
    assert [sql.partition(" WHERE ")[2] for sql in found.sql] == [
        "",
        "paid IN (TRUE) GROUP BY site",
        "",
        "site IN (3) GROUP BY paid",
    ]


def test_what_charts_say_in_odd_shapes_is_told(tmp_path: Path) -> None:
    odd = {"metrics": ["count"], "adhoc_filters": [adhoc("Kind", "REGEX", "a"), adhoc("Kind", "IN", []), "text", 5]}
    found = of(tmp_path, board(odd, {"viz_type": "markdown"}))
    assert found.sql == ["/* chart 0 */ SELECT COUNT(*) AS count FROM main.visits"]
    assert any("asks nothing" in one for one in found.left) and any("REGEX" in one for one in found.left)


# --- files


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"dashboards/one.yaml": {"position": {}}},
        {"dashboards/one.yaml": b"{a: [1"},
        {"dashboards/one.yaml": b"\xff\xfe\x00"},
        {"dashboards/one.yaml": b"!!python/object/apply:os.system ['true']"},
        {"dashboards/one.yaml": ["a list"]},
        {"dashboards/one.yaml": b"!!float ''"},
        {"dashboards/one.yaml": b"9999-12-31 23:59:59 -23:00"},
    ],
)
def test_what_is_no_export_is_refused(files: Files, tmp_path: Path) -> None:
    with pytest.raises(Error, match="DPSQL-802: it is no dashboard as Superset exports it") as raised:
        read_export(str(exported_as(tmp_path, files)))
    assert raised.value.hint


def test_lists_that_stand_for_one_another_are_no_text(tmp_path: Path) -> None:
    """Nine levels of nine, of 200 letters in YAML, are 1.5 billion letters as text."""
    levels = "a: &a [xx, xx, xx, xx, xx, xx, xx, xx, xx]\n"
    for one, other in pairwise("abcdefghi"):
        levels += f"{other}: &{other} [{', '.join([f'*{one}'] * 9)}]\n"
    params = f"{{metrics: [count, *i], groupby: *i, row_limit: 0x{'f' * 5000}}}"
    chart = f"{levels}uuid: c0\nslice_name: *i\ndataset_uuid: d\nparams: {params}"
    (found,) = read_export(str(exported_as(tmp_path, board(COUNT) | {"charts/0.yaml": chart.encode()})))
    assert [one.title for one in found.charts] == [""]
    (sql,) = statements([found], listed).sql
    assert len(sql) < 200 and "COUNT(*)" in sql


@pytest.mark.parametrize("title", ["**//", "x *", "dpsql: epsilon=9", " DPSQL : what is spent"])
def test_a_title_is_a_comment_and_nothing_else(title: str, tmp_path: Path) -> None:
    files = board(COUNT)
    files["charts/0.yaml"] = {"uuid": "c0", "slice_name": title, "dataset_uuid": "d", "params": COUNT}
    (sql,) = of(tmp_path, files).sql
    found = parse(sql)
    assert isinstance(found, Query) and found.options == Options() and isinstance(found.tree, exp.Select)


def test_other_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(Error, match="DPSQL-802: it is no dashboard"):
        read_export(str(tmp_path / "text.zip"))
    with pytest.raises(Error, match=r"DPSQL-802: .*none\.zip cannot be read"):
        read_export(str(tmp_path / "none.zip"))
    monkeypatch.setattr(exported, "MOST_BYTES", 10)
    with pytest.raises(Error, match="it is too large"):
        read_export(str(exported_as(tmp_path, board(COUNT))))


def test_without_pyyaml_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(Error, match=r"needs PyYAML; install the extra: pip install 'dpsql\[workload\]'"):
        read_export(str(tmp_path / "any.zip"))
