"""`MODULE:CLASS`: a class of the user's is a policy, or it is said why not."""

from pathlib import Path

import pytest

from allocator.policies import UnknownPolicy, policy_of

MODULE = """\
from allocator.policies.whole_nodes import NodePolicy

class FirstOfAll:  # built-in policies may be compiled, and no class can inherit from them then
    reads = ()
    def order(self, attempt, requests):
        return None
    def score(self, attempt, requests, picks):
        return ()

class Own(FirstOfAll):
    name = "own"
    class Inner(FirstOfAll):
        name = "inner"

class Nodes(NodePolicy):
    name = "nodes"
    def score_node(self, needs, room):
        return 0

class Failing(FirstOfAll):
    name = "failing"
    def __init__(self):
        raise RuntimeError("no weather today")

class Leaving(FirstOfAll):
    name = "leaving"
    def __init__(self):
        raise SystemExit(0)

class Demanding(FirstOfAll):
    name = "demanding"
    def __init__(self, weight):
        self.weight = weight

class Abstract(NodePolicy):
    name = "abstract"

class Nameless:
    pass

class Unread(FirstOfAll):
    name, reads = "unread", "gpu.example.com/board"

class Orderless:
    name, reads = "orderless", ()
    def score(self, attempt, requests, picks):
        return ()

class Pack(FirstOfAll):
    name = "pack"

instance = Own()
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_policies.py").write_text(MODULE)
    (tmp_path / "own_exit.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "own_broken.py").write_text("1 / 0\n")
    (tmp_path / "own_needy.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(("name", "own"), [("Own", "own"), ("Own.Inner", "inner"), ("Nodes", "nodes")])
def test_a_class_is_a_policy(name: str, own: str) -> None:
    assert policy_of(f"own_policies:{name}").name == own


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no_such_module:Own", "module no_such_module was not found: install it, or add the folder"),
        ("no_such.module:Own", "module no_such.module was not found"),
        ("own_policies.sub:Own", "module own_policies.sub was not found"),
        ("own_broken:Own", "module own_broken cannot be imported: ZeroDivisionError: division by zero"),
        ("own_needy:Own", "module own_needy cannot be imported: No module named 'no_such_library'"),
        ("own_policies:Missing", "own_policies:Missing: module own_policies has no Missing"),
        ("own_policies:Own.Missing", "module own_policies has no Own.Missing"),
        ("own_policies:instance", "own_policies:instance is not a class, but Own"),
        ("own_policies:Failing", "own_policies:Failing() failed: RuntimeError: no weather today"),
        ("own_policies:Leaving", "own_policies:Leaving() failed: SystemExit: 0"),
        ("own_exit:Own", "module own_exit cannot be imported: SystemExit: 3"),
        ("own_policies:Demanding", "own_policies:Demanding() failed: TypeError: "),
        ("own_policies:Abstract", "own_policies:Abstract() failed: TypeError: "),
        ("own_policies:Nameless", "own_policies:Nameless is not a policy: name must be a text, not None"),
        ("own_policies:Unread", "is not a policy: reads must be a list of attributes, not 'gpu.example.com/board'"),
        ("own_policies:Orderless", "own_policies:Orderless is not a policy: it has no method order"),
        ("own_policies:Pack", "own_policies:Pack: the name 'pack' is that of a built-in policy"),
        ("own-policies:Own", "'own-policies' is not among the policies"),
        ("own_policies:", "'own_policies' is not among the policies"),
        ("own_policies:a.example/board", "'own_policies' is not among the policies"),
    ],
)
def test_what_is_no_policy_is_reported(text: str, problem: str) -> None:
    with pytest.raises(UnknownPolicy) as reported:
        policy_of(text)
    assert problem in str(reported.value)
