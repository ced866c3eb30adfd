"""The manifests of the extender are what the API server takes, fit each other, and grant what is needed."""

import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509

from scheduler import VERSION
from scheduler.cli.main import dra
from scheduler.extender.configuration import ExtenderConfiguration
from scheduler.kube_scheduler.configuration import KubeSchedulerConfiguration, read, seconds
from scheduler.runtime.configuration import is_loopback, load
from scheduler.runtime.tls import Certificates, Files, is_allowed
from tests.controlplane.contents import manifests, restore
from tests.controlplane.identities import DRIVER, EXTENDER, SECOND
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import ApiError, Json, Kind, RestClient
from tests.integration.access import asked, await_rights, rights
from tests.integration.conftest import ROOT

INSTALLED = ROOT / "manifests" / "extender"
BASE = INSTALLED / "base"
SERVICE = "dra-extender.kube-system.svc"
DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")

EXTENDER_RIGHTS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "namespaces"): ("list", "watch"),
    ("", "nodes"): ("list", "watch", "patch"),
    ("", "pods"): ("get", "list", "watch"),
    ("", "pods/binding"): ("create",),
    ("", "pods/status"): ("patch",),
    ("policy", "poddisruptionbudgets"): ("list", "watch"),
    ("resource.k8s.io", "deviceclasses"): ("list", "watch"),
    ("resource.k8s.io", "devicetaintrules"): ("list", "watch"),
    ("resource.k8s.io", "resourceclaims"): ("get", "list", "watch", "update"),
    ("resource.k8s.io", "resourceclaims/binding"): ("update",),
    ("resource.k8s.io", "resourceclaims/status"): ("update",),
    ("resource.k8s.io", "resourceslices"): ("list", "watch"),
    ("authentication.k8s.io", "tokenreviews"): ("create",),
    ("authorization.k8s.io", "subjectaccessreviews"): ("create",),
}

Objects = Sequence[Mapping[str, Any]]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The manifests, where files may be added."""
    return Path(shutil.copytree(INSTALLED, tmp_path / "extender", ignore=shutil.ignore_patterns("*.key", "*.crt")))


@pytest.fixture
def keys(copied: Path) -> Path:
    """Where the script of the manifests has made its files."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    subprocess.run(["/bin/sh", copied / "secret" / "certificates.sh"], check=True, capture_output=True)
    return copied / "secret"


def built(kubectl: Path, folder: Path) -> Objects:
    path = folder / "built.yaml"
    subprocess.run([kubectl, "kustomize", folder, "--output", path], check=True)
    return manifests(path)


def the(objects: Objects, kind: str, name: str) -> Mapping[str, Any]:
    (found,) = (obj for obj in objects if obj["kind"] == kind and obj["metadata"]["name"].startswith(name))
    return found


def pod_of(objects: Objects, name: str) -> Mapping[str, Any]:
    pod = the(objects, "Deployment", name)["spec"]["template"]["spec"]
    assert isinstance(pod, dict)
    return pod


def kube_scheduler_configuration() -> KubeSchedulerConfiguration:
    (raw,) = manifests(BASE / "kube-scheduler-config.yaml")
    found, errors = read(raw)
    assert found is not None, errors
    return found


def extender_configuration() -> ExtenderConfiguration:
    return load(ExtenderConfiguration, BASE / "config.yaml", {})


@pytest.fixture
def cert_manager(plane: ControlPlane, api: RestClient, kubectl: Path) -> Iterator[None]:
    """The kinds of cert-manager that are used, with any fields."""
    any_field = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": any_field}}
    plurals = {"Issuer": "issuers", "Certificate": "certificates"}
    for kind, plural in plurals.items():
        names = {"kind": kind, "plural": plural, "singular": kind.lower()}
        spec = {"group": "cert-manager.io", "scope": "Namespaced", "names": names, "versions": [version]}
        head = {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind}
        api.create({**head, "metadata": {"name": f"{plural}.cert-manager.io"}, "spec": spec})
    api.await_all(DEFINITION, lambda found: sum(map(is_established, found)) == len(plurals))
    poll_until(lambda found: len(found) == len(plurals), lambda: kinds_of_cert_manager(plane, kubectl), "both kinds")
    yield
    for plural in plurals.values():
        api.delete(DEFINITION, f"{plural}.cert-manager.io")


