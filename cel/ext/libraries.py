"""The extension libraries that Kubernetes enables for devices, by version, in the order in which it enables them."""

from typing import Final

from cel.ext import (
    authz,
    cidr,
    format,  # noqa: A004 - named like the functions that it declares
    formatting,
    k8s_lists,
    k8s_regex,
    lists,
    netip,
    quantity,
    semver,
    sets,
    strings,
    url,
)
from cel.overloads import Library

_SINCE_1_36: Final = (
    url.LIBRARY,
    k8s_regex.LIBRARY,
    authz.LIBRARY,
    quantity.LIBRARY,
    formatting.LIBRARY,
    sets.LIBRARY,
    netip.LIBRARY,
    cidr.LIBRARY,
    format.LIBRARY,
    semver.LIBRARY,
)

V1_36: Final[tuple[Library, ...]] = (
    k8s_lists.LIBRARY_1_36,
    *_SINCE_1_36,
    strings.LIBRARY_1_36,
    lists.LIBRARY_1_36,
)
V1_37: Final[tuple[Library, ...]] = (*_SINCE_1_36, strings.LIBRARY, lists.LIBRARY, k8s_lists.LIBRARY)
