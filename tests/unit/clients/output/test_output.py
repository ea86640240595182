"""Results as text in every mode: what a program reads back is what was written, and what a person sees is safe to see."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.clients.output.cells import columns_of
from dpsql.clients.terminal.show import MODES, ResultStyle, show, status
from dpsql.plan.tables import Accuracy

ROOT = Path(__file__).parents[4]
Row = tuple[object, ...]


@dataclass
class Result:
    """A cursor, as whoever writes its rows sees it."""

    names: Sequence[str]
    rows: Sequence[Row]
    kinds: Sequence[str] = ()
    accuracy: Sequence[tuple[Accuracy | None, ...]] = ()
    position: int = 0
    largest: int = 0

    @property
    def description(self) -> list[tuple[object, ...]] | None:
        kinds = self.kinds or ["VARCHAR"] * len(self.names)
        return [(n, kind, None, None, None, None, None) for n, kind in zip(self.names, kinds, strict=True)] or None

    @property
    def rowcount(self) -> int:
        return len(self.rows)

    @property
    def rownumber(self) -> int:
        return self.position

    def _intervals(self, start: int = 0, stop: int | None = None) -> Sequence[tuple[Accuracy | None, ...]]:
        return [*self.accuracy, *[(None,) * len(self.names)] * (len(self.rows) - len(self.accuracy))][start:stop]

    def with_ends(self) -> Result:
        return Result([*self.names, "more"], [(*row, 1) for row in self.rows])

    def fetchmany(self, size: int) -> list[Row]:
        found = list(self.rows[self.position : self.position + size])
        self.position += len(found)
        self.largest = max(self.largest, len(found))
        return found

    def fetchall(self) -> list[Row]:
        return self.fetchmany(len(self.rows))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(result: Result, mode: str, out: io.StringIO | None = None, **how: object) -> str:
    target = out if out is not None else io.StringIO()
    assert show(result, mode, target, ResultStyle(**how)) == len(result.rows)  # type: ignore[arg-type]
    return target.getvalue()


ODD = Result(
    ["id", "name", "amount", "share", "day", "flag"],
    [
        (1, 'a, "b"', Decimal("12345678901234567890.10"), 0.1, date(2020, 1, 31), True),
        (-2, "", Decimal("1E+3"), float("inf"), None, False),
        (2**70, None, None, float("nan"), date(1, 1, 1), None),
        (4, "x|\\\n<b>\t*y*\x1b[31m日本", Decimal("0.00"), 1e300, None, None),
    ],
    ["HUGEINT", "VARCHAR", "DECIMAL(38,2)", "DOUBLE", "DATE", "BOOLEAN"],
)
GOLDEN = {
    "csv": """\