def is_established(definition: Json) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def kinds_of_cert_manager(plane: ControlPlane, kubectl: Path) -> list[str]:
    """Those that kubectl finds: what is established is told to clients some time later."""
    config = f"--kubeconfig={plane.kubeconfig()}"
    command: list[str | Path] = [kubectl, config, "api-resources", "--api-group=cert-manager.io", "--output=name"]
    return subprocess.run([*command, "--cached=false"], check=False, capture_output=True, text=True).stdout.split()


def applied(plane: ControlPlane, kubectl: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    config = f"--kubeconfig={plane.kubeconfig()}"
    command: list[str | Path] = [kubectl, config, "apply", "--server-side", "--dry-run=server", "-k", folder]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_variant_with_secrets_is_applied_by_one_command(plane: ControlPlane, kubectl: Path, keys: Path) -> None:
    said = applied(plane, kubectl, keys)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.count("serverside-applied (server dry run)") == len(built(kubectl, keys)) == 19


@pytest.mark.usefixtures("cert_manager")
def test_variant_with_cert_manager_is_applied_by_one_command(plane: ControlPlane, kubectl: Path, copied: Path) -> None:
    said = applied(plane, kubectl, copied / "cert-manager")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.count("serverside-applied (server dry run)") == 22


def test_variant_in_one_pod_is_applied_by_one_command(plane: ControlPlane, kubectl: Path, copied: Path) -> None:
    said = applied(plane, kubectl, copied / "sidecar")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.count("serverside-applied (server dry run)") == 14


def test_variants_differ_in_the_certificates_alone(kubectl: Path, keys: Path, copied: Path) -> None:
    def rest(objects: Objects) -> list[Mapping[str, Any]]:
        return [obj for obj in objects if obj["kind"] not in ("Secret", "Certificate", "Issuer")]

    assert (
        rest(built(kubectl, keys)) == rest(built(kubectl, copied / "cert-manager")) == built(kubectl, copied / "base")
    )


@pytest.mark.parametrize("variant", ["secret", "cert-manager"])
def test_every_volume_is_there(kubectl: Path, keys: Path, variant: str) -> None:
    objects = built(kubectl, keys.parent / variant)
    made = {obj["metadata"]["name"] for obj in objects if obj["kind"] in ("ConfigMap", "Secret")}
    made |= {obj["spec"]["secretName"] for obj in objects if obj["kind"] == "Certificate"}
    for name in ("dra-extender", "dra-kube-scheduler"):
        for volume in pod_of(objects, name)["volumes"]:
            wanted = volume["secret"]["secretName"] if "secret" in volume else volume["configMap"]["name"]
            assert wanted in made


def test_certificates_of_the_script_let_that_kube_scheduler_in_and_no_other(keys: Path) -> None:
    server = Certificates(Files(keys / "extender.crt", keys / "extender.key", keys / "ca.crt")).context
    assert is_allowed(presented(server, keys, "kube-scheduler"), extender_configuration().tls.client_names)
    with pytest.raises(ssl.SSLError):
        presented(server, keys, "extender")  # a server's certificate is none of a client
    with pytest.raises(ssl.SSLError):
        presented(server, keys, None)


def presented(server: ssl.SSLContext, keys: Path, client: str | None) -> Mapping[str, Any] | None:
    """The client's certificate, as the server sees it after a handshake in which the client checks the server's."""
    context = ssl.create_default_context(cafile=keys / "ca.crt")
    if client:
        context.load_cert_chain(keys / f"{client}.crt", keys / f"{client}.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [context.wrap_bio(to_client, to_server, server_hostname=SERVICE), server_end]
    while waiting:
        waiting = [end for end in waiting if not is_done(end)]
    return server_end.getpeercert()


def is_done(end: ssl.SSLObject) -> bool:
    """Whether that end of the handshake needs nothing from the other."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def test_certificates_are_renewed_under_the_same_authority(keys: Path) -> None:
    before = {name: (keys / name).read_bytes() for name in ("ca.crt", "extender.crt")}
    subprocess.run(["/bin/sh", keys / "certificates.sh"], check=True, capture_output=True)
    assert (keys / "ca.crt").read_bytes() == before["ca.crt"]
    assert (keys / "extender.crt").read_bytes() != before["extender.crt"]
    assert {file.name for file in keys.glob("*.key")} == {"ca.key", "extender.key", "kube-scheduler.key"}


def test_authority_is_replaced_once_its_key_is_deleted(keys: Path) -> None:
    old = keys.parent / "old"
    shutil.copytree(keys, old)
    (keys / "ca.key").unlink()
    subprocess.run(["/bin/sh", keys / "certificates.sh"], check=True, capture_output=True)
    server = Certificates(Files(keys / "extender.crt", keys / "extender.key", keys / "ca.crt")).context
    assert presented(server, keys, "kube-scheduler")
    shutil.copy(keys / "ca.crt", old)  # the old client knows the new server, and is not let in
    with pytest.raises(ssl.SSLError):
        presented(server, old, "kube-scheduler")


def test_certificate_is_for_the_namespace_that_is_named(keys: Path) -> None:
    environment = {**os.environ, "NAMESPACE": "gpu-system"}
    subprocess.run(["/bin/sh", keys / "certificates.sh"], check=True, capture_output=True, env=environment)
    certificate = x509.load_pem_x509_certificate((keys / "extender.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["dra-extender.gpu-system.svc"]


def test_certificates_of_cert_manager_have_the_names_that_are_asked_for() -> None:
    objects = manifests(INSTALLED / "cert-manager" / "certificates.yaml")
    by_secret = {one["spec"]["secretName"]: one["spec"] for one in objects if one["kind"] == "Certificate"}
    assert by_secret["dra-extender-tls"]["dnsNames"] == [SERVICE]
    assert [by_secret["dra-kube-scheduler-tls"]["commonName"]] == extender_configuration().tls.client_names
    issuers = {one["metadata"]["name"] for one in objects if one["kind"] == "Issuer"}
    assert {spec["issuerRef"]["name"] for spec in by_secret.values()} == issuers


def test_kube_scheduler_is_configured_as_config_writes_it() -> None:
    run = CliRunner().invoke(dra, ["extender", "config"])
    assert run.stdout == (BASE / "kube-scheduler-config.yaml").read_text()


def test_kube_schedulers_configuration_and_flags_have_no_trap(kubectl: Path, copied: Path) -> None:
    (container,) = pod_of(built(kubectl, copied / "base"), "dra-kube-scheduler")["containers"]
    flags = ["--kube-scheduler-flags", " ".join(container["args"])]
    run = CliRunner().invoke(dra, ["extender", "check", str(BASE / "kube-scheduler-config.yaml"), *flags])
    assert (run.exit_code, run.output) == (0, "extenders[0] (authoritative): nothing found\n")


def test_in_one_pod_kube_scheduler_is_configured_as_config_writes_it_and_calls_what_is_served_to_nobody_else() -> None:
    ours = load(ExtenderConfiguration, INSTALLED / "sidecar" / "config.yaml", {})
    run = CliRunner().invoke(dra, ["extender", "config", "--url", f"http://{ours.address}/v1"])
    assert run.stdout == (INSTALLED / "sidecar" / "kube-scheduler-config.yaml").read_text()
    assert is_loopback(ours.address)
    (raw,), (base,) = (manifests(INSTALLED / folder / "config.yaml") for folder in ("sidecar", "base"))
    assert {**raw, "address": base["address"], "tls": base["tls"]} == base


def test_in_one_pod_the_extender_is_what_it_is_in_its_own_with_the_rights_of_both(kubectl: Path, copied: Path) -> None:
    base, objects = built(kubectl, copied / "base"), built(kubectl, copied / "sidecar")
    (own,), (scheduler,) = (pod_of(base, name)["containers"] for name in ("dra-extender", "dra-kube-scheduler"))
    pod = pod_of(objects, "dra-kube-scheduler")
    (extender,), (called,) = pod["initContainers"], pod["containers"]
    assert extender["restartPolicy"] == "Always"  # it starts before kube-scheduler and ends after it
    parts = ("image", "args", "securityContext", "resources", "startupProbe", "livenessProbe", "readinessProbe")
    assert [extender[part] for part in parts] == [own[part] for part in parts]
    assert {**called, "volumeMounts": []} == {**scheduler, "volumeMounts": []}
    assert [mounts(one) for one in (extender, called)] == [
        {"/etc/dra-extender/config": "extender-config"},
        {"/etc/kubernetes/kube-scheduler": "config"},
    ]
    bindings = [obj for obj in objects if obj["kind"] == "ClusterRoleBinding"]
    accounts = {subject["name"] for binding in bindings for subject in binding["subjects"]}
    assert accounts == {pod["serviceAccountName"]} == {"dra-kube-scheduler"}
    roles = {binding["roleRef"]["name"] for binding in bindings}
    assert roles == {binding["roleRef"]["name"] for binding in base if binding["kind"] == "ClusterRoleBinding"}
    assert the(objects, "Service", "dra-extender")["spec"]["selector"] == labels_of(objects, "dra-kube-scheduler")
    assert "hostNetwork" not in pod


def test_both_are_reported_the_same() -> None:
    ours, theirs = extender_configuration(), kube_scheduler_configuration()
    (entry,) = theirs.extenders
    assert [profile.scheduler_name for profile in theirs.profiles] == ours.scheduler_names
    assert seconds(entry.http_timeout) == ours.http_timeout_s
    assert entry.url_prefix == f"https://{SERVICE}:9443/v1"


def test_files_and_ports_are_where_they_are_looked_for(kubectl: Path, copied: Path) -> None:
    objects = built(kubectl, copied / "base")
    (extender,) = pod_of(objects, "dra-extender")["containers"]
    (scheduler,) = pod_of(objects, "dra-kube-scheduler")["containers"]
    ours, entry = extender_configuration(), kube_scheduler_configuration().extenders[0]
    assert mounts(extender) == {"/etc/dra-extender/config": "config", "/etc/dra-extender/tls": "tls"}
    assert mounts(scheduler) == {"/etc/kubernetes/kube-scheduler": "config", "/etc/dra-extender": "tls"}
    tls = (ours.tls.cert_file, ours.tls.key_file, ours.tls.client_ca_file)
    assert tls == tuple(f"/etc/dra-extender/tls/{name}" for name in ("tls.crt", "tls.key", "ca.crt"))
    tls = (entry.tls_config.cert_file, entry.tls_config.key_file, entry.tls_config.ca_file)
    assert tls == tuple(f"/etc/dra-extender/{name}" for name in ("tls.crt", "tls.key", "ca.crt"))
    ports = {port["name"]: port["containerPort"] for port in extender["ports"]}
    assert ports == {"extender": port_of(ours.address), "https-metrics": port_of(ours.health_address)}
    served = the(objects, "Service", "dra-extender")["spec"]["ports"]
    assert {port["name"]: port["port"] for port in served} == ports


def mounts(container: Mapping[str, Any]) -> dict[str, str]:
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    return {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_only_that_kube_scheduler_reaches_the_extender(kubectl: Path, copied: Path) -> None:
    objects = built(kubectl, copied / "base")
    policy = the(objects, "NetworkPolicy", "dra-extender")["spec"]
    labels = {name: labels_of(objects, name) for name in ("dra-extender", "dra-kube-scheduler")}
    assert policy["podSelector"]["matchLabels"] == labels["dra-extender"]
    ((rule, watching), types) = (policy["ingress"], policy["policyTypes"])
    assert types == ["Ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": labels["dra-kube-scheduler"]}}]
    assert rule["ports"] == [{"protocol": "TCP", "port": "extender"}]
    assert watching == {"ports": [{"protocol": "TCP", "port": "https-metrics"}]}
    assert the(objects, "Service", "dra-extender")["spec"]["selector"] == labels["dra-extender"]


def test_extender_that_is_not_ready_is_asked_all_the_same(kubectl: Path, copied: Path) -> None:
    """What a missing right has done to it is over when a bind succeeds, which has to reach it for that."""
    assert the(built(kubectl, copied / "base"), "Service", "dra-extender")["spec"]["publishNotReadyAddresses"] is True


def labels_of(objects: Objects, name: str) -> Mapping[str, str]:
    labels = the(objects, "Deployment", name)["spec"]["template"]["metadata"]["labels"]
    assert isinstance(labels, dict)
    return labels


def test_pods_are_as_restricted_as_pod_security_can_ask_for(api: RestClient, kubectl: Path, copied: Path) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "confined", "labels": label}})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "confined"}}
    for folder, name in (("base", "dra-extender"), ("base", "dra-kube-scheduler"), ("sidecar", "dra-kube-scheduler")):
        spec = pod_of(built(kubectl, copied / folder), name)
        assert api.create({**pod, "spec": spec}, is_dry=True)["spec"]["priority"] == 2_000_000_000
        with pytest.raises(ApiError, match="violates PodSecurity"):
            api.create({**pod, "spec": {**spec, "securityContext": {}}}, is_dry=True)


def test_neither_waits_for_itself_to_get_a_node(kubectl: Path, copied: Path) -> None:
    objects = built(kubectl, copied / "base")
    assert [pod_of(objects, name).get("schedulerName") for name in ("dra-extender", "dra-kube-scheduler")] == [None] * 2


def test_image_is_of_this_version(kubectl: Path, copied: Path) -> None:
    (container,) = pod_of(built(kubectl, copied / "base"), "dra-extender")["containers"]
    assert container["image"] == f"dra-scheduler:{VERSION}"


def test_extender_may_do_what_it_needs_and_nothing_else(plane: ControlPlane, api: RestClient) -> None:
    anybody = {namespace: rights(plane, DRIVER, namespace) for namespace in ("default", "kube-system")}
    restore(api, manifests(BASE / "extender-rbac.yaml"))
    needed = {(group, resource, verb, "") for (group, resource), verbs in EXTENDER_RIGHTS.items() for verb in verbs}
    await_rights(plane, EXTENDER, "default", needed)
    for namespace, others in anybody.items():
        assert rights(plane, EXTENDER, namespace) - others == needed
    ours = plane.client(EXTENDER)
    assert [right for right in sorted(needed) if not asked(ours, *right[:3])] == []


def test_second_kube_scheduler_may_do_what_the_first_may_and_hold_its_own_lease(
    plane: ControlPlane, api: RestClient
) -> None:
    restore(api, manifests(BASE / "kube-scheduler-rbac.yaml"))
    lease = ("coordination.k8s.io", "leases")
    needed = {
        *((*lease, verb, "dra-kube-scheduler") for verb in ("get", "update")),
        (*lease, "create", ""),
        ("", "pods/binding", "create", ""),
        ("", "persistentvolumes", "update", ""),
        ("", "configmaps", "get", "extension-apiserver-authentication"),
    }
    await_rights(plane, SECOND, "kube-system", needed)
    assert (*lease, "update", "dra-scheduler") not in rights(plane, SECOND, "kube-system")
