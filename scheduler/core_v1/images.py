"""Images: those that a pod needs, and those that a node has.

Names are those of the container runtime: without a tag they mean the tag `latest`. Many nodes have the same images, so
each name and each image is stored once. Fields are read leniently: an invalid entry counts as none.
Source: k8s.io/api core/v1 ContainerImage, ImageVolumeSource.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from allocator.model import Image
from scheduler.core_v1.host_ports import objects

_KEPT = 1 << 14

_MOST_BYTES = 2**60


def images_of_pod(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The image of each container, init container and image volume. spec: raw."""
    names = (name for name in _named(spec) if isinstance(name, str) and name)
    return tuple(sys.intern(_with_tag(name)) for name in names)


def images_of_node(raw: Mapping[str, Any]) -> tuple[Image, ...]:
    """What the node says that it has."""
    status = raw.get("status")
    listed = objects(status, "images") if isinstance(status, dict) else ()
    found = ((one.get("names"), one.get("sizeBytes")) for one in listed)
    return tuple(
        _image(tuple(name for name in names if isinstance(name, str)), size)
        for names, size in found
        if isinstance(names, list) and isinstance(size, int) and 0 < size < _MOST_BYTES
    )


def _named(spec: Mapping[str, Any]) -> Iterator[object]:
    for kind in ("initContainers", "containers"):
        yield from (container.get("image") for container in objects(spec, kind))
    for volume in objects(spec, "volumes"):
        image = volume.get("image")
        yield image.get("reference") if isinstance(image, dict) else None


def _with_tag(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


@lru_cache(maxsize=_KEPT)
def _image(names: tuple[str, ...], size: int) -> Image:
    return Image(tuple(map(sys.intern, names)), size)
