"""The states of a watcher, and what each input makes of them: pure, so that every path can be walked in a test.

    Empty -- pages --> InitPage -- the last page --> InitList -- the watch is open --> Watching
    Empty -- the server lists by watch --> InitWatch -- the end of the list ----------> Watching
    Watching -- cut --> Cut -- the server's data are not older --> InitList (resumed where it was)
    anywhere -- expired, or unreadable --> Empty (listed again and swapped; reported objects are outdated until then)

`seen` is the newest reported resource version; a server never answers with less, unless its data were replaced by older
ones: a watch from then on would stay silent. No call asks for resourceVersion=0, which an old cache may answer.

What comes of it are events in the order of resource versions. An object is decoded on arrival, so that a large list
never stands in memory as JSON. An object that cannot be decoded comes as `Undecoded` and replaces what was known under
its name. It affects only itself, not its page or its watch.
Source: kube-rs, runtime/src/watcher.rs; KEP-3157 (lists by watch); KEP-956 (bookmarks).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from allocator.api.findings import FieldError, shown
from scheduler.client.errors import ApiError, CallFailed, TooLarge, Unanswered, api_error
from scheduler.client.raw_json import dumps, loads_leniently
from scheduler.terminal_text import in_short

T = TypeVar("T")

Decoder = Callable[[Mapping[str, Any]], T]
"""The value that is kept of an object, which has its kind and apiVersion. Raises Undecodable."""

Holder = Callable[[Mapping[str, Any]], object]
"""What an object holds of nodes or devices although it cannot be decoded; None where it holds nothing."""


def holds_nothing(_: Mapping[str, Any]) -> None:
    """The holder of objects that hold neither nodes nor devices."""


class Undecodable(ValueError):
    """An object that cannot be used; the message names field and value."""


class Unreadable(Unanswered):
    """The server sent something that cannot be read or skipped; it would send the same again."""

    def __init__(self, call: str, text: str) -> None:
        super().__init__(call, text, is_ambiguous=False)


class Key(NamedTuple):
    """What an object is found by; namespace: empty for an object of the cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """An object at one version. uid: distinguishes it from a deleted object of the same name."""

    key: Key
    uid: str
    resource_version: int
    value: T


@dataclass(frozen=True, slots=True)
class Undecoded:
    """An object that could not be decoded."""

    key: Key
    uid: str
    resource_version: int
    error: str
    """Why it could not be decoded."""
    held: object = None
    """What it holds all the same, as of `Holder`."""
    defect: Exception | None = field(default=None, compare=False)
    """What a decoder raised that it should not have."""


Found = Entry[T] | Undecoded


@dataclass(frozen=True, slots=True)
class Restarted(Generic[T]):
    """All objects again: what is not among them is gone."""

    objects: tuple[Found[T], ...]
    resource_version: int


@dataclass(frozen=True, slots=True)
class Applied(Generic[T]):
    """An object was created or changed."""

    object: Found[T]

    @property
    def resource_version(self) -> int:
        """That of the object."""
        return self.object.resource_version


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone, or no longer selected. resource_version: of the deletion."""

    key: Key
    uid: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class Progressed:
    """All changes up to this version have been reported."""

    resource_version: int


@dataclass(frozen=True, slots=True)
class Outdated:
    """Changes after this version are lost: what is known may be wrong until `Restarted`."""

    resource_version: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The watch is down. retry_in_s: when the API server is asked again."""

    error: CallFailed
    retry_in_s: float


WatchEvent = Restarted[T] | Applied[T] | Deleted | Progressed | Outdated | Interrupted


PAGE_LIMIT = 500
"""Objects in one page of a list, unless they are large."""

_NOT_SUPPORTED = frozenset({400, 422})
"""What a server says that does not list by watch, or does not take a token."""


