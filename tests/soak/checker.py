"""What has to hold at every revision of pods and claims; it knows no more of the product than what it wrote.

- A device is held by no two bound pods beyond what it has: exclusively, by capacity, and by counters.
- A pod that is bound has its devices as long as it runs: its claims are there, allocated, reserved for it, and their
  devices reach its node. Left out is a claim that is allocated and protected by its finalizer, and gone all the same:
  the API server looks for finalizers first, and then deletes what may have got one since.

A pod that was created with a node was bound by whoever created it: what it holds counts, what it lacks does not.
"""

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from tests.controlplane.rest import CLAIM
from tests.soak.facts import ClaimFacts, ClaimName, PodFacts, claim_of, pod_of, reported_of, subject_of
from tests.soak.holdings import Holdings
from tests.soak.inventory import PublishedDevices
from tests.soak.revisions import Revision

HELD_TWICE = "device held beyond what it has"
WITHOUT_DEVICES = "bound pod without its devices"

_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

REMEMBERED = 20_000
"""Revisions of all objects that `Checker.story` can tell of."""


class Wrong(NamedTuple):
    """A rule that was broken, by which revision of which object; `Checker.story` tells what led there."""

    rule: str
    version: int
    text: str
    subject: str = ""


class Waited(NamedTuple):
    """A pod whose claims were there at a moment, and that was bound at another; of the monotonic clock.

    bound_s: None while it is not.
    """

    pod: str
    ready_s: float
    bound_s: float | None


