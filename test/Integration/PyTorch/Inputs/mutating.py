# ===- mutating.py - models that write to tensors, and what they may not ---=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Small models by name: what `forward()` does, with its buffers."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """`forward(self, x)` on a parameter `w`, and on buffers of small whole numbers."""

    def __init__(self, forward, buffers):
        super().__init__()
        self.w = nn.Parameter(numbers(4))
        self.run = forward
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x):
        return self.run(self, x)


def numbers(*shape):
    return torch.randint(-3, 4, shape).double()


MODELS, REFUSED = {}, {}
BEFORE = r"forward\(\) reads what the step before left in "


def model(prepare=None, refused=None, **buffers):
    """Registers a forward(). `buffers` are shapes; `prepare` is called on the model."""
    def register(forward):
        def make():
            made = Model(forward, {n: numbers(*s) if isinstance(s, tuple) else s
                                   for n, s in buffers.items()})
            if prepare:
                prepare(made)
            return made.double()
        (REFUSED if refused else MODELS)[forward.__name__] = (make, refused)
        return forward
    return register


# --- a buffer takes what another one has --------------------------------------------- #

@model(prev=(4,), cur=(4,))
def history_of_two(m, x):
    m.prev.copy_(m.cur)
    m.cur.copy_(x.detach().mean(0))
    return x * m.w


@model(prev=(4,), cur=(4,))
def moving_average(m, x):
    m.prev.copy_(m.cur)
    m.cur.mul_(0.5).add_(x.detach().mean(0))
    return x * m.w + m.prev


@model(a=(4,), b=(4,), c=(4,))
def chain_of_three(m, x):
    m.c.copy_(m.b)
    m.b.copy_(m.a)
    m.a.copy_(x.detach().mean(0))
    return x * m.w


@model(a=(4,), b=(4,))
def swap(m, x):
    t = m.a.clone()
    m.a.copy_(m.b)
    m.b.copy_(t)
    return x * m.w + m.a


@model(a=(4,), b=(4,))
def swap_that_loses(m, x):
    t = m.a
    m.a.copy_(m.b)
    m.b.copy_(t)
    return x * m.w + m.b


@model(a=(4, 4), b=(4, 4))
def copy_of_a_view(m, x):
    m.b.copy_(m.a.t())
    m.a[1:].add_(x.detach()[1:])
    return x * m.w


@model(only=(4,))
def written_and_never_read(m, x):
    m.only.copy_(x.detach().mean(0))
    return x * m.w


# --- slices, views and aliases -------------------------------------------------------- #

@model(a=(4, 4))
def slices(m, x):
    m.a[1:3] = x.detach()[:2]
    m.a[::2].add_(1)
    m.a[:, 0] = 5
    m.a[-1, 1::2] -= x.detach()[0, :2]
    return x * m.w + m.a


@model(a=(4, 4))
def views_before_and_after(m, x):
    row, column = m.a[0], m.a.t()[0]
    m.a.mul_(2)
    column.add_(row)
    return x * m.w + m.a.view(-1)[2:6]


@model(a=(4,))
def through_data_and_detach(m, x):
    m.a.data.add_(1)
    m.a.detach().mul_(2)
    return x * m.w + m.a


@model(a=(4, 4))
def transposed_in_place(m, x):
    m.a.t_()
    m.a[0] += 1
    return x * m.w + m.a


@model()
def output_written_through_an_alias(m, x):
    h = x * m.w
    h.data.copy_(x)
    return h


@model(n=torch.zeros((), dtype=torch.int64), seen=torch.zeros(4, dtype=torch.bool))
def counts_and_flags(m, x):
    m.n += 1
    m.seen.logical_not_()
    return x * m.w + m.n


@model(lambda m: setattr(m, "part", Model(None, {"b": m.a})), a=(4,))
def one_buffer_in_two_places(m, x):
    m.part.b.add_(1)
    return x * m.w + m.a + m.part.w