class HistoryLost(Exception):
    """The API server's data are older than what it sent before: all later decisions are in doubt."""


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing is listed. lists_by_watch: whether to list by a watch."""

    seen: int = 0
    lists_by_watch: bool = True


@dataclass(frozen=True, slots=True)
class InitPage(Generic[T]):
    """Some pages have come. found: of these pages; grows in place."""

    seen: int
    lists_by_watch: bool
    found: list[Found[T]]
    continue_token: str


@dataclass(frozen=True, slots=True)
class InitWatch(Generic[T]):
    """The list is coming by a watch, which goes on afterwards. found: so far; grows in place."""

    seen: int
    lists_by_watch: bool = True
    found: dict[Key, Found[T]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InitList:
    """Everything is known up to `whole`; next, a watch is opened from there."""

    seen: int
    lists_by_watch: bool
    whole: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Everything is known up to `whole`; next, the server is asked whether its data are as new as `seen`."""

    seen: int
    lists_by_watch: bool
    whole: int


@dataclass(frozen=True, slots=True)
class Watching:
    """A watch is open. whole: the version up to which everything is known.

    What one transaction of etcd changes has one version: that of the last change may have more until a newer one comes.
    """

    seen: int
    lists_by_watch: bool
    whole: int


State = Empty | InitPage[T] | InitWatch[T] | InitList | Cut | Watching


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list. continue_token: empty on the last one."""

    objects: tuple[Found[T], ...]
    continue_token: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The server has accepted the watch."""


@dataclass(frozen=True, slots=True)
class ListEnd:
    """The list that comes by watch is complete as of this version."""

    resource_version: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The server has ended the watch."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The call failed, or the watch broke or returned an error."""

    error: CallFailed


Input = Page[T] | Opened | Applied[T] | Deleted | Progressed | ListEnd | Ended | Broken


def lists(state: State[T]) -> bool:
    """Whether the next call is for a page; it is for a watch otherwise."""
    return isinstance(state, InitPage | Cut) or (isinstance(state, Empty) and not state.lists_by_watch)


def is_open(state: State[T]) -> bool:
    """Whether to continue reading the open watch."""
    return isinstance(state, InitWatch | Watching)


