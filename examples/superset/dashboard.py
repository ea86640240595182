"""Makes what the example shows: two cubes, Superset's own tables, a login, a database, three datasets, twelve charts, a dashboard."""

import json
import os
from pathlib import Path
from typing import Any

from flask_migrate import upgrade
from sqlalchemy import create_engine
from superset.app import create_app

# The last band is open: the guard refuses a filter that could leave a few people in a band.
BAND = "CAST(FLOOR(LEAST(age, 69) / 10) * 10 AS INTEGER)"
# Nobody's year counts more than thirty visits: they are a hundredth of all, and the noise is a third of that at the declared bound.
VISITS = "LEAST(md_visits, 30)"
JOINED = "person_year JOIN person USING (person_id)"
# Bought at the start, once: every chart, filter, click and refresh is read off them. The second costs the most that the owner allows.
CUBES = [
    """CREATE PRIVATE CUBE people OPTIONS (epsilon = 1) AS
SELECT site, female, COUNT(*), SUM(income), SUM(mental_health_index) FROM person GROUP BY CUBE (site, female)""",
    f"""CREATE PRIVATE CUBE years AS
SELECT site, female, year, child, {BAND}, COUNT(*), SUM({VISITS}) FROM {JOINED} GROUP BY CUBE (site, female, year, child, {BAND})""",
]
# A dataset of Superset can be a query; its options are those of each statement that is asked of it: with buy = off nothing is bought
# that no cube answers. Superset drops comments, so the options stand in the query.
FREE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (buy = off)"
DATASETS = {
    "people": f"{FREE} site, female, income, mental_health_index FROM person",
    "years": f"{FREE} site, female, year, child, {BAND} AS age_from, {VISITS} AS md_visits FROM {JOINED}",
    "ledger": "SELECT statements_left, approved FROM dpsql.budget CROSS JOIN dpsql.versions WHERE holder = 'dataset'",
}
SERIES = {
    "row_limit": 1000,
    "show_legend": True,
    "x_axis_title": "",
    "xAxisForceCategorical": True,
    "truncate_metric": True,
}


def with_band(name: str) -> list[str]:
    """A metric, and the ends of its 95 % interval: Superset draws a band between two series with these endings, as of a forecast."""
    return [name, f"{name}__yhat_lower", f"{name}__yhat_upper"]


def with_error(name: str) -> str:
    """A metric and its 95 % error in one column, as text."""
    return f"{name} ± 95 %"


# Of each dataset: its metrics, how their numbers are shown, and with how many digits behind the point.
METRICS = {
    "people": {
        "people": ("COUNT(*)", ",d", 0),
        "mean income": ("AVG(income)", ",.0f", 0),
        "mean health": ("AVG(mental_health_index)", ".1f", 1),
    },
    "years": {"person-years": ("COUNT(*)", ",d", 0), "visits": ("AVG(md_visits)", ".1f", 1)},
    "ledger": {"questions left": ("MIN(statements_left)", ",d", 0), "as of": ("MIN(approved)", "", 0)},
}
# Prices are shown before they are paid; what would show rows of people is not offered.
EXTRA = {"cost_estimate_enabled": True, "disable_drill_to_detail": True, "disable_data_preview": True}
# Title, width of twelve, dataset, kind, settings.
CHARTS: list[tuple[str, int, str, str, dict[str, Any]]] = [
    ("People", 2, "people", "big_number_total", {"metric": "people"}),
    ("Plus or minus, 95 %", 2, "people", "big_number_total", {"metric": "people, plus-minus"}),
    ("Mean income", 2, "people", "big_number_total", {"metric": "mean income"}),
    ("Plus or minus, dollars", 2, "people", "big_number_total", {"metric": "mean income, plus-minus"}),
    ("Questions left", 2, "ledger", "big_number_total", {"metric": "questions left"}),
    ("Data as of", 2, "ledger", "big_number_total",
     {"metric": "as of", "force_timestamp_formatting": True, "time_format": "%d %b %Y"}),
    ("Visits to physicians by year", 6, "years", "echarts_timeseries_line",
     {"x_axis": "year", "metrics": with_band("visits"), "truncateYAxis": False, **SERIES}),
    ("People by site", 6, "people", "echarts_timeseries_bar", {"x_axis": "site", "metrics": with_band("people"), **SERIES}),
    ("Sites compared", 6, "people", "table",
     {"query_mode": "aggregate", "groupby": ["site"], "metrics": list(map(with_error, ("people", "mean income", "mean health")))}),
    ("Sites and sex", 6, "people", "pivot_table_v2",
     {"groupbyRows": ["site"], "groupbyColumns": ["female"], "metrics": [with_error("people")], "metricsLayout": "COLUMNS",
      "aggregateFunction": "List Unique Values", "row_limit": 1000}),
    ("Person-years by age", 6, "years", "echarts_timeseries_bar",
     {"x_axis": "age_from", "metrics": with_band("person-years"), **SERIES}),
    ("Visits of children and adults", 6, "years", "table",
     {"query_mode": "aggregate", "groupby": ["child", "female"], "metrics": list(map(with_error, ("person-years", "visits")))}),
]  # fmt: skip


def main(address: str, buyer: str) -> None:
    """address, buyer  of the data, as the dialect for SQLAlchemy reads it: for Superset, and for who buys the cubes"""
    app = create_app()
    with app.app_context():
        upgrade(directory=str(Path(app.root_path) / "migrations"))
        login = the_login(os.environ["SUPERSET_PASSWORD"])
        from superset import db
        from superset.models.core import Database
        from superset.utils.core import override_user

        buy(buyer)
        with override_user(login):
            if not db.session.query(Database).count():
                make(address)
                db.session.commit()


