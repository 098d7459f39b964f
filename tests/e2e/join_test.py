"""Targets in processes of their own: they join, move and come back, and disks
that are not what they claim to be serve nothing and say why."""

import shutil
import signal
import unittest

import cluster
import processes
from cluster import CAIRN, CAIRND, run


class Joining(unittest.TestCase):
    def setUp(self):
        self.p = processes.Processes()
        self.addCleanup(self.p.__exit__)

    def load(self, path, tensors):
        out = self.p.root / "out.safetensors"
        self.p.cairn("cp", f"cairn:{path}", out)
        self.assertEqual(out.read_bytes(), tensors)
        out.unlink()

    def test_a_killed_target_is_read_around_and_found_at_another_port(self):
        data = cluster.random.Random(1).randbytes(3_000_000)
        source = self.p.root / "data"
        source.write_bytes(data)
        self.p.cairn("cp", source, "cairn:/data")
        before = self.p.targets[2].address
        self.p.targets[2].end(signal.SIGKILL)
        self.load("/data", data)
        self.assertNotEqual(self.p.start(2).address, before)
        status = self.p.await_healthy()
        self.assertEqual([t["address"] for t in status["targets"]],
                         [self.p.targets[i].address for i in (1, 2, 3)])
        self.assertEqual(status["quarantined"], [])
        self.load("/data", data)

    def test_targets_wait_for_metadata_and_outlive_its_restart(self):
        data = cluster.random.Random(2).randbytes(300_000)
        source = self.p.root / "data"
        source.write_bytes(data)
        self.p.cairn("cp", source, "cairn:/data")
        self.p.targets[1].end()
        self.p.meta.end()
        waiting = self.p.spawn("target-1", self.p.disk(1), "--host", "host-1")
        self.p.targets[1] = waiting
        cluster.wait_until(
            lambda: "waits for its metadata service" in waiting.log_text(), 60,
            "a line that says what it waits for")
        self.p.start_meta()
        waiting.await_ready()
        self.p.await_healthy()
        self.load("/data", data)

    def test_a_directory_that_is_no_target_is_refused(self):
        empty = self.p.root / "empty"
        empty.mkdir()
        code, _, err = run([CAIRND, "target", "--meta", self.p.meta_address,
                            empty], check=False)
        self.assertEqual(code, 1)
        self.assertIn("cairnd format", err)
        code, _, err = run([CAIRND, "target", "--meta", self.p.meta_address,
                            f"3={self.p.disk(1)}"], check=False)
        self.assertEqual(code, 1)
        self.assertIn("is target 1, not target 3", err)
        code, _, err = run([CAIRND, "format", "--meta", self.p.meta_address,
                            self.p.disk(1)], check=False)
        self.assertEqual(code, 1)
        self.assertIn("is a target already", err)

    def test_a_copy_beside_its_target_serves_nothing(self):
        self.p.targets[2].end()
        copy = self.p.root / "copy"
        shutil.copytree(self.p.disk(2), copy)
        self.p.start(2)
        args = [CAIRND, "target", "--meta", self.p.meta_address, "--loops", "1",
                "--memory", "32M", copy]
        code, out, err = run(args, check=False)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("is served by the process at "
                      + self.p.targets[2].address, err)
        status = self.p.await_healthy()
        self.assertEqual(len(status["quarantined"]), 1)
        self.assertIn("QUARANTINED", self.p.cairn("status"))
        listed = self.p.json("target", "ls")["quarantined"]
        self.assertEqual(listed[0]["cause"], "duplicate")
        # Once the target is away it is an old image.
        self.p.targets[2].end()
        code, _, err = run(args, check=False)
        self.assertEqual(code, 1)
        self.assertIn("older state of target 2", err)
        self.p.start(2)
        self.p.cairn("target", "forget", "2")
        self.assertEqual(self.p.await_healthy()["quarantined"], [])

    def test_a_disk_of_another_cluster_serves_nothing(self):
        with processes.Processes(targets=2) as other:
            other.targets[1].end()
            code, _, err = run([CAIRND, "target", "--meta",
                                self.p.meta_address, other.disk(1)],
                               check=False)
        self.assertEqual(code, 1)
        self.assertIn("is a disk of cluster", err)
        listed = self.p.json("target", "ls")["quarantined"]
        self.assertEqual(listed[0]["cause"], "foreign-disk")

    def test_a_target_is_added_drained_and_removed(self):
        out = self.p.format(self.p.disk(4))
        self.assertIn("target 4", out)
        code, err = self.p.fails("target", "add", "4")
        self.assertEqual(code, 1)
        self.assertIn("has not joined yet", err)
        self.p.start(4)
        states = {t["id"]: t["state"]
                  for t in self.p.json("target", "ls")["targets"]}
        self.assertEqual(states, {1: "up", 2: "up", 3: "up", 4: "joined"})
        self.assertIn("in service", self.p.cairn("target", "add", "4"))
        self.assertIn("draining", self.p.cairn("target", "drain", "1"))
        code, err = self.p.fails("target", "remove", "1")
        self.assertEqual(code, 1)
        self.assertIn("still have chunks on target 1", err)
        self.p.cairn("target", "drain", "1", "--undo")
        self.p.cairn("target", "remove", "4")
        cluster.wait_until(
            lambda: self.p.targets[4].popen.poll() is not None, 60,
            "the process of the removed target ends")
        self.assertEqual(self.p.targets[4].popen.returncode, 1)
        self.assertIn("was removed", self.p.targets[4].log_text())

    def test_pools_need_enough_failure_domains(self):
        code, err = self.p.fails("pool", "create", "wide", "--scheme",
                                 "rs:4+2")
        self.assertEqual(code, 1)
        self.assertIn("needs 6 different hosts; there are 3", err)
        self.assertEqual(
            self.p.fails("pool", "create", "x", "--scheme", "raid5")[0], 1)
        pools = self.p.json("pool", "ls")
        self.assertEqual([(p["name"], p["failure_domain"]) for p in pools],
                         [("default", "host")])
        for args in (["target", "--help"], ["pool", "create", "--help"]):
            self.assertIn("Examples", run([CAIRN, *args])[1])
        for name in ("meta", "target", "format"):
            self.assertIn("Examples", run([CAIRND, name, "--help"])[1])


if __name__ == "__main__":
    unittest.main()
