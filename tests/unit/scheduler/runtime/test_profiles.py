"""Profiles of the configuration file: what they come to, and what is wrong with them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.input.yaml_1_1 import dump
from scheduler.plugins.profile import PLUGINS, Profile
from scheduler.runtime.configuration import Configuration, InvalidConfiguration, load
from scheduler.runtime.plugin_arguments import ARGUMENTS
from tests.unit.scheduler.documented import DOCS

HEAD = {"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "DraSchedulerConfiguration"}


def configuration(tmp_path: Path, *profiles: Mapping[str, object], **more: object) -> Configuration:
    path = tmp_path / "config.yaml"
    path.write_text(dump({**HEAD, **more, "profiles": list(profiles)}))
    return load(Configuration, path, {})


def of(tmp_path: Path, **profile: Any) -> Profile:
    (only,) = configuration(tmp_path, {"schedulerName": "mine", **profile}).in_force()
    return only


def arguments(tmp_path: Path, plugin: str, **args: Any) -> Profile:
    return of(tmp_path, pluginConfig=[{"name": plugin, "args": args}])


def problems(tmp_path: Path, *profiles: Mapping[str, object]) -> list[str]:
    with pytest.raises(InvalidConfiguration) as invalid:
        configuration(tmp_path, *profiles)
    return [one.partition("config.yaml: ")[2] for one in invalid.value.problems]


def problem(tmp_path: Path, **profile: Any) -> str:
    (only,) = problems(tmp_path, {"schedulerName": "mine", **profile})
    return only


def bad(tmp_path: Path, plugin: str, **args: Any) -> str:
    text = problem(tmp_path, pluginConfig=[{"name": plugin, "args": args}])
    return text.removeprefix("profiles[0].pluginConfig[0].args")


def test_without_profiles_there_is_one_of_the_schedulers_name(tmp_path: Path) -> None:
    (only,) = configuration(tmp_path, schedulerName="mine", policy="pack").in_force()
    assert (only.scheduler_name, only.policy.name) == ("mine", "pack")
    assert only.plugins == PLUGINS


def test_policy_is_the_files_where_a_profile_has_none(tmp_path: Path) -> None:
    found = configuration(tmp_path, {"schedulerName": "a"}, {"schedulerName": "b", "policy": "spread"}, policy="pack")
    assert [(one.scheduler_name, one.policy.name) for one in found.in_force()] == [("a", "pack"), ("b", "spread")]


def test_plugins_are_switched(tmp_path: Path) -> None:
    plugins = {
        "multiPoint": {"disabled": [{"name": "NodePorts"}]},
        "filter": {"disabled": [{"name": "TaintToleration"}]},
        "score": {"enabled": [{"name": "ImageLocality", "weight": 9}], "disabled": [{"name": "*"}]},
    }
    found = {one.name: one for one in of(tmp_path, plugins=plugins).plugins}
    assert "NodePorts" not in found
    assert "TaintToleration" not in found
    assert [(one.name, one.score.weight) for one in found.values() if one.score] == [("ImageLocality", 9)]


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        ("InterPodAffinity", {"hardPodAffinityWeight": 5, "ignorePreferredTermsOfExistingPods": True}),
        (
            "NodeAffinity",
            {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "preference": {"matchFields": [{"key": "a", "operator": "Exists"}]}}
                    ],
                }
            },
        ),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 1}, {"name": "example.com/gpu"}]}),
        (
            "NodeResourcesFit",
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "NodeResourcesFitArgs",
                "ignoredResources": ["example.com/gpu"],
                "ignoredResourceGroups": ["example.com"],
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "resources": [{"name": "example.com/gpu", "weight": 5}, {"name": "cpu", "weight": 0}],
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                    },
                },
            },
        ),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}),
        ("NodeResourcesFit", {}),
        (
            "PodTopologySpread",
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2},
                    {
                        "maxSkew": 1,
                        "topologyKey": "rack",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "nodeTaintsPolicy": "Honor",
                    },
                ],
            },
        ),
        ("PodTopologySpread", {"defaultingType": "System"}),
        ("VolumeBinding", {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}),
    ],
)
def test_arguments_make_a_plugin_of_their_own(tmp_path: Path, plugin: str, args: dict[str, Any]) -> None:
    changed = [one.name for one in arguments(tmp_path, plugin, **args).plugins if one not in PLUGINS]
    assert set(changed) == {plugin}


def test_every_plugin_with_arguments_is_one() -> None:
    assert set(ARGUMENTS) <= {one.name for one in PLUGINS}


def test_printed_profiles_are_read_as_the_same(tmp_path: Path) -> None:
    args = {"scoringStrategy": {"type": "MostAllocated"}}
    plugins = {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 3}]}}
    config = [{"name": "NodeResourcesFit", "args": args}]
    first = configuration(tmp_path, {"schedulerName": "a", "plugins": plugins, "pluginConfig": config})
    (tmp_path / "printed.yaml").write_text(dump(first.document()))
    assert load(Configuration, tmp_path / "printed.yaml", {}) == first


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ({"schedulerName": "A b"}, "profiles[0].schedulerName: "),
        ({"policy": "best"}, "profiles[0].policy: 'best' is not among the policies"),
        ({"percentageOfNodesToScore": 50}, "profiles[0].percentageOfNodesToScore: unknown field"),
        ({"plugins": {"preScore": {}}}, "profiles[0].plugins.preScore: unknown field"),
        (
            {"plugins": {"score": {"enabled": [{"name": "NodePorts"}]}}},
            "profiles[0].plugins.score.enabled[0].name: must be a plugin of this program that scores nodes: Dynamic",
        ),
        (
            {"plugins": {"filter": {"disabled": [{"name": "Mine"}]}}},
            "profiles[0].plugins.filter.disabled[0].name: must be a plugin of this program that filters nodes: *, ",
        ),
        (
            {"plugins": {"multiPoint": {"enabled": [{"name": "NodePorts"}, {"name": "NodePorts"}]}}},
            'profiles[0].plugins.multiPoint.enabled[1].name: must be unique (got "NodePorts")',
        ),
        (
            {"plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": -1}]}}},
            "profiles[0].plugins.score.enabled[0].weight: ",
        ),
        (
            {"plugins": {"multiPoint": {"disabled": [{"name": "*"}]}}},
            "profiles[0].plugins: must leave DynamicResources on as a filter: this program allocates devices",
        ),
        (
            {"pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 5}}]},
            "profiles[0].pluginConfig[0].args.bindTimeoutSeconds: is no argument here: its time limit is bindingTime",
        ),
        (
            {"pluginConfig": [{"name": "DynamicResources", "args": {"bindingTimeout": "5s"}}]},
            "profiles[0].pluginConfig[0].name: takes no arguments: its time limit is bindingTimeoutSeconds",
        ),
        (
            {"pluginConfig": [{"name": "VolumeBinding", "args": {"shape": [{"utilization": 0, "score": 11}]}}]},
            "profiles[0].pluginConfig[0].args.shape[0].score: must be at most 10 (got 11)",
        ),
        (
            {"pluginConfig": [{"name": "NodePorts"}]},
            "profiles[0].pluginConfig[0].name: must be a plugin of this program that takes arguments: InterPodAffinity",
        ),
        (
            {"pluginConfig": [{"name": "InterPodAffinity"}, {"name": "InterPodAffinity"}]},
            "profiles[0].pluginConfig[1].name: must be unique",
        ),
    ],
)
def test_problem_names_the_field(tmp_path: Path, profile: dict[str, Any], said: str) -> None:
    assert problem(tmp_path, **profile).startswith(said)


def test_names_of_profiles_differ(tmp_path: Path) -> None:
    (only,) = problems(tmp_path, {"schedulerName": "a"}, {"schedulerName": "a"})
    assert only == 'profiles[1].schedulerName: another profile has this name (got "a")'


def shape(*points: tuple[int, int]) -> dict[str, Any]:
    ratio = {"shape": [{"utilization": at, "score": score} for at, score in points]}
    return {"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": ratio}}


def constraint(**more: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **more}


def added(**requirement: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", **requirement}]}]}
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("plugin", "args", "said"),
    [
        ("NodeResourcesFit", {"kind": "InterPodAffinityArgs"}, ".kind: must be NodeResourcesFitArgs"),
        ("NodeResourcesFit", {"nonsense": 1}, ".nonsense: unknown field"),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "Best"}}, ".scoringStrategy.type: "),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, ".scoringStrategy: must have"),
        ("NodeResourcesFit", shape(), ".scoringStrategy.requestedToCapacityRatio.shape: "),
        ("NodeResourcesFit", shape((0, 11)), ".scoringStrategy.requestedToCapacityRatio.shape[0].score: "),
        ("NodeResourcesFit", shape((5, 1), (5, 2)), ".scoringStrategy.requestedToCapacityRatio.shape: must be sorted"),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, ".ignoredResourceGroups[0]: must be the part"),
        ("NodeResourcesFit", {"ignoredResources": ["a b"]}, ".ignoredResources[0]: "),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}, {"name": "cpu"}]}},
            ".scoringStrategy.resources: must name cpu once",
        ),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}, ".resources[0].weight: "),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": "cpu"}]}, ": must name each"),
        ("InterPodAffinity", {"hardPodAffinityWeight": 101}, ".hardPodAffinityWeight: "),
        ("PodTopologySpread", {"defaultConstraints": [constraint()]}, ": must have defaultingType List"),
        (
            "PodTopologySpread",
            {"defaultingType": "List", "defaultConstraints": [constraint(), constraint(maxSkew=2)]},
            ": must not have two defaultConstraints",
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "List", "defaultConstraints": [constraint(minDomains=2)]},
            ".defaultConstraints[0]: must not have minDomains",
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "List", "defaultConstraints": [constraint(labelSelector={})]},
            ".defaultConstraints[0].labelSelector: unknown field",
        ),
        (
            "NodeAffinity",
            added(operator="In"),
            ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]: ",
        ),
    ],
)
def test_problem_of_arguments_names_the_field(tmp_path: Path, plugin: str, args: dict[str, Any], said: str) -> None:
    assert bad(tmp_path, plugin, **args).startswith(said)


def test_example_of_the_page_is_a_configuration(tmp_path: Path) -> None:
    section = (DOCS / "scheduler.md").read_text().partition("\n## Profiles\n")[2]
    (tmp_path / "config.yaml").write_text(section.partition("```yaml\n")[2].partition("```")[0])
    first, second = load(Configuration, tmp_path / "config.yaml", {}).in_force()
    assert (first.scheduler_name, first.plugins) == ("dra-scheduler", PLUGINS)
    assert (second.scheduler_name, second.policy.name) == ("dra-bin-packing", "pack")


def test_page_lists_the_plugins_that_take_arguments() -> None:
    section = (DOCS / "scheduler.md").read_text().partition("\n## Profiles\n")[2].partition("\n## ")[0]
    listed = {line.split(" | ")[0].removeprefix("| "): line for line in section.splitlines() if line.startswith("| ")}
    assert set(ARGUMENTS) <= listed.keys()
    for plugin, shape in ARGUMENTS.items():
        fields = {str(one.alias) for one in shape.model_fields.values()} - {"apiVersion", "kind"}
        assert all(f"`{name}`" in listed[plugin] for name in fields)
