"""What a run was given: devices, and how it is to divide its work among them."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional


class Plan(NamedTuple):
    """A gang's devices and its parallel plan; the product of the plan's numbers is that of the devices.

    An elastic job may find other numbers each time that it is started. None: there is no plan, and it divides its work as
    it likes.
    """

    #: All devices of the gang, on all its nodes.
    devices: int = 1
    #: Their type; empty without Wharf.
    device_type: str = ""
    nodes: int = 1
    #: Pipeline stages.
    stages: Optional[int] = None
    #: Copies of each stage that work on different samples.
    data: Optional[int] = None
    #: Devices that one copy of a stage is divided among.
    tensor: Optional[int] = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Plan":
        """What a process was started with. A plan of which a part is missing or no number is none."""
        names = ("WHARF_PIPELINE_STAGES", "WHARF_DATA_PARALLEL", "WHARF_TENSOR_PARALLEL")
        parts = [_count(environment.get(name)) for name in names]
        stages, data, tensor = parts if None not in parts else (None, None, None)
        return cls(
            _count(environment.get("WHARF_DEVICE_COUNT")) or 1,
            environment.get("WHARF_DEVICE_TYPE", ""),
            _count(environment.get("WHARF_NODES")) or 1,
            stages,
            data,
            tensor,
        )


def _count(value: Optional[str]) -> Optional[int]:
    try:
        count = int(value or "")
    except ValueError:
        return None
    return count if count > 0 else None
