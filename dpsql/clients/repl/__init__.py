"""The session in a terminal: `dpsql SCHEMA`.

scanner     SQL that is still being written, as words
scope       the tables and columns that can be named at a place of it
completion  what can stand at the cursor, from the declared schema alone
words       keywords, functions and options
commands    the prompt's own: their names, and what they are for
actions     what they do
desk        what a session has open, and how it answers one statement
running     work that Ctrl-C stops
screen      the terminal that is written to
editor      keys, history, colours and completion, by prompt_toolkit
plain       lines without it
banner      the first words, and the page of help
loop        read, answer, show
"""

from dpsql.clients.repl.loop import run

__all__ = ["run"]
