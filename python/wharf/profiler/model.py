"""What a user's function returns, and how it is found."""

from __future__ import annotations

import functools
import importlib.util
import math
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

#: What a stack's parameters are called.
PARTS = ("first", "blocks", "last")


class Wrong(Exception):
    """An error that the user can correct; the text describes how."""


class Stack(NamedTuple):
    """Equal blocks between an input and an output: what can be split over stages, replicas and devices that share blocks.

    Parameters are trees of arrays, or of `jax.ShapeDtypeStruct` where no values are needed: speed does not depend on them.
    """

    #: (parameters of "first", batch) -> x
    first: Callable[[Any, Any], Any]
    #: (parameters of one block, x, total) -> x, of the same shape. `total` sums what devices that share a block have each computed a
    #: part of; it does nothing where a block is on one device.
    block: Callable[[Any, Any, Callable[[Any], Any]], Any]
    #: (parameters of "last", x, batch) -> mean loss of the samples
    last: Callable[[Any, Any, Any], Any]
    #: {"first": ..., "blocks": ..., "last": ...}; those of blocks one behind another along axis 0
    params: Mapping[str, Any]
    #: One batch: arrays whose axis 0 counts samples
    batch: Any
    #: Along which axis of a block's parameter, by its name, devices share it. Without it no plan shares blocks.
    split: Mapping[str, int] = {}


class Loss(NamedTuple):
    """Any model: one function."""

    #: (parameters, batch) -> mean loss of the samples
    loss: Callable[[Any, Any], Any]
    params: Any
    batch: Any


Model = Union[Stack, Loss]


