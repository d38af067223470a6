"""The use before the change."""

from changing import use

CHANGING = use(is_changed=False)
