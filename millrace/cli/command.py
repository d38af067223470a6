"""How a verb parses its arguments."""

from __future__ import annotations

import inspect
from itertools import pairwise
from typing import Any

from typer import BadParameter
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption


class Plain:
    """Help without noise: no type of a flag, which takes no value, or of an argument; no braces around arguments."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the class beside this one
        for each in params:
            if isinstance(each, TyperOption) and each.is_flag:
                each.metavar = ""
            elif isinstance(each, TyperArgument):
                each.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # there is no option for it
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]  # as above
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


class Group(Plain, TyperGroup):
    """Verbs under one name."""

    def __init__(self, *args: Any, help: str | None = None, **more: Any) -> None:
        super().__init__(*args, help=unwrapped(help or ""), **more)


class Command(Plain, TyperCommand):
    """A verb that never takes an option for the value of another: `--reason --json` lacks a reason."""

    def __init__(self, *args: Any, help: str | None = None, **more: Any) -> None:
        super().__init__(*args, help=unwrapped(help or ""), **more)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [each for each in self.get_params(ctx) if isinstance(each, TyperOption)]
        names = {name for option in options for name in (*option.opts, *option.secondary_opts)}
        valued = {name for option in options if not option.is_flag for name in option.opts}
        for word, following in pairwise(args):
            if word == "--":
                break
            if word in valued and following in names:
                raise BadParameter(
                    f"{word} has no value: {following} is an option; to mean it as a value, write {word}={following}",
                    ctx,
                )
        return super().parse_args(ctx, args)


def unwrapped(text: str) -> str:
    """A docstring with a line for each paragraph, so that the terminal wraps it; examples keep their lines."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(each if each.startswith("Example") else each.replace("\n", " ") for each in paragraphs)
