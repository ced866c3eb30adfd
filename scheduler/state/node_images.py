"""Which nodes have which image, and of what size. Source: kube-scheduler's ImageStateSummary."""

from allocator.model import Image
from allocator.search.rules import Mask
from scheduler.state.masks import union


class Images:
    """The images on all nodes, by name and size: one of several architectures differs in it."""

    def __init__(self) -> None:
        self._on_node: dict[int, tuple[Image, ...]] = {}
        self._by_name: dict[str, dict[int, Mask]] = {}

    @property
    def total(self) -> int:
        """How many nodes there are."""
        return len(self._on_node)

    def set_node(self, number: int, images: tuple[Image, ...]) -> None:
        """The node has these images. Cost: O(images), nothing where they are the same as before."""
        if self._on_node.get(number) == images:
            return
        self.remove_node(number)
        self._on_node[number] = images
        for name, size in _sizes(images).items():
            sizes = self._by_name.setdefault(name, {})
            sizes[size] = sizes.get(size, 0) | 1 << number

    def remove_node(self, number: int) -> None:
        """The node is gone, if it was there."""
        for name, size in _sizes(self._on_node.pop(number, ())).items():
            sizes = self._by_name[name]
            sizes[size] ^= 1 << number
            if not sizes[size]:
                del sizes[size]
            if not sizes:
                del self._by_name[name]

    def spread_size(self, name: str) -> tuple[int, Mask] | None:
        """The size of the image in proportion to the nodes that have it, and these nodes; None where none has it.

        Differs from kube-scheduler: of several sizes that on the lowest node number counts, there that on the node that
        had the image first.
        """
        sizes = self._by_name.get(name)
        if sizes is None:
            return None
        nodes, (size, _) = union(sizes.values()), min(sizes.items(), key=_lowest)
        return int(size * (nodes.bit_count() / self.total)), nodes


def _lowest(size: tuple[int, Mask]) -> Mask:
    _, nodes = size
    return nodes & -nodes


def _sizes(images: tuple[Image, ...]) -> dict[str, int]:
    """The size of each name; the first of several counts."""
    found: dict[str, int] = {}
    for image in images:
        for name in image.names:
            found.setdefault(name, image.size)
    return found
