"""Why a device cannot be decided: made into words when the search reaches it, and not before."""

from allocator.cluster.node_affinity import InvalidNodeSelector, reaches
from allocator.cluster.selectors import selectors_of
from allocator.cluster.snapshot import Snapshot
from allocator.features import concerned
from allocator.features.contract import NodeAttempt
from allocator.model import Alternative, Claim


def failure(snapshot: Snapshot, attempt: NodeAttempt, claim: Claim, alternative: Alternative, position: int) -> str:
    """What fails first on the device: a selector, its node selector, or what a feature cannot work out."""
    device = attempt.view.devices[position]
    for source, number, expression in selectors_of(snapshot.classes[alternative.class_name], alternative):
        if problem := snapshot.selectors.error(expression, device):
            owner = source if source.startswith("class") else f"claim {claim}, {source}"
            return f"{owner}: selector #{number} on device {device.id}: {problem}"
    try:
        reaches(device.reach, attempt.node)
    except InvalidNodeSelector as error:
        return f"device {device.id}: node selector: {error}"
    errors = (feature.failures(attempt, alternative).get(position) for feature in concerned(attempt.view, "failures"))
    return f"claim {claim}, request {alternative.name}: device {device.id}: {next(filter(None, errors))}"
