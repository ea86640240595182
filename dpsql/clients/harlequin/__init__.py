"""An adapter for Harlequin, the SQL editor for a terminal: `harlequin -a dpsql SCHEMA`.

Harlequin finds it by the entry point `harlequin.adapter`; nothing else in dpsql imports it.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("harlequin") is None:
    raise ImportError('the Harlequin adapter needs Harlequin; write pip install "dpsql[harlequin]"')
