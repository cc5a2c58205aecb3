# Ends program files that were not linked by mpcomm-compile as it does: with the checksum of
# their bytes (docs/Design/Manifest.md). As a program: `seal.py FILE...`.
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import struct
import sys

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                      0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)  # fmt: skip


def rotate(value, bits):
    return (value << bits | value >> (64 - bits)) & MASK


def turn(accumulator, lane):
    return rotate((accumulator + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data):
    """XXH64 with seed 0, after xxHash's doc/xxhash_spec.md."""
    at, value = 0, P5
    if len(data) >= 32:
        sums = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        for at in range(0, len(data) - 31, 32):
            sums = [turn(s, lane) for s, lane in zip(sums, struct.unpack_from("<4Q", data, at))]
        at += 32
        value = sum(rotate(s, bits) for s, bits in zip(sums, (1, 7, 12, 18))) & MASK
        for s in sums:
            value = ((value ^ turn(0, s)) * P1 + P4) & MASK
    value = (value + len(data)) & MASK
    while len(data) - at >= 8:
        value = (rotate(value ^ turn(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if len(data) - at >= 4:
        lane = struct.unpack_from("<I", data, at)[0]
        value = (rotate(value ^ lane * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        value = rotate(value ^ byte * P5 & MASK, 11) * P1 & MASK
    for shift, factor in (33, P2), (29, P3), (32, 1):
        value = (value ^ value >> shift) * factor & MASK
    return value


def sealed(data):
    return data + struct.pack("<Q", xxh64(data)) + b"mpcommso"


def seal(name):
    with open(name, "rb") as file:
        data = file.read()
    with open(name, "wb") as file:
        file.write(sealed(data))
    return name


if __name__ == "__main__":
    for name in sys.argv[1:]:
        seal(name)
