"""The libraries that Kubernetes adds to the language, one file each; and which it enables for devices, by version."""

from typing import Final

from cel.check.overloads import Library
from cel.ext import (
    authz,
    cidr,
    format,  # noqa: A004 - named like the functions that it declares
    formatting,
    ip,
    k8s_lists,
    k8s_regex,
    lists,
    quantity,
    semver,
    sets,
    strings,
    url,
)

_SINCE_1_36: Final = (
    url.LIBRARY_1_37,
    k8s_regex.LIBRARY,
    authz.LIBRARY,
    quantity.LIBRARY_1_37,
    formatting.LIBRARY_1_37,
    sets.LIBRARY,
    ip.LIBRARY,
    cidr.LIBRARY_1_37,
    format.LIBRARY,
    semver.LIBRARY,
)
_NEWER: Final = {
    library.name: library
    for library in (quantity.LIBRARY, cidr.LIBRARY, lists.LIBRARY, formatting.LIBRARY, strings.LIBRARY, url.LIBRARY)
}

_OF_1_36: Final = (*_SINCE_1_36, strings.LIBRARY_1_36, lists.LIBRARY_1_36)
V1_36: Final[tuple[Library, ...]] = (k8s_lists.LIBRARY_1_36, *_OF_1_36)
V1_36_NEW: Final[tuple[Library, ...]] = (k8s_lists.LIBRARY_WITHOUT_INCLUDES, *_OF_1_36)
"""For new objects, without the gate for list attributes."""
V1_37: Final[tuple[Library, ...]] = (*_SINCE_1_36, strings.LIBRARY_1_37, lists.LIBRARY_1_37, k8s_lists.LIBRARY)
V1_38: Final = tuple(_NEWER.get(library.name, library) for library in V1_37)
