"""`python -m infra.cli`: the command line where no script of it is installed."""

from infra.cli import main

main()
