"""The profiler with JAX: with `WHARF_TEST_PYTHON`, a Python that has it; states this where there is none."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = os.environ.get("WHARF_TEST_PYTHON", sys.executable)
EXAMPLE = f"{ROOT}/examples/profiling/transformer.py:transformer"


def python(*arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run([PYTHON, *arguments], input=text, capture_output=True, text=True, env=environment)


HAS_JAX = python("-c", "import jax; jax.shard_map").returncode == 0
if not HAS_JAX:
    print(f"NOT RUN: `{PYTHON}` has no JAX; WHARF_TEST_PYTHON names one that has", file=sys.stderr)

#: Runs plans of a small stack for three steps, and prints their losses.
LOSSES = """
import json, sys
sys.path[:0] = [{examples!r}]
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import transformer
from wharf.profiler.model import Plan
from wharf.profiler.plans import Runner
model = transformer.stack(layers=2, width=16, heads=2, length=8, words=32, samples=8)
for text in sys.argv[1:]:
    runner = Runner(model, Plan.parse(text), 8, True, jax.devices())
    state, batch = runner.make()
    losses = []
    for _ in range(3):
        state, loss = runner.step(state, batch)
        losses.append(float(loss))
    print(json.dumps(losses))
"""


def ask(*requests: Dict[str, Any]) -> List[Dict[str, Any]]:
    ran = python("-m", "wharf.profiler", text="".join(json.dumps(request) + "\n" for request in requests))
    return [json.loads(line) for line in ran.stdout.splitlines()]


@unittest.skipUnless(HAS_JAX, "there is no JAX")
class WithJax(unittest.TestCase):
    def test_every_plan_trains_alike(self) -> None:
        script = LOSSES.format(examples=str(ROOT / "examples/profiling"))
        ran = python("-c", script, "dp1", "dp4", "pp2.dp2.mb2", "dp2.tp2.mb2", "pp2.tp2.mb4")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        losses = [json.loads(line) for line in ran.stdout.splitlines()]
        self.assertEqual(len(losses), 5)
        self.assertLess(losses[0][2], losses[0][0], "it learns")
        for other in losses[1:]:
            for one, two in zip(losses[0], other):
                self.assertAlmostEqual(one, two, places=4)

    def test_a_model_is_described_layer_by_layer(self) -> None:
        [answer] = ask({"do": "capture", "model": EXAMPLE})
        described = answer["description"]
        self.assertEqual((described["precision"], described["kind"], described["splits"]), ("single", "matrix", 8))
        first, blocks, last = described["layers"]
        width, length, words = 128, 32, 512
        self.assertEqual((blocks["repeat"], blocks["parameters"]), (8, 12 * width * width + 2 * width))
        self.assertEqual((first["parameters"], last["parameters"]), ((words + length) * width, (words + 1) * width))
        # Products of the parameters, and of the scores; the rest is a few per cent.
        products = length * (2 * 12 * width * width + 4 * length * width)
        self.assertTrue(products < blocks["flop"] < 1.05 * products, blocks)
        handed_on = 4 * length * width
        self.assertTrue(handed_on <= blocks["output_bytes"] < 1.02 * handed_on, blocks)
        self.assertEqual(blocks["summed_bytes"], 2 * handed_on)

    def test_parts_of_a_stack_are_layers_whatever_they_are_made_of(self) -> None:
        script = """
import json, jax, jax.numpy as jnp
from wharf.profiler import Stack
from wharf.profiler.capture import describe
one = lambda *sizes: jax.ShapeDtypeStruct(sizes, jnp.float32)
block = lambda params, x, total: x + total(jnp.tanh(x @ params["Dense_0"]["w"]) @ params["Dense_1"]["w"])
blocks = {"Dense_0": {"w": one(3, 8, 64)}, "Dense_1": {"w": one(3, 64, 8)}}
last = lambda params, x, batch: jnp.mean(x * x * batch)
params = {"first": {"layer1": {"w": one(8, 8)}, "layer2": {"w": one(8, 8)}}, "blocks": blocks, "last": {}}
first = lambda params, batch: batch @ params["layer1"]["w"] @ params["layer2"]["w"]
print(json.dumps(describe("deep", Stack(first, block, last, params, one(4, 8)))["layers"]))
"""
        layers = json.loads(python("-c", script).stdout)
        told = [(layer["part"], layer["repeat"], layer["parameters"]) for layer in layers]
        self.assertEqual(told, [("first", 1, 128.0), ("blocks", 3, 1024.0), ("last", 1, 0.0)])
        first, block, last = layers
        self.assertEqual(first["flop"], 2 * 2 * 8 * 8)
        self.assertTrue(last["flop"] > 0 and block["output_bytes"] == first["output_bytes"] == 4 * 8, layers)

    def test_a_wider_model_has_other_tasks(self) -> None:
        script = """
