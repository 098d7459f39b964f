"""Bytes are flipped in slab files: every read is right, or an error that names
the chunk; right as long as at most m shards of a stripe are hit."""

import os
import random
import time
import unittest

import cluster

SEED = int(os.environ.get("CAIRN_SEED", "20261130"))


def flip(path, offset, length=1):
    with open(path, "r+b") as file:
        file.seek(offset)
        old = file.read(length)
        file.seek(offset)
        file.write(bytes(b ^ 0x5A for b in old))
        file.flush()
        os.fsync(file.fileno())


def used_blocks(path):
    """Offsets of 4 KiB blocks of a slab that hold data."""
    offsets = []
    with open(path, "rb") as file:
        offset = 0
        while True:
            try:
                offset = os.lseek(file.fileno(), offset, os.SEEK_DATA)
            except OSError:
                return offsets
            end = os.lseek(file.fileno(), offset, os.SEEK_HOLE)
            for at in range(offset // 4096 * 4096, end, 4096):
                file.seek(at)
                if any(file.read(4096)):
                    offsets.append(at)
            offset = end


SMALL_CHUNKS = ("--capacity", "2G", "--slab-size", "256M", "--chunk-size",
                "64K")
# What a test damages stays so.
NO_REPAIR = ("--scrub-rate", 0, "--repair-poll-ms", 86_400_000)


def damage_target(c, number):
    """Flips a byte in every used block of one target's slabs."""
    hit = 0
    for slab in c.dir.glob(f"target-{number:02d}/slab-*"):
        blocks = used_blocks(slab)
        with open(slab, "r+b") as file:
            for offset in blocks:
                at = offset + offset // 4096 % 4096
                file.seek(at)
                old = file.read(1)[0]
                file.seek(at)
                file.write(bytes((old ^ 0x5A,)))
            file.flush()
            os.fsync(file.fileno())
        hit += len(blocks)
    return hit


class FlippedBytes(unittest.TestCase):
    def test_random_flips_never_give_wrong_bytes(self):
        rng = random.Random(SEED)
        with cluster.Cluster(6, "rs:4+2", serve=NO_REPAIR) as c:
            model = c.root / "model.safetensors"
            cluster.random_model(model, seed=SEED, rows=2048)
            c.cairn("ckpt", "save", model, "/ckpt/a", "--ranks", 3)
            blocks = [(s, o) for s in c.slabs() for o in used_blocks(s)]
            self.assertGreater(len(blocks), 100)
            right = named = 0
            for _ in range(20):
                slab, offset = rng.choice(blocks)
                flip(slab, offset + rng.randrange(4096), rng.choice((1, 64)))
                code, out, err = cluster.run(
                    [cluster.CAIRN, "ckpt", "load", "/ckpt/a", "--ranks", 2,
                     "--check", model], env=c.env(), check=False)
                if code == 0:
                    right += 1
                else:
                    self.assertEqual(code, 3, err)
                    self.assertRegex(err, r"chunk \d+:\d+/\d+/\d+")
                    self.assertNotIn("' differs from", err)
                    named += 1
            print(f"{right} reads right, {named} refused with the chunk named")
            self.assertGreater(right, 0)

    def test_m_damaged_targets_are_read_around_and_one_more_is_data_loss(self):
        # Small chunks, so that every target has a part of every stripe.
        with cluster.Cluster(6, "rs:4+2", init=SMALL_CHUNKS,
                             serve=NO_REPAIR) as c:
            model = c.root / "model.safetensors"
            cluster.random_model(model, seed=SEED)
            c.cairn("ckpt", "save", model, "/ckpt/a", "--ranks", 3)
            c.cairn("mkdir", "/data")
            c.cairn("cp", model, "cairn:/data/")
            for number in (2, 5):
                self.assertGreater(damage_target(c, number), 0)
                c.cairn("ckpt", "load", "/ckpt/a", "--ranks", 2, "--check",
                        model)
                c.cairn("cp", "cairn:/data/model.safetensors", c.root / "back")
                self.assertEqual((c.root / "back").read_bytes(),
                                 model.read_bytes())
            code, out, _ = cluster.run(
                [cluster.CAIRN, "--json", "verify", "/ckpt"], env=c.env(),
                check=False)
            self.assertEqual(code, 3)
            self.assertIn("chunk", out)
            self.assertNotIn('"lost":["', out)
            damage_target(c, 1)
            code, err = c.fails("ckpt", "load", "/ckpt/a", "--check", model)
            self.assertEqual(code, 3)
            self.assertRegex(err, r"chunk \d+:\d+/\d+/\d+")
            code, _ = c.fails("cp", "cairn:/data/model.safetensors",
                              c.root / "never")
            self.assertEqual(code, 3)
            self.assertFalse((c.root / "never").exists())

    def test_targets_damaged_one_after_the_other_are_repaired(self):
        with cluster.Cluster(6, "rs:4+2", init=SMALL_CHUNKS, serve=(
                "--scrub-after-ms", 200, "--scrub-rate", "500M",
                "--scrub-pass-ms", 1000, "--repair-poll-ms", 200)) as c:
            model = c.root / "model.safetensors"
            cluster.random_model(model, seed=SEED)
            c.cairn("ckpt", "save", model, "/ckpt/a", "--ranks", 3)
            repaired = 0
            for number in (1, 2, 3, 4):  # More than the scheme bears at once.
                self.assertGreater(damage_target(c, number), 0)
                repaired = self.await_repaired(c, repaired)
            c.cairn("ckpt", "load", "/ckpt/a", "--ranks", 2, "--check", model)
            (report,) = c.json("verify", "/ckpt/a")
            self.assertEqual(report["problems"], [])

    def await_repaired(self, c, before):
        """Until all was read again, thrice, and what was damaged is not."""
        deadline = time.monotonic() + 240
        first = None
        while True:
            self.assertLess(time.monotonic(), deadline)
            status = c.json("status")[0]
            scrub = status["scrub"]
            first = first or scrub["verified_bytes"]
            used = sum(target["used_bytes"] for target in status["targets"])
            if (scrub["verified_bytes"] >= first + 3 * used and
                    scrub["damaged_now"] == 0 and
                    scrub["repaired_chunks"] > before):
                return scrub["repaired_chunks"]
            time.sleep(0.5)

    def test_a_copy_is_read_when_the_first_is_damaged(self):
        with cluster.Cluster(2, "replicate:2") as c:
            model = c.root / "model.safetensors"
            cluster.random_model(model, seed=SEED)
            c.cairn("ckpt", "save", model, "/ckpt/a", "--ranks", 2)
            damage_target(c, 1)
            c.cairn("ckpt", "load", "/ckpt/a", "--check", model)


if __name__ == "__main__":
    unittest.main()
