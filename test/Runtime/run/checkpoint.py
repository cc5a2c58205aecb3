# RUN: %python %s %mpcomm-run %cc %mprt_include %t.dir
#
# A checkpoint that cannot be written (file size limit, missing folder, device)
# or holds what is not finite is an error; the one before stays, and nothing lies
# beside it. What was damaged since is noticed when it is read.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import resource

from seal import xxh64
from stages import *


def remove_folder(name):
    """Also where somebody makes and removes files in it meanwhile."""
    while os.path.exists(name):
        shutil.rmtree(name, ignore_errors=True)


class Checkpoint(ToyTest):
    @classmethod
    def setUpClass(cls):
        cls.data = Samples(64).write("d.safetensors")
        cls.weights = write_tensors("w.safetensors", weights())
        cls.program = build("toy2.so", RANKS=2, BATCH=8)
        cls.common = [cls.program, "--data", cls.data, "--quiet"]

    def test_contents(self):
        self.succeeds(*self.common, "--weights", self.weights, "--steps", 7, "--seed", 4,
                      "--no-shuffle", "--checkpoint", path("c"))  # fmt: skip
        tensors, metadata = read_tensors("c")
        self.assertEqual(sorted(tensors), ["b", "scale", "step", "w", "w.momentum"])
        self.assertEqual(tensors["step"], [7.0])
        expected = {"step": "7", "seed": "4", "program": "toy", "lr": "0.05", "lr_schedule": "constant",
                    "lr_warmup": "0", "lr_total": "7", "weights": "3", "role.step": "optimizer_state",
                    "role.w.momentum": "optimizer_state"}  # fmt: skip
        added = {"shuffle": "0", "global_batch": "16", "samples": "64", "last_batch": "drop"}
        rest = {key: metadata[key] for key in metadata if "checksum" not in key and key != "mpcomm-run.data"}
        self.assertEqual(rest, {**{"mpcomm." + key: value for key, value in expected.items()},
                                **{"mpcomm-run." + key: value for key, value in added.items()}})  # fmt: skip

    @staticmethod
    def checksum_of_header(header):
        """As docs/Design/Manifest.md defines it."""
        def text(value):
            return struct.pack("<Q", len(value.encode())) + value.encode()

        packed = b""
        for key, value in sorted(header["__metadata__"].items()):
            if key != "mpcomm.checksum":
                packed += text(key) + text(value)
        for name, entry in sorted(header.items()):
            if name != "__metadata__":
                packed += text(name) + text(entry["dtype"].lower() + " " + str(entry["shape"]))
                packed += struct.pack("<Q", entry["data_offsets"][0])
        return "%016x" % xxh64(packed)

    def test_checksums(self):
        # By a reader and a hash of its own.
        for program, start in (self.program, []), (build("one.so", BATCH=8), ["--np", 1]):
            self.succeeds(program, *self.common[1:], *start, "--weights", self.weights, "--steps", 3,
                          "--checkpoint", path("sums"), "--save-weights", path("sums-w"))  # fmt: skip
            for name in "sums", "sums-w":
                with open(path(name), "rb") as file:
                    (length,) = struct.unpack("<Q", file.read(8))
                    header, data = json.loads(file.read(length)), file.read()
                metadata = header["__metadata__"]
                for key, entry in header.items():
                    if key != "__metadata__":
                        begin, end = entry["data_offsets"]
                        self.assertEqual(metadata["mpcomm.checksum." + key], "%016x" % xxh64(data[begin:end]))
                self.assertEqual(metadata["mpcomm.checksum"], self.checksum_of_header(header))
        sums, kinds = read_tensors("d.safetensors")[0], Samples(64).tensors()
        packed = b""
        for key in sorted(sums):
            packed += struct.pack("<Q", len(key)) + key.encode()
            packed += struct.pack("<Q", xxh64(pack(kinds[key][0], sums[key])))
        self.assertEqual(read_tensors("sums")[1]["mpcomm-run.data"], "%016x" % xxh64(packed))

    def test_damage_is_noticed(self):
        self.succeeds(*self.common, "--weights", self.weights, "--steps", 3, "--checkpoint", path("whole"))
        with open(path("whole"), "rb") as file:
            whole = file.read()
        (length,) = struct.unpack("<Q", whole[:8])
        header = json.loads(whole[8 : 8 + length])
        places = {
            "the length": (0, ""),
            "a digit of the step": (whole.index(b'"mpcomm.step":"3"') + 15, "the header has checksum "),
            "a checksum": (whole.index(b'"mpcomm.checksum.w":"') + 25, "the header has checksum "),
            "the header's checksum": (whole.index(b'"mpcomm.checksum":"') + 25, "the header has checksum "),
            "its name": (whole.index(b'"mpcomm.checksum":"') + 10, "the header has checksums of tensors, and none"),
        }
        for name, entry in header.items():
            if name != "__metadata__":
                places[name] = 8 + length + entry["data_offsets"][0], "tensor '%s' has checksum " % name
        for place, (at, message) in places.items():
            with self.subTest(place=place):
                with open(path("damaged"), "wb") as file:
                    file.write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
                self.fails("%s: %s" % (path("damaged"), message), *self.common, "--resume", path("damaged"),
                           "--steps", 5)  # fmt: skip

    def test_files_of_others(self):
        # Who writes no checksums is read as before.
        self.succeeds(*self.common, "--weights", self.weights, "--steps", 3, "--checkpoint", path("ours"))
        tensors, metadata = read_tensors("ours")
        shapes = {"w": [DIM], "w.momentum": [DIM + 1]}
        theirs = write_tensors("theirs", {k: ("F32", shapes.get(k, []), v) for k, v in tensors.items()},
                               {k: v for k, v in metadata.items() if "checksum" not in k})  # fmt: skip
        for name in path("ours"), theirs:
            self.succeeds(*self.common, "--resume", name, "--steps", 6, "--checkpoint", name)
        self.assertEqual(read_tensors("ours")[0], read_tensors("theirs")[0])

    def test_what_is_not_finite_is_not_kept(self):
        kept = ["--weights", self.weights, "--checkpoint", path("finite")]
        self.succeeds(*self.common, *kept, "--steps", 2)
        with open(path("finite"), "rb") as file:
            before = file.read()
        # Of the first step the loss is finite, and what it makes of w is not.
        for program in self.program, build("one.so", BATCH=8):
            error = self.fails("step 1: rank 0: tensor 'w': ", program, *self.common[1:], *kept,
                               "--steps", 1, "--lr", 3e38).err  # fmt: skip
            self.assertRegex(error, r"\d of 4 elements (are|is) not finite, the first, element \d, is -?inf")
            self.assertIn("; the checkpoint is not written; %s is as it was before\n" % path("finite"), error)
        self.fails("; %s does not exist" % path("w3"), *self.common, "--weights", self.weights,
                   "--save-weights", path("w3"), "--steps", 1, "--lr", 3e38)  # fmt: skip
        self.assertFalse(os.path.exists(path("w3")))
        # In the middle of a run that does not stop for it.
        outcome = run(*self.common[:-1], *kept, "--steps", 3, "--lr", 3e38, "--checkpoint-every", 1, "--allow-nonfinite")
        self.assertEqual(outcome.code, 1, str(outcome))
        self.assertIn("warning: step 1: rank 0: tensor 'w': ", outcome.out)
        self.assertIn("warning: step 2: rank 0: tensor 'w': ", outcome.out)
        self.assertIn("error: step 3: rank 0: tensor 'w': ", outcome.err)
        with open(path("finite"), "rb") as file:
            self.assertEqual(file.read(), before)

    def test_the_last_finite_state_is_kept(self):
        # The loss is the first to overflow; then it takes some steps more.
        outcome = run(*self.common[:-1], "--weights", self.weights, "--checkpoint", path("last"),
                      "--checkpoint-every", 3, "--steps", 100, "--lr", 30, "--allow-nonfinite")  # fmt: skip
        self.assertEqual(outcome.code, 1, str(outcome))
        self.assertIn("error: step 100: rank 0: tensor 'w': 4 of 4 elements are not finite", outcome.err)
        step = re.search(r"keeps the checkpoint of step (\d+)$", outcome.err, re.M).group(1)
        self.assertIn("warning: step %d: rank 0: tensor " % (int(step) + 3), outcome.out)
        tensors, metadata = read_tensors("last")
        self.assertEqual(metadata["mpcomm.step"], step)
        self.assertTrue(all(abs(v) < float("inf") for values in tensors.values() for v in values))

    def test_infinity_in_a_buffer_is_a_value(self):
        count = 5
        program = build_stages("buffer.so", staged(ballast=count), BALLAST=1)
        for value, message in (float("-inf"), None), (float("nan"), "step 2: rank 1: tensor 'ballast': 1 of 5"):
            buffer = write_tensors("buffer", {**weights(), "ballast": ("F32", [count], [0.0] * 4 + [value])})
            start = [program, "--weights", buffer, *self.common[1:], "--steps", 2, "--checkpoint", path("b.ckpt")]
            if message:
                self.fails(message + " elements is not finite, the first, element 4, is nan", *start)
            else:
                self.succeeds(*start)
                self.assertEqual(read_tensors("b.ckpt")[0]["ballast"][4], value)

    def test_the_last_ones_are_kept(self):
        os.makedirs(path("keep"))
        start = [*self.common, "--checkpoint", path("keep/c"), "--checkpoint-every", 2, "--checkpoint-keep", 3]
        self.succeeds(*start, "--weights", self.weights, "--steps", 9)
        self.assertEqual(sorted(os.listdir(path("keep"))), ["c", "c.step-6", "c.step-8"])
        for name, step in ("c", 9), ("c.step-6", 6), ("c.step-8", 8):
            self.assertEqual(read_tensors("keep/" + name)[1]["mpcomm.step"], str(step))
        self.succeeds(*start, "--resume", path("keep/c.step-8"), "--steps", 8)
        self.succeeds(*start, "--resume", path("keep/c"), "--steps", 12)
        self.assertEqual(sorted(os.listdir(path("keep"))), ["c", "c.step-10", "c.step-8"])
        self.fails("--checkpoint-keep requires --checkpoint", *self.common, "--weights", self.weights,
                   "--checkpoint-keep", 2, code=2)  # fmt: skip

    def test_files_of_others_are_not_replaced(self):
        os.makedirs(path("others"))
        start = [*self.common, "--steps", 6, "--checkpoint", path("others/c"), "--checkpoint-keep", 2]
        theirs = shutil.copy(self.weights, path("others/c.step-4"))
        self.fails("%s: is there already, and is not of this run" % theirs, *start, "--weights", self.weights,
                   "--checkpoint-every", 2)  # fmt: skip
        self.fails("--weights %s: that may be the name of a checkpoint that --checkpoint-keep keeps" % theirs,
                   *start, "--weights", theirs, code=2)  # fmt: skip
        self.fails("--save-weights %s: that may be" % theirs, *start, "--weights", self.weights,
                   "--save-weights", theirs, code=2)  # fmt: skip
        self.assertEqual(os.listdir(path("others")), ["c.step-4"])
        self.succeeds(*start, "--weights", self.weights, "--checkpoint-every", 5)
        with open(self.weights, "rb") as before, open(theirs, "rb") as after:
            self.assertEqual(after.read(), before.read())

    def test_a_run_that_cannot_start_leaves_the_log(self):
        log, damaged = path("kept.log"), path("kept-damaged")
        start = [*self.common, "--log", log, "--steps", 6]
        self.succeeds(*start, "--weights", self.weights, "--checkpoint", path("kept.ckpt"))
        with open(path("kept.ckpt"), "rb") as file:
            whole = file.read()
        with open(damaged, "wb") as file:
            file.write(whole[:-1] + bytes([whole[-1] ^ 1]))
        with open(log, "rb") as file:
            before = file.read()
        self.assertEqual(before.count(b"\n"), 6)
        for wrong in ["--resume", damaged], ["--weights", damaged]:
            self.fails("has checksum", *start, *wrong)
            with open(log, "rb") as file:
                self.assertEqual(file.read(), before)

    def test_shards(self):
        # Large tensors are written by the ranks in turn, each once; small ones by rank 0.
        program, alone = build("bulk2.so", RANKS=2, BATCH=8, BULK=20000), build("bulk1.so", BATCH=16, BULK=20000)
        folder = path("shards")
        os.makedirs(folder)
        start = [program, *self.common[1:], "--checkpoint", os.path.join(folder, "c")]
        self.succeeds(*start, "--weights", self.weights, "--steps", 7)
        metadata = read_tensors("shards/c")[1]
        (shard,) = shards_of(metadata)
        self.assertRegex(shard, r"^c\.shard-[0-9a-f]{16}-1$")
        self.assertEqual(sorted(os.listdir(folder)), ["c", shard])
        own = lambda name: {key for key in read_tensors(name)[0] if key.startswith("bulk")}
        self.assertEqual(len(own("shards/" + shard)), 2)
        self.assertEqual(own("shards/c"), {"bulk.1", "bulk.2", "bulk.3"})
        self.assertGreater(os.path.getsize(os.path.join(folder, shard)), 160000)
        self.assertLess(os.path.getsize(os.path.join(folder, "c")), 90000)
        # It goes on on another number of ranks, and back.
        self.succeeds(alone, *self.common[1:], "--resume", start[-1], "--steps", 12, "--checkpoint",
                      os.path.join(folder, "d"))  # fmt: skip
        self.assertEqual(shards_of(read_tensors("shards/d")[1]), [])
        self.succeeds(*start, "--resume", os.path.join(folder, "d"), "--steps", 14)
        self.succeeds(*start[:-1], path("whole-shards"), "--weights", self.weights, "--steps", 14)
        rest, whole = read_tensors("shards/c")[0], read_tensors("whole-shards")[0]
        self.assertEqual(rest.keys(), whole.keys())
        for key in rest:
            for a, b in zip(rest[key], whole[key]):
                self.assertAlmostEqual(a, b, delta=TOLERANCE)
        # Weights are one file, for other programs.
        self.succeeds(*start, "--resume", start[-1], "--steps", 14, "--save-weights", os.path.join(folder, "w"))
        self.assertEqual(own("shards/w"), {"bulk.1", "bulk.2", "bulk.3"})
        self.assertEqual(shards_of(read_tensors("shards/w")[1]), [])

    def test_parts(self):
        # Of three tensors of a size on two ranks, each writes one and half of the third.
        size = 50000
        program, alone = build("huge2.so", RANKS=2, BATCH=8, BULK=size), build("huge1.so", BATCH=16, BULK=size)
        folder = path("parts")
        os.makedirs(folder)
        start = [program, *self.common[1:], "--checkpoint", os.path.join(folder, "c")]
        self.succeeds(*start, "--weights", self.weights, "--steps", 7)
        values, metadata = read_file("parts/c")
        self.assertRegex(metadata["mpcomm.part.bulk.3"], r"^\d+ of \[%d\]$" % size)
        # Rank 0 has what is small as well.
        self.assertAlmostEqual(len(values["bulk.3"]), size // 2, delta=50)
        sizes = [os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)]
        self.assertEqual(len(sizes), 2)
        # But for headers and what is small.
        self.assertLess(max(sizes) - min(sizes), 2000)
        whole = read_tensors("parts/c")[0]
        self.assertEqual([len(whole["bulk.%d" % k]) for k in (1, 2, 3)], [size] * 3)
        self.succeeds(alone, *self.common[1:], "--resume", start[-1], "--steps", 7, "--checkpoint", path("one-part"))
        self.assertEqual(read_tensors("one-part")[0], whole)
        self.succeeds(*start, "--resume", path("one-part"), "--steps", 7, "--save-weights", path("no-parts"))
        self.assertEqual(read_tensors("parts/c")[0], whole)
        saved, metadata = read_file("no-parts")
        self.assertEqual(saved, {key: whole[key] for key in saved})
        self.assertNotIn("mpcomm.part", str(metadata))

    def test_shards_are_kept_and_checked(self):
        program = build("bulk2.so", RANKS=2, BATCH=8, BULK=20000)
        folder = path("kept-shards")
        os.makedirs(folder)
        file = os.path.join(folder, "c")
        start = [program, *self.common[1:], "--checkpoint", file, "--checkpoint-every", 2, "--checkpoint-keep", 2]
        for background in [], ["--checkpoint-background"]:
            self.succeeds(*start, *background, "--weights", self.weights, "--steps", 8)
            kept = [shard for name in ("c", "c.step-6") for shard in shards_of(read_tensors("kept-shards/" + name)[1])]
            self.assertEqual(len(set(kept)), 2)
            self.assertEqual(set(os.listdir(folder)), {"c", "c.step-6", *kept})
            os.remove(file + ".step-6")
        shard = os.path.join(folder, kept[0])
        with open(shard, "rb") as source:
            whole = source.read()
        resume = [program, *self.common[1:], "--resume", file, "--steps", 9]
        for at, message in (-1, "' has checksum"), (20, ""), (None, "No such file"):
            os.remove(shard)
            if at is not None:
                with open(shard, "wb") as target:
                    target.write(whole[:at] + bytes([whole[at] ^ 1]) + whole[len(whole) + at + 1 if at < 0 else at + 1 :])
            error = self.fails("", *resume).err
            self.assertIn(shard, error)
            self.assertIn(message, error)
        # One of another checkpoint, whole as it is.
        self.succeeds(program, *self.common[1:], "--weights", self.weights, "--steps", 3, "--checkpoint", path("oo"))
        (other,) = shards_of(read_tensors("oo")[1])
        shutil.copy(path(other), shard)
        self.fails("%s: a shard of this checkpoint, %s, has checksum " % (file, shard), *resume)
        with open(shard, "wb") as target:
            target.write(whole)
        self.succeeds(*resume)

    def test_background(self):
        os.makedirs(path("background"))
        start = [*self.common, "--weights", self.weights, "--steps", 12, "--checkpoint-every", 2,
                 "--checkpoint-keep", 3]  # fmt: skip
        self.succeeds(*start, "--checkpoint", path("background/a"))
        self.succeeds(*start, "--checkpoint", path("background/b"), "--checkpoint-background")
        for kept in "", ".step-10", ".step-8":
            self.assertEqual(read_tensors("background/a" + kept), read_tensors("background/b" + kept))
        self.assertEqual(sorted(os.listdir(path("background"))),
                         [f + kept for f in "ab" for kept in ("", ".step-10", ".step-8")])  # fmt: skip
        self.fails("--checkpoint-background requires --checkpoint-every", *self.common, "--weights", self.weights,
                   "--checkpoint", path("x"), "--checkpoint-background", code=2)  # fmt: skip

    def test_background_that_cannot_write(self):
        os.makedirs(path("vanishes"))
        outcome = run_through(lambda _: remove_folder(path("vanishes")), *self.common, "--weights", self.weights,
                              "--checkpoint", path("vanishes/c"), "--checkpoint-every", 100,
                              "--checkpoint-background", goes_on=False)  # fmt: skip
        self.assertEqual(outcome.code, 1, str(outcome))
        self.assertRegex(outcome.err, r"error: %s: cannot .*No such file or directory" % path("vanishes/c"))

    def test_one_run_at_a_time(self):
        folder = path("locked")
        os.mkdir(folder)
        name = os.path.join(folder, "c")
        os.symlink("c", os.path.join(folder, "link"))
        start = [*self.common, "--weights", self.weights]
        launched = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        alone = build("one.so", BATCH=8)

        def compete(process):
            # It is rank 0 that holds the lock.
            children = "/proc/%d/task/%d/children" % (process.pid, process.pid)
            with open(children, encoding="ascii") as file:
                holder = int(file.read().split()[0])
            message = "--checkpoint %s: another run writes to it (process %d on "
            for other in name, os.path.join(folder, "link"):
                self.fails(message % (other, holder), *start, "--steps", 1, "--checkpoint", other)
            self.fails(message % (name, holder), alone, *self.common[1:], "--weights", self.weights, "--steps", 1,
                       "--checkpoint", name, env=launched)  # fmt: skip
            self.succeeds(*start, "--steps", 1, "--checkpoint", name + "2")
            # Nor does it keep one that only reads.
            self.succeeds(*self.common, "--resume", name + "2", "--steps", 2)

        self.assertEqual(run_through(compete, *start, "--checkpoint", name).code, 128 + signal.SIGTERM)
        # What stops it lets it write its checkpoint.
        self.assertEqual(sorted(os.listdir(folder)), ["c", "c2", "link"])
        os.remove(name)

        # What a launcher leaves that could not remove it is nobody's lock.
        run_through(lambda process: process.kill(), *start, "--checkpoint", name, goes_on=False)
        self.assertEqual(sorted(os.listdir(folder)), ["c.mpcomm-lock", "c2", "link"])
        self.succeeds(*start, "--steps", 1, "--checkpoint", name)
        self.succeeds(alone, *self.common[1:], "--weights", self.weights, "--steps", 1, "--checkpoint", name, env=launched)
        self.assertEqual(sorted(os.listdir(folder)), ["c", "c2", "link"])

    def test_limit_on_file_size(self):
        folder = path("limited")
        os.makedirs(folder)
        checkpoint = os.path.join(folder, "c")
        process = subprocess.Popen(
            [RUN, *self.common, "--weights", self.weights, "--steps", "1000000000",
             "--checkpoint", checkpoint, "--checkpoint-every", "1"],
            stderr=subprocess.PIPE,
        )  # fmt: skip
        deadline = time.monotonic() + SLACK
        while not os.path.exists(checkpoint):
            self.assertLess(time.monotonic(), deadline, "no checkpoint was written")
            time.sleep(0.01)
        # The limit comes now: from the start it would hit the shared memory.
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            for rank in file.read().split():
                resource.prlimit(int(rank), resource.RLIMIT_FSIZE, (100, 100))
        error = process.communicate(timeout=SLACK)[1].decode()
        self.assertEqual(process.returncode, 1, error)
        self.assertIn("c: cannot write: File too large; the file of that name is as it was", error)
        self.assertEqual(error.count("\n"), 1, error)
        self.assertEqual(os.listdir(folder), ["c"])
        step = int(read_tensors("limited/c")[1]["mpcomm.step"])
        self.succeeds(*self.common, "--resume", checkpoint, "--steps", step + 2)

    def test_places_that_take_no_file(self):
        # Told before the first step: nobody waits for so many to learn it.
        start = [*self.common, "--weights", self.weights, "--steps", 10**9]
        self.fails("cannot create a temporary file beside it: No such file",
                   *start, "--checkpoint", path("none/c"))  # fmt: skip
        self.fails("/dev/full: cannot write: not a regular file", *start, "--checkpoint", "/dev/full")
        self.fails("/dev/full: cannot write: not a regular file", *start, "--save-weights", "/dev/full")
        self.fails("not a regular file", *start, "--checkpoint", WORK)
        start[-1] = 2
        self.fails("/dev/full: cannot write: No space left", *start, "--log", "/dev/full", lines=None)
        self.fails("cannot open: No such file", *start, "--log", path("none/log"))

    def test_files_that_are_one(self):
        data = shutil.copy(self.data, path("precious"))
        with open(data, "rb") as file:
            before = file.read()
        os.symlink("precious", path("alias"))
        os.link(data, path("hard"))
        start = [self.common[0], "--data", data, "--weights", self.weights, "--quiet", "--steps", 2]
        for option in "--log", "--checkpoint", "--save-weights", "--trace":
            for name in "precious", "alias", "hard", "none/../precious":
                with self.subTest(option=option, name=name):
                    self.fails("%s %s: that is the file of --data" % (option, path(name)),
                               *start, option, path(name), code=2)  # fmt: skip
        self.fails("that is the file of the program", *start, "--log", self.common[0], code=2)
        self.fails("that is the file of --weights", *start, "--save-weights", self.weights, code=2)
        self.fails("--save-weights ./z: that is the file of --checkpoint", *start,
                   "--checkpoint", "z", "--save-weights", "./z", code=2, cwd=WORK)  # fmt: skip
        self.fails("that is the file of --checkpoint", *start,
                   "--checkpoint", path("z"), "--log", path("z"), code=2)  # fmt: skip
        with open(data, "rb") as file:
            self.assertEqual(file.read(), before)
        # Two may well go to one device; a checkpoint may replace what it goes on from.
        self.succeeds(*start, "--log", "/dev/null", "--checkpoint", path("again"))
        self.succeeds(self.common[0], "--data", data, "--quiet", "--steps", 3,
                      "--resume", path("again"), "--checkpoint", path("again"))  # fmt: skip

    def test_nothing_trained_is_nothing_kept(self):
        start = [*self.common, "--weights", self.weights, "--steps", 0, "--evaluate"]
        for option in "--checkpoint", "--save-weights":
            self.fails("keep what was trained, and --steps 0 trains nothing", *start,
                       option, path("nothing"), code=2)  # fmt: skip

    def test_saved_weights_start_a_run(self):
        self.succeeds(*self.common, "--weights", self.weights, "--steps", 2,
                      "--save-weights", path("saved"))  # fmt: skip
        self.succeeds(*self.common, "--weights", path("saved"), "--steps", 2)


if __name__ == "__main__":
    main()
