"""The use after the change."""

from changing import use

CHANGING = use(is_changed=True)
