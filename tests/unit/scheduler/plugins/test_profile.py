"""Profiles are made of the default plugins by kube-scheduler's rules."""

import pytest

from scheduler.plugins.profile import PLUGINS, InvalidProfile, PluginSet, PluginSets, is_filter, plugins_of

DEFAULT = [plugin.name for plugin in PLUGINS]


def on(*names: str, off: str = "", **weights: int) -> PluginSet:
    return PluginSet({**dict.fromkeys(names, 0), **weights}, frozenset(off.split()))


def filters(sets: PluginSets) -> list[str]:
    return [plugin.name for plugin in plugins_of(sets, {}) if is_filter(plugin)]


def weights(sets: PluginSets) -> dict[str, int]:
    return {plugin.name: plugin.score.weight for plugin in plugins_of(sets, {}) if plugin.score}


def test_nothing_said_is_the_default() -> None:
    assert plugins_of(PluginSets(), {}) == PLUGINS


def test_plugin_that_is_off_everywhere_is_gone() -> None:
    assert "ImageLocality" not in [one.name for one in plugins_of(PluginSets(on(off="ImageLocality NodePorts")), {})]


def test_plugin_may_be_off_as_a_score_alone() -> None:
    sets = PluginSets(score=on(off="TaintToleration"))
    assert "TaintToleration" in filters(sets)
    assert "TaintToleration" not in weights(sets)


def test_plugin_may_be_off_as_a_filter_alone() -> None:
    sets = PluginSets(filter=on(off="TaintToleration"))
    assert "TaintToleration" not in filters(sets)
    assert weights(sets)["TaintToleration"] == 3


def test_weight_at_the_point_has_the_last_word() -> None:
    sets = PluginSets(multi_point=on(NodeResourcesFit=7), score=on(NodeResourcesFit=4))
    assert weights(sets)["NodeResourcesFit"] == 4
    assert weights(PluginSets(multi_point=on(NodeResourcesFit=7)))["NodeResourcesFit"] == 7


def test_weight_that_is_not_given_is_1() -> None:
    assert weights(PluginSets(score=on("TaintToleration")))["TaintToleration"] == 1
    assert weights(PluginSets(multi_point=on("TaintToleration")))["TaintToleration"] == 1


def test_all_may_be_off_but_some() -> None:
    assert weights(PluginSets(score=on("ImageLocality", off="*"))) == {"ImageLocality": 1}
    sets = PluginSets(multi_point=on("DynamicResources", "NodeResourcesFit", off="*"))
    assert filters(sets) == ["DynamicResources", "NodeResourcesFit"]


def test_plugin_that_is_off_everywhere_and_on_at_a_point_comes_last_there() -> None:
    sets = PluginSets(multi_point=on(off="NodePorts"), filter=on("NodePorts"))
    assert filters(sets)[-1] == "NodePorts"


def test_filters_that_are_named_come_first() -> None:
    assert filters(PluginSets(filter=on("DynamicResources", "NodePorts")))[:3] == [
        "DynamicResources",
        "NodePorts",
        "NodeName",
    ]


@pytest.mark.parametrize(
    "sets",
    [
        PluginSets(multi_point=on(off="*")),
        PluginSets(multi_point=on(off="DynamicResources")),
        PluginSets(filter=on(off="DynamicResources")),
    ],
)
def test_devices_are_allocated_in_every_profile(sets: PluginSets) -> None:
    with pytest.raises(InvalidProfile, match="must leave DynamicResources on"):
        plugins_of(sets, {})


def test_switched_plugin_keeps_its_reasons() -> None:
    """Pods that wait for one are found by it, whatever profile they have."""
    reasons = {plugin.name: plugin.reasons for plugin in PLUGINS}
    sets = PluginSets(score=on(off="*"))
    assert all(plugin.reasons is reasons[plugin.name] for plugin in plugins_of(sets, {}))