def buy(address: str) -> None:
    """The cubes; of those that are there the same statement is free."""
    with create_engine(address).connect() as connection:
        for cube in CUBES:
            connection.exec_driver_sql(cube)


def the_login(password: str) -> Any:
    """The user admin, who has this password from now on."""
    from superset import appbuilder, security_manager

    admin = security_manager.find_user("admin")
    if admin is None:
        appbuilder.add_permissions(update_perms=True)
        security_manager.sync_role_definitions()
        role = security_manager.find_role("Admin")
        return security_manager.add_user("admin", "The", "Admin", "admin@localhost", role, password=password)
    security_manager.reset_password(admin.id, password)
    return admin


def make(uri: str) -> None:
    from superset import db
    from superset.models.core import Database

    database = Database(database_name="randhie", expose_in_sqllab=True, extra=json.dumps(EXTRA))
    database.set_sqlalchemy_uri(uri)
    db.session.add(database)
    datasets = {name: dataset(database, name, sql) for name, sql in DATASETS.items()}
    db.session.flush()
    charts = [chart(datasets[name], title, kind, settings) for title, _, name, kind, settings in CHARTS]
    db.session.flush()
    dashboard(datasets["people"].id, charts)


def dataset(database: Any, name: str, sql: str) -> Any:
    """A query over tables. Its columns are asked with LIMIT 0, free."""
    from superset import db
    from superset.connectors.sqla.models import SqlaTable, SqlMetric

    table = SqlaTable(table_name=name, database=database, sql=sql)
    db.session.add(table)
    for metric, (value, shown, digits) in METRICS[name].items():
        for which, text in expressions(metric, value, digits).items():
            table.metrics.append(SqlMetric(metric_name=which, expression=text, d3format=shown))
    db.session.flush()
    table.fetch_metadata()
    return table


def expressions(metric: str, value: str, digits: int) -> dict[str, str]:
    """Expressions of a metric: itself, its ends, half of what is between them, and it with that as text. All are one release."""
    _, low, high = with_band(metric)
    lower, upper = f"dp_low({value})", f"dp_high({value})"
    half = f"({upper} - {lower}) / 2"
    told = f"CONCAT({text_of(value, digits)}, ' ± ', {text_of(half, digits)})"
    found = {metric: value, low: lower, high: upper, f"{metric}, plus-minus": half, with_error(metric): told}
    return found if metric in METRICS["people"] or metric in METRICS["years"] else {metric: value}


def text_of(value: str, digits: int) -> str:
    return f"CAST(ROUND({value}, {digits}) AS {'DECIMAL(18, 1)' if digits else 'BIGINT'})"


def chart(table: Any, title: str, kind: str, settings: dict[str, Any]) -> Any:
    from superset import db
    from superset.models.slice import Slice

    params = {"datasource": f"{table.id}__table", "viz_type": kind, **settings}
    made = Slice(
        slice_name=title, viz_type=kind, datasource_type="table", datasource_id=table.id, params=json.dumps(params)
    )
    db.session.add(made)
    return made


def dashboard(people: int, charts: list[Any]) -> None:
    from superset import db
    from superset.models.dashboard import Dashboard

    filters = [a_filter("Site", "site", people), a_filter("Female", "female", people)]
    db.session.add(
        Dashboard(
            dashboard_title="RAND Health Insurance Experiment",
            slug="randhie",
            published=True,
            slices=charts,
            position_json=json.dumps(layout(charts)),
            json_metadata=json.dumps({"native_filter_configuration": filters, "cross_filters_enabled": True}),
        )
    )


def layout(charts: list[Any]) -> dict[str, Any]:
    """Rows of twelve columns."""
    rows: list[list[str]] = [[]]
    placed: dict[str, Any] = {}
    used = 0
    for made, (_, width, _, kind, _) in zip(charts, CHARTS, strict=True):
        if used + width > 12:
            rows.append([])
            used = 0
        used += width
        name = f"CHART-{made.id}"
        height = 20 if kind == "big_number_total" else 50
        meta = {
            "chartId": made.id,
            "uuid": str(made.uuid),
            "sliceName": made.slice_name,
            "width": width,
            "height": height,
        }
        placed[name] = {"type": "CHART", "id": name, "children": [], "meta": meta}
        rows[-1].append(name)
    for number, row in enumerate(rows):
        meta = {"background": "BACKGROUND_TRANSPARENT"}
        placed[f"ROW-{number}"] = {"type": "ROW", "id": f"ROW-{number}", "children": row, "meta": meta}
    grid = [f"ROW-{number}" for number in range(len(rows))]
    return placed | {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": grid, "parents": ["ROOT_ID"]},
    }


def a_filter(title: str, column: str, table: int) -> dict[str, Any]:
    """A box on the left, whose values are the declared ones: listing them is free."""
    return {
        "id": f"NATIVE_FILTER-{column}",
        "type": "NATIVE_FILTER",
        "filterType": "filter_select",
        "name": title,
        "targets": [{"datasetId": table, "column": {"name": column}}],
        "scope": {"rootPath": ["ROOT_ID"], "excluded": []},
        "controlValues": {"multiSelect": True, "enableEmptyFilter": False},
        "defaultDataMask": {"extraFormData": {}, "filterState": {}, "ownState": {}},
        "cascadeParentIds": [],
    }


if __name__ == "__main__":
    main(os.environ["DPSQL_ADDRESS"], os.environ["DPSQL_BUYER"])
