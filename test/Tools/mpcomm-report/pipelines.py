# A measured pipeline: what a rank waits for is on its own lane, passes are drawn, there is
# one figure for what is exposed, and steps that cannot be compared are told.
# RUN: %python %s %mpcomm-report %t

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import xml.dom.minidom

TOOL, FOLDER = sys.argv[1:]


def event(name, begin, end, **more):
    return {"name": name, "location": "", "begin": begin, "end": end, **more}


def collective(number, rank, ready, start, end, awaited, exposed, reason, name="send"):
    return {"id": number, "rank": rank, "name": name, "bytes": 1000, "tensors": 1,
            "ready": ready, "start": start, "end": end, "awaited": awaited, "hidden": 0,
            "exposed": exposed, "reason": reason}


def pipeline():
    """Two ranks; each passes on for 1 ms. Rank 0 waits 1 ms, rank 1 for 3 ms."""
    ranks = [[(0, 1, "F0"), (1, 2, "F1"), (3, 4, "B0"), (4, 5, "B1")],
             [(1, 2, "F0"), (2, 3, "F1"), (6, 7, "B0"), (7, 8, "B1")]]
    streams = []
    for rank, passes in enumerate(ranks):
        waits = [(2, 3, 0)] if rank == 0 else [(3, 6, 1)]
        streams += [
            {"name": "passes", "rank": rank, "events": [
                event(action, b * 1e-3, e * 1e-3, action=action, stage=rank)
                for b, e, action in passes]},
            {"name": "compute", "rank": rank, "events": sorted(
                [event("kernel", b * 1e-3, e * 1e-3) for b, e, _ in passes]
                + [event("wait", b * 1e-3, e * 1e-3, flow=c) for b, e, c in waits],
                key=lambda e: e["begin"])},
            {"name": "pp", "rank": rank, "events": [
                event("send", b * 1e-3, e * 1e-3, flow=c) for b, e, c in waits]}]
    return {
        "schema": "mpcomm-timeline-1", "name": "toy", "kind": "measured", "cluster": "shm",
        "ranks": 2, "seconds": 8e-3, "compute": 4e-3, "exposed": 2e-3,
        "programs": [{"name": "p%d" % r, "rank": r, "ranks": 1, "seconds": 8e-3,
                      "compute": 4e-3, "exposed": e} for r, e in ((0, 1e-3), (1, 3e-3))],
        "pipeline": {"schedule": "gpipe", "ranks": 2, "stages": 2, "microbatches": 2,
                     "bubble": 0.5},
        "streams": streams, "memory": [],
        "collectives": [
            collective(0, 0, 2e-3, 2e-3, 3e-3, 2e-3, 1e-3, "late-peer"),
            collective(1, 1, 3e-3, 3e-3, 6e-3, 3e-3, 3e-3, "dependency")]}


def write(name, value):
    with open(name, "w", encoding="utf-8") as file:
        json.dump(value, file)
    return name


def report(*arguments):
    return subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)


