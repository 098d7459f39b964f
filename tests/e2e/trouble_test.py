"""Bad input and trouble: each gets a clear error that says what to do, and the
server goes on."""

import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import cluster
from cluster import CAIRN, CAIRND


def refused(args, text, code=1):
    got, _, err = cluster.run(args, check=False)
    assert got == code, f"{args}: exit {got}, {err}"
    assert text in err, f"{args}: {err}"
    return err


class DirectoryTrouble(unittest.TestCase):
    """Without a running server."""

    def setUp(self):
        self.c = cluster.Cluster(3, "replicate:2")
        self.addCleanup(self.c.__exit__)
        self.run_args = [CAIRND, "run", "--dir", self.c.dir, "--listen",
                         "127.0.0.1:0"]

    def test_no_cluster_says_how_to_make_one(self):
        refused([CAIRND, "run", "--dir", self.c.root / "none"], "cairnd init")

    def test_init_over_a_cluster_changes_nothing(self):
        refused([CAIRND, "init", "--dir", self.c.dir], "already")

    def test_too_few_targets_for_the_scheme_is_refused(self):
        refused([CAIRND, "init", "--dir", self.c.root / "d", "--targets", 3,
                 "--scheme", "rs:4+2"], "6", code=2)

    def test_a_bad_scheme_is_explained(self):
        refused([CAIRND, "init", "--dir", self.c.root / "d", "--scheme",
                 "raid5"], "rs:", code=2)

    def test_wrong_arguments_exit_with_2(self):
        self.assertEqual(cluster.run([CAIRND], check=False)[0], 2)
        self.assertEqual(cluster.run([CAIRN, "frobnicate"], check=False)[0], 2)
        self.assertEqual(cluster.run([CAIRN, "mv", "/a"], check=False)[0], 2)

    def test_help_has_examples(self):
        for args in ([CAIRND, "init", "--help"], [CAIRN, "--help"],
                     [CAIRN, "ckpt", "save", "--help"]):
            self.assertIn("Examples", cluster.run(args)[1])

    def test_a_missing_target_directory_is_refused(self):
        shutil.rmtree(self.c.dir / "target-02")
        refused(self.run_args, "target")

    def test_a_damaged_superblock_is_refused(self):
        (self.c.dir / "target-02" / "superblock").write_bytes(b"x" * 16384)
        refused(self.run_args, "target-02")

    def test_swapped_targets_are_refused(self):
        a, b = self.c.dir / "target-01", self.c.dir / "target-02"
        a.rename(self.c.dir / "t")
        b.rename(a)
        (self.c.dir / "t").rename(b)
        refused(self.run_args, "target")

    def test_a_target_of_another_cluster_is_refused(self):
        with cluster.Cluster(3, "replicate:2") as other:
            other.kill()
            shutil.rmtree(self.c.dir / "target-03")
            shutil.copytree(other.dir / "target-03",
                            self.c.dir / "target-03")
        refused(self.run_args, "cluster")

    def test_a_second_server_on_one_directory_is_refused(self):
        self.c.start()
        refused(self.run_args, "another process")

    def test_a_port_in_use_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            refused([CAIRND, "run", "--dir", self.c.dir, "--listen",
                     f"127.0.0.1:{port}"], str(port))

    def test_listening_beyond_loopback_needs_insecure(self):
        refused([CAIRND, "run", "--dir", self.c.dir, "--listen",
                 "0.0.0.0:7400"], "--insecure")

    def test_a_listen_address_without_port_is_wrong_usage(self):
        refused([CAIRND, "run", "--dir", self.c.dir, "--listen", "localhost"],
                "HOST:PORT", code=2)


class LostMetadata(unittest.TestCase):
    def test_an_old_copy_of_the_metadata_is_refused_until_accepted(self):
        with cluster.Cluster(3, "replicate:2") as c:
            model = c.root / "model.safetensors"
            cluster.random_model(model, seed=3, rows=64)
            c.cairn("ckpt", "save", model, "/ckpt/old")
            c.kill(signal.SIGTERM)
            shutil.copytree(c.dir / "meta", c.root / "backup")
            c.start()
            c.cairn("ckpt", "save", model, "/ckpt/new")
            c.kill(signal.SIGTERM)
            shutil.rmtree(c.dir / "meta")
            shutil.copytree(c.root / "backup", c.dir / "meta")
            with self.assertRaises(cluster.CommandFailed) as failed:
                c.start()
            self.assertIn("--accept-metadata-loss", str(failed.exception))
            c.start("--accept-metadata-loss")
            c.cairn("ckpt", "load", "/ckpt/old", "--check", model)
            c.cairn("ckpt", "save", model, "/ckpt/again")
            c.cairn("ckpt", "load", "/ckpt/again", "--check", model)


class RunningServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = cluster.Cluster(3, "replicate:2")
        cls.c.start()
        cls.model = cls.c.root / "model.safetensors"
        cluster.random_model(cls.model, seed=2, rows=64)

    @classmethod
    def tearDownClass(cls):
        cls.c.__exit__()

    def alive(self):
        self.assertTrue(self.c.json("status")[0]["healthy"])

    def test_bad_names_are_refused(self):
        for path in ("/a/../b", "/" + "n" * 256, "relative", "/bad\udcff"):
            args = [str(CAIRN).encode(), b"mkdir",
                    os.fsencode(path)]
            done = subprocess.run(args, env=self.c.env(), capture_output=True)
            self.assertEqual(done.returncode, 1, (path, done.stderr))
        self.alive()

    def test_malformed_safetensors_is_one_clear_message(self):
        bad = self.c.root / "bad.safetensors"
        for data, text in ((b"short", "HeaderTooSmall"),
                           (struct.pack("<Q", 1 << 40) + b"{}",
                            "HeaderTooLarge"),
                           (struct.pack("<Q", 2) + b"[]", "Invalid"),
                           (struct.pack("<Q", 8) + b"{}      x",
                            "MetadataIncompleteBuffer")):
            bad.write_bytes(data)
            code, err = self.c.fails("ckpt", "save", bad, "/ckpt/bad")
            self.assertIn(text, err)
            self.assertEqual(len(err.strip().splitlines()), 1, err)

    def test_garbage_on_the_port_closes_that_connection_only(self):
        host, port = self.c.address.split(":")
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096),
                        b"\0" * 64, b"CRN1" + b"\xff" * 60):
            with socket.create_connection((host, int(port))) as s:
                s.settimeout(20)
                s.sendall(garbage)
                try:
                    while s.recv(4096):
                        pass
                except ConnectionResetError:
                    pass
            self.alive()

    def test_a_rank_that_never_comes_is_named(self):
        save = self.c.spawn("--timeout", 3, "ckpt", "save-rank", self.model,
                            "/ckpt/lonely", "--set-id", "s", "--ranks", 3,
                            "--rank", 1, "--attempt", 1)
        err = save.communicate(timeout=60)[1].decode()
        self.assertNotEqual(save.returncode, 0)
        sets = self.c.json("ckpt", "ls", "--all", "/ckpt")
        lonely = [s for s in sets if s["path"] == "/ckpt/lonely"]
        self.assertEqual(lonely[0]["missing_ranks"], [0, 2])
        self.assertEqual(lonely[0]["published"], False)
        code, err = self.c.fails("ckpt", "load", "/ckpt/lonely")
        self.assertEqual(code, 1)

    def test_a_new_attempt_takes_over_from_a_dead_one(self):
        save = self.c.spawn("--timeout", 2, "ckpt", "save-rank", self.model,
                            "/ckpt/second", "--set-id", "second", "--ranks",
                            2, "--rank", 0, "--attempt", 1)
        save.communicate(timeout=60)
        self.c.cairn("ckpt", "save", self.model, "/ckpt/second", "--ranks", 2)
        self.c.cairn("ckpt", "load", "/ckpt/second", "--check", self.model)
        shown = self.c.json("ckpt", "show", "/ckpt/second")[0]
        self.assertEqual(shown["attempt"], 2)

    def test_a_command_without_a_cluster_says_what_to_set(self):
        env = {k: v for k, v in os.environ.items() if k != "CAIRN_CLUSTER"}
        code, _, err = cluster.run([CAIRN, "status"], env=env, check=False)
        self.assertEqual(code, 1)
        self.assertIn("CAIRN_CLUSTER", err)

    def test_nobody_at_the_address_is_named_with_exit_code_4(self):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        code, _, err = cluster.run(
            [CAIRN, "--cluster", f"127.0.0.1:{port}", "--timeout", 1,
             "status"], check=False)
        self.assertEqual(code, 4)
        self.assertIn(str(port), err)

    def test_a_client_rides_out_a_restart(self):
        c = self.c
        big = c.root / "big"
        big.write_bytes(os.urandom(60_000_000))
        c.cairn("mkdir", "-p", "/ride")
        copy = c.spawn("cp", big, "cairn:/ride/")
        time.sleep(0.1)
        c.kill()
        time.sleep(0.5)
        c.start()
        err = copy.communicate(timeout=90)[1].decode()
        self.assertEqual(copy.returncode, 0, err)
        c.cairn("cp", "cairn:/ride/big", c.root / "big.back")
        self.assertEqual((c.root / "big.back").read_bytes(), big.read_bytes())

    def test_an_interrupted_save_leaves_nothing_visible(self):
        save = self.c.spawn("ckpt", "save", self.model, "/ckpt/interrupted",
                            "--ranks", 4)
        time.sleep(0.05)
        save.send_signal(signal.SIGINT)
        save.communicate(timeout=60)
        visible = [s["path"] for s in self.c.json("ckpt", "ls", "/")]
        if save.returncode == 0:
            self.assertIn("/ckpt/interrupted", visible)
        else:
            self.c.cairn("ckpt", "save", self.model, "/ckpt/after", "--ranks",
                         2)
        self.alive()


class FullDisk(unittest.TestCase):
    def test_a_save_without_room_fails_and_the_previous_one_stays(self):
        with cluster.Cluster(2, "replicate:1", init=(
                "--capacity", "64M", "--slab-size", "16M")) as c:
            model = c.root / "model.safetensors"
            cluster.random_model(model, seed=5, rows=8192)  # 32 MB.
            c.cairn("ckpt", "save", model, "/ckpt/first", "--ranks", 2)
            last = None
            for step in range(6):
                code, _, err = cluster.run(
                    [CAIRN, "ckpt", "save", model, f"/ckpt/step-{step}",
                     "--ranks", 2], env=c.env(), check=False)
                if code != 0:
                    last = err
                    break
            self.assertIsNotNone(last, "the pool never filled up")
            self.assertIn("/ckpt/step-", last)
            self.assertRegex(last, r"\d+ (of|bytes)")
            c.cairn("ckpt", "load", "/ckpt/first", "--check", model)


if __name__ == "__main__":
    unittest.main()