@model(a=(4,))
def scalar_source(m, x):
    m.a.copy_(x.detach().mean())
    m.a[0].zero_()
    return x * m.w


# --- activations and the batch -------------------------------------------------------- #

@model(lambda m: setattr(m, "relu", nn.ReLU(inplace=True)))
def module_in_place(m, x):
    h = x * m.w
    return m.relu(h) * 2 + h


@model()
def batch_in_place(m, x):
    x.mul_(2)
    return x * m.w


# --- replaced, instead of written ------------------------------------------------------ #

@model(a=(4,))
def replaced(m, x):
    old = m.a
    m.a = m.a * 0.5 + x.detach().mean(0)
    return x * m.w + old


@model(a=(4,), b=(4,))
def replaced_by_one_another(m, x):
    m.a, m.b = m.b, m.a
    return x * m.w + m.a


@model(a=(4,), b=(4,))
def replaced_after_a_gradient_needs_it(m, x):
    h = m.w * m.a
    m.a = m.a + 1
    return x * h


# --- batch norm writes, which its schema does not say ---------------------------------- #

def with_norm(m):
    m.norm = nn.BatchNorm1d(4)


@model(with_norm, before=(4,), after=(4,))
def statistics_before_and_after(m, x):
    m.before.copy_(m.norm.running_mean)
    y = m.norm(x * m.w)
    m.after.copy_(m.norm.running_mean)
    return y


@model(with_norm)
def norm_twice(m, x):
    return m.norm(m.norm(x * m.w) + x)


# --- training and evaluation ------------------------------------------------------------ #

@model(a=(4,))
def read_in_evaluation_alone(m, x):
    return x * m.w if m.training else x * m.w + m.a


def two_constants(m):
    m.constants = numbers(8, 4), numbers(8, 4)


@model(two_constants)
def constants_that_differ(m, x):
    return (x * m.w).sum() + m.constants[m.training] * 1


@model(two_constants, constant=(8, 4))
def constant_of_a_name_that_is_taken(m, x):
    return (x * m.w).sum() + m.constants[0] * m.constant


# --- plain attributes that do not matter to the next step ---------------------------------- #

@model(lambda m: setattr(m, "t", 0))
def calls_counted(m, x):
    m.t += 1
    return x * m.w


@model(lambda m: setattr(m, "log", []))
def output_in_a_list(m, x):
    y = x * m.w
    m.log.append(y)
    return y


@model(lambda m: setattr(m, "last", {}))
def output_in_a_dictionary(m, x):
    m.last["y"] = x * m.w
    return m.last["y"] + torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)


@model(lambda m: setattr(m, "last", None), a=(4,))
def attributes_of_one_step(m, x):
    m.last, m.size, m.same = x * m.w + m.a, x.shape, m.a
    m.a.add_(1)
    return m.last + m.size[0] + m.same


def hooked(m):
    m.part, m.ready = torch.nn.Identity(), False


@model(hooked, a=(4,))
def hook_of_the_first_step(m, x):
    if not m.ready:  # as libraries do to look at what modules within return
        m.part.register_forward_hook(lambda part, inputs, output: 2 * output)
        m.ready = True
    m.a.add_(1)
    return m.part(x * m.w) + m.a


@model(lambda m: setattr(m, "list", [m.a]), a=(4,))
def buffer_in_a_list(m, x):
    m.a.add_(1)
    return x * m.w + m.list[0]


# --- refused ----------------------------------------------------------------------------- #

@model(lambda m: setattr(m, "state", numbers(4)), r"writes to a tensor that is not a registered "
       r"buffer")
def plain_attribute_written(m, x):
    m.state.add_(1)
    return x * m.w + m.state


@model(lambda m: setattr(m, "state", numbers(4)), BEFORE + r"'state'")
def plain_attribute_replaced(m, x):
    m.state = m.state + 1
    return x * m.w + m.state


