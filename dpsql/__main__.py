"""python -m dpsql"""

from dpsql.clients.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