import json, sys
sys.path[:0] = [{examples!r}]
import transformer
from wharf.profiler import layers, operators
from wharf.profiler.walk import work
found = []
for width in (16, 32):
    model = transformer.stack(layers=2, width=width, heads=2, length=8, words=32, samples=8)
    tasks = layers.tasks(model, 8, 2, True)
    found.append([{{task["key"]: task.get("flop") for task in tasks}}, work(operators.gradient(model, 8))["flop"]])
    assert [task["kind"] for task in operators.tasks(model, 8, 1)].count("step") == 1
print(json.dumps(found))
"""
        ran = python("-c", script.format(examples=str(ROOT / "examples/profiling")))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        (narrow, less), (wide, more) = json.loads(ran.stdout)
        parts = [key for key in narrow if not key.startswith("update")]
        self.assertEqual(parts, [key for key in wide if not key.startswith("update")], "names tell samples only")
        self.assertTrue(all(0 < narrow[key] < wide[key] for key in parts), (narrow, wide))
        self.assertTrue(0 < less < more)

    def test_collectives_work_in_groups_that_are_no_power_of_two(self) -> None:
        request = {"do": "measure", "what": ["collectives"], "host_devices": 6}
        [offer] = ask(request)
        small = [index for index, task in enumerate(offer["tasks"]) if task["elements"] <= 66]
        self.assertEqual({offer["tasks"][index]["elements"] for index in small}, {64, 66})
        [_, *answers] = ask(request, {"rounds": [1] * len(small), "tasks": small})
        self.assertEqual([answer for answer in answers if "failed" in answer], [])
        self.assertEqual(len(answers), 1 + 4 * 5)

    def test_what_was_visited_before_is_visited_less(self) -> None:
        request = {"do": "measure", "what": ["collectives"], "host_devices": 2}
        [_, *answers] = ask(request, {"rounds": [1, 3, 2], "tasks": [0, 1, 5]})
        self.assertEqual([answer["task"] for answer in answers], [0, 1, 5, 1, 5, 1])

    def test_any_loss_can_be_described(self) -> None:
        script = """
import json, jax, jax.numpy as jnp
from wharf.profiler import Loss
from wharf.profiler.capture import describe
def loss(params, x):
    for layer in params["layers"]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return jnp.mean((x @ params["head"]) ** 2)
layers = [{"w": jnp.ones((64, 64)), "b": jnp.ones(64)} for _ in range(3)]
print(json.dumps(describe("mlp", Loss(loss, {"layers": layers, "head": jnp.ones((64, 8))}, jnp.ones((16, 64))))))
"""
        described = json.loads(python("-c", script).stdout)
        [layers, head] = described["layers"]
        self.assertEqual((layers["repeat"], layers["parameters"], layers["output_bytes"]), (3, 64 * 65, 256))
        self.assertEqual((head["name"], head["parameters"]), ("head", 64 * 8))

    def test_collectives_and_operators_are_measured_on_host_devices(self) -> None:
        [offer] = ask({"do": "measure", "what": ["collectives"], "host_devices": 2})
        self.assertEqual({task["operation"] for task in offer["tasks"]}, {"send", "all-reduce", "all-gather", "reduce-scatter", "all-to-all"})
        one_each = [index for index, task in enumerate(offer["tasks"]) if task["elements"] == 1024]
        request = {"do": "measure", "what": ["collectives"], "host_devices": 2}
        [_, *answers] = ask(request, {"rounds": [1] * len(one_each), "tasks": one_each})
        self.assertEqual([answer["task"] for answer in answers], one_each)
        self.assertTrue(all(0 < answer["seconds"] < 60 for answer in answers), answers)
        [offer] = ask({"do": "measure", "what": ["operators"], "model": EXAMPLE, "host_devices": 2})
        kinds = [task["kind"] for task in offer["tasks"]]
        # The step on one device, too: devices may share a processor.
        self.assertEqual((kinds[-2:], set(kinds[:-2])), (["step", "step"], {"operator"}))
        self.assertEqual([task.get("devices") for task in offer["tasks"][-2:]], [1, None])
        products = sum(task["times"] * task["flop"] for task in offer["tasks"] if task["is_product"])
        self.assertTrue(0.9 < products / offer["tasks"][-1]["flop"] < 1.1, "a step is three forward passes")

    def test_what_cannot_be_is_told_with_what_can(self) -> None:
        for request, told in (
            ({"do": "measure", "what": ["collectives"], "host_devices": 2, "devices": 4}, "4 devices are wanted, and there are 2"),
            ({"do": "measure", "what": ["plans"], "plans": ["dp2"]}, "name it as FILE.py:FUNCTION"),
            ({"do": "measure", "what": ["plans"], "model": EXAMPLE, "host_devices": 8, "plans": ["pp3"]}, "1, 2, 4, 8 can be"),
            ({"do": "capture", "model": EXAMPLE + "s"}, "did you mean `transformer`"),
        ):
            [answer] = ask(request)
            self.assertIn(told, answer["wrong"])


if __name__ == "__main__":
    unittest.main()