@model(lambda m: m.register_buffer("b", m.a[:4]), r"'\w' and '\w' share memory that the step "
       r"writes", a=(5,))
def memory_shared(m, x):
    m.a[0] += 1
    return x * m.w + m.b


@model(lambda m: setattr(m, "v", nn.Parameter(m.w.data)), r"'\w' and '\w' share memory that the step writes")
def parameters_in_one_memory(m, x):
    return x * m.w + m.v


@model(None, r"after forward\(\) '\w' and '\w' share their memory", a=(4,), b=(4,))
def replaced_by_an_alias(m, x):
    m.a = m.b
    return x * m.w


@model(None, r"after forward\(\) 'a' and 'w' share their memory", a=(4,))
def replaced_by_a_parameter(m, x):
    m.a = m.w.detach()
    return x * m.w


@model(None, r"replaces 'a', \(4,\) of torch.float64, by \(1, 4\)", a=(4,))
def replaced_by_another_type(m, x):
    m.a = m.a[None]
    return x * m.w


@model(None, r"replaces 'w', expected it to replace buffers")
def parameter_replaced(m, x):
    m.w = nn.Parameter(m.w + 1)
    return x * m.w


@model(lambda m: m.register_buffer("a", None), r"expected 'a' to be a tensor before forward\(\), found None")
def buffer_made_in_forward(m, x):
    m.a = x.mean(0)
    return x * m.w


@model(lambda m: setattr(m, "part", Model(None, {"b": m.a})), r"replaces '(part\.b|a)' in one of several places",
       a=(4,))
def replaced_in_one_place(m, x):
    m.a = m.a + 1
    return x * m.w + m.part.w


@model(None, r"writes to a view of an expanded tensor", a=(4,))
def expanded(m, x):
    m.a.expand(2, 4)[0].add_(1)
    return x * m.w


@model(None, r"update in place x1 in \w+: of a parameter")
def parameter_written(m, x):
    with torch.no_grad():
        m.w.clamp_(-1, 1)
    return x * m.w


@model(None, r"expected names that differ, found buffer and batch 'x'", x=(4,))
def name_of_the_batch(m, x):
    return x * m.w + m.x


@model(None, r"expected names that differ, found loss and buffer 'loss'", loss=(4,))
def name_of_the_loss(m, x):
    m.loss.add_(1)
    return x * m.w


# --- refused: state in plain attributes ------------------------------------------------------ #

def average(m, x):
    new = x.detach().mean(0)
    m.ema = new if m.ema is None else m.ema * 0.5 + new
    return x * m.w + m.ema


@model(lambda m: setattr(m, "ema", None), BEFORE + r"'ema'")
def attribute_that_was_none(m, x):
    return average(m, x)


@model(None, BEFORE + r"'ema'")
def attribute_that_was_absent(m, x):
    if not hasattr(m, "ema"):
        m.ema = None
    return average(m, x)


@model(None, r"forward\(\) registers 'ema', expected it to be registered before the import")
def buffer_registered_in_forward(m, x):
    if not hasattr(m, "ema"):
        m.register_buffer("ema", torch.zeros(4).double())
    m.ema.add_(1)
    return x * m.w + m.ema


@model(None, r"forward\(\) registers 'v', expected it to be registered before the import")
def parameter_registered_in_forward(m, x):
    m.v = nn.Parameter(torch.zeros(4).double())
    return x * m.w


@model(None, r"forward\(\) registers 'part', expected it to be registered before the import")
def module_made_in_forward(m, x):
    m.part = nn.ReLU()
    return m.part(x * m.w)


@model(lambda m: setattr(m, "t", 0), BEFORE + r"'t'")
def number_used(m, x):
    m.t += 1
    return x * m.w * m.t


@model(lambda m: setattr(m, "t", 0), BEFORE + r"'t'")
def number_in_a_constant(m, x):
    m.t += 1
    return x * m.w * torch.tensor(m.t)


