"""Targets die for good, with all that was on their disks: saves that are under
way finish, everything reads back, and full redundancy comes back by itself."""

import signal
import time
import unittest

import cluster
import processes

# A target is down after 1.5 s of silence, and out 2 s later.
QUICK = ("--heartbeat-ms", 100, "--suspect-after-ms", 500, "--down-after-ms",
         1500, "--out-after-ms", 2000)


class LostTargets(unittest.TestCase):
    def setUp(self):
        self.p = processes.Processes(8, "rs:4+2", meta=QUICK)
        self.addCleanup(self.p.__exit__)
        self.model = self.p.root / "model.safetensors"

    def check(self, *paths):
        for path in paths:
            self.p.cairn("ckpt", "load", path, "--check", self.model)

    def used_bytes(self):
        return sum(t["used_bytes"] for t in self.p.json("status")["targets"])

    def start_save(self, path):
        """A save of which some is written, and most is not."""
        before = self.used_bytes()
        save = self.p.spawn_cairn("--timeout", 60, "ckpt", "save", self.model,
                                  path, "--ranks", 4)
        self.addCleanup(save.stderr.close)
        while self.used_bytes() == before and save.poll() is None:
            time.sleep(0.01)
        self.assertIsNone(save.poll(), "the save was over too soon")
        return save

    def test_two_of_eight_lost_during_a_save_cost_nothing(self):
        cluster.random_model(self.model, seed=11, rows=65536)
        self.p.cairn("ckpt", "save", self.model, "/before")
        save = self.start_save("/during")
        self.p.lose(2)
        self.p.lose(5)
        _, err = save.communicate(timeout=120)
        self.assertEqual(save.returncode, 0, err)
        self.check("/before", "/during")
        self.p.await_rebuilt([2, 5])
        (report,) = [self.p.json("verify", "/")]
        self.assertEqual(report["bad_chunks"], 0)
        # Full redundancy: two others may go now.
        self.p.targets[1].end(signal.SIGKILL)
        self.p.targets[8].end(signal.SIGKILL)
        self.check("/before", "/during")
        self.p.start(1)
        self.p.start(8)

    def test_a_lost_disk_is_replaced_by_a_new_target(self):
        cluster.random_model(self.model, seed=12, rows=4096)
        self.p.cairn("ckpt", "save", self.model, "/before")
        self.p.lose(3)
        self.p.await_rebuilt([3])
        self.p.cairn("target", "remove", "3")
        self.assertIn("target 9",
                      self.p.format(self.p.disk(9), host="host-3"))
        self.p.start(9)
        self.p.cairn("target", "add", "9")
        self.p.await_healthy()
        self.check("/before")
        self.p.cairn("ckpt", "save", self.model, "/after")
        self.check("/after")


if __name__ == "__main__":
    unittest.main()
