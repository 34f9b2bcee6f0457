"""The example trainers: they learn, and a run that was interrupted ends as one that was not."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from keeper import TRAINERS

NAMES = ("linear", "logistic", "mlp", "embedding", "plain")
ITERATIONS = 300


def start(name, folder, *options):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("WHARF_", "PYTHONPATH"))}
    environment["WHARF_CHECKPOINT_DIR"] = str(folder)
    command = [sys.executable, str(TRAINERS / f"{name}.py"), "--iterations", str(ITERATIONS), *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=folder)


class Trainers(unittest.TestCase):
    def each(self):
        for name in NAMES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                yield name, Path(folder)

    def test_loss_falls(self):
        for name, folder in self.each():
            process = start(name, folder)
            out, _ = process.communicate(timeout=120)
            losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", out)]
            self.assertEqual(process.returncode, 0)
            self.assertGreaterEqual(len(losses), 10, out)
            self.assertLess(sum(losses[-3:]), sum(losses[:3]), out)
            self.assertIn("done:", out)

    def test_interrupted_run_ends_as_an_uninterrupted_one(self):
        for name, folder in self.each():
            whole, parts = folder / "whole", folder / "parts"
            whole.mkdir(), parts.mkdir()
            start(name, whole).communicate(timeout=120)
            process = start(name, parts, "--iteration-ms", "5", "--checkpoint-every", "7")
            self.assertIn("iteration 15/", process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, out)
            self.assertRegex(out, r"checkpoint at iteration \d+, stopping")
            self.assertNotIn("done:", out)
            saved = json.loads((parts / f"{name}.json").read_text())
            self.assertTrue(15 <= saved["step"] < ITERATIONS, saved["step"])
            # A kill without warning costs what came after the last checkpoint, and nothing else.
            process = start(name, parts, "--iteration-ms", "5", "--checkpoint-every", "7")
            self.assertIn(f"resumed at iteration {saved['step']}", process.stdout.readline())
            process.stdout.readline()
            process.kill()
            process.communicate()
            out, _ = start(name, parts).communicate(timeout=120)
            self.assertIn("resumed at iteration", out)
            self.assertEqual((whole / f"{name}.json").read_text(), (parts / f"{name}.json").read_text())


class Book(unittest.TestCase):
    def test_documented_loops_are_those_of_the_examples(self):
        book = (TRAINERS.parents[1] / "docs" / "trainers.md").read_text()
        book = book[book.index("### PyTorch") : book.index("### Shell")]
        names = re.findall(r"\[(\w+\.py)\]\(\.\./examples/trainers/", book)
        self.assertEqual(names, ["pytorch.py", "pytorch_ddp.py", "jax_mlp.py"])
        blocks = re.findall(r"```python\n(.*?)```", book, re.DOTALL)
        self.assertEqual(len(blocks), len(names))
        for name, block in zip(names, blocks):
            program = [line.strip() for line in (TRAINERS / name).read_text().splitlines() if line.strip()]
            wanted = [line.strip() for line in block.splitlines() if line.strip()]
            text = "\n".join(program)
            # A block may have several parts of a program, each whole.
            parts = [part for part in re.split(r"\n\n\n", block) if part.strip()]
            for part in parts:
                lines = "\n".join(line.strip() for line in part.splitlines() if line.strip())
                self.assertIn(lines, text, name)
            self.assertGreater(len(wanted), 10)


if __name__ == "__main__":
    unittest.main()
