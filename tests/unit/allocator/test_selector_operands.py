"""The operands of a selector: how many devices pass each alone and in order, and what the devices have that do not."""

import cel
from allocator.explain.selector_operands import OperandAnswers, SelectorOperand, blaming, guilty
from allocator.model import Device
from allocator.outcome import FREE_STEPS, WORK_OF_A_STEP, Budget
from tests.builders import a_device

DRIVER = "nic.example"
RDMA, NUMA, SPEED = (f'device.attributes["{DRIVER}"].{name}' for name in ("rdma", "numa", "speed"))


def nics(*values: bool) -> list[Device]:
    return [a_device(f"nic-{n}", driver=DRIVER, attributes={"rdma": ("bool", one)}) for n, one in enumerate(values)]


def operands(expression: str, *devices: Device) -> tuple[SelectorOperand, ...]:
    return OperandAnswers(cel.V1_37).of(expression, devices)


def lines(expression: str, *devices: Device) -> list[str]:
    return blaming(operands(expression, *devices))


def test_each_part_says_how_many_devices_pass_it_alone_and_after_those_before_it() -> None:
    expression = f'device.driver == "{DRIVER}" && {RDMA} == true && {RDMA} == false'
    assert lines(expression, *nics(True, True, False)) == [
        f'part 1 of 3, device.driver == "{DRIVER}": 3 of 3 pass it alone, 3 so far',
        f"part 2 of 3, {RDMA} == true: 2 of 3 pass it alone, 2 so far; {DRIVER}/rdma: false on 1",
        (
            f"part 3 of 3, {RDMA} == false: 1 of 3 passes it alone, 0 so far; it removes the last 2 devices; "
            f"{DRIVER}/rdma: true on 2"
        ),
    ]


def test_first_part_that_removes_the_last_device_is_guilty_also_where_it_fails() -> None:
    parts = operands(f"{RDMA} && {NUMA} == 0 && {RDMA} == false", *nics(True))
    assert guilty(parts) == parts[1]
    assert parts[1].text == (
        f"part 2 of 3, {NUMA} == 0: 0 of 1 pass it alone, 0 so far; it removes the last 1 device; "
        f"it fails on 1 (no such key: numa); {DRIVER}/numa: absent on 1"
    )
    assert parts[2].text == f"part 3 of 3, {RDMA} == false: 0 of 1 pass it alone, 0 so far; {DRIVER}/rdma: true on 1"
    assert guilty(operands(f"{RDMA} && {RDMA} == true", *nics(True, False))) is None


def test_an_error_counts_the_devices_that_lack_the_field_and_no_later_part_is_asked_in_order_of_those_refused() -> None:
    other = a_device("gpu", driver="gpu.example")
    slow = a_device("slow", driver=DRIVER, attributes={"rdma": ("bool", True), "speed": ("int", 10)})
    parts = operands(f'device.driver == "{DRIVER}" && {SPEED} > 5 && {RDMA}', other, slow, *nics(True, False))
    assert [(one.asked, one.refused, one.failing) for one in parts] == [(4, 1, 0), (3, 0, 2), (3, 1, 0)]
    assert [(one.alone, one.passing, one.removed) for one in parts] == [(3, 3, 0), (1, 1, 0), (2, 1, 0)]
    assert parts[1].values == (f"{DRIVER}/speed: absent on 2",)
    assert "it fails on 2 (no such key: speed)" in parts[1].text


def test_capacities_absent_attributes_and_many_values_are_told() -> None:
    sizes = [a_device(f"d-{n}", driver=DRIVER, capacity={"memory": f"{n}Gi"}) for n in range(1, 6)]
    more = f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("8Gi"))'
    line = lines(f"true && {more}", *sizes)[1]
    assert line.endswith(f"{DRIVER}/memory: 1Gi on 1, 2Gi on 1, 3Gi on 1 and 2 more values")
    assert lines(f"has({NUMA}) && true", *nics(True))[0].endswith(f"{DRIVER}/numa: absent on 1")


def test_values_are_those_of_the_devices_that_come_to_the_part_not_of_all() -> None:
    small = [
        a_device(f"s-{n}", driver=DRIVER, attributes={"rdma": ("bool", True)}, capacity={"memory": "40Gi"})
        for n in range(8)
    ]
    large = [
        a_device(f"l-{n}", driver=DRIVER, attributes={"rdma": ("bool", False)}, capacity={"memory": "80Gi"})
        for n in range(4)
    ]
    wanted = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
    assert lines(f"{RDMA} && {wanted}", *small, *large)[1].endswith(
        f"4 of 12 pass it alone, 0 so far; it removes the last 8 devices; {DRIVER}/memory: 40Gi on 8"
    )
    none = wanted.replace("80Gi", "1Ti")
    assert lines(f"true && {none}", *small, *large)[1].endswith(f"{DRIVER}/memory: 40Gi on 8, 80Gi on 4")


def test_a_selector_of_one_operand_has_no_parts() -> None:
    assert operands(RDMA, *nics(False)) == ()


def test_devices_that_agree_are_asked_once_and_a_spent_budget_leaves_parts_out() -> None:
    expression, budget = f"{RDMA} && !{RDMA}", Budget()
    answers = OperandAnswers(cel.V1_37, budget.charge)
    answers.of(expression, nics(True))
    one = budget.spent
    answers.of(expression, nics(*[True] * 100))
    assert budget.spent - one < 1_000, "only that the answer is known is looked up"
    spent = Budget(0)
    spent.charge(FREE_STEPS * WORK_OF_A_STEP - one // 2)
    parts = OperandAnswers(cel.V1_37, spent.charge).of(expression, nics(True))
    assert blaming(parts)[-1] == "1 more part is not known within the budget"
