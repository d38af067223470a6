"""One folder for each engine, which holds all of it; `millrace/registry.py` finds them."""
