"""Objects that cannot be read beside good ones: the extender goes on, and says which they are."""

from tests.integration.extender.beside import SCHEDULER, Beside
from tests.integration.odd_world import CHANGES, RESOURCES, OddWorld


def test_object_that_cannot_be_read_costs_itself_alone_and_is_named(world: Beside) -> None:
    odd = OddWorld(world, SCHEDULER)
    try:
        for name, change in CHANGES.items():
            odd.tell(change)
            odd.place(name)
        assert all(odd.refused()[resource] for resource in RESOURCES)
        assert "skipping live/odd: spec: must be an object (got 7)" in world.program.log.read_text()
    finally:
        odd.end()
