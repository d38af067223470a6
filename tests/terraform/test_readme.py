"""terraform/README.md: its commands work as described, as far as a plan shows."""

import re
import shlex
from pathlib import Path

import pytest

from millrace.cli.app import GROUPS, VERBS
from millrace.settings import PROJECT
from tests.terraform.conftest import MODULES, ROOTS, TERRAFORM

TEXT = (TERRAFORM / "README.md").read_text()


def commands() -> list[tuple[Path, list[str]]]:
    """The folder and the words of every command that is shown after a prompt."""
    folder, found = PROJECT, []
    for line in re.findall(r"^\$ (.+)$", TEXT, re.MULTILINE):
        words = shlex.split(line, comments=True)
        if words[0] == "cd":
            folder = PROJECT if words[1] == "millrace" else (folder / words[1]).resolve()
            assert folder.is_dir(), line
        else:
            found.append((folder, words))
    return found


def of(program: str) -> list[tuple[Path, list[str]]]:
    return [(folder, words[1:]) for folder, words in commands() if Path(words[0]).name == program]


@pytest.mark.builds
def test_every_command_of_terraform_is_one_that_plans(terraform_in, tmp_path):
    examples = {folder: words[0] for folder, words in of("cp")}
    assert {words[0] for _, words in of("terraform")} == {"init", "plan", "apply", "output", "destroy"}
    for folder in {folder for folder, _ in of("terraform")}:
        terraform = terraform_in(folder, TF_VAR_state=str(tmp_path / "state"))
        said = [words for place, words in of("terraform") if place == folder]
        options = {(verb == "destroy", *words) for verb, *words in said if verb in ("plan", "apply", "destroy")}
        for is_destroy, *words in sorted(options):
            terraform.planned(f"-var-file={examples[folder]}", *(["-destroy"] if is_destroy else []), *words)
        declared = re.findall(r'^output "(\w+)"', (folder / "outputs.tf").read_text(), re.MULTILINE)
        asked_for = [word for verb, *words in said if verb == "output" for word in words if not word.startswith("-")]
        assert asked_for
        assert set(asked_for) <= set(declared)


def test_every_edit_changes_its_file():
    assert of("sed")
    for folder, (inplace, edit, name) in of("sed"):
        before, after = edit.split("/")[1:3]
        assert (inplace, edit) == ("-i", f"s/{before}/{after}/")
        assert (folder / name).read_text().count(before) == 1, f"{name}: {before}"


def test_every_verb_of_the_command_line_is_one():
    assert {words[0] for _, words in of("millrace")} <= {verb.__name__ for verb in VERBS} | GROUPS.keys()


def test_its_links_lead_to_every_module_and_every_target():
    links = set(re.findall(r"\]\(([^)#:]+)\)", TEXT))
    assert {f"modules/{module.name}/README.md" for module in MODULES} <= links
    assert {f"{root.name}/variables.tf" for root in ROOTS} <= links
