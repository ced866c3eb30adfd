"""How much of the product one decision enters: what a newcomer has to follow."""

from tests.story.run import Extent, binding, decision, lines

MODULES, FUNCTIONS, DEPTH = 80, 450, 27
"""Of one cold decision of the demo fleet. Of the modules, 25 are one plugin or feature each."""


def test_a_decision_stays_small_enough_to_be_followed() -> None:
    decided, _, _ = decision()
    extent = Extent.of(decided)
    assert extent.modules <= MODULES, extent
    assert extent.functions <= FUNCTIONS, extent
    assert extent.depth <= DEPTH, extent


def test_the_story_names_the_decision_and_every_write() -> None:
    decided, _, placed = decision()
    assert placed.node
    told = "\n".join([*lines(decided, 3), *lines(binding(), 4)])
    for name in (
        "PodCycle.result",
        "PodCycle.best",
        "PodCycle.placed",
        "run",
        "Allocate.do",
        "Verify.do",
        "PodStep.do",
    ):
        assert f"{name}  scheduler/" in told
