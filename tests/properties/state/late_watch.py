"""An API server of claims with one count of versions, and a watch that shows its events late, in their order."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from allocator.model import Claim


@dataclass
class LateWatch(ABC):
    """truth: claims by uid as they are stored. log: what the watch will show. shown: up to where it has."""

    truth: dict[str, Claim] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    log: list[tuple[int, str, Claim | None]] = field(default_factory=list)
    shown: int = 0
    watched: dict[str, Claim] = field(default_factory=dict)
    watched_at: dict[str, int] = field(default_factory=dict)
    version: int = 0
    made: int = 0

    # -- the API server

    def is_free(self, name: str) -> bool:
        """Whether no claim has the name."""
        return all(claim.name != name for claim in self.truth.values())

    def new_uid(self) -> str:
        self.made += 1
        return f"uid-{self.made}"

    def store(self, claim: Claim) -> int:
        self.version += 1
        self.truth[claim.uid], self.versions[claim.uid] = claim, self.version
        self.log.append((self.version, claim.uid, claim))
        return self.version

    def delete(self, uid: str) -> None:
        self.version += 1
        del self.truth[uid]
        self.log.append((self.version, uid, None))

    # -- the watch

    def show_next(self) -> None:
        if self.shown < len(self.log):
            version, uid, claim = self.log[self.shown]
            self.shown += 1
            self._show(uid, claim, version)

    def list_anew(self) -> None:
        """The watch starts again with a list that begins now."""
        self.shown = len(self.log)
        for uid in set(self.watched) - set(self.truth):
            self._show(uid, None, 0)
        for uid, claim in self.truth.items():
            self._show(uid, claim, self.versions[uid])

    def _show(self, uid: str, claim: Claim | None, version: int) -> None:
        if claim is None:
            self.watched.pop(uid, None)
        else:
            self.watched[uid], self.watched_at[uid] = claim, version
        self.on_shown(uid, claim, version)

    @abstractmethod
    def on_shown(self, uid: str, claim: Claim | None, version: int) -> None:
        """The watch shows the claim at the version, or that it is gone."""
