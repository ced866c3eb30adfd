"""`dra scheduler config`: a KubeSchedulerConfiguration becomes ours, and what does not is named."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from scheduler.runtime.configuration import Configuration, load
from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.manifests import Json, text_of

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def convert(**fields: Any) -> Run:
    return dra("scheduler", "config", "--from", "-", "-o", "json", stdin=text_of({**HEAD, **fields}))


def carried(**fields: Any) -> Json:
    """What comes out where nothing is lost."""
    run = convert(**fields)
    reported = [line for line in run.err.splitlines() if not line.startswith("warning: ")]
    assert (run.code, reported) == (0, [])
    found: Json = orjson.loads(run.out)
    return found


def lost(**fields: Any) -> list[str]:
    """The fields that are named."""
    run = convert(**fields)
    named = [line.partition(": not carried over: ") for line in run.err.splitlines()]
    assert run.code == int(any(sign for _, sign, _ in named))
    return [field for field, sign, _ in named if sign]


def profile(**fields: Any) -> Json:
    (only,) = carried(profiles=[{"schedulerName": "mine", **fields}])["profiles"]
    assert only.pop("schedulerName") == "mine"
    found: Json = only
    return found


def lost_of(**fields: Any) -> list[str]:
    return [one.removeprefix("profiles[0].") for one in lost(profiles=[{"schedulerName": "mine", **fields}])]


def test_default_configuration_is_one_profile_with_kube_schedulers_name() -> None:
    run = convert()
    assert carried()["profiles"] == [{"schedulerName": "default-scheduler"}]
    assert run.err.startswith("warning: schedulerName: default-scheduler is also kube-scheduler's")


def test_result_is_a_configuration_of_the_scheduler(tmp_path: Path) -> None:
    config = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    kube = {**HEAD, "profiles": [{"schedulerName": "mine", "pluginConfig": [config]}]}
    (tmp_path / "kube.yaml").write_text(text_of(kube))
    run = dra("scheduler", "config", "--from", tmp_path / "kube.yaml")
    (tmp_path / "ours.yaml").write_text(run.out)
    assert [one.scheduler_name for one in load(Configuration, tmp_path / "ours.yaml", {}).in_force()] == ["mine"]


def test_times_leader_election_and_kubeconfig_are_kept() -> None:
    found = carried(
        podInitialBackoffSeconds=2,
        podMaxBackoffSeconds=20,
        leaderElection={"leaderElect": False, "leaseDuration": "30s", "resourceLock": "leases", "resourceName": "mine"},
        clientConnection={"kubeconfig": "/etc/k"},
        profiles=[{"schedulerName": "mine"}],
    )
    assert (found["podInitialBackoffSeconds"], found["podMaxBackoffSeconds"]) == (2, 20)
    assert found["leaderElection"] == {"leaderElect": False, "leaseDurationSeconds": 30, "resourceName": "mine"}
    assert found["clientConnection"] == {"kubeconfig": "/etc/k"}


def test_lease_of_kube_scheduler_is_left_to_it() -> None:
    assert "leaderElection" not in carried(leaderElection={"resourceName": "kube-scheduler"})


def test_plugins_and_arguments_are_kept() -> None:
    plugins = {
        "multiPoint": {"disabled": [{"name": "NodePorts"}]},
        "score": {"enabled": [{"name": "ImageLocality", "weight": 4}], "disabled": [{"name": "*"}]},
    }
    args = {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 2}]}}
    typed = {"apiVersion": HEAD["apiVersion"], "kind": "NodeResourcesFitArgs", **args, "ignoredResources": None}
    found = profile(plugins=plugins, pluginConfig=[{"name": "NodeResourcesFit", "args": typed}])
    assert found == {"plugins": plugins, "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}


def test_what_only_repeats_the_score_is_no_loss() -> None:
    switched = {"disabled": [{"name": "ImageLocality"}]}
    assert profile(plugins={"preScore": switched, "score": switched}) == {"plugins": {"score": switched}}
    assert lost_of(plugins={"preScore": switched}) == ["plugins.preScore"]


def test_what_is_so_in_any_case_is_no_loss() -> None:
    sorts, switched = [{"name": "PrioritySort"}], [{"name": "SchedulingGates"}, {"name": "DefaultBinder"}]
    assert profile(plugins={"queueSort": {"enabled": sorts}, "multiPoint": {"enabled": switched}}) == {}
    assert lost_of(plugins={"queueSort": {"disabled": sorts}}) == ["plugins.queueSort"]


def test_all_nodes_are_no_loss() -> None:
    assert "percentageOfNodesToScore" not in carried(percentageOfNodesToScore=100)


@pytest.mark.parametrize(
    ("args", "limit"),
    [
        ([("VolumeBinding", {"bindTimeoutSeconds": 100})], 100),
        ([("DynamicResources", {"bindingTimeout": "2m"})], 120),
        ([("DynamicResources", {"bindingTimeout": "2m"}), ("VolumeBinding", {"bindTimeoutSeconds": 120})], 120),
    ],
)
def test_time_limit_is_for_all(args: list[tuple[str, Json]], limit: int) -> None:
    config = [{"name": name, "args": own} for name, own in args]
    assert carried(profiles=[{"schedulerName": "mine", "pluginConfig": config}])["bindingTimeoutSeconds"] == limit


def test_shape_of_volumes_is_carried_over_beside_the_time_limit() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    config = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 60, "shape": shape}}
    found = carried(profiles=[{"schedulerName": "mine", "pluginConfig": [config]}])
    assert found["bindingTimeoutSeconds"] == 60
    assert found["profiles"][0]["pluginConfig"] == [{"name": "VolumeBinding", "args": {"shape": shape}}]


def test_devices_stay_on() -> None:
    fields = {"plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}}
    assert lost_of(**fields) == ["plugins"]
    (only,) = orjson.loads(convert(profiles=[{"schedulerName": "mine", **fields}]).out)["profiles"]
    assert only["plugins"]["filter"] == {"enabled": [{"name": "DynamicResources"}]}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"parallelism": 8}, ["parallelism"]),
        (
            {"enableProfiling": True, "enableContentionProfiling": True},
            ["enableProfiling", "enableContentionProfiling"],
        ),
        ({"enableProfiling": False}, []),
        ({"delayCacheUntilActive": True}, ["delayCacheUntilActive"]),
        ({"percentageOfNodesToScore": 50}, ["percentageOfNodesToScore"]),
        ({"extenders": [{"urlPrefix": "http://a"}]}, ["extenders[0]"]),
        ({"clientConnection": {"qps": 100, "burst": 0}}, ["clientConnection.qps"]),
        ({"leaderElection": {"resourceLock": "endpoints"}}, ["leaderElection.resourceLock"]),
    ],
)
def test_field_without_a_counterpart_is_named(fields: dict[str, Any], expected: list[str]) -> None:
    assert lost(**fields) == expected


def config(name: str, **args: Any) -> dict[str, Any]:
    return {"pluginConfig": [{"name": name, "args": args}]}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"percentageOfNodesToScore": 10}, ["percentageOfNodesToScore"]),
        ({"plugins": {"queueSort": {"enabled": [{"name": "Mine"}]}}}, ["plugins.queueSort"]),
        ({"plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}}}, ["plugins.multiPoint.enabled[0] (Mine)"]),
        ({"plugins": {"score": {"disabled": [{"name": "NodePorts"}]}}}, ["plugins.score.disabled[0] (NodePorts)"]),
        (config("DefaultPreemption", minCandidateNodesAbsolute=5), ["pluginConfig[0] (DefaultPreemption)"]),
        (config("DynamicResources", filterTimeout="5s"), ["pluginConfig[0].args.filterTimeout"]),
        (config("DynamicResources", bindingTimeout="soon"), ["pluginConfig[0].args.bindingTimeout"]),
        (config("VolumeBinding", newer=1), ["pluginConfig[0].args.newer"]),
        (config("NodeResourcesFit", newer=1, ignoredResources=[]), ["pluginConfig[0].args.newer"]),
        (
            {
                "pluginConfig": [
                    {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 100}},
                    {"name": "DynamicResources", "args": {"bindingTimeout": "200s"}},
                ]
            },
            ["pluginConfig[1].args.bindingTimeout"],
        ),
    ],
)
def test_field_of_a_profile_without_a_counterpart_is_named(fields: dict[str, Any], expected: list[str]) -> None:
    assert lost_of(**fields) == expected


def test_arguments_that_are_wrong_together_are_left_out() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    assert lost_of(**config("PodTopologySpread", defaultConstraints=[constraint])) == ["pluginConfig[0].args"]


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"profils": []}, "dra: -: profils: unknown field"),
        ({"leaderElection": {"leaseDuration": "5s"}}, "dra: -: leaderElection.leaseDurationSeconds: must be greater"),
        ({"kind": "Pod"}, "dra: -: "),
    ],
)
def test_bad_input(fields: dict[str, Any], reported: str) -> None:
    run = convert(**fields)
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith(reported)


def test_fields_of_1_37_and_1_38_are_known() -> None:
    on = {"enabled": [{"name": "DefaultPreemption"}]}
    plugins = {"podGroupPostFilter": on, "placementFeasible": on}
    assert lost_of(plugins=plugins) == ["plugins.placementFeasible", "plugins.podGroupPostFilter"]
    assert lost_of(percentageOfPlacementsToScore=50) == ["percentageOfPlacementsToScore"]
    assert lost(percentageOfPlacementsToScore=50) == ["percentageOfPlacementsToScore"]
    run = convert(percentageOfPlacementsToScore=101)
    assert (run.code, "percentageOfPlacementsToScore" in run.err) == (2, True)


NEW_FIELDS: Json = {
    "parallelism": 16,
    "speed": {"of": "light"},
    "profiles": [{"schedulerName": "mine", "colour": "red", "plugins": {"postScore": {"enabled": []}}}],
}


def config_of(document: Json, *options: str) -> Run:
    return dra("scheduler", "config", "--from", "-", "-o", "json", *options, stdin=text_of(document))


@pytest.mark.parametrize(
    ("document", "options"),
    [
        pytest.param({**HEAD, **NEW_FIELDS}, ("--kubernetes", "1.39"), id="a newer release"),
        pytest.param({**HEAD, **NEW_FIELDS}, ("--kubernetes", "v1.40.2"), id="with its patch"),
        pytest.param({**HEAD, **NEW_FIELDS, "apiVersion": "kubescheduler.config.k8s.io/v2"}, (), id="a newer version"),
    ],
)
def test_fields_of_a_newer_release_are_warnings_with_their_paths(document: Json, options: tuple[str, ...]) -> None:
    run = config_of(document, *options)
    warned = [line.split(": ")[2] for line in run.err.splitlines() if line.startswith("warning: -: ")]
    assert [one for one in warned if one != "apiVersion"] == [
        "profiles[0].plugins.postScore",
        "profiles[0].colour",
        "speed",
    ]
    assert [one["schedulerName"] for one in orjson.loads(run.out)["profiles"]] == ["mine"]
    assert run.code == 1  # of parallelism, which is known and has no counterpart


@pytest.mark.parametrize("options", [(), ("--kubernetes", "1.38"), ("--kubernetes", "1.36")])
def test_unknown_fields_of_a_known_release_are_errors(options: tuple[str, ...]) -> None:
    run = config_of({**HEAD, **NEW_FIELDS}, *options)
    assert (run.code, run.out) == (2, "")
    assert "profiles[0].colour: unknown field" in run.err


OF_LATER: Json = {
    **HEAD,
    "percentageOfPlacementsToScore": 30,
    "profiles": [
        {
            "percentageOfPlacementsToScore": 20,
            "plugins": {"placementScore": {}, "placementFeasible": {}, "podGroupPostFilter": {}},
        }
    ],
}
SCORED, FEASIBLE = "percentageOfPlacementsToScore", "profiles[0].plugins.placementFeasible"
OF_1_36, OF_1_37 = "profiles[0].plugins.placementScore", "profiles[0].plugins.podGroupPostFilter"
OF_1_38 = {SCORED, f"profiles[0].{SCORED}", FEASIBLE}


@pytest.mark.parametrize(
    ("release", "refused"),
    [
        ("1.34", {*OF_1_38, OF_1_37, OF_1_36}),
        ("1.35", {*OF_1_38, OF_1_37, OF_1_36}),
        ("1.36", {*OF_1_38, OF_1_37}),
        ("1.37", OF_1_38),
    ],
)
def test_fields_that_the_release_does_not_have_yet_are_errors(release: str, refused: set[str]) -> None:
    run = config_of(OF_LATER, "--kubernetes", release)
    assert (run.code, run.out) == (2, "")
    assert {line.split(": ")[2] for line in run.err.splitlines()} == refused
    assert f"dra: -: {FEASIBLE}: unknown field in Kubernetes {release}: it came with 1.38" in run.err


@pytest.mark.parametrize("options", [(), ("--kubernetes", "1.38"), ("--kubernetes", "1.39")])
def test_fields_of_every_known_release_are_read_without_one_that_lacks_them(options: tuple[str, ...]) -> None:
    assert config_of(OF_LATER, *options).code == 1  # they have no counterpart


def test_what_is_wrong_otherwise_is_an_error_in_a_newer_release_too() -> None:
    run = config_of({**HEAD, **NEW_FIELDS, "parallelism": 0}, "--kubernetes", "1.39")
    assert (run.code, run.out) == (2, "")
    assert "parallelism" in run.err
