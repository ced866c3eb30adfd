"""What a property test is about: a cluster, what is in use of it, and claims; told without what is as always."""

from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace

from hypothesis.vendor.pretty import RepresentationPrinter

from allocator.cluster.snapshot import Snapshot
from allocator.gates import Features
from allocator.model import Claim, DeviceClass, Node, Slice


@dataclass(frozen=True)
class Instance:
    """A cluster, the claims that hold devices of it, and the claims to be allocated together."""

    slices: tuple[Slice, ...]
    classes: tuple[DeviceClass, ...]
    claims: tuple[Claim, ...]
    held: tuple[Claim, ...]
    nodes: tuple[Node, ...]
    features: Features

    def strictly(self) -> "Instance":
        """The same, to be answered as kube-scheduler does."""
        return replace(self, features=self.features.strictly())

    def snapshot(self) -> Snapshot:
        return Snapshot.of(self.slices, self.classes, self.held, self.features)

    def __repr__(self) -> str:
        parts = [f"{field.name}={reported(getattr(self, field.name))}" for field in fields(self)]
        return f"Instance({', '.join(parts)})"

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:  # noqa: FBT001 - the protocol's
        printer.text(repr(self))


def reported(value: object) -> str:
    """The value as it would be written, without the fields that are as they always are."""
    match value:
        case Features():
            return f"<{value}>"
        case tuple() if type(value) is tuple:
            return f"({', '.join(map(reported, value))}{',' if len(value) == 1 else ''})"
        case _ if is_dataclass(value):
            own = ((field, getattr(value, field.name)) for field in fields(value) if field.repr)
            parts = [f"{field.name}={reported(part)}" for field, part in own if not is_default(field, part)]
            return f"{type(value).__name__}({', '.join(parts)})"
        case _:
            return repr(value)


def is_default(field: Field[object], value: object) -> bool:
    by_factory = field.default_factory() if field.default_factory is not MISSING else MISSING
    return value in (field.default, by_factory)
