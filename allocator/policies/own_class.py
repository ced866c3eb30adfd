"""A policy class of the user's, named as `MODULE:CLASS`.

The module is imported from Python's own path, and the class is called without arguments. Whatever is wrong with either
is reported in the words of the option; what is raised in the class names the error.
"""

from collections.abc import Sequence
from importlib import import_module

from allocator.policies.contract import Policy

_METHODS = ("order", "score")


class UnusableClass(ValueError):
    """There is no such class, or it is not a policy."""


def names_a_class(text: str) -> bool:
    """Whether the text is of the form `MODULE:CLASS`, whether or not they exist."""
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def policy_of_class(text: str) -> Policy:
    """A policy of the class. Raises UnusableClass."""
    module, _, name = text.partition(":")
    found: object = _module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise UnusableClass(f"{text}: module {module} has no {name}")
        found = getattr(found, part)
    if not isinstance(found, type):
        raise UnusableClass(f"{text} is not a class, but {type(found).__name__}")
    return _checked(text, _made(text, found))


def _module(name: str) -> object:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise UnusableClass(f"module {name} cannot be imported: {error}") from error
        raise UnusableClass(
            f"module {name} was not found: install it, or add the folder that holds it to PYTHONPATH"
        ) from error
    except (Exception, SystemExit) as error:
        raise UnusableClass(f"module {name} cannot be imported: {type(error).__name__}: {error}") from error


def _made(text: str, found: type) -> object:
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise UnusableClass(f"{text}() failed: {type(error).__name__}: {error}") from error


def _checked(text: str, policy: object) -> Policy:
    name, reads = getattr(policy, "name", None), getattr(policy, "reads", None)
    if not isinstance(name, str) or not name:
        raise UnusableClass(f"{text} is not a policy: name must be a text, not {name!r}")
    if isinstance(reads, str) or not isinstance(reads, Sequence) or not all(isinstance(one, str) for one in reads):
        raise UnusableClass(f"{text} is not a policy: reads must be a list of attributes, not {reads!r}")
    for method in _METHODS:
        if not callable(getattr(policy, method, None)):
            raise UnusableClass(f"{text} is not a policy: it has no method {method}")
    return policy  # type: ignore[return-value]  # all that the protocol says was looked at
