"""What a user's file may say, and what is refused: needs no JAX."""

import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from wharf.profiler.model import Loss, Plan, Stack, Wrong, blocks, divisors, load, samples, splits


class Array:
    """As much of an array as a model's description needs."""

    def __init__(self, *shape: int):
        self.shape = shape


def stack(**changes: Any) -> Stack:
    params = {"first": {"words": Array(100, 8)}, "blocks": {"up": Array(6, 8, 32), "down": Array(6, 32, 8)}, "last": {}}
    whole = Stack(lambda *_: None, lambda *_: None, lambda *_: None, params, Array(12, 5), {"up": 1, "down": 0})
    return whole._replace(**changes)


class Models(unittest.TestCase):
    def test_a_stack_tells_how_it_can_be_split(self) -> None:
        self.assertEqual((blocks(stack()), splits(stack()), samples(stack())), (6, 32, 12))
        self.assertEqual(splits(stack(split={})), 1)
        self.assertEqual(splits(Loss(lambda *_: None, {}, Array(3))), 1)

    def refused(self, model: Any, told: str) -> None:
        with self.assertRaisesRegex(Wrong, told):
            samples(model), blocks(model), splits(model)

    def test_shapes_that_do_not_fit_together_are_refused(self) -> None:
        params = dict(stack().params)
        self.refused(stack(batch={"x": Array(4, 2), "y": Array(5)}), "they differ: 4, 5")
        self.refused(stack(batch=Array()), "counts samples")
        self.refused(stack(params={**params, "blocks": {"a": Array(2, 3), "b": Array(3, 3)}}), "they differ: 2, 3")
        self.refused(stack(split={"ip": 0}), "split names `ip`; the blocks have `down`, `up`")
        self.refused(stack(split={"up": 2}), r"axis 2, and a block's parameter has axes 0 to 1: \(8, 32\)")


class Plans(unittest.TestCase):
    def test_plans_are_read_and_written(self) -> None:
        self.assertEqual(Plan.parse("pp2.dp4.mb8"), Plan(2, 4, 1, 8))
        self.assertEqual(Plan.parse(Plan(1, 2, 4, 3).name()), Plan(1, 2, 4, 3))
        for text in ("", "pp2,dp2", "pp0", "pp2.pp4", "xx2", "pp"):
            with self.assertRaisesRegex(Wrong, "such as pp2.dp4.tp1.mb8"):
                Plan.parse(text)

    def test_what_cannot_be_split_so_is_told_with_what_can(self) -> None:
        for text, told in (
            ("dp16", "needs 16 devices, and there are 8"),
            ("pp4", "6 blocks cannot be split over 4 stages; 1, 2, 3, 6 can be"),
            ("tp5", "32 parts of a block cannot be split over 5 devices that share a block; 1, 2, 4, 8, 16, 32 can be"),
            ("dp8", "12 samples cannot be split over 8 replicas x microbatches; 1, 2, 3, 4, 6, 12 can be"),
            ("dp2.mb4", "12 samples cannot be split over 8"),
        ):
            self.assertIn(told, Plan.parse(text).refusal(stack(), 12, 8) or "nothing")
        self.assertIsNone(Plan.parse("pp2.dp2.tp2.mb3").refusal(stack(), 12, 8))
        loss = Loss(lambda *_: None, {}, Array(12))
        self.assertIn("return a Stack", Plan.parse("tp2").refusal(loss, 12, 8) or "nothing")
        self.assertIsNone(Plan.parse("dp4.mb3").refusal(loss, 12, 8))

    def test_divisors(self) -> None:
        self.assertEqual(divisors(12), [1, 2, 3, 4, 6, 12])


class Files(unittest.TestCase):
    def test_functions_are_found_or_others_are_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "own.py"
            path.write_text("def model():\n    return 3\n\ndef needy(x):\n    return x\n")
            broken = Path(folder) / "broken.py"
            broken.write_text("import nothing_of_that_name\n")
            for place, told in (
                (str(path), "is not FILE.py:FUNCTION"),
                (f"{folder}/none.py:model", "there is no file"),
                (f"{path}:modle", "has no function `modle`; did you mean `model`?"),
                (f"{path}:xyz", "it has `model`, `needy`"),
                (f"{path}:needy", "is called without arguments"),
                (f"{path}:model", r"returns a int; a wharf.profiler.Stack"),
                (f"{broken}:model", "cannot be loaded: ModuleNotFoundError"),
            ):
                with self.assertRaisesRegex(Wrong, told.replace("?", r"\?")):
                    load(place)


if __name__ == "__main__":
    unittest.main()