class Pipelines(unittest.TestCase):
    def page(self, value):
        write("step.json", value)
        done = report("step.json", "--html", "page.html")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open("page.html", encoding="utf-8") as file:
            return file.read()

    def boxes(self, page, kind):
        """(y, x, width) of the boxes of the chart, places as shares of the step."""
        chart = page[page.index('id="chart"'):]
        return [(int(y), round(float(x) / 968, 3), round(float(w) / 968, 3))
                for x, y, w in re.findall(
                    r'<rect class="%s2?" x="([^"]+)" y="(\d+)" width="([^"]+)"' % kind, chart)]

    def lanes(self, page):
        """By (rank, name), where a lane begins: its name is 15 below."""
        chart = page[page.index('id="chart"'):]
        return {(int(rank), name): int(float(y)) - 15 for y, name, rank in re.findall(
            r'<text x="[^"]+" y="([^"]+)" class="lane"[^>]*>([^<]+)</text>\s*'
            r'<text [^>]*>rank (\d+)<', chart)}

    def check_waits(self, page):
        lanes = self.lanes(page)
        self.assertEqual(self.boxes(page, "w"),
                         [(lanes[0, "compute"], 0.25, 0.125), (lanes[1, "compute"], 0.375, 0.375)])
        self.assertEqual({y for y, _, _ in self.boxes(page, "x")},
                         {lanes[0, "pp"] + 23, lanes[1, "pp"] + 23})

    def test_waits_are_on_the_lane_of_their_rank(self):
        self.check_waits(self.page(pipeline()))
        # A file without waits: they end with their collectives.
        value = pipeline()
        for stream in value["streams"]:
            if stream["name"] == "compute":
                stream["events"] = [e for e in stream["events"] if "flow" not in e]
        self.check_waits(self.page(value))

    def test_passes_are_drawn(self):
        page = self.page(pipeline())
        lanes = self.lanes(page)
        self.assertEqual(self.boxes(page, "pf"),
                         [(lanes[0, "passes"], 0, 0.125), (lanes[0, "passes"], 0.125, 0.125),
                          (lanes[1, "passes"], 0.125, 0.125), (lanes[1, "passes"], 0.25, 0.125)])
        self.assertEqual(len(self.boxes(page, "pb")), 4)
        self.assertEqual(page.count("2 stages on 2 ranks, 2 micro-batches, schedule gpipe: "
                                    "bubble 50.0 %"), 1)
        done = report("step.json", "--svg", "passes.svg")
        self.assertEqual(done.returncode, 0, done.stderr)
        passes = xml.dom.minidom.parse("passes.svg").getElementsByTagName("rect")
        self.assertEqual(sorted(r.getAttribute("class") for r in passes
                                if r.getAttribute("class").startswith("p")),
                         ["pb"] * 4 + ["pf"] * 4)

    def test_one_figure_for_what_is_exposed(self):
        self.page(pipeline())
        facts = json.loads(report("step.json", "--json").stdout)["steps"][0]
        self.assertEqual(facts["exposed"], 2e-3)
        self.assertEqual({r["reason"]: r["exposed"] for r in facts["reasons"]},
                         {"dependency": 1.5e-3, "late-peer": 0.5e-3})
        # The table says whose the rest is.
        text = report("step.json").stdout
        self.assertRegex(text, r"#  rank  collective")
        self.assertRegex(text, r"(?m)^  1 +1  send .* 3000\.0  dependency$")

    def test_what_is_not_of_a_collective(self):
        value = pipeline()
        value["exposed"] = 2.5e-3
        self.assertEqual(re.findall(r"<b>([^<]*)</b> \(20.0 % of what is exposed\): ranks begin "
                                    "after", self.page(value)), ["500.0 µs"])

    def compare(self, change):
        other = copy.deepcopy(pipeline())
        change(other)
        write("a.json", pipeline())
        write("b.json", other)
        done = report("a.json", "b.json", "--html", "both.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_the_same_are_compared(self):
        done = self.compare(lambda other: None)
        self.assertEqual(done.stderr, "")
        self.assertIn("exposed measured", done.stdout)

    def test_others_are_told(self):
        def cluster(other):
            other["cluster"] = "gloo"

        self.assertEqual(
            self.compare(cluster).stderr,
            "mpcomm-report: warning: the cluster is shm in a.json and gloo in b.json\n")

        def mesh(other):
            other["ranks"] = 4
            other["collectives"][1]["name"] = "all_reduce"

        done = self.compare(mesh)
        self.assertEqual(
            done.stderr,
            "mpcomm-report: warning: the ranks are 2 in a.json and 4 in b.json\n"
            "mpcomm-report: warning: the collectives of a.json are not those of b.json: they "
            "are listed apart\n")
        # No row is of two collectives that have nothing in common.
        self.assertNotIn("exposed measured", done.stdout)
        self.assertEqual(done.stdout.count("#  rank  collective"), 2)
        with open("both.html", encoding="utf-8") as file:
            self.assertEqual(file.read().count("the ranks are 2 in a.json and 4 in b.json"), 1)
        facts = json.loads(report("a.json", "b.json", "--json").stdout)
        self.assertEqual(len(facts["warnings"]), 2)

        def stages(other):
            other["pipeline"]["stages"] = 4

        self.assertEqual(
            self.compare(stages).stderr, "mpcomm-report: warning: the pipeline's stages are 2 "
            "in a.json and 4 in b.json\n")

    def test_page_and_picture_of_what_is_no_pipeline(self):
        value = pipeline()
        del value["pipeline"], value["programs"]
        value["streams"] = [s for s in value["streams"] if s["rank"] == 0 and s["name"] != "passes"]
        value["collectives"].pop()
        write("step.json", value)
        done = report("step.json", "--html", "one.html", "--svg", "one.svg")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(os.path.exists("one.html"))
        kinds = [r.getAttribute("class")
                 for r in xml.dom.minidom.parse("one.svg").getElementsByTagName("rect")]
        self.assertEqual((kinds.count("c") + kinds.count("c2"), kinds.count("w")), (4, 1))


shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)
os.chdir(FOLDER)
unittest.main(argv=sys.argv[:1])
