"""The static types of the language, and assignability.

The checker finds the type of each node; libraries declare functions with types. At run time the same objects are the
values of type `type`, which compare by name only. Types are interned, so that they compare by identity, however deep.
Source: the CEL language definition, section "Gradual type checking".
"""

from enum import IntEnum, auto
from typing import ClassVar, Final, final
from weakref import WeakValueDictionary

from cel.stack import on_own_stack

LARGEST_TYPE = 2000  # nodes; 250 levels of nested map literals need 501, shared subtrees could need 2^250


class Kind(IntEnum):
    """The kind of a type; only lists, maps, type values and opaque types have parameters."""

    ANY = auto()
    BOOL = auto()
    BYTES = auto()
    DOUBLE = auto()
    DURATION = auto()
    DYN = auto()
    INT = auto()
    LIST = auto()
    MAP = auto()
    NULL = auto()
    OPAQUE = auto()
    PARAMETER = auto()
    STRING = auto()
    STRUCT = auto()
    TIMESTAMP = auto()
    TYPE = auto()
    UINT = auto()


class TypeTooLargeError(Exception):
    """A type would have more than LARGEST_TYPE nodes."""


@final
class Type:
    """A type: kind, run-time name and parameters.

    nullable: a wrapper of a scalar, to which null may be assigned.
    size: number of nodes when written out. Raises TypeTooLargeError above LARGEST_TYPE.
    """

    __slots__ = ("__weakref__", "kind", "name", "nullable", "parameters", "size")
    kind: Kind
    name: str
    parameters: "tuple[Type, ...]"
    nullable: bool
    size: int
    _known: ClassVar[WeakValueDictionary[tuple[object, ...], "Type"]] = WeakValueDictionary()

    def __new__(cls, kind: Kind, name: str, parameters: "tuple[Type, ...]" = (), *, nullable: bool = False) -> "Type":
        """The interned type."""
        identity = (kind, name, parameters, nullable)
        known = cls._known.get(identity)
        if known is not None:
            return known
        size = 1 + sum(parameter.size for parameter in parameters)
        if size > LARGEST_TYPE:
            raise TypeTooLargeError(f"a type with more than {LARGEST_TYPE} parts")
        created = super().__new__(cls)
        created.kind, created.name, created.parameters = kind, name, parameters
        created.nullable, created.size = nullable, size
        return cls._known.setdefault(identity, created)

    def __repr__(self) -> str:
        return f"Type({self})"

    def __str__(self) -> str:
        name = _PRINTED.get(self.kind, self.name)
        if self.nullable:
            name = f"wrapper({name})"
        if not self.parameters:
            return name
        try:
            return f"{name}({', '.join(map(str, self.parameters))})"
        except RecursionError:
            return on_own_stack(str, self)

    @property
    def is_dynamic(self) -> bool:
        """Whether only the value has a type."""
        return self.kind is Kind.DYN or self.kind is Kind.ANY

    @property
    def is_optional(self) -> bool:
        """`optional_type(T)`; T is parameters[0]."""
        return self.kind is Kind.OPAQUE and self.name == "optional_type"


_PRINTED: Final = {
    Kind.ANY: "any",
    Kind.DURATION: "duration",
    Kind.NULL: "null",
    Kind.TIMESTAMP: "timestamp",
}

ANY: Final = Type(Kind.ANY, "google.protobuf.Any")
BOOL: Final = Type(Kind.BOOL, "bool")
BYTES: Final = Type(Kind.BYTES, "bytes")
DOUBLE: Final = Type(Kind.DOUBLE, "double")
DURATION: Final = Type(Kind.DURATION, "google.protobuf.Duration")
DYN: Final = Type(Kind.DYN, "dyn")
INT: Final = Type(Kind.INT, "int")
NULL: Final = Type(Kind.NULL, "null_type")
STRING: Final = Type(Kind.STRING, "string")
TIMESTAMP: Final = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE: Final = Type(Kind.TYPE, "type")
UINT: Final = Type(Kind.UINT, "uint")


