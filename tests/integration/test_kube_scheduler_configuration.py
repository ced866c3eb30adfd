"""What we take for a configuration of kube-scheduler it takes for one too, with the plugins where we see them."""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.extender.configuration import Mode
from scheduler.kube_scheduler.configuration import ALL_POINTS, points_of, profiles_of, read
from scheduler.kube_scheduler.conversion import Setup, document, flags
from tests.controlplane.binaries import Binaries
from tests.controlplane.certificates import Certificates
from tests.controlplane.polling import TIMEOUT_S
from tests.controlplane.rest import Json

_PLUGINS = re.compile(r"starts to work with those plugins\" Plugins=(.*)")
NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere"}}],
    "current-context": "nowhere",
}
DYNAMIC = [{"name": "DynamicResources"}]
EVERY_PLUGIN = [{"name": "*"}]


@dataclass(frozen=True)
class Start:
    """What came of a start: exit code, log, and the completed configuration, None where it did not get so far."""

    code: int
    log: str
    completed: Json | None

    def points(self) -> list[list[str]]:
        """For each profile, where DynamicResources is on."""
        found = [json.loads(match[1]) for match in _PLUGINS.finditer(self.log)]
        return [
            [point for point in ALL_POINTS if "DynamicResources" in names(plugins[point[0].upper() + point[1:]])]
            for plugins in found
        ]


def names(plugins: Mapping[str, Any]) -> list[str]:
    return [plugin["Name"] for plugin in plugins["Enabled"] or []]


