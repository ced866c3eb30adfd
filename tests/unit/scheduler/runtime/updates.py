"""Lets a cluster be changed by what is watched, as a program does."""

from collections.abc import Callable
from typing import Any

from scheduler.client.api_resources import Resource
from scheduler.client.watch_states import Found, Undecoded
from scheduler.decision.cluster import Cluster
from scheduler.runtime.cluster_updates import ClusterUpdates
from scheduler.runtime.core import WatchedState
from scheduler.state.cluster_changes import Event


def update_from(
    watched: WatchedState,
    cluster: Cluster,
    heard: Callable[[Event], None],
    undecoded: Callable[[Resource, Undecoded], None] = lambda *_: None,
) -> None:
    """heard: takes the events. undecoded: takes the objects that cannot be decoded."""
    updates = ClusterUpdates(cluster)

    def on_change(resource: Resource, old: Found[Any] | None, new: Found[Any] | None) -> None:
        if isinstance(new, Undecoded):
            undecoded(resource, new)
        if event := updates.update(resource, old, new):
            heard(event)

    watched.on_change(on_change)
