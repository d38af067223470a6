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
    except RecursionError:
        raise YamlError("too many levels; write fewer brackets or indents") from None


class _Loader(yaml.SafeLoader):
    """PyYAML keeps the last of several values of one key, and raises any error for a value that is none of its type."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Not where the node is constructed: the pairs of its merge keys are then beside its own, which replace them.
        node = super().compose_mapping_node(anchor)
        met: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in met:
                problem = f"the key '{key.value}' is there already; keep one of the two"
                raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
            met.add(str(key.value))
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError):
            problem = f"this is no {node.tag.rpartition(':')[2]}; write quotes around a text"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark) from None
