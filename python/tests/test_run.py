"""The loop as a trainer sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock as mock
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from keeper import PACKAGE, Keeper

sys.path.insert(0, str(PACKAGE))
import wharf
from wharf import Lease, Plan, Run
from wharf._checkpoints import check_shared


class Alone(unittest.TestCase):
    """Without Wharf."""

    def test_loop_runs_to_its_end(self):
        run = Run({})
        saved = []
        for step in run.steps(10, checkpoint_every=4):
            run.report(loss=1.0)
            if run.should_checkpoint():
                saved.append(step + 1)
                run.checkpointed()
        self.assertEqual(saved, [4, 8, 10])
        self.assertFalse(run.active)
        self.assertFalse(run.should_stop())
        self.assertEqual(run.lease, Lease(None, None))

    def test_broken_environment_is_no_wharf(self):
        for broken in (
            {"WHARF_PROGRESS_SOCKET": "/nowhere", "WHARF_JOB_ID": "x", "WHARF_GENERATION": "1"},
            {"WHARF_PROGRESS_SOCKET": "/nowhere"},
        ):
            self.assertEqual(list(Run(broken).steps(3)), [0, 1, 2])

    def test_plan_is_what_the_environment_says(self):
        planned = {"WHARF_PIPELINE_STAGES": "2", "WHARF_DATA_PARALLEL": "1", "WHARF_TENSOR_PARALLEL": "4"}
        given = {"WHARF_DEVICE_COUNT": "8", "WHARF_DEVICE_TYPE": "a40", "WHARF_NODES": "2"}
        for environment, expected in (
            ({}, Plan(1, "", 1, None, None, None)),
            (given, Plan(8, "a40", 2, None, None, None)),
            ({**given, **planned}, Plan(8, "a40", 2, 2, 1, 4)),
            ({**given, **planned, "WHARF_DATA_PARALLEL": "x"}, Plan(8, "a40", 2, None, None, None)),
            ({**planned, "WHARF_DATA_PARALLEL": "0", "WHARF_NODES": "-1"}, Plan()),
        ):
            self.assertEqual(Run(environment).plan, expected)

    def test_checkpoint_directory_has_to_be_shared_by_those_who_need_it(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "7-1"
            task = {"WHARF_CHECKPOINT_DIR": str(folder), "WHARF_CHECKPOINT_DEFAULT": "1", "WHARF_NODE": "n1"}
            gang = {**task, "WHARF_NODES": "2", "WHARF_JOB_ID": "7", "WHARF_GENERATION": "2"}
            moved = {**task, "WHARF_NODES": "1", "WHARF_ITERATIONS_DONE": "40"}
            self.assertEqual(Run({**task, "WHARF_NODES": "1"}).checkpoint_dir(), folder)
            with self.assertRaisesRegex(RuntimeError, "not the one of the job's first node: it is not shared; set"):
                check_shared(folder, gang, 0.0)
            (folder / ".wharf-gang").write_text("7-1")
            with self.assertRaisesRegex(RuntimeError, "on n1 is not the one"):
                check_shared(folder, gang, 0.0)
            with self.assertRaisesRegex(RuntimeError, "holds 40 iterations, but .* is empty on n1"):
                check_shared(folder, moved, 0.0)
            (folder / ".wharf-gang").write_text("7-2")
            (folder / "model").write_text("")
            check_shared(folder, gang, 0.0)
            self.assertEqual(Run(moved).checkpoint_dir(), folder)
            # One that the job names itself is its own business.
            named = {**gang, "WHARF_CHECKPOINT_DIR": str(folder / "own"), "WHARF_CHECKPOINT_DEFAULT": ""}
            self.assertEqual(Run(named).checkpoint_dir(), folder / "own")

    def test_resumed_loop_does_the_rest(self):
        self.assertEqual(list(Run({}).steps(5, start=3)), [3, 4])
        self.assertEqual(list(Run({}).steps(5, start=5)), [])

    def test_metric_that_is_no_number_is_refused_where_it_is_given(self):
        with self.assertRaises(TypeError):
            Run({}).report(loss="low")

    def test_count_that_is_not_finite_is_refused_and_a_total_may_be_infinite(self):
        run = Run({})
        for bad in (float("nan"), float("inf"), 10**400):
            with self.assertRaisesRegex(ValueError, "must be a finite number of iterations"):
                run.step(bad)
            with self.assertRaisesRegex(ValueError, "must be a finite number of iterations"):
                run.checkpointed(bad)
        with self.assertRaisesRegex(ValueError, "total must be a number"):
            next(run.steps(float("nan")))
        loop = run.steps(float("inf"))
        self.assertEqual([next(loop), next(loop)], [0, 1])
        loop.close()

    def test_stop_signal_saves_and_exits_with_0(self):
        run = Run({})
        saved = []
        with self.assertRaises(SystemExit) as left:
            for step in run.steps(10):
                if step == 4:
                    os.kill(os.getpid(), signal.SIGTERM)
                if run.should_checkpoint():
                    saved.append(step + 1)
        self.assertEqual((saved, left.exception.code), ([5], 0))
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)

    def test_stop_signal_in_the_last_iteration_is_no_interruption(self):
        run = Run({})
        for step in run.steps(3):
            if step == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            run.should_checkpoint()

    def test_own_handler_is_called_as_well(self):
        heard = []
        before = signal.signal(signal.SIGTERM, lambda *_: heard.append(True))
        try:
            run = Run({})
            for step in run.steps(10, exit_on_stop=False):
                if step == 2:
                    os.kill(os.getpid(), signal.SIGTERM)
            self.assertEqual((step, heard), (2, [True]))
        finally:
            signal.signal(signal.SIGTERM, before)

    def test_forked_child_dies_of_the_signal(self):
        run = Run({})
        for _ in run.steps(1):
            ready, tell = os.pipe()
            child = os.fork()
            if child == 0:
                # Python forgets signals that come while it forks.
                os.write(tell, b"x")
                time.sleep(30)
                os._exit(1)
            os.read(ready, 1), os.close(ready), os.close(tell)
            os.kill(child, signal.SIGTERM)
            _, status = os.waitpid(child, 0)
        self.assertTrue(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM)
        self.assertFalse(run.should_stop())

    def test_other_threads_may_loop(self):
        done = []
        thread = threading.Thread(target=lambda: done.extend(Run({}).steps(3)))
        thread.start()
        thread.join()
        self.assertEqual(done, [0, 1, 2])

    def test_gang_stops_together(self):
        """Each process asks the others, also when it would continue itself."""
        asked = []

        def agree(mine):
            asked.append(mine)
            return len(asked) == 4

        run = Run({})
        done = []
        for step in run.steps(100, agree=agree, exit_on_stop=False):
            run.should_checkpoint()
            done.append(step)
        self.assertEqual((done, asked), ([0, 1, 2], [False] * 4))


class WithKeeper(unittest.TestCase):
    def setUp(self):
        self.keeper = Keeper()
        self.addCleanup(self.keeper.close)
        # This keeper answers only where a test states this.
        self.patience(0.1)

    def patience(self, seconds):
        patch = mock.patch("wharf._run.ASK_PATIENCE_S", seconds)
        patch.start()
        self.addCleanup(patch.stop)

    def run_of(self, **more):
        return Run(self.keeper.environment(**more))

    def test_progress_is_told_seldom_and_the_last_word_always(self):
        run = self.run_of()
        begin = time.monotonic()
        messages = []
        for step in run.steps(None):
            run.report(loss=0.5)
            elapsed = time.monotonic() - begin
            messages += self.keeper.waiting()
            if elapsed > 0.35:
                break
        messages += self.keeper.waiting()
        self.assertGreater(step, 100)
        told = [message for message in messages if "iterations" in message]
        self.assertLessEqual(len(told), elapsed / 0.1 + 3)
        first, last = told[0], told[-1]
        self.assertEqual((first["job"], first["generation"], first["token"]), (7, 2, "word"))
        self.assertEqual((first["iterations"], last["iterations"], last["metrics"]), (0, step, {"loss": 0.5}))

    def test_checkpoint_is_told_at_once(self):
        run = self.run_of()
        loop = run.steps(10)
        next(loop)
        run.checkpointed()
        last = self.keeper.waiting()[-1]
        self.assertEqual((last["iterations"], last["checkpointed"]), (1, 1))
        loop.close()

    def test_iteration_that_failed_is_not_told(self):
        run = self.run_of()
        loop = run.steps(10)
        next(loop), next(loop)
        loop.close()
        self.assertEqual(self.keeper.waiting()[-1]["iterations"], 1)

    def test_resumed_loop_has_a_checkpoint(self):
        list(self.run_of().steps(6, start=5))
        self.assertEqual(self.keeper.waiting()[0]["checkpointed"], 5)

    def test_iteration_lease_ends_the_loop(self):
        run = self.run_of(WHARF_LEASE_UNTIL_ITERATION="3")
        saved = []
        with self.assertRaises(SystemExit) as left:
            for step in run.steps(10):
                if run.should_checkpoint():
                    saved.append(step + 1)
                    run.checkpointed()
        self.assertEqual((saved, left.exception.code), ([3], 0))
        last = [message for message in self.keeper.waiting() if message.get("stopped")]
        self.assertEqual((last[0]["iterations"], last[0]["checkpointed"]), (3, 3))

    def test_lease_over_at_the_start_does_nothing(self):
        run = self.run_of(WHARF_LEASE_UNTIL_S="1")
        with self.assertRaises(SystemExit):
            for _ in run.steps(10, start=4):
                self.fail("an iteration after the lease")

    def test_renewal_is_asked_for_before_the_end(self):
        run = self.run_of(WHARF_LEASE_UNTIL_ITERATION="3")
        self.patience(30)

        def answer():
            while not self.keeper.receive().get("query"):
                pass
            self.keeper.say({"lease": {"until_iteration": 6, "until_s": None}, "stop": False})
            while not self.keeper.receive().get("query"):
                pass
            self.keeper.say({"lease": {"until_iteration": 6, "until_s": None}, "stop": False})

        thread = threading.Thread(target=answer)
        thread.start()
        done = list(run.steps(100, exit_on_stop=False))
        thread.join()
        self.assertEqual(done, [0, 1, 2, 3, 4, 5])
        self.assertEqual(run.lease, Lease(6.0, None))

    def test_told_to_stop_stops(self):
        run = self.run_of()
        for step in run.steps(1000, exit_on_stop=False):
            if step == 0:
                self.keeper.receive()
                self.keeper.say({"lease": {}, "stop": True})
                time.sleep(0.15)
        self.assertEqual(step, 0)

    def test_nonsense_from_the_socket_is_ignored(self):
        run = self.run_of()
        for step in run.steps(3):
            if step == 0:
                self.keeper.receive()
            for text in ([], "x", {"lease": 3}, {"lease": {"until_s": "soon"}}, {"stop": "perhaps"}):
                self.keeper.say(text)
            time.sleep(0.11)
        self.assertEqual((step, run.lease), (2, Lease()))

    def test_strangers_cannot_stop_it(self):
        run = self.run_of()
        for step in run.steps(3):
            if step == 0:
                self.keeper.receive()
            self.keeper.say({"stop": True}, token="guessed")
            time.sleep(0.11)
        self.assertEqual(step, 2)

    def test_keeper_that_dies_is_no_error(self):
        run = self.run_of()
        for step in run.steps(5):
            if step == 1:
                self.keeper.socket.close()
                os.unlink(self.keeper.path)
            run.report(loss=1)
            run.checkpointed()
        self.assertEqual(step, 4)

    def test_other_local_ranks_listen_but_do_not_speak(self):
        run = self.run_of(LOCAL_RANK="1")
        for _ in run.steps(3):
            run.checkpointed()
        self.assertEqual(self.keeper.waiting(), [])

    def test_step_in_a_loop_of_any_form(self):
        run = self.run_of(WHARF_LEASE_UNTIL_ITERATION="2")
        self.assertTrue(run.step(1, loss=0.5))
        self.assertFalse(run.step(2, loss=0.25))
        told = self.keeper.waiting()
        self.assertEqual(told[-1]["stopped"], True)
        run.close()

    def test_program_that_ends_without_close_has_sent_its_last_reports(self):
        code = "import wharf\nfor done in range(1, 6): wharf.step(done, loss=done)\nwharf.report(accuracy=0.5)"
        self.run_program(code)
        told = self.keeper.waiting()
        self.assertEqual(told[-1]["iterations"], 5)
        points = [(row[0], name) for message in told for row in message.get("points", []) for name in row[2]]
        self.assertEqual(points, [*((done, "loss") for done in range(1, 6)), (5, "accuracy")])

    def test_program_with_a_count_that_is_no_number_fails_once_and_sends_its_last_reports(self):
        code = "import wharf\nwharf.step(3, loss=1)\nwharf.step(float('nan'), loss=2)"
        environment = {**os.environ, **self.keeper.environment(), "PYTHONPATH": str(PACKAGE)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr.count("Traceback")), (1, 1), done.stderr)
        self.assertIn("done must be a finite number of iterations, not nan", done.stderr)
        told = self.keeper.waiting()
        self.assertEqual((told[-1]["iterations"], told[-1].get("metrics")), (3, {"loss": 1.0}))

    def test_endless_loop_sends_no_total(self):
        loop = self.run_of().steps(float("inf"))
        next(loop)
        loop.close()
        told = self.keeper.waiting()
        self.assertTrue(told and all("total" not in message for message in told), told)

    def test_program_without_iterations_has_sent_its_reports(self):
        self.run_program("import wharf\nwharf.report(accuracy=0.5)", WHARF_ITERATIONS_DONE="7")
        (told,) = self.keeper.waiting()
        self.assertEqual((told["iterations"], told["metrics"], told["points"][0][0]), (7, {"accuracy": 0.5}, 7))
        self.run_program("import wharf\nwharf.active()")
        self.assertEqual(self.keeper.waiting(), [])

    def run_program(self, code, **more):
        environment = {**os.environ, **self.keeper.environment(**more), "PYTHONPATH": str(PACKAGE)}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)

    def test_integers_beyond_floats_are_infinite(self):
        run = self.run_of()
        run.report(loss=10**400, low=-(10**400))
        run.checkpointed()
        self.assertEqual(self.keeper.waiting()[-1]["metrics"], {"loss": "inf", "low": "-inf"})

    def test_nan_and_infinity_are_sent_as_texts(self):
        run = self.run_of()
        run.report(loss=float("nan"), rate=2, top=float("inf"), low=-float("inf"))
        run.checkpointed()
        expected = {"loss": "nan", "rate": 2.0, "top": "inf", "low": "-inf"}
        last = self.keeper.waiting()[-1]
        self.assertEqual((last["metrics"], last["points"][0][2]), (expected, expected))

    def test_report_before_the_loop_belongs_to_its_first_iteration(self):
        run = self.run_of()
        run.report(size=7)
        for _ in run.steps(13, start=11):
            run.report(loss=1)
        rows = [row for message in self.keeper.waiting() for row in message.get("points", [])]
        self.assertEqual(sorted((row[0], name) for row in rows for name in row[2]), [(12, "loss"), (12, "size"), (13, "loss")])

    def test_every_step_has_its_point_until_there_are_too_many(self):
        run = self.run_of()
        messages = []
        for step in run.steps(2000):
            run.report(loss=step + 1)
            if step % 500 == 499:
                run.report(accuracy=step)
            messages += self.keeper.waiting()
        messages += self.keeper.waiting()
        points = {}
        for message in messages:
            self.assertLess(len(json.dumps(message)), 4096)
            for step, _, values in message.get("points", []):
                for name, value in values.items():
                    points.setdefault(name, {})[step] = value
        self.assertEqual(points["accuracy"], {500: 499, 1000: 999, 1500: 1499, 2000: 1999})
        loss = points["loss"]
        self.assertTrue(all(step == value for step, value in loss.items()))
        # The first of each bucket of four steps, and the last of all.
        self.assertLessEqual({1, *range(4, 2001, 4)}, set(loss))
        self.assertLess(len(loss), 1500)
        strides = [message["strides"]["loss"] for message in messages if "strides" in message]
        self.assertEqual(strides[-1], 4)

    def test_points_wait_for_a_keeper_that_does_not_read(self):
        run = self.run_of()
        for step in range(1, 400):
            run.step(step, **{f"metric{index}": step for index in range(8)})
        received = []
        while True:
            run.close()
            messages = self.keeper.waiting()
            if not any(message.get("points") for message in messages):
                break
            received += messages
        steps = {row[0] for message in received for row in message["points"] if "metric7" in row[2]}
        self.assertEqual(steps, set(range(1, 400)))

    def test_last_report_sends_all_points_after_a_full_queue(self):
        run = self.run_of()
        queue_max = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
        step = 0
        # The queue is full and a message waits when the last points are reported.
        while not run._unsent:
            step += 1
            run.step(step, **{f"metric{index}": step for index in range(16)})
            run._tell(force=step > queue_max)
        run.step(step + 1, metric7=step + 1)
        received = []
        reader = threading.Thread(target=lambda: [received.append(self.keeper.receive()) for _ in range(queue_max + 1)])
        reader.start()
        run.close()
        reader.join(10)
        received += self.keeper.waiting()
        steps = {row[0] for message in received for row in message.get("points", []) if "metric7" in row[2]}
        self.assertEqual(steps, set(range(1, step + 2)))

    def test_names_beyond_the_limit_are_refused_with_a_warning(self):
        run = self.run_of()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            run.checkpointed()
            run.report(**{f"metric{index}": index for index in range(70)})
            run.report(**{"bad\nname": 1.0})
        self.assertEqual([str(one.message) for one in heard if "metric64" in str(one.message)], [str(heard[0].message)])
        self.assertEqual(len(heard), 1)
        run.checkpointed()
        messages = self.keeper.waiting()
        told = {name for message in messages for name in message.get("metrics", {})}
        self.assertEqual(told, {f"metric{index}" for index in range(64)})
        self.assertEqual([message["refused"][0] for message in messages if "refused" in message], [7])

    def test_tensors_are_read_late_and_detached(self):
        class Tensor:
            reads = 0

            def detach(self):
                return self

            def __float__(self):
                Tensor.reads += 1
                return 1.5

        run = self.run_of()
        run.checkpointed()
        for _ in range(1000):
            run.report(loss=Tensor())
        self.assertEqual(Tensor.reads, 0)
        run.checkpointed()
        self.assertEqual(self.keeper.waiting()[-1]["metrics"], {"loss": 1.5})


class Files(unittest.TestCase):
    def setUp(self):
        self.keeper = Keeper()
        self.addCleanup(self.keeper.close)
        self.folder = Path(self.keeper.folder.name)

    def test_atomic_write_fails_whole(self):
        path = self.folder / "deep" / "model"
        with wharf.atomic_write(path) as file:
            file.write(b"one")
        with self.assertRaises(RuntimeError):
            with wharf.atomic_write(path) as file:
                file.write(b"half of tw")
                raise RuntimeError
        self.assertEqual(path.read_bytes(), b"one")
        self.assertEqual([entry.name for entry in path.parent.iterdir()], ["model"])

    def test_checkpoint_dir_is_wharfs_choice_or_the_default(self):
        chosen = Run({"WHARF_CHECKPOINT_DIR": str(self.folder / "theirs")}).checkpoint_dir("other")
        own = Run({}).checkpoint_dir(self.folder / "mine")
        self.assertEqual((chosen, own), (self.folder / "theirs", self.folder / "mine"))
        self.assertTrue(chosen.is_dir() and own.is_dir())


if __name__ == "__main__":
    unittest.main()
