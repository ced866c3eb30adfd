"""Templates of PersistentVolumeClaims, of StatefulSets and of ephemeral volumes of pods.

A controller creates the claim, and the API server sets the default class if the template names none.
Source: k8s.io/api apps/v1 StatefulSetSpec.volumeClaimTemplates, core/v1 EphemeralVolumeSource.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from allocator.api.findings import FieldError
from scheduler.core_v1.host_ports import objects
from scheduler.core_v1.persistent_volume import CLASS_ANNOTATION
from scheduler.core_v1.persistent_volume_claim import PersistentVolumeClaim, decode_persistent_volume_claim
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import ClaimVolume
from scheduler.core_v1.volume_sources import text_of


@dataclass(frozen=True, slots=True)
class VolumeClaimTemplate:
    """claim: as it is made, under the name of its template. takes_default_class: it names no class."""

    claim: PersistentVolumeClaim
    takes_default_class: bool = False


def decode_volume_claim_template(
    path: str, raw: object, namespace: str, name: str = ""
) -> tuple[VolumeClaimTemplate | None, tuple[FieldError, ...]]:
    """The template, or the errors. path: of the template. name: of the claim, where the template has none."""
    if not isinstance(raw, dict):
        return None, (FieldError(path, raw, "must be an object"),)
    metadata = {} if raw.get("metadata") is None else raw["metadata"]
    if not isinstance(metadata, dict):
        return None, (FieldError(f"{path}.metadata", metadata, "must be an object"),)
    named = {**metadata, "namespace": namespace, **({"name": name} if name else {})}
    claim, errors = decode_persistent_volume_claim({"metadata": named, "spec": raw.get("spec", {})})
    if claim is None:
        return None, tuple(FieldError(f"{path}.{error.path}", error.value, error.message) for error in errors)
    return VolumeClaimTemplate(claim, takes_default_class=not _names_class(metadata, raw.get("spec"))), ()


def ephemeral_claims(pod: Pod) -> Iterator[tuple[ClaimVolume, VolumeClaimTemplate | None, tuple[FieldError, ...]]]:
    """The ephemeral volumes of the pod, each with the template of its claim, or the errors in it."""
    spec = pod.raw.get("spec")
    for position, volume in enumerate(objects(spec, "volumes") if isinstance(spec, dict) else ()):
        source = volume.get("ephemeral")
        if isinstance(source, dict) and not isinstance(volume.get("persistentVolumeClaim"), dict):
            one = ClaimVolume(text_of(volume, "name"), is_ephemeral=True)
            path = f"spec.volumes[{position}].ephemeral.volumeClaimTemplate"
            raw = source.get("volumeClaimTemplate")
            template, errors = decode_volume_claim_template(path, raw, pod.namespace, one.claim_of(pod.name))
            yield one, replace(template, claim=replace(template.claim, owner=pod.uid)) if template else None, errors


def _names_class(metadata: Mapping[str, object], spec: object) -> bool:
    """Whether it says which class, though it be none at all: the empty name stands for volumes without a class."""
    annotations = metadata.get("annotations")
    is_annotated = isinstance(annotations, dict) and CLASS_ANNOTATION in annotations
    return is_annotated or (isinstance(spec, dict) and spec.get("storageClassName") is not None)
