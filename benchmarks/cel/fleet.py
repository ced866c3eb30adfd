"""A fleet of devices, and selectors for it as users write them."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

DRIVER: Final = "gpu.example.com"
MODELS: Final = ("A100", "H100", "H200", "L40S")
VERSIONS: Final = ("550.90.7", "560.35.3", "570.86.15")
MEMORIES: Final = ("40Gi", "80Gi", "141Gi", "48Gi")
DEVICES_IN_SLICE: Final = 8


def device_json(number: int) -> dict[str, Any]:
    """A device with 12 attributes, of which one is its own, in the shape of a v1 ResourceSlice."""
    model = number // DEVICES_IN_SLICE % len(MODELS)
    return {
        "driver": DRIVER,
        "attributes": {
            "uuid": {"string": uuid_of(number)},
            "model": {"string": MODELS[model]},
            "driverVersion": {"version": VERSIONS[number // 64 % len(VERSIONS)]},
            "index": {"int": number % DEVICES_IN_SLICE},
            "numa": {"int": number % DEVICES_IN_SLICE // 4},
            "architecture": {"string": "Ampere" if model == 0 else "Hopper"},
            "brand": {"string": "Example"},
            "type": {"string": "gpu"},
            "ecc": {"bool": True},
            "migCapable": {"bool": model != len(MODELS) - 1},
            "cudaDriverVersion": {"version": "12.4.0"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number % DEVICES_IN_SLICE // 2:02x}"},
        },
        "capacity": {"memory": {"value": MEMORIES[model]}, "cores": {"value": "128"}},
    }


def uuid_of(number: int) -> str:
    """The text that tells a device from all others."""
    return f"GPU-{UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)}"


def attribute(name: str) -> str:
    """An attribute of the device, in CEL."""
    return f'device.attributes["{DRIVER}"].{name}'


# Each has a place for a text of its own, so that no answer is there from the time before.
SELECTORS: Final = {
    "model": f'{attribute("model")} == "{{}}"',
    "version": f'{attribute("driverVersion")}.isGreaterThan(semver("5{{}}.1.0"))',
    "capacity": f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{{}}Gi")) >= 0',
    "unique value": f'{attribute("uuid")} == "GPU-{{}}"',
    "unique value, a pattern": f'{attribute("uuid")}.matches("^GPU-.*{{}}$")',
    "three of them": (
        f'{attribute("model")} in ["H100", "{{}}"] && {attribute("driverVersion")}.isGreaterThan(semver("555.0.0"))'
        f' && device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) > 0'
    ),
}
# A pattern has to be held against each of the unique values, which is work for the regular expressions, not for us.
MIXED: Final = tuple(name for name in SELECTORS if name != "unique value, a pattern")


def variants(selector: str, count: int, first: int = 0) -> Iterator[str]:
    """So many selectors that differ in one constant."""
    return (SELECTORS[selector].format(number) for number in range(first, first + count))


def mixed(count: int, first: int = 0) -> list[str]:
    """So many different selectors, of the kinds of MIXED in turn."""
    return [SELECTORS[MIXED[number % len(MIXED)]].format(first + number) for number in range(count)]
