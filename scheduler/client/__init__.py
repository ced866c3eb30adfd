"""HTTP to the API server: address, credentials, discovery, errors, and watched objects.

Raw JSON in and out. Only calls that the server asked to retry (429) are sent again. A watcher reports objects as
events, a reflector fills a store with them, and the store has one writer and many readers.

Before any module here imports kubernetes-asyncio, it gets ready to do without its generated models and API classes,
until somebody asks for one. Importing any module of it imports some 860 of these, a quarter of a start. Bodies are raw
JSON here, so none of them is used. Three packages are there without being run: their modules can be imported as usual.
Whoever asks one of them for another name runs it, and gets what everybody gets.
Source: the shape and the names of watchers, reflectors and stores are kube-rs' runtime's.
"""

import importlib
import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock

_PACKAGES = ("kubernetes_asyncio", "kubernetes_asyncio.client", "kubernetes_asyncio.client.models")
"""Each after the package that it is in."""

_MODULES = {
    "kubernetes_asyncio.client.ApiClient": "kubernetes_asyncio.client.api_client",
    "kubernetes_asyncio.client.Configuration": "kubernetes_asyncio.client.configuration",
}
"""Which module has a name that the library's readers of kubeconfigs import from a package."""

_RUNNING = RLock()


def _prepare_packages() -> None:
    """From now on the packages run when needed. What is imported already stays as it is."""
    if _PACKAGES[0] not in sys.modules:
        for name in _PACKAGES:
            _prepare(name)


def _prepare(name: str) -> None:
    spec = find_spec(name)
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        return  # the library is built differently by now: it is imported as a whole
    module, run, has_run = module_from_spec(spec), spec.loader.exec_module, False

    def value(attribute: str) -> object:
        nonlocal has_run
        if attribute.isidentifier() and find_spec(f"{name}.{attribute}"):
            return importlib.import_module(f"{name}.{attribute}")
        where = _MODULES.get(f"{name}.{attribute}", "")
        if where and find_spec(where):
            return getattr(importlib.import_module(where), attribute)
        with _RUNNING:
            if not has_run:
                has_run = True
                run(module)
        if attribute in vars(module):
            return vars(module)[attribute]
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

    vars(module)["__getattr__"] = value
    sys.modules[name] = module
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own, module)


_prepare_packages()