def query_of(state: State[T], page_limit: int = PAGE_LIMIT) -> Mapping[str, str]:
    """What the state's next call asks for. page_limit: objects in a page."""
    if isinstance(state, Cut):
        return {"limit": "1"}
    if lists(state):
        token = {"continue": state.continue_token} if isinstance(state, InitPage) else {}
        return {"limit": str(page_limit), **token}
    watch = {"watch": "1", "allowWatchBookmarks": "true"}
    if isinstance(state, Empty):
        return {**watch, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    assert isinstance(state, InitList), state
    return {**watch, "resourceVersion": str(state.whole)}


def step(state: State[T], given: Input[T]) -> tuple[State[T], WatchEvent[T] | None]:
    """The next state, and the events to report. Raises HistoryLost."""
    match given:
        case Broken() | Ended():
            after = _after_call(state, given.error if isinstance(given, Broken) else None)
            is_lost = isinstance(after, Empty) and isinstance(state, InitList | Cut | Watching)
            return after, Outdated(after.seen) if is_lost else None
        case Opened():
            return _opened(state)
        case Page():
            return _paged(state, given)
        case ListEnd(version) if isinstance(state, InitWatch):
            return _listed(Watching(version, state.lists_by_watch, version), state.seen, state.found.values())
        case Applied() | Deleted() | Progressed() if isinstance(state, InitWatch):
            return _collected(state, given), None
        case _:
            assert isinstance(state, Watching), state
            return _passed_on(state, Progressed(given.resource_version) if isinstance(given, ListEnd) else given)


def _opened(state: State[T]) -> tuple[State[T], WatchEvent[T] | None]:
    if isinstance(state, Empty):
        return InitWatch(state.seen, state.lists_by_watch), None
    assert isinstance(state, InitList), state
    return Watching(state.seen, state.lists_by_watch, state.whole), Progressed(state.whole)


def _paged(state: State[T], page: Page[T]) -> tuple[State[T], WatchEvent[T] | None]:
    if isinstance(state, Cut):
        _check(page.resource_version, state.seen)
        return InitList(state.seen, state.lists_by_watch, state.whole), None
    objects = state.found if isinstance(state, InitPage) else []
    objects.extend(page.objects)
    if page.continue_token:
        return InitPage(state.seen, state.lists_by_watch, objects, page.continue_token), None
    version = page.resource_version
    return _listed(InitList(version, state.lists_by_watch, version), state.seen, objects)


def _listed(state: InitList | Watching, seen: int, found: Iterable[Found[T]]) -> tuple[State[T], WatchEvent[T] | None]:
    _check(state.seen, seen)
    return state, Restarted(tuple(found), state.seen)


def _check(resource_version: int, seen: int) -> None:
    if resource_version < seen:
        raise HistoryLost(
            f"a list has resourceVersion {resource_version}, but {seen} was seen before: the API server's data were "
            "restored from a backup, or this is another cluster; restart to list everything again"
        )


def _collected(state: InitWatch[T], given: Input[T]) -> InitWatch[T]:
    """Changes may come before the list's end does."""
    if isinstance(given, Applied):
        state.found[given.object.key] = given.object
    elif isinstance(given, Deleted):
        state.found.pop(given.key, None)
    return state


def _passed_on(state: Watching, given: Applied[T] | Deleted | Progressed) -> tuple[State[T], WatchEvent[T] | None]:
    version = given.resource_version
    if version < state.seen:
        # A watch goes forward only. Whether history was lost, or the watch is broken, a list will show.
        return Empty(state.seen, state.lists_by_watch), Outdated(state.seen)
    if isinstance(given, Progressed):
        return Watching(version, state.lists_by_watch, version), given
    return Watching(version, state.lists_by_watch, state.whole if version == state.seen else state.seen), given


def _after_call(state: State[T], error: CallFailed | None) -> State[T]:
    """error: what went wrong; None where the server has ended the watch as it does now and then."""
    status = error.status if isinstance(error, ApiError) else 0
    if isinstance(state, InitWatch) or (isinstance(state, Empty) and status in _NOT_SUPPORTED):
        # A list by watch that was refused or not complete is not tried again: pages come in smaller parts.
        return Empty(state.seen, lists_by_watch=False)
    if isinstance(error, Unreadable | TooLarge) and isinstance(state, Watching):
        # From the same version on, the server would answer the same. A page shows which object cannot be read.
        return Empty(state.seen, lists_by_watch=False)
    if isinstance(state, Empty) or (isinstance(error, ApiError) and error.is_expired):
        return Empty(state.seen, state.lists_by_watch)
    if isinstance(state, InitPage):
        # A server that does not take its own token, such as one of another version, will not take it the next time.
        return Empty(state.seen, state.lists_by_watch) if status in _NOT_SUPPORTED else state
    return Cut(state.seen, state.lists_by_watch, state.whole)


_LIST_END = "k8s.io/initial-events-end"
_VERSION_DIGITS = 19  # what a signed integer of 64 bits can hold


def page_of(call: str, body: bytes, decode: Decoder[T], held: Holder = holds_nothing) -> Page[T]:
    """A page; its objects get the kind and version that only their list names. Raises Unreadable for what is none."""
    match loads_leniently(body):
        case {
            "apiVersion": str(version),
            "kind": str(kind),
            "items": list() | None as items,
            "metadata": dict(metadata),
        } if listed_at := _version(metadata):
            named = {"apiVersion": version, "kind": kind.removesuffix("List")}
            objects = tuple(found_in(_named(item, named), decode, held) for item in items or ())
            return Page(objects, _text(metadata, "continue"), listed_at)
        case _:
            raise Unreadable(call, "the response is not a list of objects")


def input_of(call: str, line: bytes, decode: Decoder[T], held: Holder = holds_nothing) -> Input[T]:
    """The input that a line of the watch carries. Raises ApiError for an error, Unreadable for any other line."""
    match loads_leniently(line):
        case {"type": "ADDED" | "MODIFIED", "object": dict(raw)} if _version(_metadata(raw)):
            return Applied(found_in(raw, decode, held))
        case {"type": "DELETED", "object": dict(raw)} if not _identity_error(raw):
            return Deleted(*_identity(raw))
        case {"type": "BOOKMARK", "object": dict(raw)} if _version(_metadata(raw)):
            return _bookmark(_metadata(raw))
        case {"type": "ERROR", "object": dict(raw)}:
            raise api_error(call, _code(raw), _status_text(raw))
        case _:
            raise Unreadable(call, f"a line is not a watch event: {shown(line[:100].decode(errors='replace'))}")


def found_in(raw: object, decode: Decoder[T], held: Holder) -> Found[T]:
    """The object as it is kept."""
    identity = key, uid, version = _identity(raw)
    if not isinstance(raw, dict):
        return Undecoded(*identity, f"it must be an object (got {shown(raw)})")
    is_complete = key.namespace and key.name and uid and version  # most objects are: nothing is looked at again
    if not is_complete and (problem := _identity_error(raw)):
        return Undecoded(*identity, problem, held(raw))
    try:
        return Entry(*identity, decode(raw))
    except Undecodable as error:
        return Undecoded(*identity, in_short(str(error)), held(raw))
    except Exception as error:  # noqa: BLE001 - whatever it is, it costs this object alone; the reflector reports it
        return Undecoded(*identity, in_short(f"internal error: {type(error).__name__}: {error}"), held(raw), error)


def _named(item: object, named: Mapping[str, str]) -> object:
    return {**named, **item} if isinstance(item, dict) else item


def _bookmark(metadata: Mapping[str, Any]) -> Progressed | ListEnd:
    version, annotations = _version(metadata), metadata.get("annotations")
    is_end = isinstance(annotations, dict) and annotations.get(_LIST_END) == "true"
    return ListEnd(version) if is_end else Progressed(version)


def _identity(raw: object) -> tuple[Key, str, int]:
    """Who the object is, as far as it says so."""
    match raw:
        case {"metadata": {"namespace": str(namespace), "name": str(name), "uid": str(uid)} as metadata}:
            return Key(namespace, name), uid, _version(metadata)  # as most objects do
    metadata = _metadata(raw)
    return Key(_text(metadata, "namespace"), _text(metadata, "name")), _text(metadata, "uid"), _version(metadata)


def _identity_error(raw: Mapping[str, Any]) -> str:
    """The problems of the fields by which an object is known."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        return str(FieldError("metadata", metadata, "must be an object"))
    for name in ("name", "uid"):
        if not _text(metadata, name):
            return str(FieldError(f"metadata.{name}", metadata.get(name), "must be a string that is not empty"))
    if not isinstance(metadata.get("namespace"), str | None):
        return str(FieldError("metadata.namespace", metadata["namespace"], "must be a string"))
    if not _version(metadata):
        return str(FieldError("metadata.resourceVersion", metadata.get("resourceVersion"), "must be a number, quoted"))
    return ""


def _metadata(raw: object) -> Mapping[str, Any]:
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _text(metadata: Mapping[str, Any], field: str) -> str:
    value = metadata.get(field)
    return value if isinstance(value, str) else ""


def _version(metadata: Mapping[str, Any]) -> int:
    """The resource version; 0, which no object has, where it cannot be read."""
    text = metadata.get("resourceVersion")
    if not isinstance(text, str):
        return 0
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _VERSION_DIGITS else 0


def _code(status: Mapping[str, Any]) -> int:
    code = status.get("code")
    return code if isinstance(code, int) else 0


def _status_text(status: Mapping[str, Any]) -> bytes:
    try:
        return dumps(status)
    except TypeError:  # nested too deeply
        return b""
