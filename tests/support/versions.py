"""Differences between versions of the engine: marks of tests that plant a fault which only some of them show."""

from __future__ import annotations

import re

import duckdb
import pytest

DUCKDB = tuple(int(number) for number in re.findall(r"\d+", duckdb.__version__)[:3])

infers_abs_wrongly = pytest.mark.skipif(DUCKDB != (2, 0, 0), reason="only 2.0.0 infers wrong limits of ABS")
keeps_signs_of_zeros = pytest.mark.skipif(DUCKDB >= (2, 0, 1), reason="since 2.0.1 a group of zeros shows one of them")
reads_more_digits = pytest.mark.skipif(DUCKDB >= (2, 0, 1), reason="since 2.0.1 a text of more digits is no DECIMAL")
cuts_by_other_texts = pytest.mark.skipif(DUCKDB >= (2, 0, 0), reason="since 2.0 all texts are cut alike")