@model(lambda m: setattr(m, "started", False), BEFORE + r"'started'")
def flag(m, x):
    y = x * m.w if m.started else x * m.w * 2
    m.started = True
    return y


@model(lambda m: setattr(m, "log", []), BEFORE + r"'log'")
def list_read(m, x):
    m.log.append(x.detach().mean(0))
    return x * m.w + m.log[0]


@model(lambda m: setattr(m, "cache", {}), BEFORE + r"'cache'")
def dictionary_read(m, x):
    if "x" not in m.cache:
        m.cache["x"] = x.detach().mean(0)
    return x * m.w + m.cache["x"]


@model(lambda m: setattr(m, "state", torch.zeros(4).double()), BEFORE + r"'state'")
def written_in_training_read_in_evaluation(m, x):
    if not m.training:
        return x * m.w + m.state
    m.state = x.detach().mean(0)
    return x * m.w


@model(lambda m: setattr(m, "t", 0), BEFORE + r"'t'")
def counted_in_training_used_in_evaluation(m, x):
    if not m.training:
        return x * m.w * m.t
    m.t += 1
    return x * m.w


# --- refused: registered tensors reached in another way --------------------------------------- #

@model(lambda m: setattr(m, "row", m.a[0]), r"'a' is read through 'row', which is a view of it", a=(4, 4))
def view_of_a_buffer(m, x):
    m.a.add_(1)
    return x * m.w + m.row


@model(lambda m: setattr(m, "tied", m.w.t()), r"'w' is read through 'tied', which is a view of it")
def view_of_a_parameter(m, x):
    return x * m.w + m.tied


@model(None, r"forward\(\) assigns the data of 'a'", a=(4,))
def data_assigned(m, x):
    m.a.data = x.detach().mean(0)
    return x * m.w


@model(None, r"forward\(\) assigns the data of 'a'", a=(4, 4))
def data_transposed(m, x):
    m.a.data = m.a.data.t()
    return x * m.w


@model(None, r"forward\(\) assigns the data of 'w'")
def data_of_a_parameter_assigned(m, x):
    m.w.data = m.w.data.clamp(-1, 1)
    return x * m.w


@model(lambda m: m.register_buffer("s", torch.ones(1).double().expand(8)),
       r"elements of 's' share memory that the step writes")
def buffer_that_is_expanded(m, x):
    m.s[0] = 2
    return x * m.w + m.s[:4]


@model(lambda m: m.register_buffer("s", torch.ones(5).double().as_strided((3, 3), (1, 1))),
       r"elements of 's' share memory that the step writes")
def buffer_that_overlaps_itself(m, x):
    m.s[0] = 2
    return x * m.w + m.s[1, 1]


@model(lambda m: setattr(m, "statistics", (numbers(4), numbers(4))),
       r"writes to a tensor that is not a registered buffer")
def statistics_not_registered(m, x):
    return F.batch_norm(x * m.w, *m.statistics, training=True)


@model(None, r"forward\(\) replaces 'b', expected it to replace buffers by tensors alone",
       a=(4,), b=(4,))
def replaced_by_none(m, x):
    m.a = m.a + 1
    m.b = None
    return x * m.w


# --- what an evaluation keeps ---------------------------------------------------------- #

class Caching(Model):
    """Keeps a tensor in evaluation mode, until train() or eval()."""

    def __init__(self, forward):
        super().__init__(forward, {})
        self.kept = None

    def train(self, mode=True):
        self.kept = None
        return super().train(mode)


def caching(refused, kept):
    """forward() that uses kept(m, x)."""
    def forward(m, x):
        if m.kept is None or m.training:
            m.kept = kept(m, x)
        return x * m.kept
    make = lambda: Caching(forward).double()
    (REFUSED if refused else MODELS)[f"caching_{'batch' if refused else 'parameter'}"] = (make, refused)


if torch.__version__ >= "2":
    caching(None, lambda m, x: m.w.exp())
caching(BEFORE + "'kept'", lambda m, x: m.w * x.detach().mean(0))
