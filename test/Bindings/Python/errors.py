# What is refused, with an error that names the place, what was expected and what was
# found; and a refused call changes nothing.
#
# REQUIRES: torch, compiler
# RUN: rm -rf %t && mkdir %t
# RUN: %python %s %t

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
import mpcomm
import numpy
import torch
import torch.nn.functional as F
from training import adamw, data, seeded

folder = sys.argv[1]
batch = data(1)[0]
x, y = batch
model = seeded()
optimizer = adamw(model.parameters())


def refused(call, *words, kind=mpcomm.Error, code=None):
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
        assert code is None or error.code == code, error.code
        return
    raise AssertionError(f"expected an error with {words}")


def compiled(loss=F.cross_entropy, model=model, optimizer=optimizer, example=batch, **options):
    return mpcomm.compile(model, loss, optimizer, example, **options)


def not_compiled(*words, **arguments):
    refused(lambda: compiled(**arguments), *words, kind=mpcomm.CompileError)


# --- compile ---

not_compiled("optimizer", "expected optimizer", optimizer=None)
not_compiled("torch.optim.Optimizer", "float", optimizer=0.1)
not_compiled("example_batch", example=None)
not_compiled("numbers of samples differ", "'batch.1' has 7", example=(x, y[:7]))
not_compiled("'batch.1'", "str", example=(x, "y"))
not_compiled("first dimension", "'batch.1' of shape []", example=(x, torch.tensor(1)))
not_compiled("positions of 2", "found 5", inputs=[5])
not_compiled("no tensor named 'z'", inputs=["z"])
not_compiled("micro-batches", "found 8", micro_batches=3)
not_compiled("no-such-option", no_such_option=1)
not_compiled("mesh", mesh="dp:0")
not_compiled("the option micro_batches=2 gives so many", mesh="pp:2")
not_compiled("without spaces", cluster="a b")
refused(lambda: mpcomm.compile("nothing.mlir"), "nothing.mlir: no such file",
        kind=mpcomm.CompileError)


