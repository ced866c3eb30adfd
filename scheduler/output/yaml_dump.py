"""Writes YAML, quoted so that kubectl reads back the same values."""

from collections.abc import Mapping
from typing import Any

import yaml

from scheduler.input.yaml_1_1 import plain


class _Dumper(yaml.CSafeDumper):
    """Plain block style: no anchors, keys in their order."""

    def ignore_aliases(self, data: object) -> bool:
        """An object that is used twice is written twice."""
        return True


def _text(dumper: Any, value: str) -> Any:
    is_text = isinstance(plain(value), str) if value else False
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if is_text else '"')


def _mapping(dumper: Any, value: Mapping[str, object]) -> Any:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=False)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _mapping)


def dump(value: object) -> str:
    """The value as one YAML document, with what would steer a terminal written out."""
    text = _dumped(value, allow_unicode=True)
    return text if text.replace("\n", "").isprintable() else _dumped(value, allow_unicode=False)


def _dumped(value: object, *, allow_unicode: bool) -> str:
    return yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=1_000_000, allow_unicode=allow_unicode
    )