id,name,amount,share,day,flag
1,"a, ""b""\",12345678901234567890.10,0.1,2020-01-31,true
-2,"",1000,Infinity,,false
1180591620717411303424,,,NaN,0001-01-01,
4,"x|\\
<b>\t*y*\x1b[31m日本",0.00,1e+300,,
""",
    "tsv": """\
id\tname\tamount\tshare\tday\tflag
1\ta, "b"\t12345678901234567890.10\t0.1\t2020-01-31\ttrue
-2\t\t1000\tInfinity\t\\N\tfalse
1180591620717411303424\t\\N\t\\N\tNaN\t0001-01-01\t\\N
4\tx|\\\\\\n<b>\\t*y*\x1b[31m日本\t0.00\t1e+300\t\\N\t\\N
""",
    "json": """\
[
{"id": 1, "name": "a, \\"b\\"", "amount": 12345678901234567890.10, "share": 0.1, "day": "2020-01-31", "flag": true},
{"id": -2, "name": "", "amount": 1000, "share": "Infinity", "day": null, "flag": false},
{"id": 1180591620717411303424, "name": null, "amount": null, "share": "NaN", "day": "0001-01-01", "flag": null},
{"id": 4, "name": "x|\\\\\\n<b>\\t*y*\\u001b[31m日本", "amount": 0.00, "share": 1e+300, "day": null, "flag": null}
]
""",
    "markdown": """\
| id | name | amount | share | day | flag |
| ---: | --- | ---: | ---: | --- | --- |
| 1 | a, "b" | 12345678901234567890.10 | 0.1 | 2020-01-31 | true |
| -2 |  | 1000 | Infinity |  | false |
| 1180591620717411303424 |  |  | NaN | 0001-01-01 |  |
| 4 | x\\|\\\\<br>&lt;b&gt;\\t\\*y\\*\\x1b\\[31m日本 | 0.00 | 1e+300 |  |  |
""",
    "vertical": """\
-- row 1 --
id      1
name    a, "b"
amount  12345678901234567890.10
share   0.1
day     2020-01-31
flag    true
""",
}
GOLDEN["jsonl"] = "".join(line.removesuffix(",") + "\n" for line in GOLDEN["json"].splitlines()[1:-1])


def odd() -> Result:
    return Result(ODD.names, ODD.rows, ODD.kinds)


@pytest.mark.parametrize("mode", ["csv", "tsv", "json", "jsonl", "markdown"])
def test_every_byte(mode: str) -> None:
    assert written(odd(), mode) == GOLDEN[mode]


def test_a_table() -> None:
    lines = written(odd(), "table").splitlines()
    assert lines == [
        "                    id  name                                        amount     share  day          flag",
        "----------------------  -------------------------  -----------------------  --------  ----------  -----",
        '                     1  a, "b"                     12345678901234567890.10       0.1  2020-01-31   true',
        "                    -2                                                1000  Infinity              false",
        "1180591620717411303424                                                           NaN  0001-01-01",
        "                     4  x|\\\\n<b>\\t*y*\\x1b[31m日本                     0.00    1e+300",
    ]


def test_one_line_a_value() -> None:
    text = written(odd(), "vertical")
    assert text.startswith(GOLDEN["vertical"])
    assert text.splitlines()[7:10] == ["-- row 2 --", "id      -2", "name"]


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "br":
            self.rows[-1][-1] += "\n"
        else:
            assert tag in ("table", "thead", "tbody"), tag

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and data != "\n":
            self.rows[-1][-1] += data


def test_html() -> None:
    text = written(odd(), "html")
    reader = Cells()
    reader.feed(text)
    assert reader.rows[0] == list(ODD.names) and len(reader.rows) == 5
    assert reader.rows[1] == ["1", 'a, "b"', "12345678901234567890.10", "0.1", "2020-01-31", "true"]
    assert reader.rows[4][1] == "x|\\\n<b>\\t*y*\\x1b[31m日本"
    assert text.count('<td style="text-align: right">') == 12


def test_csv_is_read_back_with_null_and_the_empty_text_apart(tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    file.write_text(written(odd(), "csv"), encoding="utf-8", newline="")
    read = duckdb.connect().execute(f"SELECT * FROM read_csv('{file}', allow_quoted_nulls = false)").fetchall()
    assert [row[1] for row in read] == [row[1] for row in ODD.rows]
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, strict=True))
    assert rows[0] == list(ODD.names) and rows[4][1] == ODD.rows[3][1]


# Texts with everything that a format could stumble over.
TEXT = st.text(
    st.one_of(st.sampled_from("\n\r\t\"',;|\\<>&*`#\x00\x1b\x7f\x85\x9b\u2028\u202e "), st.characters(codec="utf-8"))
)
NUMBER = st.one_of(
    st.integers(-(2**127), 2**127), st.floats(), st.decimals(allow_nan=False, allow_infinity=False, places=6)
)
GRID = st.integers(1, 4).flatmap(
    lambda width: st.tuples(
        st.lists(TEXT, min_size=width, max_size=width),
        st.lists(st.tuples(*[st.one_of(st.none(), TEXT, NUMBER)] * width), max_size=4),
    )
)


def as_text(value: object) -> str:
    """The value of a csv field, as this test says it."""
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and abs(value) in (float("inf"),):
        return "Infinity" if value > 0 else "-Infinity"
    return "NaN" if value != value else str(value)


@settings(max_examples=150, deadline=None)
@given(GRID)
def test_csv_round_trip(grid: tuple[list[str], list[Row]]) -> None:
    names, rows = grid
    text = written(Result(names, rows), "csv")
    read = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    # One NULL alone is an empty line, which the reader of the csv module gives as a row without fields.
    expected = [[as_text(value) for value in row] for row in rows]
    assert read == [list(names), *([] if row == (None,) else line for row, line in zip(rows, expected, strict=True))]


@settings(max_examples=150, deadline=None)
@given(GRID)
def test_tsv_round_trip(grid: tuple[list[str], list[Row]]) -> None:
    names, rows = grid
    lines = written(Result(names, rows), "tsv").removesuffix("\n").split("\n")
    meant = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}

    def value(field: str) -> str | None:
        return None if field == "\\N" else re.sub(r"\\(.)", lambda found: meant[found[1]], field)

    read = [[value(field) for field in line.split("\t")] for line in lines]
    assert read == [list(names), *([None if v is None else as_text(v) for v in row] for row in rows)]


@settings(max_examples=150, deadline=None)
@given(GRID)
def test_json_round_trip(grid: tuple[list[str], list[Row]]) -> None:
    names, rows = grid
    text = written(Result(names, rows), "json")
    read = json.loads(text, parse_float=Decimal)
    assert [list(row.values()) for row in read] == [[as_json(value) for value in row] for row in rows]
    lines = written(Result(names, rows), "jsonl").splitlines()
    assert [json.loads(line, parse_float=Decimal) for line in lines] == read
    assert all(len(row) == len(names) for row in read)


def as_json(value: object) -> object:
    if isinstance(value, float):
        return Decimal(repr(value)) if abs(value) < float("inf") else as_text(value)
    return value


def test_a_name_that_stands_twice() -> None:
    result = Result(["n", "n", "n_2", "n"], [(1, 2, 3, 4)])
    assert json.loads(written(result, "json")) == [{"n": 1, "n_3": 2, "n_2": 3, "n_4": 4}]
    assert written(Result(["n", "n"], [(1, 2)]), "csv") == "n,n\n1,2\n"


def test_values_of_other_types() -> None:
    row = (b"\x00\xff", [1, None, "a"], {"k": Decimal("1.50")}, datetime(2020, 1, 31, 10, 0), timedelta(days=3))
    result = Result(list("abcde"), [row])
    text = written(result, "csv")
    assert text == 'a,b,c,d,e\n\\x00ff,"[1, null, ""a""]","{""k"": 1.50}",2020-01-31 10:00:00,"3 days, 0:00:00"\n'
    read = json.loads(written(Result(list("abcde"), [row]), "json"))[0]
    assert read == {
        "a": "\\x00ff",
        "b": [1, None, "a"],
        "c": {"k": 1.5},
        "d": "2020-01-31 10:00:00",
        "e": "3 days, 0:00:00",
    }


@pytest.mark.parametrize("mode", MODES)
def test_no_rows_and_no_columns(mode: str) -> None:
    assert written(Result([], []), mode) == ""
    text = written(Result(["a", "b"], []), mode)
    expected = {"csv": "a,b\n", "tsv": "a\tb\n", "json": "[]\n", "jsonl": "", "table": "a  b\n-  -\n", "vertical": ""}
    assert text == expected.get(mode, text) and "\n\n" not in text


UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.few(2)
@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=60, deadline=None)
@given(grid=GRID)
def test_no_control_character_reaches_a_terminal(mode: str, grid: tuple[list[str], list[Row]]) -> None:
    text = written(Result(*grid), mode, Terminal(), width=40)
    assert not UNSAFE.search(text)


@settings(max_examples=200, deadline=None)
@given(GRID, st.integers(1, 60))
def test_a_table_is_as_wide_as_the_terminal(grid: tuple[list[str], list[Row]], width: int) -> None:
    """Or it is one line a value; and no number is ever cut."""
    text = written(Result(*grid), "table", Terminal(), width=width)
    lines = text.splitlines()
    if not lines or lines[0].startswith("-- row"):
        return
    assert all(columns_of(line) <= width for line in lines)
    for row in grid[1]:
        for value in row:
            if isinstance(value, int) and all(isinstance(other[row.index(value)], int) for other in grid[1]):
                assert str(value) in text


def test_what_is_cut() -> None:
    rows = [(1234567890123, "a text that is far too long for it", "short"), (2, "another", None)]
    text = written(Result(["a number of", "text", "more"], rows), "table", Terminal(), width=40)
    assert text.splitlines() == [
        "  a number of  text                more",
        "-------------  ------------------  -----",
        "1234567890123  a text that is fa…  short",
        "            2  another",
    ]
    hopeless = written(Result(["a number of", "text", "more"], rows), "table", Terminal(), width=20)
    assert hopeless.startswith(
        "-- row 1 --\na number of  1234567890123\ntext         a text that is far too long for it\n"
    )
    many = Result(["n"], [(i,) for i in range(10_002)])
    assert written(many, "table").endswith("\n9999\n... 2 more rows\n")


def test_colours_are_asked_for() -> None:
    rows = [(5, "a")]
    noisy = Result(["n", "t"], rows, accuracy=[(Accuracy(0.0, 35.0, 0.95), None)])
    plain = "      n  t\n-------  -\n~5 +-30  a\n~ marks a value that is smaller than its 95 % error\n"
    assert written(noisy, "table", bars=True) == plain
    noisy.position = 0
    text = written(noisy, "table", bars=True, colour=True)
    assert re.sub("\x1b\\[\\d*m", "", text) == plain and "\x1b[1m" in text


@pytest.mark.parametrize("mode", ["table", "vertical", "markdown", "html"])
def test_error_bars_in_what_people_read(mode: str) -> None:
    rows = [(1, 830, 9643.940786, None), (2, 12, 0.5123456, 7)]
    accuracy = [
        (None, Accuracy(800.0, 860.0, 0.95), Accuracy(8444.0, 10843.0, 0.95), None),
        (None, Accuracy(0.0, 42.0, 0.95), Accuracy(0.481, 0.5445, 0.95), Accuracy(7.0, 7.0, 0.95)),
    ]
    result = Result(["site", "people", "mean", "none"], rows, accuracy=accuracy)
    text = written(result, mode, bars=True).replace("\\~", "~")
    for seen in ("830 +-30", "9600 +-1,200", "~12 +-30", "0.512 +-0.033", "7 +-0"):
        assert seen in re.sub(" +", " ", text)
    result.position = 0
    alone = written(result, mode).replace("\\~", "~")
    assert all(f"{number}" in alone for number in (830, 9600, "~12", "0.512", 7)) and "+-" not in alone
    if mode == "table":
        legend = "~ marks a value that is smaller than its 95 % error"
        assert text.splitlines()[2:] == [
            "   1  830 +-30   9600 +-1,200",
            "   2  ~12 +-30  0.512 +-0.033  7 +-0",
            legend,
        ]
        assert alone.splitlines()[2:] == ["   1     830   9600", "   2     ~12  0.512     7", legend]


@pytest.mark.parametrize("mode", ["csv", "tsv", "json", "jsonl"])
def test_programs_are_given_errors_as_columns(mode: str) -> None:
    result = Result(["n"], [(830.123,)], accuracy=[(Accuracy(800.0, 860.0, 0.95),)])
    text = written(result, mode, bars=True)
    assert "more" in text and "830.123" in text and "+-" not in text
    assert "more" not in written(result, mode)


def test_error_bars_of_the_rows_that_are_left() -> None:
    result = Result(["n"], [(10,), (20,)], accuracy=[(Accuracy(9.0, 11.0, 0.95),), (Accuracy(15.0, 25.0, 0.95),)])
    result.fetchmany(1)
    out = io.StringIO()
    assert show(result, "table", out, ResultStyle(bars=True)) == 1  # type: ignore[arg-type]
    assert out.getvalue().splitlines()[2] == "20 +-5"


@pytest.mark.parametrize("mode", ["csv", "tsv", "json", "jsonl", "insert", "markdown", "html"])
def test_few_rows_are_text_at_once(mode: str) -> None:
    class Chunks(io.StringIO):
        largest = 0

        def write(self, text: str) -> int:
            Chunks.largest = max(Chunks.largest, len(text))
            return len(text)

    result = Result(["n"], [(i,) for i in range(20_000)])
    assert show(result, mode, Chunks()) == 20_000  # type: ignore[arg-type]
    assert result.largest <= 1000 and Chunks.largest < 100_000


def test_the_line_under_a_result() -> None:
    free = SimpleNamespace(
        epsilon=Fraction(0),
        delta=0,
        remaining=Fraction(39, 10),
        remaining_delta=5e-7,
        cached=False,
        releases=0,
        as_of="",
        statements=None,
    )
    beside = SimpleNamespace(in_memory=False)
    cursor = SimpleNamespace(
        privacy=free, description=[("a", "DATE"), ("b\x1b", "DOUBLE")], errors=[2.0, 1.5], connection=beside
    )
    left = "remaining: epsilon 3.9, delta 5e-07"
    assert status(cursor, 1) == f"1 row; free; {left}"  # type: ignore[arg-type]
    assert status(cursor, 12345, 0.126) == f"12,345 rows in 0.13 s; free; {left}"  # type: ignore[arg-type]
    beside.in_memory = True
    assert status(cursor, 1) == f"1 row; free; {left}; the ledger is in memory"  # type: ignore[arg-type]
    beside.in_memory = False
    free.cached = True
    assert status(cursor, 2) == f"95 % error: a +-2 days, b\\x1b +-1.5\n2 rows; stored answer, free; {left}"  # type: ignore[arg-type]
    free.statements = 12
    assert status(cursor, 2).endswith(
        "; remaining: 12 statements at the default price (one may cost epsilon 3.9, delta 5e-07)"
    )  # type: ignore[arg-type]
    free.statements = None
    free.cached, free.releases, free.epsilon, free.delta = False, 1, Fraction(1, 10), 1e-9
    assert status(cursor, 0).endswith(f"0 rows; price: epsilon 0.1, delta 1e-09; {left}")  # type: ignore[arg-type]


def test_sql_makes_the_same_rows_again() -> None:
    asked = """SELECT * FROM (VALUES (1, 'it''s ;', true, 1.5::DECIMAL(4, 2), DATE '2020-02-29', 'nan'::DOUBLE, 9::HUGEINT),
        (NULL, '', NULL, NULL, NULL, -0.1, NULL), (-7, 'a\nb', false, -2, NULL, '-inf', -9)) AS t("a b", "q""q", c, d, e, f, g)"""
    with (
        dpsql.connect(ROOT / "examples/randhie/schema.toml", ledger=":memory:") as connection,
        duckdb.connect() as other,
    ):
        out = io.StringIO()
        assert show(connection.execute(asked), "insert", out) == 3
        other.execute(out.getvalue())
        found, rows = other.execute("SELECT * FROM result"), connection.execute(asked)
        assert [column[:2] for column in found.description] == [column[:2] for column in rows.description or []]
        assert repr(found.fetchall()) == repr(rows.fetchall())


def test_a_real_answer_in_every_mode() -> None:
    with dpsql.connect(ROOT / "examples/randhie/schema.toml", ledger=":memory:") as connection:
        for mode in MODES:
            cursor = connection.execute("SELECT site, COUNT(*) AS n, AVG(income) AS a FROM person GROUP BY site")
            out = io.StringIO()
            assert show(cursor, mode, out, ResultStyle(bars=True)) == 6
            assert re.match(r"95 % error: n \+-(49|50), a \+-", status(cursor, 6)), "ends of whole counts are whole"
            assert ("+-" in out.getvalue()) == (mode in ("table", "vertical", "markdown", "html"))
