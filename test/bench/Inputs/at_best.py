"""The environment in which a rank of PyTorch is fast on a processor."""

import os


def environment(**more):
    """What to set for a process of PyTorch, and `more`; OPENBLAS_CORETYPE stays as it is set.

    A rank has one thread; memory that a step frees is kept for the next one. OpenBLAS (of
    Debian's PyTorch) takes many virtual and current processors for a generic one, so it is
    told which kernels the processor can run."""
    words = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
             "MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "8000000000",
             "MALLOC_TOP_PAD_": "64000000"}
    with open("/proc/cpuinfo") as file:
        flags = set(next((line for line in file if line.startswith("flags")), "").split())
    kernels = "SkylakeX" if "avx512f" in flags else "Haswell" if "avx2" in flags else None
    if kernels and "OPENBLAS_CORETYPE" not in os.environ:
        words["OPENBLAS_CORETYPE"] = kernels
    return {**words, **more}