class KubeScheduler:
    """kube-scheduler as far as it goes without a cluster: it reads, builds all it needs, and says what it has read."""

    def __init__(self, binaries: Binaries, folder: Path) -> None:
        self._program = binaries.scheduler
        self._folder = folder
        self.certificates = Certificates(folder)
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_text(json.dumps(NOWHERE))

    def setup(self, mode: Mode = Mode.AUTHORITATIVE, *schedulers: str, url: str = "https://extender:9443/v1") -> Setup:
        """A setup with certificates that are there."""
        files = self.certificates.tls_of_scheduler()
        paths = (str(files["caFile"]), str(files["certFile"]), str(files["keyFile"]))
        return Setup(mode, schedulers or ("dra",), url, *paths, http_timeout_s=30, weight=5)

    def start(self, raw: Mapping[str, object], *further: str) -> Start:
        """Start it with the configuration and flags."""
        config, completed = self._folder / "config.json", self._folder / "completed.yaml"
        completed.unlink(missing_ok=True)
        config.write_text(json.dumps({**raw, "clientConnection": {"kubeconfig": str(self._kubeconfig)}}))
        own = [
            f"--config={config}",
            f"--write-config-to={completed}",
            "--authentication-skip-lookup",
            "--secure-port=0",
        ]
        run = subprocess.run(
            [self._program, *own, "-v=2", *further], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        return Start(run.returncode, run.stderr, yaml.safe_load(completed.read_text()) if completed.exists() else None)


@pytest.fixture
def kube_scheduler(binaries: Binaries, tmp_path: Path) -> KubeScheduler:
    return KubeScheduler(binaries, tmp_path)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("url", ["https://extender:9443/v1", "http://127.0.0.1:9443/v1"])
def test_what_config_writes_is_taken(kube_scheduler: KubeScheduler, mode: Mode, url: str) -> None:
    setup = kube_scheduler.setup(mode, "a", "b", url=url)
    start = kube_scheduler.start(document(setup), *flags(setup))
    assert start.code == 0, start.log
    assert start.completed
    assert [profile["schedulerName"] for profile in start.completed["profiles"]] == ["a", "b"]
    assert start.completed["extenders"][0]["urlPrefix"] == url
    assert start.points() == [[] if mode is Mode.AUTHORITATIVE else list(ALL_POINTS)] * 2


def test_completed_configuration_is_read_with_all_its_fields(kube_scheduler: KubeScheduler) -> None:
    start = kube_scheduler.start(document(kube_scheduler.setup()))
    assert start.completed
    found, errors = read(start.completed)
    assert errors == ()
    assert found is not None
    assert [points_of(named.profile.plugins) for named in profiles_of(found)] == [[]]


@pytest.mark.parametrize(
    "plugins",
    [
        {},
        {"multiPoint": {"disabled": DYNAMIC}},
        {"multiPoint": {"disabled": DYNAMIC, "enabled": DYNAMIC}},
        {"multiPoint": {"enabled": DYNAMIC}},
        {"filter": {"disabled": EVERY_PLUGIN}, "preBind": {"disabled": DYNAMIC}},
        {"filter": {"disabled": DYNAMIC, "enabled": DYNAMIC}},
        {"multiPoint": {"disabled": DYNAMIC}, "reserve": {"enabled": DYNAMIC}},
        {"preEnqueue": {"disabled": EVERY_PLUGIN}, "multiPoint": {"disabled": [{"name": "NodePorts"}]}},
        {
            "multiPoint": {
                "disabled": EVERY_PLUGIN,
                "enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}],
            }
        },
    ],
    ids=str,
)
def test_plugin_is_on_where_we_say_that_it_is(kube_scheduler: KubeScheduler, plugins: Json) -> None:
    raw = document(kube_scheduler.setup()) | {"profiles": [{"schedulerName": "a", "plugins": plugins}]}
    start = kube_scheduler.start(raw)
    assert start.code == 0, start.log
    found, errors = read(raw)
    assert found is not None, errors
    assert [points_of(named.profile.plugins) for named in profiles_of(found)] == start.points()


@pytest.mark.parametrize(
    "fields",
    [
        {"extender": {}},
        {"percentageOfNodesToScore": 101},
        {"percentageOfNodesToScore": "100"},
        {"parallelism": 0},
        {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
        {"apiVersion": None},
        {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
        {"profiles": [{"schedulerName": "a"}, {}]},
        {"profiles": [{"schedulerName": ""}]},
        {"profiles": [{"plugins": {"prefilter": {}}}]},
        {"extenders": [{"urlPrefix": "http://e", "httpTimeout": 5}]},
        {"extenders": [{"urlPrefix": "http://e", "httpTimeout": "5"}]},
        {"extenders": [{"urlPrefix": "http://e", "bindverb": "b"}]},
        {"extenders": [{"urlPrefix": "http://e", "weight": 1.5}]},
        {"extenders": [{"urlPrefix": "http://e", "weight": 2**63}]},
        {"profiles": [{"plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 2**31}]}}}]},
    ],
    ids=str,
)
def test_what_we_refuse_kube_scheduler_refuses(kube_scheduler: KubeScheduler, fields: Json) -> None:
    merged = document(kube_scheduler.setup()) | fields
    raw = {name: value for name, value in merged.items() if value is not None}
    assert kube_scheduler.start(raw).code == 1
    assert read(raw)[0] is None


@pytest.mark.parametrize(
    ("extenders", "reported"),
    [
        ([{"urlPrefix": "http://e", "prioritizeVerb": "p"}], "extenders[0].weight: Invalid value: 0"),
        ([{"urlPrefix": "http://e", "bindVerb": "b"}] * 2, "only one extender can implement bind"),
        (
            [{"urlPrefix": "https://e", "tlsConfig": {"insecure": True, "caData": "YQ=="}}],
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
    ],
    ids=["weight", "binders", "insecure"],
)
def test_kube_scheduler_does_not_start_where_we_say_so(
    kube_scheduler: KubeScheduler, extenders: list[Json], reported: str
) -> None:
    start = kube_scheduler.start(document(kube_scheduler.setup()) | {"extenders": extenders})
    assert start.code == 1
    assert reported in start.log


def test_certificate_that_is_not_there_keeps_kube_scheduler_from_starting(kube_scheduler: KubeScheduler) -> None:
    kube_scheduler.certificates.server_ca.unlink()
    start = kube_scheduler.start(document(kube_scheduler.setup()))
    assert start.code == 1
    assert "server-ca.crt" in start.log
