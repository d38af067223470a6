"""`python -m millrace.cli`: the command line where no script of it is installed."""

from millrace.cli import main

main()
