"""The process of the watcher: `python -m millrace.verbs.watch`."""

import os

from millrace.settings import Settings
from millrace.verbs.watch import run

run(Settings.read(os.environ))
