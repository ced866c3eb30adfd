"""The pods that were created with a node and lack devices; updated by events, so that reading costs nothing."""

from collections.abc import Callable, Iterable

from scheduler.core_v1.pod import Pod
from scheduler.state.cluster_changes import ClaimChanged, ClaimKey, Event, PodChanged
from scheduler.state.pod_claims import claim_keys


class Prescheduled:
    """These pods, by uid. is_so: whether a pod is one of them, as the cluster knows it and its claims now."""

    def __init__(self, is_so: Callable[[Pod], bool]) -> None:
        self._is_so = is_so
        self._placed: dict[str, Pod] = {}
        self._users: dict[ClaimKey, dict[str, None]] = {}
        self._found: set[str] = set()

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, pod_uid: str) -> bool:
        return pod_uid in self._found

    def on_event(self, event: Event) -> None:
        """Something has changed, and the cluster knows it. Cost: O(claims of the pod), or O(pods of the claim)."""
        if isinstance(event, PodChanged):
            self._forget(event.old)
            self._keep(event.new)
        elif isinstance(event, ClaimChanged):
            self._look(self._users.get(event.key, ()))

    def _forget(self, pod: Pod | None) -> None:
        if pod is None or self._placed.pop(pod.uid, None) is None:
            return
        self._found.discard(pod.uid)
        for key in claim_keys(pod):
            users = self._users.get(key, {})
            users.pop(pod.uid, None)
            if not users:
                self._users.pop(key, None)

    def _keep(self, pod: Pod | None) -> None:
        if pod is None or not pod.node_name or not pod.claims or pod.is_over:
            return
        self._placed[pod.uid] = pod
        for key in claim_keys(pod):
            self._users.setdefault(key, {})[pod.uid] = None
        self._look((pod.uid,))

    def _look(self, uids: Iterable[str]) -> None:
        for uid in uids:
            if self._is_so(self._placed[uid]):
                self._found.add(uid)
            else:
                self._found.discard(uid)