class Checker:
    """Follows revisions in their order. is_good: whether the waits of a namespace are of interest."""

    def __init__(self, inventory: PublishedDevices, is_good: Callable[[str], bool]) -> None:
        self.wrongs: list[Wrong] = []
        self.revisions = 0
        self._inventory, self._is_good = inventory, is_good
        self._holdings = Holdings(inventory)
        self._pods: dict[str, PodFacts] = {}
        self._claims: dict[ClaimName, ClaimFacts] = {}
        self._users: defaultdict[ClaimName, set[str]] = defaultdict(set)
        self._reserved: defaultdict[str, set[ClaimName]] = defaultdict(set)
        self._prescheduled: set[str] = set()
        self._lacking: set[tuple[str, str]] = set()
        self._torn: set[tuple[str, ClaimName]] = set()
        self._waits: dict[str, Waited] = {}
        self._waited: list[Waited] = []
        self._past: deque[tuple[str, str]] = deque(maxlen=REMEMBERED)

    @property
    def pods(self) -> int:
        """How many there are."""
        return len(self._pods)

    def waited(self) -> list[Waited]:
        """The pods whose claims were there, bound or not."""
        return [*self._waited, *self._waits.values()]

    def unbound(self) -> int:
        """How many good pods whose claims are there have no node."""
        return len(self._waits)

    def feed(self, revision: Revision) -> None:
        """Take the next revision."""
        self.revisions += 1
        subject = subject_of(revision.object)
        self._past.append((subject, reported_of(revision)))
        follow = self._claim if revision.object["kind"] == CLAIM.kind else self._pod
        for rule, text in follow(revision):
            self.wrongs.append(Wrong(rule, revision.version, text, subject))

    def remembered(self) -> list[str]:
        """The revisions, a line each, as far as `REMEMBERED` goes back."""
        return [line for _, line in self._past]

    def story(self, about: Wrong | Waited) -> list[str]:
        """The revisions of the objects that it is about, a line each, as far as `REMEMBERED` goes back.

        These are the object itself, the pods that are named, and whatever tells the uid of one of these.
        """
        text = about.text if isinstance(about, Wrong) else about.pod
        uids = set(_UID.findall(text))
        subjects = {subject for subject, line in self._past if not uids.isdisjoint(_UID.findall(line))}
        if isinstance(about, Wrong):
            subjects.add(about.subject)
        return [line for subject, line in self._past if subject in subjects]

    def _claim(self, revision: Revision) -> Iterator[tuple[str, str]]:
        metadata = revision.object["metadata"]
        key = ClaimName(metadata["namespace"], metadata["name"])
        before, now = self._claims.pop(key, None), None if revision.is_gone else claim_of(revision.object)
        if now:
            self._claims[key] = now
        elif before and before.is_protected and before.shares is not None:
            self._torn.update((uid, key) for uid in before.consumers)
        for uid in before.consumers if before else ():
            _unlink(self._reserved, uid, key)
        for uid in now.consumers if now else ():
            self._reserved[uid].add(key)
        yield from self._held(key)
        for uid in sorted(self._users.get(key, ())):
            yield from self._lacks(self._pods[uid])

    def _pod(self, revision: Revision) -> Iterator[tuple[str, str]]:
        uid = revision.object["metadata"]["uid"]
        before = self._pods.pop(uid, None)
        now = pod_of(revision.object, before)
        for key in before.keys if before else ():
            _unlink(self._users, key, uid)
        if not revision.is_gone:
            self._keep(now, is_first=before is None)
            self._time(now, revision.seen_s)
        else:
            self._forget(now)
        for key in self._reserved.get(uid, set()) | set(now.keys):
            yield from self._held(key)
        if not revision.is_gone:
            yield from self._lacks(now)

    def _keep(self, pod: PodFacts, *, is_first: bool) -> None:
        self._pods[pod.uid] = pod
        for key in pod.keys:
            self._users[key].add(pod.uid)
        if is_first and pod.node:
            self._prescheduled.add(pod.uid)

    def _forget(self, pod: PodFacts) -> None:
        """It is gone; the memory of a long run is that of what is there."""
        self._prescheduled.discard(pod.uid)
        self._waits.pop(pod.uid, None)
        self._lacking.difference_update((pod.uid, entry) for entry in pod.entries)
        self._torn.difference_update((pod.uid, key) for key in pod.keys)

    def _held(self, key: ClaimName) -> Iterator[tuple[str, str]]:
        """What is held too often once it is known who uses the claim."""
        claim = self._claims.get(key)
        is_used = claim and any(uid in self._pods and self._pods[uid].runs for uid in claim.consumers)
        for text in self._holdings.change(key, (claim.shares or ()) if claim and is_used else ()):
            yield HELD_TWICE, text

    def _lacks(self, pod: PodFacts) -> Iterator[tuple[str, str]]:
        """What the pod lacks now and did not before."""
        found = dict(self._missing(pod)) if pod.runs and pod.uid not in self._prescheduled else {}
        for entry in pod.entries:
            lack = (pod.uid, entry)
            if entry in found and lack not in self._lacking:
                yield WITHOUT_DEVICES, f"{pod} is on {pod.node}, and {found[entry]}"
            (self._lacking.add if entry in found else self._lacking.discard)(lack)

    def _missing(self, pod: PodFacts) -> Iterator[tuple[str, str]]:
        known = dict(pod.claims)
        for entry in pod.entries:
            if entry not in known:
                yield entry, f"its entry {entry} has no claim"
            elif known[entry] and (text := self._wrong_with(pod, ClaimName(pod.namespace, known[entry]))):
                yield entry, f"its claim {known[entry]} {text}"

    def _wrong_with(self, pod: PodFacts, key: ClaimName) -> str:
        if (pod.uid, key) in self._torn:
            return ""
        claim = self._claims.get(key)
        if claim is None:
            return "is not there"
        if claim.shares is None:
            return "is not allocated"
        if pod.uid not in claim.consumers:
            return f"is reserved for {', '.join(sorted(claim.consumers)) or 'nobody'}"
        devices = self._inventory.devices
        far = [one for one in claim.seen if one not in devices or devices[one].node not in ("", pod.node)]
        return f"has devices that do not reach it: {', '.join(sorted(map(str, far)))}" if far else ""

    def _time(self, pod: PodFacts, seen_s: float) -> None:
        """Note when its claims are there, and when it is bound."""
        if not self._is_good(pod.namespace):
            return
        wait = self._waits.get(pod.uid)
        if wait is None and not pod.node and self._has_claims(pod):
            self._waits[pod.uid] = Waited(str(pod), seen_s, None)
        elif wait is not None and pod.node:
            self._waited.append(self._waits.pop(pod.uid)._replace(bound_s=seen_s))

    def _has_claims(self, pod: PodFacts) -> bool:
        return len(pod.claims) == len(pod.entries) and all(key in self._claims for key in pod.keys)


K = TypeVar("K")
V = TypeVar("V")


def _unlink(index: dict[K, set[V]], key: K, value: V) -> None:
    """Take the value from the key's set, and the set away with its last one."""
    index[key].discard(value)
    if not index[key]:
        del index[key]
