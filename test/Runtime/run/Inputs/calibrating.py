# What the tests of --calibrate share: a run, and what holds for each file.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

from toy import *

KINDS = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send", "recv"]


class CalibrateTest(ToyTest):
    MORE_RATES = set()  # of the device beside those of all

    def calibrate(self, ranks, *options, backend="shm", links=None):
        outcome = self.succeeds("--calibrate", path("c.json"), "--np", ranks, "--calibrate-seconds",
                                1, *options)  # fmt: skip
        with open(path("c.json")) as file:
            cluster = json.load(file)
        self.assertEqual(cluster["schema"], "mpcomm-cluster-1")
        self.assertIn("%d rank" % ranks, cluster["source"])
        device = cluster["device"]
        for key in "memory_bandwidth", "memory_bytes", "launch":
            self.assertGreater(device[key], 0)
        self.assertEqual(set(device["flops"]), {"f32", "f64", "f16", "bf16", "vector"} | self.MORE_RATES)
        for rate in device["flops"].values():
            self.assertGreater(rate, 1e6)
        self.assertEqual([(link["name"], link["ranks"]) for link in cluster["links"]], links or [(backend, 0)])
        for link in cluster["links"]:
            self.assertGreaterEqual(link["latency"], 0)
            self.assertGreater(link["bandwidth"], 0)
        for line in cluster["measured"]:
            self.assertEqual(line["backend"], backend)
            self.assertGreaterEqual(line["alpha"], 0)
            self.assertGreaterEqual(line["beta"], 0)
            self.assertGreater(line["alpha"] + line["beta"], 0)
        for rate in "compute_rate_under_comm", "comm_rate_under_compute":
            self.assertGreater(cluster[rate], 0)
            self.assertLessEqual(cluster[rate], 1)
        found = [(line["kind"], line["ranks"], *([line["link"]] if links else [])) for line in cluster["measured"]]
        self.assertEqual(len(found), len(set(found)))
        return set(found), outcome
