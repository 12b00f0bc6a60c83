"""The programs run on every x86-64-v2 processor: whole trainings with the wide kernels disabled.

usage: instruction_set_test.py --bin-dir DIR [unittest arguments]
"""

import processes
import training


class InstructionSetTest(processes.ProcessTest):
    SETTINGS = ["--epochs", 5, "--dim", 64, "--max-active", 100, "--learning-rate", 0.01,
                "--in-flight", 1, "--shards", 2]

    def train(self, data, instruction_set):
        environment = {} if instruction_set is None else {"DSLIDE_MAX_ISA": instruction_set}
        finished = self.start("dslide", "train", "-q", "-o", "json", *data.flags(), *self.SETTINGS,
                              environment=environment).finish()
        self.assert_ended(finished, 0)
        return finished.json()

    def test_every_instruction_set_learns_the_same(self):
        data = training.generate(self, points=4000, test_points=1000)
        widest = self.train(data, None)
        self.assertGreater(widest["p_at_1"], 0.1)
        for instruction_set in ("sse4", "avx2"):
            with self.subTest(instruction_set=instruction_set):
                result = self.train(data, instruction_set)
                # The first step differs by rounding alone; later ones amplify it.
                self.assertAlmostEqual(result["first_loss"], widest["first_loss"], delta=1e-4)
                self.assertAlmostEqual(result["loss"], widest["loss"], delta=0.05)
                self.assertAlmostEqual(
                    result["p_at_1"], widest["p_at_1"],
                    delta=training.precision_tolerance(widest["p_at_1"], data.test_points()))

    def test_an_unknown_instruction_set_is_refused(self):
        done = self.start("dslide", "train", "--data", "x",
                          environment={"DSLIDE_MAX_ISA": "mmx"}).finish()
        self.assertNotEqual(done.code, 0)
        self.assertIn("DSLIDE_MAX_ISA", done.stderr)


if __name__ == "__main__":
    processes.main()
