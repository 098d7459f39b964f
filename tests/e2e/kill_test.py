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
    def visible(self, c):
        return [s["path"] for s in c.json("ckpt", "ls", "/")]

    def test_published_sets_are_whole_and_no_other_is_visible(self):
        rng = random.Random(SEED)
        with cluster.Cluster(6, "rs:4+2") as c:
            model = c.root / "model.safetensors"
            cluster.random_model(model, seed=SEED, rows=4096)
            saves = published = 0
            for kill in range(KILLS):
                path = f"/ckpt/kill/step-{kill}"
                # Some saves are patient enough to ride the kill out.
                patience = rng.choice((1, 1, 30))
                save = c.spawn("--timeout", patience, "ckpt", "save", model,
                               path, "--ranks", 4)
                # Anywhere from before the first chunk to after the last.
                time.sleep(rng.uniform(0.0, 0.5))
                c.kill(signal.SIGKILL)
                c.start()
                save.communicate(timeout=120)
                saved = save.returncode == 0
                saves += saved
                visible = self.visible(c)
                if saved:  # Told so: it must be there.
                    self.assertIn(path, visible, f"seed {SEED}, kill {kill}")
                # Told or not: what is visible is whole.
                if path in visible:
                    published += 1
                    c.cairn("ckpt", "load", path, "--ranks", 3, "--check",
                            model)
                if len(visible) > 3:  # Keep the disk small.
                    c.cairn("rm", "-r", visible[0])
            self.assertGreater(published, 0)
            for path in self.visible(c):
                c.cairn("ckpt", "load", path, "--check", model)
            (report,) = c.json("verify", "/ckpt/kill")
            self.assertEqual(report["bad_chunks"], 0)
            print(f"{KILLS} kills: {saves} saves succeeded, {published} sets "
                  "published, each whole")


if __name__ == "__main__":
    unittest.main()
