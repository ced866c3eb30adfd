"""The type of options and arguments that name a file or folder."""

from typing import Any

import click


class FilePath(click.Path):
    """A path that is not empty: Python takes the empty one for the folder that the program was started in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path as click.Path takes it."""
        if value == "":
            self.fail("'' names no file", param, ctx)
        return super().convert(value, param, ctx)
