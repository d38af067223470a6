"""The options of verbs that the uses declare: one for each share and size of their traffic."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from millrace.cli.command import Command
from millrace.errors import InfraError

if TYPE_CHECKING:
    from millrace.traffic import Share, Size, Traffic


class Mixture(Command):
    """A verb with these options; the uses are imported only when it is parsed."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), *self._declared]

    def invoke(self, ctx: Any) -> Any:
        names = [option.name for option in self._declared]
        given = {name: ctx.params.pop(name, None) for name in names}
        ctx.obj = {name: value for name, value in given.items() if value is not None}
        return super().invoke(ctx)

    def _of(self, traffic: Traffic) -> Mapping[str, Share | Size]:
        return {**traffic.shares, **traffic.sizes}

    @cached_property
    def _declared(self) -> list[Any]:
        found = declared(self._of)
        own = {param.name for param in self.params}
        for option, by_use in found.items():
            if option.replace("-", "_") in own:
                raise InfraError(
                    f"use '{next(iter(by_use))}': its traffic cannot have '{option}', `millrace {self.name}` has this "
                    "option itself; give it another name"
                )
        return options(found)


class Sizes(Mixture):
    """A verb with the sizes alone, on which the reading of recorded files depends."""

    def _of(self, traffic: Traffic) -> Mapping[str, Share | Size]:
        return traffic.sizes


def declared(of: Callable[[Traffic], Mapping[str, Share | Size]]) -> dict[str, dict[str, Share | Size]]:
    """The shares and sizes `of` each use's traffic, by name and use."""
    from millrace.project import uses

    found: dict[str, dict[str, Share | Size]] = {}
    for use in uses().values():
        if use.traffic:
            for name, each in of(use.traffic).items():
                found.setdefault(name, {})[use.name] = each
    return found


def options(found: Mapping[str, Mapping[str, Share | Size]]) -> list[Any]:
    """An option for each name, as Typer makes them; uses may limit it differently, so the plan checks it once more."""
    parameters = []
    for name, by_use in found.items():
        given = by_use.values()
        kind = int if all(isinstance(each.default, int) for each in given) else float
        option = typer.Option(
            f"--{name}",
            metavar="COUNT" if kind is int else "SHARE",
            min=min(each.least for each in given),
            max=max(each.most for each in given),
            help=" ".join(f"{use} [{each.default:g}]: {each.help}" for use, each in by_use.items()),
            show_default=False,
            rich_help_panel="Options of each use, its default in brackets",
        )
        parameters.append(
            inspect.Parameter(
                name.replace("-", "_"),
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[kind | None, option],
            )
        )

    def verb() -> None: ...

    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    made = typer.Typer(add_completion=False)
    made.command()(verb)
    return list(get_command(made).params)
