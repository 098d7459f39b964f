"""cairnd is killed with -9 again and again while ranks save: every published
set is whole, and nothing else is visible."""

import os
import random
import signal
import time
import unittest

import cluster

KILLS = int(os.environ.get("CAIRN_KILLS", "50"))
SEED = int(os.environ.get("CAIRN_SEED", "20261130"))


class KilledDuringSaves(unittest.TestCase):
    def test_published_sets_are_whole_and_no_other_is_visible(self):
        rng = random.Random(SEED)
        with cluster.Cluster(6, "rs:4+2") as c:
            model = c.root / "model.safetensors"
            cluster.random_model(model, seed=SEED, rows=4096)
            published = 0
            for kill in range(KILLS):
                path = f"/ckpt/kill/step-{kill}"
                save = c.spawn("--timeout", 30, "ckpt", "save", model, path,
                               "--ranks", 4)
                # Anywhere from before the first chunk to after the last.
                time.sleep(rng.uniform(0.0, 0.5))
                c.kill(signal.SIGKILL)
                c.start()
                save.stderr.read()
                saved = save.wait(timeout=120) == 0
                visible = [s["path"] for s in
                           c.json("ckpt", "ls", "/ckpt/kill")] \
                    if kill or saved else []
                self.assertEqual(path in visible, saved,
                                 f"seed {SEED}, kill {kill}")
                published += saved
                if saved:
                    c.cairn("ckpt", "load", path, "--ranks", 3, "--check",
                            model)
                    if published > 3:  # Keep the disk small.
                        c.cairn("rm", "-r", visible[0])
            self.assertGreater(published, 0)
            for entry in c.json("ckpt", "ls", "/ckpt/kill"):
                c.cairn("ckpt", "load", entry["path"], "--check", model)
            (report,) = c.json("verify", "/ckpt/kill")
            self.assertEqual(report["bad_chunks"], 0)
            print(f"{KILLS} kills, {published} saves published in spite of "
                  "them")


if __name__ == "__main__":
    unittest.main()
