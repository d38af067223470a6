"""Module `verb`: calls again when it must, and only then."""

import pytest

from tests.terraform.conftest import TERRAFORM

pytestmark = pytest.mark.builds

MAIN = """
variable "differences" {
  type    = list(string)
  default = []
}

variable "wanted" {
  type    = string
  default = "two partitions"
}

variable "place" {
  type    = string
  default = "here"
}

variable "then" {
  type    = string
  default = "exit 0"
}

variable "destroy" {
  type    = list(list(string))
  default = [["-c", "echo undone >> calls", "sh"]]
}

module "thing" {
  source      = "%s/modules/verb"
  name        = "thing"
  program     = "/bin/sh"
  apply       = [["-c", "read -r line; echo \\"$1, $line\\" >> calls; ${var.then}", "sh", "it's ${var.wanted}"]]
  destroy     = var.destroy
  stdin       = "in \\"${var.place}\\"\\n"
  environment = { MILLRACE_STATE = abspath(".") }
  wanted      = var.wanted
  identity    = var.place
  differences = var.differences
  note        = try(file("settled/thing"), null)
}

output "because" {
  value = module.thing.because
}
"""

GONE = '-var=differences=["it is gone"]'


@pytest.fixture
def thing(terraform_in, tmp_path):
    (tmp_path / "main.tf").write_text(MAIN % TERRAFORM)
    return terraform_in(tmp_path)


def apply(thing, *words: str) -> list[str]:
    """The calls that an apply made."""
    calls = thing.folder / "calls"
    calls.unlink(missing_ok=True)
    thing.run("apply", "-no-color", "-auto-approve", *words)
    return calls.read_text().splitlines() if calls.exists() else []


def has_changes(thing, *words: str) -> bool:
    return "No changes" not in thing.run("plan", "-no-color", "-detailed-exitcode", *words, codes=(0, 2))


def test_it_calls_once_with_its_words_and_its_input_unharmed(thing):
    assert apply(thing) == ['it\'s two partitions, in "here"']
    assert not has_changes(thing)
    assert apply(thing) == []


def test_a_difference_calls_again_and_the_next_plan_finds_nothing(thing):
    apply(thing)
    assert has_changes(thing, GONE)
    assert apply(thing, GONE) == ['it\'s two partitions, in "here"']
    assert not has_changes(thing)
    assert "it is gone" in thing.run("output", "because")


def test_the_same_thing_lost_twice_is_two_changes(thing):
    apply(thing)
    assert len(apply(thing, GONE)) == 1
    assert len(apply(thing, GONE)) == 1


def test_what_is_declared_otherwise_is_called_again_and_not_undone(thing):
    apply(thing)
    assert apply(thing, "-var=wanted=three partitions") == ['it\'s three partitions, in "here"']


def test_what_cannot_change_in_place_is_undone_first(thing):
    apply(thing)
    assert apply(thing, "-var=place=there") == ["undone", 'it\'s two partitions, in "there"']


def test_a_call_that_failed_is_made_again_by_the_next_apply(thing):
    thing.run("apply", "-no-color", "-auto-approve", "-var=then=exit 3", codes=(1,))
    assert has_changes(thing)
    assert apply(thing) == ['it\'s two partitions, in "here"']
    assert not has_changes(thing)


def test_a_destroy_undoes_once(thing):
    apply(thing)
    (thing.folder / "calls").unlink()
    thing.run("destroy", "-no-color", "-auto-approve")
    assert (thing.folder / "calls").read_text() == "undone\n"


def test_what_is_not_to_be_undone_any_more_stays_now_and_when_destroyed(thing):
    apply(thing)
    nothing = "-var=destroy=[]"
    assert apply(thing, nothing) == []
    thing.run("destroy", "-no-color", "-auto-approve", nothing)
    assert not (thing.folder / "calls").exists()
