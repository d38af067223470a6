"""YAML that people write: a key is in a mapping once, and an error is one line that begins with its place."""

from __future__ import annotations

from typing import Any

import yaml


class YamlError(ValueError):
    """A text that is no YAML; names the line."""


def read_yaml(text: str) -> Any:
    """The content of one document."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark, str(error.problem)
        remedy = "; write spaces" if r"'\t'" in problem else ""
        raise YamlError(f"{f'line {mark.line + 1}: ' if mark else ''}{problem}{remedy}") from None
    except yaml.YAMLError as error:
        raise YamlError(str(error).replace("\n", " ")) from None


class _Loader(yaml.SafeLoader):
    """PyYAML keeps the last of several values of one key, without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        met: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in met:
                problem = f"the key '{key.value}' is there already; keep one of the two"
                raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
            met.add(str(key.value))
        return super().construct_mapping(node, deep)
