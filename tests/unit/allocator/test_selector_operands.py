import cel
from allocator.explain.selector_operands import blaming, operands_of
from allocator.model import Device
from tests.builders import a_device

DRIVER = "nic.example"
RDMA, NUMA = (f'device.attributes["{DRIVER}"].{name}' for name in ("rdma", "numa"))


def nics(*values: bool) -> list[Device]:
    return [a_device(f"nic-{n}", driver=DRIVER, attributes={"rdma": ("bool", one)}) for n, one in enumerate(values)]


def lines(expression: str, *devices: Device) -> list[str]:
    return blaming(operands_of(expression, devices, cel.V1_37))


def test_the_operand_that_refuses_is_named_with_counts_and_the_values_that_devices_have() -> None:
    expression = f'device.driver == "{DRIVER}" && {RDMA} == true && {RDMA} == false'
    assert lines(expression, *nics(True, True, False)) == [
        f"part 2 of 3, {RDMA} == true, is false on 1: {DRIVER}/rdma is false on 1",
        f"part 3 of 3, {RDMA} == false, is false on 2: {DRIVER}/rdma is true on 2",
    ]


def test_an_operand_that_fails_is_named_with_the_error_and_later_ones_are_asked_still() -> None:
    assert lines(f"{NUMA} == 0 && {RDMA} == false", *nics(True)) == [
        f"part 1 of 2, {NUMA} == 0, fails on 1 (no such key: numa)",
        f"part 2 of 2, {RDMA} == false, is false on 1: {DRIVER}/rdma is true on 1",
    ]


def test_devices_that_an_operand_refuses_are_not_asked_again() -> None:
    other = a_device("gpu", driver="gpu.example")
    expression = f'device.driver == "{DRIVER}" && {RDMA}'
    parts = operands_of(expression, [other, *nics(True)], cel.V1_37)
    assert [(one.asked, one.refused, one.failing) for one in parts] == [(2, 1, 0), (1, 0, 0)]
    assert lines(expression, other) == [
        f'part 1 of 2, device.driver == "{DRIVER}", is false on 1: driver is gpu.example on 1'
    ]


def test_capacities_absent_attributes_and_many_values_are_told() -> None:
    sizes = [a_device(f"d-{n}", driver=DRIVER, capacity={"memory": f"{n}Gi"}) for n in range(1, 6)]
    more = f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("8Gi"))'
    [line] = lines(f"true && {more}", *sizes)
    assert line.endswith(f"{DRIVER}/memory is 1Gi on 1, 2Gi on 1, 3Gi on 1 and 2 more values")
    [line] = lines(f"has({NUMA}) && true", *nics(True))
    assert line.endswith(f"is false on 1: {DRIVER}/numa is absent on 1")


def test_a_selector_of_one_operand_has_no_parts() -> None:
    assert operands_of(RDMA, nics(False), cel.V1_37) == ()
