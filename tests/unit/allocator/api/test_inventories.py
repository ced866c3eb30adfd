"""What a real API server gave for one fleet, in three versions: all the same to us."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from allocator.api import DraObject, allocation_to_v1, decode, is_decoded
from allocator.model import Claim

INVENTORIES = Path(__file__).parents[5] / "shared" / "inventories"

pytestmark = pytest.mark.skipif(not INVENTORIES.is_dir(), reason="no inventories beside the project")


def items(name: str) -> list[dict[str, Any]]:
    text = (INVENTORIES / f"{name}.yaml").read_text()
    listed: list[dict[str, Any]] = yaml.load(text, Loader=yaml.CSafeLoader)["items"]
    return [item for item in listed if is_decoded(item["apiVersion"], item["kind"])]


def decoded(*inventories: str) -> Mapping[tuple[str, str], DraObject]:
    found: dict[tuple[str, str], DraObject] = {}
    for item in (item for name in inventories for item in items(name)):
        outcome = decode(item)
        assert outcome.errors == ()
        assert outcome.warnings == ()
        assert outcome.object is not None
        found[item["kind"], item["metadata"]["name"]] = outcome.object
    return found


def unallocated(objects: Mapping[tuple[str, str], DraObject]) -> dict[tuple[str, str], DraObject]:
    return {key: replace(o, allocation=None) if isinstance(o, Claim) else o for key, o in objects.items()}


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_older_version_of_the_fleet_is_the_same_fleet(version: str) -> None:
    old = decoded(f"resource-{version}")
    assert len(old) == 118
    assert old == decoded("cluster", "scheduled-by-kube-scheduler")
    assert unallocated(old) == decoded("cluster", "pending")


def test_real_allocations_are_written_as_they_were_read() -> None:
    claims = [item for item in items("scheduled-by-kube-scheduler") if "allocation" in item.get("status", {})]
    assert len(claims) == 51
    for item in claims:
        claim = decode(item).object
        assert isinstance(claim, Claim)
        assert claim.allocation is not None
        assert allocation_to_v1(claim.allocation) == item["status"]["allocation"]
