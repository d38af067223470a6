"""The measurement of segments: its pretended pipeline is right, and its record has what is judged."""

from pathlib import Path

from lab import segments
from lab.segments import figures_of
from millrace.traffic import plan_for
from pipelines.fraud.traffic import TRAFFIC


def test_a_pretended_pipeline_is_right_in_each_minute(tmp_path: Path) -> None:
    plan = plan_for(TRAFFIC, 4 * 60 * 20, 20, seed=1, name="p", customers=300, frauds=0.1)
    pipeline = segments.Pretended(plan)
    minutes = (segments.minute_of(pipeline, number) for number in range(1, 5))
    found = list(segments.judged(minutes, 4, tmp_path))
    assert [each["wrong"] for each in found] == [{}] * 4
    assert sum(each["messages"] for each in found) > 4 * 60 * 20
    figures = figures_of(found)
    assert (figures["verdict"], len(figures["quarters_mb"])) == ("ok", 4)
    assert figures_of([*found[:3], found[3] | {"wrong": {"refusals": "x"}}])["verdict"] == "failed"
