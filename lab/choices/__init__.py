"""What the product could be built on instead, measured beside what it is built on: `python -m lab.choices.NAME`."""
