"""A model description out of a user's function: what each layer has and costs, as `wharf plan --model FILE` reads it."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

import jax
import jax.numpy as jnp
from jax import lax

from .model import PARTS, Loss, Model, Stack, Wrong, blocks, samples, splits
from .walk import PRODUCTS, Group, Operator, Value, counted, walked


#: How often parameters go through memory for each microbatch: read in the forward pass, when that is computed again and in the backward
#: pass; their gradient written, and added to the sum.
PARAMETER_PASSES = 6


def describe(name: str, model: Model) -> Dict[str, Any]:
    """The description, with amounts of the forward pass of one sample."""
    rows = Layers(model)
    layers = rows.layers()
    flop = sum(layer["flop"] for layer in layers)
    convolutions = sum(one.flop() for one in rows.row if one.name == "conv_general_dilated") / rows.samples
    return {
        "name": name,
        "family": name,
        "precision": rows.precision(),
        "kind": "convolution" if convolutions > flop / 2 else "matrix",
        "splits": splits(model) if isinstance(model, Stack) else rows.splits(),
        "layers": _joined(layers),
    }


def forward(model: Model) -> Any:
    """The loss as a function of parameters and batch on one device; sums within blocks are marked."""
    if isinstance(model, Loss):
        return model.loss

    def loss(params: Any, batch: Any) -> Any:
        x = model.first(params["first"], batch)
        x, _ = lax.scan(lambda x, block: (model.block(block, x, lax.optimization_barrier), None), x, params["blocks"])
        return model.last(params["last"], x, batch)

    return loss


class Layers:
    """The operators of a forward pass, by the parameters that they work with: an operator belongs to the layer that comes last among
    what it uses, and layers come in the order in which samples meet their parameters."""

    def __init__(self, model: Model):
        self.samples, self.is_stack = samples(model), isinstance(model, Stack)
        self.params: List[Value] = []
        self.row: List[Operator] = []
        self.groups: List[Group] = []
        self.of: Dict[int, int] = {}
        self.members: List[List[Operator]] = []
        batch = [Value(leaf, is_sampled=True) for leaf in jax.tree.leaves(model.batch)]
        try:
            if isinstance(model, Stack):
                self._stack(model, batch)
            else:
                self._walk(forward(model), [(model.params, self._values(model.params)), (model.batch, batch)])
        except (TypeError, ValueError) as error:
            raise Wrong(f"the model cannot be traced: {str(error).splitlines()[0]}")
        if not self.groups:
            raise Wrong("no parameter of the model meets a sample: the loss does not depend on both")

    def _stack(self, model: Stack, batch: List[Value]) -> None:
        """A part is a layer, or as many as there are blocks, whatever its parameters are called and whether it has any: it is
        measured as one."""
        count = blocks(model)
        self.groups = [("first",), *(("blocks", str(index)) for index in range(count)), ("last",)]
        self.members = [[] for _ in self.groups]
        own = {part: (model.params[part], self._values({part: model.params[part]})) for part in PARTS}
        shape, x = self._walk(model.first, [own["first"], (model.batch, batch)])
        stacked, values = own["blocks"]
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), stacked)
        block = lambda params, x: model.block(params, x, lax.optimization_barrier)
        for index in range(count):
            slices = [value.slice(index, kind, count) for value, kind in zip(values, jax.tree.leaves(one))]
            shape, x = self._walk(block, [(one, slices), (shape, x)], least=index + 1)
        self._walk(model.last, [own["last"], (shape, x), (model.batch, batch)], least=count + 1)

    def _values(self, params: Any) -> List[Value]:
        found = []
        for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
            words = [_word(key) for key in path]
            group = tuple(words[:1]) if self.is_stack else _group(words)
            found.append(Value(leaf, group, float(math.prod(leaf.shape))))
        self.params += found
        return found

    def _walk(self, function: Any, arguments: List[Tuple[Any, List[Value]]], least: int = 0) -> Tuple[Any, List[Value]]:
        """Adds the operators of a function, to no layer before the least; returns what it gives: its shape, and the values."""
        traced, shape = jax.make_jaxpr(function, return_shape=True)(*(shapes for shapes, _ in arguments))
        row, given = walked(traced, [value for _, values in arguments for value in values], is_laid_out=True)
        for one in row:
            self._add(one, least)
        self.row += row
        return shape, given

    def _add(self, one: Operator, least: int) -> None:
        taken = [value for value in one.inputs if value is not None]
        is_sampled = any(value.is_sampled for value in taken)
        for value in taken:
            if value.group is not None and is_sampled and value.group not in self.groups:
                self.groups.append(value.group)
        layers = [self.groups.index(value.group) for value in taken if value.group in self.groups]
        layer = max([self.of.get(id(value), 0) for value in taken] + layers + [least])
        self.of.update((id(value), layer) for value in one.outputs)
        while len(self.members) < max(len(self.groups), 1):
            self.members.append([])
        if not is_sampled:
            # Constants are made where they are needed.
            layer = max([least] + [index for index, members in enumerate(self.members) if members])
        self.members[layer].append(one)

    def layers(self) -> List[Dict[str, Any]]:
        parameters = self._parameters()
        widths = self._widths()
        counts = {id(one): is_product for one, is_product in counted(self.row)}
        return [
            self._layer(index, members, parameters[index], widths[index], counts)
            for index, members in enumerate(self.members)
        ]

    def _layer(self, index: int, members: List[Operator], parameters: float, width: float, counts: Dict[int, bool]) -> Dict[str, Any]:
        each = 1.0 / self.samples
        through = [one for one in members if id(one) in counts]
        size = lambda one: one.times * sum(value.bytes() for value in one.outputs)
        return {
            "name": ".".join(self.groups[index]),
            **self._part(index),
            "flop": each * sum(one.times * one.flop() for one in members),
            "parameters": parameters,
            "output_bytes": each * width,
            "activation_bytes": each * sum(size(one) for one in through),
            "traffic_bytes": each * 2 * sum(size(one) for one in through if not counts[id(one)]),
            "summed_bytes": each * self._summed(members, width),
            "parameter_passes": PARAMETER_PASSES,
            "kernels": max(len(through), 1),
        }

    def _part(self, index: int) -> Dict[str, str]:
        """What a layer of a stack is measured as."""
        return {"part": self.groups[index][0]} if self.is_stack else {}

    @staticmethod
    def _summed(members: List[Operator], width: float) -> float:
        """What devices that share the layer sum: as marked, or what is added to what continues from layer to layer, or after every
        other product with parameters."""
        marked = [one for one in members if one.name == "optimization_barrier"]
        if marked:
            return sum(value.bytes() for one in marked for value in one.outputs)
        on = lambda one: all(value is not None and value.is_sampled for value in one.inputs)
        added = [one for one in members if one.name == "add" and on(one) and one.outputs[0].bytes() == width]
        products = [one for one in members if one.name in PRODUCTS and not on(one)]
        return (len(added) or math.ceil(len(products) / 2)) * width

    def _parameters(self) -> List[float]:
        """Of each layer. Stacks that were cast or moved before they were cut are shared out."""
        found = [0.0] * len(self.members)
        for value in self._leaves():
            own = [index for index, group in enumerate(self.groups) if group[: len(value.group or ())] == value.group]
            own = own or [0]
            for index in own:
                found[index] += value.size / len(own)
        return found

    def _leaves(self) -> List[Value]:
        rows = [list(value.slices.values()) or [value] for value in self.params]
        return [value for row in rows for value in row]

    def _widths(self) -> List[float]:
        """What each layer hands on: what is made up to it and used behind it."""
        last: Dict[int, int] = {}
        for layer, members in enumerate(self.members):
            for one in members:
                for value in one.inputs:
                    if value is not None:
                        last[id(value)] = max(last.get(id(value), -1), layer)
        widths = [0.0] * len(self.members)
        for layer, members in enumerate(self.members):
            for value in (value for one in members for value in one.outputs):
                if value.is_sampled and jnp.issubdtype(value.dtype, jnp.floating):
                    for between in range(layer, last.get(id(value), layer)):
                        widths[between] += value.bytes()
        widths[-1] = widths[-1] or 4.0 * self.samples
        return widths

    def precision(self) -> str:
        """What most of the work of products is done in."""
        work = {"half": 0.0, "single": 0.0}
        for one in self.row:
            if one.name in PRODUCTS:
                is_half = one.equation.invars[0].aval.dtype.itemsize <= 2
                work["half" if is_half else "single"] += one.times * one.flop()
        return max(work, key=lambda name: (work[name], name))

    def splits(self) -> int:
        """Into how many equal parts the largest layer can be shared out, as far as its products tell."""
        work = lambda members: sum(one.flop() * one.times for one in members)
        sizes: List[int] = []
        for one in max(self.members, key=work):
            if one.name == "conv_general_dilated":
                sizes.append(one.equation.invars[1].aval.shape[one.equation.params["dimension_numbers"].rhs_spec[0]])
            if one.name != "dot_general":
                continue
            ((contracted, _), (batched, _)) = one.equation.params["dimension_numbers"]
            shape = one.equation.invars[0].aval.shape
            if all(value is not None and value.is_sampled for value in one.inputs):
                sizes += [shape[axis] for axis in batched if shape[axis] != self.samples]
            else:
                sizes += [shape[axis] for axis in contracted] + [one.outputs[0].shape[-1]]
        return math.gcd(*sizes) if sizes else 1


def _word(key: Any) -> str:
    return str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))


def _group(path: List[str]) -> Group:
    """Parameters of a layer: up to the first word with a number in it, or of the same first word. A parameter's own name, such as
    `norm1`, makes no layer."""
    numbered: Optional[int] = next((at for at, word in enumerate(path[:-1]) if any(map(str.isdigit, word))), None)
    return tuple(path[:1] if numbered is None else path[: numbered + 1])


def _joined(layers: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Equal layers in a row as one, so many times."""
    found: List[Tuple[Dict[str, Any], List[str]]] = []
    for layer in layers:
        amounts = {name: value for name, value in layer.items() if name != "name"}
        if found and found[-1][0] == amounts:
            found[-1][1].append(layer["name"])
        else:
            found.append((amounts, [layer["name"]]))
    return [
        {"name": names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", "repeat": len(names), **amounts}
        for amounts, names in found
    ]
