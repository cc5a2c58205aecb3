# Environment and features of the lit suites: what this machine and this build
# can do. Kept apart from lit.cfg.py because the suite of unit tests shares it.

import ctypes.util
import os
import shutil
import subprocess


def _succeeds(command, **kwargs):
    """Whether a command exists, ends within 30 s and exits with 0."""
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            **kwargs,
        )
        return result.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _has_pipelining(python):
    """Whether PyTorch has torch.distributed.pipelining, without importing it."""
    script = (
        "import importlib.util, os, sys\n"
        "root = os.path.dirname(importlib.util.find_spec('torch').origin)\n"
        "path = os.path.join(root, 'distributed', 'pipelining', 'schedules.py')\n"
        "sys.exit(not os.path.exists(path))"
    )
    return _succeeds([python, "-c", script])


def _python_modules(python, names):
    """Those of the named modules that `python` can find, without importing
    them (PyTorch takes a second to import)."""
    script = (
        "import importlib.util, sys\n"
        "print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n)])"
    )
    try:
        out = subprocess.run(
            [python, "-c", script, *names],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60,
            text=True,
        ).stdout
        return out.split()
    except (OSError, subprocess.TimeoutExpired):
        return []


def python_env(config):
    """The Python of the environment that tools/dev/python-env.sh makes."""
    folder = os.environ.get("MPCOMM_PYTHON_ENV") or os.path.join(
        config.mpcomm_src_root, "build", "python-env"
    )
    return os.path.join(folder, "bin", "python")


def set_environment(config):
    """PATH finds this build's tools first, then LLVM's; OpenMPI may run as
    root and with more ranks than cores."""
    env = config.environment
    path = [os.path.join(config.mpcomm_obj_root, "bin"), config.llvm_tools_dir]
    path += os.environ.get("PATH", "/usr/bin:/bin").split(os.pathsep)
    env["PATH"] = os.pathsep.join(p for p in path if p)
    env["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
    env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    env["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["MPCOMM_CACHE_DIR"] = os.path.join(config.mpcomm_obj_root, "program-cache")
    for name in [
        "ASAN_OPTIONS",
        "CUDA_HOME",
        "HOME",
        "LSAN_OPTIONS",
        "OPENBLAS_CORETYPE",
        "UBSAN_OPTIONS",
        "XDG_CACHE_HOME",
    ]:
        if name in os.environ:
            env[name] = os.environ[name]
    if config.mpcomm_sanitize:
        env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
        # LLVM's arenas mark their free memory as poisoned where this build
        # instantiates them; the libraries that fill it do not unmark it.
        # Memory that there cannot be is refused, as without a sanitizer.
        options = env.get("ASAN_OPTIONS", "")
        for name, value in [("allow_user_poisoning", 0), ("allocator_may_return_null", 1)]:
            if name not in options:
                options = ":".join(filter(None, [options, "%s=%d" % (name, value)]))
        env["ASAN_OPTIONS"] = options
        # Gloo keeps an address that it has looked up where a socket fails.
        folder = os.path.join(config.mpcomm_src_root, "test", "Inputs")
        env.setdefault("LSAN_OPTIONS", "print_suppressions=0:suppressions="
                       + os.path.join(folder, "leaks.supp"))


def set_features(config, lit_config):
    """Fills config.available_features."""
    features = config.available_features
    lib_dir = os.path.join(config.mpcomm_obj_root, "lib")

    def on(value):
        return str(value).upper() in ("ON", "1", "TRUE", "YES")

    if on(config.mpcomm_build_compiler):
        features.add("compiler")
    if config.mpcomm_sanitize:
        features.add("sanitizer")
    if on(lit_config.params.get("long", "0")):
        features.add("long")

    if shutil.which("mpirun") and os.path.exists(
        os.path.join(lib_dir, "libmprt_mpi.so")
    ):
        features.add("mpi")
    if shutil.which("abidiff"):
        features.add("abidiff")
    if on(config.have_gloo):
        features.add("gloo")
    if on(getattr(config, "have_simgrid", "OFF")):
        features.add("simgrid")

    if shutil.which("pkg-config"):
        features.add("pkg-config")
    if shutil.which("zsh"):
        features.add("zsh")
    if shutil.which("bash") and os.path.exists(
        "/usr/share/bash-completion/bash_completion"
    ):
        features.add("bash-completion")

    modules = ["torch", "torchvision", "sklearn", "numpy"]
    for name in _python_modules(config.python, modules):
        features.add(name)

    # What pip has to bring, see tools/dev/python-env.sh.
    modules = ["torch", "transformers", "timm", "jax", "flax", "optax", "ray", "optuna"]
    found = _python_modules(python_env(config), modules)
    features |= {"transformers", "timm", "optuna"} & set(found)
    if {"torch", "ray"} <= set(found):
        features.add("ray")
    if "torch" in found:
        features.add("torch2")
    if {"jax", "flax", "optax"} <= set(found):
        features.add("jax")

    if "torch" in features and _has_pipelining(config.python):
        features.add("torch-pipelining")

    if os.path.exists("/dev/nvidiactl") and _succeeds(["nvidia-smi", "-L"]):
        features.add("cuda-device")
    cuda_bin = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")
    if shutil.which("ptxas") or os.path.exists(os.path.join(cuda_bin, "ptxas")):
        features.add("ptxas")
    if shutil.which("nvdisasm") or os.path.exists(os.path.join(cuda_bin, "nvdisasm")):
        features.add("nvdisasm")
    if ctypes.util.find_library("nccl"):
        features.add("nccl")

    # A private mount namespace (full-disk tests), and a private network one
    # with a rate limit (overlap tests).
    if os.geteuid() == 0:
        features.add("root")
        mount = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m"]
        if _succeeds(mount + ["mpcomm-test", "/mnt"]):
            features.add("can-mount")
        limit = "ip link set lo up && tc qdisc add dev lo root tbf"
        limit += " rate 1gbit burst 512kb latency 100ms"
        if _succeeds(["unshare", "-n", "sh", "-c", limit]):
            features.add("can-limit-network")

    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="ignore") as cpuinfo:
            if " avx512f" in cpuinfo.read():
                features.add("avx512")
    except OSError:
        pass
