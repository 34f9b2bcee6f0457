"""A jaxpr as one row of operators: calls are opened, and loops over stacked parameters are laid out layer by layer."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

#: Calls, by the parameter that has what they call.
CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")

#: Moves or renames values only, or disappears in compilation.
VIEWS = frozenset(
    "broadcast_in_dim convert_element_type copy copy_p iota optimization_barrier pvary reshape rev slice squeeze stop_gradient"
    " transpose expand_dims sharding_constraint".split()
)

#: What XLA joins with its neighbours into one kernel.
ELEMENTWISE = frozenset(
    "abs add add_any and atan2 cbrt ceil clamp cos div eq erf erf_inv exp exp2 expm1 floor ge gt integer_pow is_finite le log log1p"
    " logistic lt max min mul ne neg nextafter not or pow real rem round rsqrt select_n shift_left shift_right_arithmetic"
    " shift_right_logical sign sin sqrt square sub tan tanh xor".split()
)

#: Products, which devices are built for.
PRODUCTS = frozenset(["dot_general", "conv_general_dilated"])

Group = Tuple[str, ...]


class Value:
    """What an operator takes or gives."""

    __slots__ = ("shape", "dtype", "group", "size", "is_sampled", "slices")

    def __init__(self, kind: Any, group: Optional[Group] = None, size: float = 0.0, is_sampled: bool = False):
        self.shape = tuple(getattr(kind, "shape", ()))
        self.dtype = getattr(kind, "dtype", None)
        #: The group of parameters that it is made of alone.
        self.group = group
        #: Parameters; 0 for what is made of them.
        self.size = size
        #: Whether it depends on the samples; what depends on nothing is a constant.
        self.is_sampled = is_sampled
        self.slices: Dict[int, "Value"] = {}

    def bytes(self) -> float:
        return float(math.prod(self.shape)) * float(getattr(self.dtype, "itemsize", 4))

    def slice(self, index: int, kind: Any, count: int) -> "Value":
        """One of the parts along axis 0: parameters of one layer out of a stack."""
        if index not in self.slices:
            group = None if self.group is None else self.group + (str(index),)
            self.slices[index] = Value(kind, group, self.size / count, self.is_sampled)
        return self.slices[index]


class Operator(NamedTuple):
    name: str
    equation: Any
    inputs: Sequence[Optional[Value]]
    outputs: Sequence[Value]
    times: int

    def flop(self) -> float:
        """Of one time."""
        if self.name == "dot_general":
            ((contracted, _), _) = self.equation.params["dimension_numbers"]
            shape = self.equation.invars[0].aval.shape
            return 2.0 * math.prod(self.outputs[0].shape) * math.prod(shape[axis] for axis in contracted)
        if self.name == "conv_general_dilated":
            numbers = self.equation.params["dimension_numbers"]
            kernel = self.equation.invars[1].aval.shape
            per_output = math.prod(kernel) / kernel[numbers.rhs_spec[0]]
            return 2.0 * math.prod(self.outputs[0].shape) * per_output
        if self.name in VIEWS:
            return 0.0
        kinds = [one.aval for one in [*self.equation.invars, *self.equation.outvars]]
        return float(max((math.prod(getattr(kind, "shape", ())) for kind in kinds), default=0))

    def bytes(self) -> float:
        """What it reads and writes, if nothing is joined."""
        kinds = [one.aval for one in [*self.equation.invars, *self.equation.outvars]]
        return sum(Value(kind).bytes() for kind in kinds)


def operators(closed: Any) -> List[Operator]:
    """All operators in order; those of loops so many times."""
    return walked(closed, [Value(one.aval) for one in closed.jaxpr.invars], is_laid_out=False)[0]


def walked(closed: Any, inputs: Sequence[Optional[Value]], is_laid_out: bool) -> Tuple[List[Operator], List[Optional[Value]]]:
    """All operators in order, and what they give in the end. `is_laid_out`: loops over stacked parameters count as so many layers, not as
    one many times."""
    row: List[Operator] = []
    given = _walk(closed.jaxpr, inputs, 1, is_laid_out, row)
    return row, given


def work(closed: Any) -> Dict[str, float]:
    """Operations, and what goes to and from memory if nothing is joined: another model has another amount of one of them."""
    row = operators(closed)
    return {"flop": sum(one.times * one.flop() for one in row), "bytes": sum(one.times * one.bytes() for one in row)}


def _walk(jaxpr: Any, inputs: Sequence[Optional[Value]], times: int, is_laid_out: bool, row: List[Operator]) -> List[Optional[Value]]:
    known: Dict[Any, Optional[Value]] = dict(zip(jaxpr.invars, inputs))

    def read(atom: Any) -> Optional[Value]:
        return None if hasattr(atom, "val") else known.get(atom)

    for equation in jaxpr.eqns:
        taken = [read(atom) for atom in equation.invars]
        given = _equation(equation, taken, times, is_laid_out, row)
        known.update(zip(equation.outvars, given))
    return [read(atom) for atom in jaxpr.outvars]


def _equation(equation: Any, taken: List[Optional[Value]], times: int, is_laid_out: bool, row: List[Operator]) -> Any:
    name, params = equation.primitive.name, equation.params
    if name == "scan":
        return _scan(equation, taken, times, is_laid_out, row)
    if name == "while":
        # How often is not known before it runs: once.
        body = params["body_jaxpr"].jaxpr
        return _walk(body, taken[params["cond_nconsts"] :], times, is_laid_out, row)
    if name == "cond":
        rows: List[Tuple[List[Operator], Any]] = []
        for branch in params["branches"]:
            own: List[Operator] = []
            rows.append((own, _walk(branch.jaxpr, taken[1:], times, is_laid_out, own)))
        longest, given = max(rows, key=lambda pair: sum(one.flop() * one.times for one in pair[0]))
        row.extend(longest)
        return given
    for inner in (params[word] for word in CALLS if word in params):
        return _walk(getattr(inner, "jaxpr", inner), taken, times, is_laid_out, row)
    given = [_made(one.aval, taken) for one in equation.outvars]
    row.append(Operator(name, equation, taken, given, times))
    return given


def _made(kind: Any, taken: Sequence[Optional[Value]]) -> Value:
    """What is made of something: of samples, else of parameters, else of constants alone."""
    if any(value is not None and value.is_sampled for value in taken):
        return Value(kind, is_sampled=True)
    groups = [value.group for value in taken if value is not None and value.group is not None]
    return Value(kind, groups[0] if groups else None)


def _scan(equation: Any, taken: List[Optional[Value]], times: int, is_laid_out: bool, row: List[Operator]) -> Any:
    params = equation.params
    fixed, carried, length = params["num_consts"], params["num_carry"], params["length"]
    body = params["jaxpr"].jaxpr
    stacked, kinds = taken[fixed + carried :], [one.aval for one in body.invars[fixed + carried :]]
    if not is_laid_out or not any(value is not None and value.group is not None for value in stacked):
        own = [_made(kind, [value]) for value, kind in zip(stacked, kinds)]
        given = _walk(body, taken[: fixed + carried] + own, times * length, is_laid_out, row)
        return given[:carried] + [_made(one.aval, taken) for one in equation.outvars[carried:]]
    held = taken[fixed : fixed + carried]
    order = range(length - 1, -1, -1) if params.get("reverse") else range(length)
    for index in order:
        own = [None if value is None else value.slice(index, kind, length) for value, kind in zip(stacked, kinds)]
        held = _walk(body, taken[:fixed] + held + own, times, is_laid_out, row)[:carried]
    return held + [_made(one.aval, taken) for one in equation.outvars[carried:]]


def counted(row: List[Operator]) -> Iterator[Tuple[Operator, bool]]:
    """Operators whose output goes through memory, each with whether it is a product: XLA joins the others with what uses them."""
    users: Dict[int, List[Operator]] = {}
    for one in row:
        for value in one.inputs:
            if value is not None:
                users.setdefault(id(value), []).append(one)
    for one in row:
        uses = [user for value in one.outputs for user in users.get(id(value), [])]
        is_joined = one.name in ELEMENTWISE and len(uses) == 1 and uses[0].name in ELEMENTWISE
        if one.name not in VIEWS and not is_joined:
            yield one, one.name in PRODUCTS
