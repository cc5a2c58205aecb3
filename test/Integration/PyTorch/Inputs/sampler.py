# ===- sampler.py - the samples of a step, as the runner takes them --------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The order of samples that mpcomm-run's documentation describes: epoch e visits a
permutation by a Feistel network with keys from splitmix64 seeded by (seed, e); a step
takes the next global batch, a rank its slice of it; what does not fill a batch is left
out."""

MASK = 2 ** 64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def splitmix64(state):
    while True:
        state = (state + GOLDEN) & MASK
        yield mix(state)


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def permutation(samples, seed, epoch):
    numbers = splitmix64((seed * GOLDEN + epoch) & MASK)
    keys = [next(numbers) for _ in range(6)]
    half = ((samples - 1).bit_length() + 1) // 2
    low = (1 << half) - 1

    def network(index):
        left, right = index >> half, index & low
        for key in keys:
            left, right = right, left ^ (mix((right + key) & MASK) & low)
        return left << half | right

    def image(index):
        index = network(index)
        while index >= samples:
            index = network(index)
        return index

    return [image(i) for i in range(samples)] if samples > 1 else [0]


class Sampler:
    """Indices of the global batch of `size` samples at each step."""

    def __init__(self, samples, size, seed=0):
        self.samples, self.size, self.seed = samples, size, seed
        self.per_epoch, self.epoch, self.order = samples // size, None, None

    def __getitem__(self, step):
        epoch, at = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            self.epoch, self.order = epoch, permutation(self.samples, self.seed, epoch)
        return self.order[at * self.size:(at + 1) * self.size]


class InOrder(Sampler):
    """The same with --no-shuffle."""

    def __getitem__(self, step):
        first = step % self.per_epoch * self.size
        return list(range(first, first + self.size))


if __name__ == "__main__":  # known answers: splitmix64 from state 0
    numbers = splitmix64(0)
    assert [next(numbers) for _ in range(3)] == [
        0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert sorted(permutation(100, 3, 2)) == list(range(100))
    assert permutation(10, 3, 2) == [6, 8, 1, 0, 4, 7, 2, 9, 3, 5]
