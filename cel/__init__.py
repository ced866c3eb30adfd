"""The Common Expression Language as Kubernetes speaks it for devices.

    program = cel.compile('device.attributes["gpu.example.com"].model == "A100" && device.driver.startsWith("gpu")')
    device = cel.PlainDevice("gpu.example.com", {"model": ("string", "A100")})
    program.evaluate(device)     # True; raises cel.EvalError if kube-scheduler would fail
    program.reads.paths          # {("driver",), ("attributes", "gpu.example.com", "model")}
    program.estimated_cost       # 8, as the API server counts it

`compile` raises `CompileError` if the API server would reject the expression. Answers, errors and costs are those of
Kubernetes 1.37, or of 1.36 with `cel.compile(text, cel.V1_36)`.
"""

from cel.cache import compile_selector as compile  # noqa: A004 - called as cel.compile
from cel.cache import compile_value, conjuncts
from cel.device import BoundDevice, DeviceLike, PlainDevice, bind_device, device_from_json
from cel.errors import Cancelled, CompileError, EvalAbortedError, EvalError
from cel.program import (
    V1_36,
    V1_36_LISTS,
    V1_36_NEW,
    V1_37,
    V1_37_NEW,
    V1_38,
    V1_38_NEW,
    WORK_OF_A_CHARACTER,
    Attribute,
    Environment,
    Outcome,
    Program,
    ValueProgram,
    Worked,
)
from cel.run.frame import COST_LIMIT, Reads
from cel.values.quantity import Quantity

__all__ = [
    "COST_LIMIT",
    "V1_36",
    "V1_36_LISTS",
    "V1_36_NEW",
    "V1_37",
    "V1_37_NEW",
    "V1_38",
    "V1_38_NEW",
    "WORK_OF_A_CHARACTER",
    "Attribute",
    "BoundDevice",
    "Cancelled",
    "CompileError",
    "DeviceLike",
    "Environment",
    "EvalAbortedError",
    "EvalError",
    "Outcome",
    "PlainDevice",
    "Program",
    "Quantity",
    "Reads",
    "ValueProgram",
    "Worked",
    "bind_device",
    "compile",
    "compile_value",
    "conjuncts",
    "device_from_json",
]