def list_of(element: Type) -> Type:
    """`list(element)`."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """`map(key, value)`."""
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """`optional_type(value)`."""
    return Type(Kind.OPAQUE, "optional_type", (value,))


def type_of_type(named: Type) -> Type:
    """The type of the name of a type: `type(named)`."""
    return Type(Kind.TYPE, "type", (named,))


def opaque(name: str, *parameters: Type) -> Type:
    """A type without fields, such as net.IP."""
    return Type(Kind.OPAQUE, name, parameters)


def struct(name: str) -> Type:
    """A type whose fields, if any, the environment declares, such as kubernetes.Quantity."""
    return Type(Kind.STRUCT, name)


def parameter(name: str) -> Type:
    """A type parameter of an overload: the same name stands for the same type in one signature."""
    return Type(Kind.PARAMETER, name)


def nullable(scalar: Type) -> Type:
    """The wrapper of `scalar`, as protocol buffers have it: the scalar or null."""
    return Type(scalar.kind, scalar.name, scalar.parameters, nullable=True)


LIST: Final = list_of(DYN)
MAP: Final = map_of(DYN, DYN)
OPTIONAL: Final = optional_of(DYN)

# Kubernetes' own types. Whether one is a struct or opaque shows in the reference's messages and in its null checks.
CIDR: Final = opaque("net.CIDR")
DEVICE: Final = struct("kubernetes.DRADevice")
IP: Final = opaque("net.IP")
NAMED_FORMAT: Final = struct("kubernetes.NamedFormat")
QUANTITY: Final = struct("kubernetes.Quantity")
SEMVER: Final = struct("kubernetes.Semver")
URL: Final = struct("kubernetes.URL")

_NULLABLE_KINDS: Final = frozenset({Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP})
_COMPOSED_KINDS: Final = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP})


class Substitution:
    """The bindings of the type parameters of one expression. A failed assignment changes nothing."""

    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []

    def assign(self, target: Type, source: Type) -> bool:
        """Whether a `source` is assignable to a `target`; binds parameters on both sides."""
        return self.assign_all((target,), (source,))

    def assign_all(self, targets: tuple[Type, ...], sources: tuple[Type, ...]) -> bool:
        """`assign` for each pair, all or nothing."""
        self._trail.clear()
        fits = self._fit_all(targets, sources)
        if not fits:
            self._take_back(0)
        return fits

    def _take_back(self, mark: int) -> None:
        while len(self._trail) > mark:
            free, before = self._trail.pop()
            if before is None:
                del self._bound[free]
            else:
                self._bound[free] = before

    def apply(self, type_: Type, *, free_to_dyn: bool) -> Type:
        """`type_` with every bound parameter replaced, and with free ones replaced by dyn if asked."""
        if not type_.parameters and type_.kind is not Kind.PARAMETER:
            return type_
        bound = self._bound.get(type_)
        if bound is not None:
            return self.apply(bound, free_to_dyn=free_to_dyn)
        if type_.kind is Kind.PARAMETER:
            return DYN if free_to_dyn else type_
        try:
            parameters = tuple([self.apply(inner, free_to_dyn=free_to_dyn) for inner in type_.parameters])
        except RecursionError:
            return on_own_stack(self.apply, type_, free_to_dyn=free_to_dyn)
        return type_ if parameters == type_.parameters else Type(type_.kind, type_.name, parameters)

    def _bind(self, free: Type, to: Type) -> None:
        self._trail.append((free, self._bound.get(free)))
        self._bound[free] = to

    def _fit_all(self, targets: tuple[Type, ...], sources: tuple[Type, ...]) -> bool:
        mark = len(self._trail)
        try:
            return len(targets) == len(sources) and all(map(self._fits, targets, sources))
        except RecursionError:
            self._take_back(mark)
        return on_own_stack(self._fit_all, targets, sources)

    def _fits(self, one: Type, other: Type) -> bool:
        if one is other and not one.parameters:
            return True
        if other.kind is Kind.PARAMETER:
            valid, was_bound = self._stands_for(one, other)
            if valid or was_bound:
                return valid
        if one.kind is Kind.PARAMETER:
            return self._stands_for(other, one)[0]
        return one.is_dynamic or other.is_dynamic or self._fits_exactly(one, other)

    def _fits_exactly(self, one: Type, other: Type) -> bool:
        if one.kind is Kind.NULL or other.kind is Kind.NULL:
            return _takes_null(other if one.kind is Kind.NULL else one)
        if one.kind is not other.kind:
            return False
        if one.kind is Kind.TYPE:
            return True
        if one.kind in _COMPOSED_KINDS:
            return one.name == other.name and self._fit_all(one.parameters, other.parameters)
        return one.name == other.name

    def _stands_for(self, type_: Type, free: Type) -> tuple[bool, bool]:
        """Whether the parameter `free` can stand for `type_`, and whether it was bound before."""
        if type_ is free:
            return True, True
        bound = self._bound.get(free)
        if bound is None:
            if self._occurs(free, type_):
                return False, False
            self._bind(free, type_)
            return True, False
        if type_ is bound:
            return True, True
        if not self._fits(type_, bound):
            return False, True
        general = more_general(type_, bound)
        if not self._occurs(free, general):
            self._bind(free, general)
        return True, True

    def _occurs(self, free: Type, within: Type) -> bool:
        pending = [within]
        while pending:
            type_ = pending.pop()
            if type_ is free:
                return True
            pending.extend(type_.parameters)
            bound = self._bound.get(type_) if type_.kind is Kind.PARAMETER else None
            if bound is not None:
                pending.append(bound)
        return False


_UNDECIDED: Final = frozenset({Kind.DYN, Kind.ANY, Kind.PARAMETER, Kind.NULL})


def may_fit(target: Type, source: Type) -> bool:
    """Whether a `source` may be assignable to a `target`: False is certain."""
    return target.kind is source.kind or target.kind in _UNDECIDED or source.kind in _UNDECIDED


def _takes_null(type_: Type) -> bool:
    return type_.kind is Kind.NULL or type_.nullable or type_.kind in _NULLABLE_KINDS


def is_equivalent(this: Type, other: Type) -> bool:
    """Whether two types are the same, regardless of wrappers."""
    pending = [(this, other)]
    while pending:
        this, other = pending.pop()
        if this is other:
            continue
        if this.kind is not other.kind or this.name != other.name or len(this.parameters) != len(other.parameters):
            return False
        pending.extend(zip(this.parameters, other.parameters, strict=True))
    return True


def more_general(one: Type, other: Type) -> Type:
    """The less specific of two assignable types."""
    return one if _is_as_general(one, other) else other


def _is_as_general(this: Type, other: Type) -> bool:
    pending = [(this, other)]
    while pending:
        this, other = pending.pop()
        if this.is_dynamic or this.kind is Kind.PARAMETER:
            continue
        if not _has_kind_of(this, other):
            return False
        if this.kind in _COMPOSED_KINDS:
            pending.extend(zip(this.parameters, other.parameters, strict=True))
    return True


def _has_kind_of(one: Type, other: Type) -> bool:
    """Whether the types are the same, regardless of their parameters."""
    if other.is_dynamic or other.kind is Kind.PARAMETER or one.kind is not other.kind:
        return False
    if one.kind is Kind.TYPE:
        return True
    if one.kind not in _COMPOSED_KINDS:
        return one is other
    return one.name == other.name and len(one.parameters) == len(other.parameters)
