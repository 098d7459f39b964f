"""The story of the README, command by command, on real processes."""

import os
import pathlib
import unittest

import cluster


class Story(unittest.TestCase):
    scheme = ("rs:4+2", 6)
    serve = ()

    @classmethod
    def setUpClass(cls):
        scheme, targets = cls.scheme
        cls.c = cluster.Cluster(targets, scheme, serve=cls.serve)
        cls.c.start()
        cls.model = cls.c.root / "model.safetensors"
        cls.tensors = cluster.random_model(cls.model, seed=1)

    @classmethod
    def tearDownClass(cls):
        cls.c.__exit__()

    def save(self, path, ranks=8):
        self.c.cairn("ckpt", "save", self.model, path, "--ranks", ranks)

    def test_status_shows_every_target_and_the_pool(self):
        (status,) = self.c.json("status")
        self.assertTrue(status["healthy"])
        self.assertEqual(len(status["targets"]), self.scheme[1])
        self.assertEqual(status["pools"][0]["scheme"], self.scheme[0])
        self.assertGreater(status["pools"][0]["available_bytes"], 0)

    def test_a_set_saved_by_eight_ranks_loads_with_any_number(self):
        self.save("/ckpt/any/step-100")
        for ranks in (1, 3, 8, 11):
            out = self.c.cairn("ckpt", "load", "/ckpt/any/step-100", "--ranks",
                               ranks, "--check", self.model)
            self.assertIn("every byte equals", out)

    def test_listing_shows_published_sets_with_their_tensors(self):
        self.save("/ckpt/list/step-1", ranks=2)
        self.save("/ckpt/list/step-2", ranks=3)
        sets = self.c.json("ckpt", "ls", "/ckpt/list")
        self.assertEqual([s["path"] for s in sets],
                         ["/ckpt/list/step-1", "/ckpt/list/step-2"])
        self.assertEqual([s["world_size"] for s in sets], [2, 3])
        head, *tensors = self.c.json("ckpt", "show", "/ckpt/list/step-2")
        self.assertTrue(head["published"])
        shown = {t["name"]: (t["dtype"], t["shape"]) for t in tensors
                 if t["kind"] == "tensor"}
        self.assertEqual(shown, {n: (d, s) for n, (d, s, _)
                                 in self.tensors.items()})

    def test_export_gives_the_model_again(self):
        self.save("/ckpt/export/step-1")
        out = self.c.root / "out.safetensors"
        self.c.cairn("ckpt", "export", "/ckpt/export/step-1", out)
        tensors, metadata = cluster.read_model(out)
        self.assertEqual(tensors, self.tensors)
        self.assertEqual(metadata, {"format": "pt"})

    def test_a_published_set_is_never_overwritten(self):
        self.save("/ckpt/twice/step-1", ranks=1)
        code, err = self.c.fails("ckpt", "save", self.model,
                                 "/ckpt/twice/step-1")
        self.assertEqual(code, 1)
        self.assertIn("never overwritten", err)

    def test_rank_files_of_a_set_are_ordinary_safetensors_files(self):
        self.save("/ckpt/files/step-1", ranks=2)
        local = self.c.root / "rank0.safetensors"
        self.c.cairn("cp", "cairn:/ckpt/files/step-1/rank-00000.safetensors",
                     local)
        tensors, _ = cluster.read_model(local)
        self.assertIn("layers.0.weight", tensors)
        raw = local.read_bytes()
        start = 8 + int.from_bytes(raw[:8], "little")
        self.assertEqual(start % 4096, 0)

    def test_files_copied_in_come_back_the_same(self):
        for size in (0, 1, 4095, 65537, 9_000_001, 40_000_000):
            local = self.c.root / f"f{size}"
            local.write_bytes(os.urandom(size))
            self.c.cairn("mkdir", "-p", "/data")
            self.c.cairn("cp", local, "cairn:/data/")
            back = self.c.root / "back"
            self.c.cairn("cp", f"cairn:/data/f{size}", back)
            self.assertEqual(back.read_bytes(), local.read_bytes())
            (entry,) = self.c.json("stat", f"/data/f{size}")
            self.assertEqual(entry["size"], size)

    def test_names_can_be_made_moved_listed_and_removed(self):
        c = self.c
        c.cairn("mkdir", "-p", "/names/a/b")
        (c.root / "hello").write_text("hello\n")
        c.cairn("cp", c.root / "hello", "cairn:/names/a/")
        self.assertEqual(c.cairn("cat", "/names/a/hello"), "hello\n")
        c.cairn("mv", "/names/a/hello", "/names/a/b/bye")
        c.cairn("ln", "-s", "b/bye", "/names/a/link")
        self.assertEqual(c.cairn("cat", "/names/a/link"), "hello\n")
        self.assertEqual(c.cairn("ls", "/names/a").split(), ["b", "link"])
        self.assertIn("bye", c.cairn("ls", "-l", "/names/a/b"))
        code, err = c.fails("rm", "/names/a")
        self.assertIn("rm -r", err)
        c.cairn("rm", "-r", "/names/a")
        self.assertEqual(c.cairn("ls", "/names"), "")

    def test_a_tree_copied_in_and_out_is_the_same(self):
        tree = self.c.root / "tree"
        (tree / "x" / "y").mkdir(parents=True)
        (tree / "one").write_bytes(os.urandom(1000))
        (tree / "x" / "two").write_bytes(os.urandom(100_000))
        (tree / "x" / "y" / "three").write_bytes(b"")
        self.c.cairn("mkdir", "-p", "/trees")
        self.c.cairn("cp", "-r", tree, "cairn:/trees/")
        out = self.c.root / "out-tree"
        self.c.cairn("cp", "-r", "cairn:/trees/tree", out)
        for name in ("one", "x/two", "x/y/three"):
            self.assertEqual((out / name).read_bytes(),
                             (tree / name).read_bytes())

    def test_removed_sets_are_gone_from_listings(self):
        self.save("/ckpt/gone/step-1", ranks=2)
        self.c.cairn("rm", "-r", "/ckpt/gone/step-1")
        self.assertEqual(self.c.json("ckpt", "ls", "/ckpt/gone"), [])
        code, err = self.c.fails("ckpt", "load", "/ckpt/gone/step-1")
        self.assertEqual(code, 1)

    def test_verify_reads_everything_and_finds_nothing_bad(self):
        self.save("/ckpt/verify/step-1", ranks=4)
        (report,) = self.c.json("verify", "/ckpt/verify")
        self.assertEqual(report["bad_chunks"], 0)
        self.assertEqual(report["sets"], 1)
        self.assertEqual(report["files"], 4)

    def test_everything_is_there_after_a_clean_stop_and_a_kill(self):
        self.save("/ckpt/restart/step-1", ranks=2)
        for how in (15, 9):
            self.c.kill(how)
            self.c.start()
            self.c.cairn("ckpt", "load", "/ckpt/restart/step-1", "--check",
                         self.model)


class StoryOnCopies(Story):
    scheme = ("replicate:2", 4)


class StoryOnPlainSystemCalls(Story):
    serve = ("--io", "plain")


if __name__ == "__main__":
    unittest.main()