def load(place: str) -> Tuple[str, Model]:
    """The name and the model of `FILE.py:function`."""
    file, colon, function = place.rpartition(":")
    if not colon or not file or not function:
        raise Wrong(f"`{place}` is not FILE.py:FUNCTION, such as model.py:transformer")
    path = Path(file)
    if not path.is_file():
        raise Wrong(f"there is no file `{file}`")
    found = _module(path)
    if not callable(getattr(found, function, None)):
        raise Wrong(f"`{file}` has no function `{function}`{_instead(found, function)}")
    try:
        model = getattr(found, function)()
    except TypeError as error:
        raise Wrong(f"`{place}` is called without arguments, and returns a wharf.profiler.Stack or Loss: {error}")
    if isinstance(model, tuple) and not isinstance(model, (Stack, Loss)) and len(model) == 3:
        model = Loss(*model)
    if not isinstance(model, (Stack, Loss)):
        kind = type(model).__name__
        raise Wrong(f"`{place}` returns a {kind}; a wharf.profiler.Stack, a Loss, or (loss, params, batch) can be measured")
    check(model)
    return f"{path.stem}.{function}", model


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Wrong(f"`{path}` is no Python file; its name ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(f"`{path}` cannot be loaded: {type(error).__name__}: {error}")
    return module


def _instead(module: Any, function: str) -> str:
    own = [name for name, value in vars(module).items() if _is_own(module, name, value)]
    near = get_close_matches(function, own, n=1)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; it has {', '.join(f'`{name}`' for name in own)}" if own else "; it has none"


def _is_own(module: Any, name: str, value: Any) -> bool:
    return callable(value) and not name.startswith("_") and getattr(value, "__module__", None) == module.__name__


def leaves(tree: Any, path: Tuple[str, ...] = ()) -> List[Tuple[Tuple[str, ...], Any]]:
    """All arrays of a tree of dicts, lists and tuples, each with the names on the way to it."""
    if isinstance(tree, Mapping):
        return [leaf for name in sorted(tree) for leaf in leaves(tree[name], path + (str(name),))]
    if isinstance(tree, (list, tuple)):
        return [leaf for index, part in enumerate(tree) for leaf in leaves(part, path + (str(index),))]
    return [] if tree is None else [(path, tree)]


def check(model: Model) -> None:
    """That shapes fit together."""
    samples(model)
    if isinstance(model, Loss):
        return
    missing = [part for part in PARTS if part not in model.params]
    if missing:
        raise Wrong(f"a Stack's params need `{missing[0]}`: {{'first': ..., 'blocks': ..., 'last': ...}}")
    blocks(model)
    splits(model)


def samples(model: Model) -> int:
    """Of the batch."""
    counts = {tuple(leaf.shape)[:1] for _, leaf in leaves(model.batch)}
    if not counts or () in counts:
        raise Wrong("the batch needs arrays whose axis 0 counts samples")
    if len(counts) > 1:
        told = ", ".join(str(count[0]) for count in sorted(counts))
        raise Wrong(f"axis 0 of the batch's arrays counts samples, and they differ: {told}")
    return int(counts.pop()[0])


def blocks(model: Stack) -> int:
    """How many blocks a stack has."""
    counts = {tuple(leaf.shape)[:1] for _, leaf in leaves(model.params["blocks"])}
    if not counts or () in counts:
        raise Wrong("params['blocks'] needs arrays whose axis 0 counts blocks")
    if len(counts) > 1:
        told = ", ".join(str(count[0]) for count in sorted(counts))
        raise Wrong(f"axis 0 of all arrays of params['blocks'] counts blocks, and they differ: {told}")
    return int(counts.pop()[0])


def splits(model: Model) -> int:
    """Over how many devices a block can be shared: any divisor of this."""
    if isinstance(model, Loss) or not model.split:
        return 1
    known = {path[-1]: leaf.shape for path, leaf in leaves(model.params["blocks"])}
    sizes = []
    for name, axis in model.split.items():
        if name not in known:
            raise Wrong(f"split names `{name}`; the blocks have {', '.join(f'`{other}`' for other in sorted(known))}")
        shape = known[name][1:]
        if not 0 <= axis < len(shape):
            raise Wrong(f"split of `{name}`: axis {axis}, and a block's parameter has axes 0 to {len(shape) - 1}: {tuple(shape)}")
        sizes.append(shape[axis])
    return functools.reduce(math.gcd, sizes)


class Plan(NamedTuple):
    """Over how many devices what is split, and into how many parts each replica's samples are."""

    pipeline: int = 1
    data: int = 1
    tensor: int = 1
    microbatches: int = 1

    @classmethod
    def parse(cls, text: str) -> "Plan":
        """`pp2.dp4.tp1.mb8`; what is left out is 1."""
        names = {"pp": 0, "dp": 1, "tp": 2, "mb": 3}
        numbers: Dict[int, int] = {}
        for word in text.split("."):
            at, number = names.get(word[:2]), word[2:]
            if at is None or at in numbers or not number.isdigit() or int(number) < 1:
                raise Wrong(f"`{text}` is no plan: `{word}` is not pp, dp, tp or mb and a number, such as pp2.dp4.tp1.mb8")
            numbers[at] = int(number)
        return cls(*(numbers.get(at, 1) for at in range(4)))

    def name(self) -> str:
        return f"pp{self.pipeline}.dp{self.data}.tp{self.tensor}.mb{self.microbatches}"

    def devices(self) -> int:
        return self.pipeline * self.data * self.tensor

    def refusal(self, model: Model, batch: int, devices: int) -> Optional[str]:
        """Why a model cannot be run so, and what would fit instead."""
        if self.devices() > devices:
            return f"{self.name()} needs {self.devices()} devices, and there are {devices}"
        if isinstance(model, Loss) and (self.pipeline, self.tensor) != (1, 1):
            return f"{self.name()}: only replicas of a wharf.profiler.Loss can be run; return a Stack to split it further"
        for number, what, total, whole in (
            (self.pipeline, "stages", blocks(model) if isinstance(model, Stack) else 1, "blocks"),
            (self.tensor, "devices that share a block", splits(model), "parts of a block"),
            (self.data * self.microbatches, "replicas x microbatches", batch, "samples"),
        ):
            if total % number:
                fitting = ", ".join(str(divisor) for divisor in divisors(total))
                return f"{self.name()}: {total} {whole} cannot be split over {number} {what}; {fitting} can be"
        return None


def divisors(number: int) -> List[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