class Decides(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = seeded()

    def forward(self, x):
        return self.inner(x) if x.sum() > 0 else -self.inner(x)  # the line of the error


decides = Decides()
line = Decides.forward.__code__.co_firstlineno + 1
not_compiled(f"errors.py:{line}", model=decides, optimizer=adamw(decides.parameters()))
with open(folder + "/bad.mlir", "w") as file:
    file.write("module {\n  func.func @train_step() { nonsense }\n}\n")
refused(lambda: mpcomm.compile(folder + "/bad.mlir"), "bad.mlir:2", kind=mpcomm.CompileError)

# --- open ---

refused(lambda: mpcomm.Session(folder + "/none.so"), "none.so: no such file")
with open(folder + "/empty.so", "w"):
    pass
refused(lambda: mpcomm.Session(folder + "/empty.so"), "empty.so")
refused(lambda: mpcomm.Session(model), "path of a program file", "Mlp", "mpcomm.compile")
with open(folder + "/junk", "w") as file:
    file.write("module {}")
refused(lambda: mpcomm.compile(folder + "/junk"), "junk: expected a training graph, FILE.mlir",
        kind=mpcomm.CompileError)
refused(lambda: mpcomm.Session(compiled(mesh="dp:2")), "2", "1")
program = compiled()
refused(lambda: mpcomm.Session(program, comm="pigeons"), "pigeons")
refused(lambda: mpcomm.Session(program, lr=-1.0), "-1.0")
with mpcomm.Session(program, lr=lambda step: 0.1 if step < 1 else -1.0) as session:
    session.step(batch)
    refused(lambda: session.step(batch), "step 1", "'lr'", "-1.0")
    assert session.steps == 1
refused(lambda: mpcomm.Session(program, lr=[0.1, 0.2]), "expected a learning rate (lr), found 2")

# --- step ---

named = compiled(example={"x": x, "y": y})
with mpcomm.Session(named) as session:
    first = session.step({"x": x, "y": y})
with mpcomm.Session(named) as session:
    for bad, words in [
            ({"x": x}, ("expected the tensors x, y", "no 'y'")),
            ({"x": x, "z": y}, ("no 'y'",)),
            ({"x": x, "y": y, "z": y}, ("unknown 'z'",)),
            ({"x": x[:5], "y": y}, ("'x'", "[8, 16]", "[5, 16]", "drop_last")),
            ({"x": torch.cat([x, x]), "y": y}, ("'x'", "[16, 16]", "one size of batch")),
            ({"x": x.flatten(), "y": y}, ("'x'", "[8, 16]", "[128]")),
            ({"x": x.long(), "y": y}, ("'x'", "expected f32", "found i64")),
            ({"x": x, "y": y.float()}, ("'y'", "expected i64", "found f32")),
            ({"x": x, "y": y > 0}, ("'y'", "expected i64", "found bool")),
            ({"x": x.to(torch.complex64), "y": y}, ("'x'", "complex64")),
            ({"x": x.to("meta"), "y": y}, ("'x'", "on the CPU", "meta")),
            ({"x": x, "y": y.tolist()}, ("'y'", "list")),
            ({"x": x, "y": numpy.array(["a"] * 8)}, ("'y'", "<U1")),
            ({"x": x, "y": y + 4}, ("y", "[0, 4)")),
            ((x, y, y), ("2 tensors (x, y)", "found 3")),
            (None, ("2 tensors", "found 1"))]:
        refused(lambda bad=bad: session.step(bad), *words)
    assert session.step({"x": x, "y": y}) == first

    # --- state ---

    good = model.state_dict()
    held = session.state_dict()
    for bad, words in [
            ({k: v for k, v in good.items() if k != "0.bias"}, ("lacks '0.bias'",)),
            ({**good, "2.scale": x}, ("no '2.scale'",)),
            ({**good, "0.bias": x}, ("'0.bias'", "[32]", "[8, 16]")),
            ({**good, "0.bias": torch.zeros(32, dtype=torch.int64)}, ("f32", "i64"))]:
        refused(lambda bad=bad: session.load_state_dict(bad), *words)
        assert all(torch.equal(held[k], v) for k, v in session.state_dict().items())
    saved = session.optimizer_state_dict()
    refused(lambda: session.load_optimizer_state_dict({}), "optimizer.state_dict()")
    other = torch.optim.AdamW([{"params": [p]} for p in model.parameters()])
    refused(lambda: session.load_optimizer_state_dict(other.state_dict()), "[4]", "[1, 1, 1, 1]")
    del saved["state"][1]
    refused(lambda: session.load_optimizer_state_dict(saved), "lacks '0.bias.exp_avg'")
    refused(lambda: session.set("momentum", 0.1), "momentum", code="not_found")
    refused(lambda: session.output("nothing"), "nothing", "evaluate gives 'loss', 'output'",
            code="not_found")
    for keep in (0, -1, 1.5):
        refused(lambda: session.save(folder + "/c", keep=keep), "`keep`", str(keep))
    refused(lambda: session.plan_saves(folder + "/c", every=0), "`every`", "0")
    assert not os.path.exists(folder + "/c")
    refused(lambda: session.resume(folder + "/none"), "none")
    refused(lambda: session.save(folder + "/no/such/folder/c"), "no/such/folder")

refused(lambda: session.step({"x": x, "y": y}), "closed", code="not_ready")
refused(session.state_dict, "closed", code="not_ready")
session.close()  # again is allowed

# --- groups that shared a learning rate ---

fresh = seeded()
rule = torch.optim.SGD([{"params": fresh[0].parameters()}, {"params": fresh[2].parameters()}],
                       lr=0.1)
shared = compiled(model=fresh, optimizer=rule)
with mpcomm.Session(shared) as session:
    session.step(batch)
    rule.param_groups[1]["lr"] = 0.3
    refused(lambda: session.step(batch), "groups 0 and 1", "0.1", "0.3", "before mpcomm.compile")
refused(lambda: mpcomm.Session(shared), "groups 0 and 1")

# --- other options of the optimizer, which a program has as constants ---

fresh = seeded()
rule = torch.optim.SGD(fresh.parameters(), lr=0.1, momentum=0.9)
cycle = torch.optim.lr_scheduler.OneCycleLR(rule, 1.0, total_steps=20)
program = compiled(model=fresh, optimizer=rule)
with mpcomm.Session(program, lr=cycle) as session:
    session.step(batch)
    cycle.step()
    held = session.state_dict()
    refused(lambda: session.step(batch), "parameter group 0", "momentum=0.95", "found 0.9",
            "cycle_momentum=False")
    refused(session.lr, "momentum=0.95")
    assert all(torch.equal(held[k], v) for k, v in session.state_dict().items())
    again = compiled(model=fresh, optimizer=rule)  # with the momentum that is there now
    session.switch(session.load(again))
    session.step(batch)
refused(lambda: mpcomm.Session(program, lr=cycle), "momentum=0.95")
fresh = seeded()
rule = torch.optim.SGD(fresh.parameters(), lr=0.1, momentum=0.9)
cycle = torch.optim.lr_scheduler.OneCycleLR(rule, 1.0, total_steps=20, cycle_momentum=False)
with mpcomm.Session(compiled(model=fresh, optimizer=rule), lr=cycle) as session:
    for _ in range(3):
        session.step(batch)
        cycle.step()
    assert session.lr()["lr"] == rule.param_groups[0]["lr"] > 0.04
fresh = seeded()
rule = adamw(fresh.parameters())
with mpcomm.Session(compiled(model=fresh, optimizer=rule)) as session:
    rule.load_state_dict(rule.state_dict())
    session.step(batch)
    for name, value, words in [("weight_decay", 0.5, "weight_decay=0.1"), ("eps", 0.1, "eps="),
                               ("betas", (0.5, 0.9), "betas=(0.9, 0.999)"),
                               ("amsgrad", True, "amsgrad=False")]:
        before, rule.param_groups[0][name] = rule.param_groups[0][name], value
        refused(lambda: session.step(batch), words, f"found {value}")
        rule.param_groups[0][name] = before
    rule.param_groups[0].update(betas=[torch.tensor(0.9, dtype=torch.float64), 0.999],
                                foreach=False)
    session.step(batch)
    rule.param_groups[0]["lr"] = -1.0
    refused(lambda: session.step(batch), "finite and not negative", "-1.0")

# --- callbacks ---

refused(lambda: mpcomm.JsonLines("x", every=0), "every", "0")
refused(lambda: mpcomm.launch(lambda: 0, np=2), "top of a module")
refused(lambda: mpcomm.launch(print, np=0), "np=0")
