# SPDX-License-Identifier: Apache-2.0
# peer.py PEER PATH LIBTOUCH THREADS: loads a model with one package, in this fresh
# process, to a dict of CPU tensors of torch, and touches every page of them. Prints
# when what was done, in seconds after the imports, and at what cost.
# peer.py PEER PATH digest: prints a digest of all names and bytes instead.
import ctypes
import json
import os
import resource
import sys
import time
import warnings
import zlib
from pathlib import Path

warnings.simplefilter("ignore")  # torch's, of tensors that cannot be written

# Each function imports its package, and returns how it opens a path (None: it has no
# such step) and how it makes the dict of what that gave. As the packages' documentation
# says, at the settings that are fastest here (README.md).


def safetensors_load_file():
    from safetensors.torch import load_file

    return None, load_file


def safetensors_pread():
    from safetensors.torch import load_file

    return None, lambda path: load_file(path, backend="pread")


def safetensors_safe_open():
    from safetensors import safe_open

    def tensors(file):
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    return lambda path: safe_open(path, framework="pt"), tensors


def safetensors_bytes():
    from safetensors.torch import load

    return None, lambda path: load(Path(path).read_bytes())


def torch_mapped():
    import torch

    return None, lambda path: torch.load(path, mmap=True, weights_only=True)


def torch_read():
    import torch

    return None, lambda path: torch.load(path, weights_only=True)


def ztensor():
    import torch
    import ztensor

    def tensors(source):
        return {tensor.name: torch.from_dlpack(tensor) for tensor in source.values()}

    return ztensor.open, tensors


def runai():
    os.environ.setdefault("RUNAI_STREAMER_LOG_LEVEL", "ERROR")
    from runai_model_streamer import SafetensorsStreamer

    def load(path):
        with SafetensorsStreamer() as streamer:
            streamer.stream_file(path)
            return dict(streamer.get_tensors())

    return None, load


def fastsafetensors():
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    def open_file(path):
        loader = SafeTensorsFileLoader(SingleGroup(), "cpu", nogds=True)
        loader.add_filenames({0: [path]})
        return loader

    def tensors(loader):
        buffer = loader.copy_files_to_device()
        KEPT.append(buffer)  # it owns the tensors' memory
        return {name: buffer.get_tensor(name) for name in loader.get_keys()}

    return open_file, tensors


def flashpack_mapped():
    from flashpack.deserialization import iterate_from_flash_tensor, read_flashpack_file

    return read_flashpack_file, lambda read: dict(iterate_from_flash_tensor(*read))


def flashpack_read():
    os.environ["FLASHPACK_CPU_PARALLEL_READ"] = "1"
    return flashpack_mapped()


def tensorizer():
    from tensorizer import TensorDeserializer

    def open_file(path):
        return TensorDeserializer(path, device="cpu")

    def tensors(deserializer):
        KEPT.append(deserializer)
        return dict(deserializer)

    return open_file, tensors


def numpy_mapped():
    import numpy
    import torch

    def load(folder):
        return {
            path.stem: torch.from_numpy(numpy.load(path, mmap_mode="r"))
            for path in Path(folder).iterdir()
        }

    return None, load


def gguf():
    import torch
    from gguf import GGUFReader

    def tensors(reader):
        return {tensor.name: torch.from_numpy(tensor.data) for tensor in reader.tensors}

    return GGUFReader, tensors


def llama_cpp():
    import torch
    from llama_cpp import llama_cpp as llama

    def quiet(*_):
        pass

    log = llama.llama_log_callback(quiet)
    KEPT.append(log)
    llama.llama_log_set(log, None)
    llama.llama_backend_init()

    def load(path):
        parameters = llama.llama_model_default_params()
        model = llama.llama_model_load_from_file(path.encode(), parameters)
        if not model:
            raise SystemExit(f"{path}: llama.cpp does not load it")
        # It hands out no tensors: what it has mapped is touched instead.
        tensors = {}
        for line in Path("/proc/self/maps").read_text().splitlines():
            fields = line.split()
            if fields[-1] == path:
                begin, end = (int(each, 16) for each in fields[0].split("-"))
                memory = (ctypes.c_char * (end - begin)).from_address(begin)
                tensors[fields[0]] = torch.frombuffer(memory, dtype=torch.uint8)
        return tensors

    return None, load


KEPT = []  # what must live as long as the tensors


def digest(tensors):
    import torch

    total = 0
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous().reshape(-1).view(torch.uint8)
        total = zlib.crc32(tensor.numpy(), zlib.crc32(name.encode(), total))
    return total


def touch(tensors, library, threads):
    count = len(tensors)
    data = (ctypes.c_void_p * count)(*(each.data_ptr() for each in tensors.values()))
    sizes = (ctypes.c_size_t * count)(*(each.nbytes for each in tensors.values()))
    library.touch_all(data, sizes, ctypes.c_size_t(count), ctypes.c_uint(threads))


def anonymous_bytes():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def huge_bytes(path):
    """Bytes that are mapped in 2 MiB pages: of the model's files, and of memory."""
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        fields = line.split()
        if "-" in fields[0]:
            ours = len(fields) > 5 and fields[5].startswith(path)
        elif fields[0] == "AnonHugePages:" or (
            ours and fields[0] in ("FilePmdMapped:", "ShmemPmdMapped:")
        ):
            total += int(fields[1]) * 1024
    return total


def main():
    name, path = sys.argv[1:3]
    path = os.path.realpath(path)
    start = time.perf_counter()
    open_path, make_dict = globals()[name]()
    import torch  # noqa: F401  its import is no part of loading

    if sys.argv[3] == "digest":
        print(digest(make_dict(open_path(path) if open_path else path)))
        return
    library, threads = ctypes.CDLL(sys.argv[3]), int(sys.argv[4])
    imported = time.perf_counter()
    memory, usage = anonymous_bytes(), resource.getrusage(resource.RUSAGE_SELF)

    begin = time.perf_counter()
    opened = open_path(path) if open_path else path
    open_end = time.perf_counter()
    tensors = make_dict(opened)
    dict_end = time.perf_counter()
    touch(tensors, library, threads)
    end = time.perf_counter()

    after = resource.getrusage(resource.RUSAGE_SELF)
    size = sum(tensor.nbytes for tensor in tensors.values())
    figures = {
        "imports": imported - start,
        "open": open_end - begin if open_path else None,
        "dict": dict_end - begin,
        "seconds": end - begin,
        "major": after.ru_majflt - usage.ru_majflt,
        "minor": after.ru_minflt - usage.ru_minflt,
        "anonymous": max(0, anonymous_bytes() - memory),
        "huge": min(1, huge_bytes(path) / size),
        "count": len(tensors),
        "bytes": size,
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)  # taking all down again is no part of loading


if __name__ == "__main__":
    main()
