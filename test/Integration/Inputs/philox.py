# Philox-4x32-10 and the masks of dropout, a second time, in integers.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import struct

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def philox(counter, key):
    """As the paper's figure has it: ten rounds, the key raised after each."""
    (a, b, c, d), (k, l) = counter, key
    for _ in range(10):
        high = (0xD2511F53 * a) >> 32, (0xCD9E8D57 * c) >> 32
        low = (0xD2511F53 * a) & M32, (0xCD9E8D57 * c) & M32
        a, b, c, d = high[1] ^ b ^ k, low[1], high[0] ^ d ^ l, low[0]
        k, l = (k + 0x9E3779B9) & M32, (l + 0xBB67AE85) & M32
    return a, b, c, d


# Salmon et al., kat_vectors of Random123.
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
assert philox((0,) * 4, (0,) * 2) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
assert philox((M32,) * 4, (M32,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
assert philox(*PI) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


class SplitMix:
    def __init__(self, state):
        self.state = state

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & M64
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M64
        return z ^ (z >> 31)


def mask(seed, step, rank, ranks, number, p, count):
    """0 or 1 / (1 - p) for each element of `mpcomm.dropout` with the id `number`, as
    mpcomm-run --seed has one rank draw them in one step, counted from 0."""
    mixed = SplitMix(seed).next()
    word = SplitMix(mixed ^ (step * ranks + rank)).next()
    key = word & M32, word >> 32
    kept = struct.unpack("f", struct.pack("f", 1 / (1 - p)))[0]
    threshold = int(p * 2**32)
    return [kept if philox((e, 0, number, 0), key)[0] >= threshold else 0.0
            for e in range(count)]  # fmt: skip
