# SPDX-License-Identifier: Apache-2.0
# onnx_models.py WEIG [FILE...]: converts ONNX models and compares every tensor, bit by
# bit, with what the reference package reads (onnx.numpy_helper). Without files: those
# that the packages silero-vad, magika and rapidocr carry, and models that the reference
# writes, of every type, raw and as numbers, in one file and with their data in others.
# Fails where anything differs. In an environment with requirements-onnx.txt.
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "python"))
import weig_file

weig, given = sys.argv[1], sys.argv[2:]
PACKED_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}


def bits_of(array, data_type):
    """A tensor's bytes as WEIG files have them: small elements fill bytes."""
    bits = PACKED_BITS.get(data_type)
    if bits is None:
        return np.ascontiguousarray(array).tobytes()
    codes = np.ascontiguousarray(array).view(np.uint8).reshape(-1, 1)
    each = np.unpackbits(codes, axis=1, bitorder="little")[:, :bits]
    return np.packbits(each.reshape(-1), bitorder="little").tobytes()


def told(tensor, base):
    array = numpy_helper.to_array(tensor, base_dir=str(base))
    return tuple(array.shape), bits_of(array, tensor.data_type)


VALUES = {
    "value_float": lambda a: np.float32(a.f),
    "value_int": lambda a: np.int64(a.i),
    "value_floats": lambda a: np.array(a.floats, np.float32),
    "value_ints": lambda a: np.array(a.ints, np.int64),
}


def tensors_of(nodes, initializers, prefix, base):
    """(name, shape, bytes), named as docs/onnx.md says; strings are left out."""
    for tensor in initializers:
        if tensor.data_type != TensorProto.STRING:
            yield prefix + tensor.name, *told(tensor, base)
    for number, node in enumerate(nodes):
        name = prefix + next(filter(None, node.output), f"#{number}")
        constant = node.op_type == "Constant" and node.domain in ("", "ai.onnx")
        for attribute in node.attribute:
            if constant and attribute.name == "value":
                if attribute.t.data_type != TensorProto.STRING:
                    yield name, *told(attribute.t, base)
            elif constant and attribute.name in VALUES:
                array = VALUES[attribute.name](attribute)
                yield name, tuple(array.shape), array.tobytes()
            graphs = [(attribute.g, "")] if attribute.HasField("g") else []
            graphs += [(g, f"#{i}") for i, g in enumerate(attribute.graphs)]
            for graph, which in graphs:
                inner = f"{name}/{attribute.name}{which}/"
                yield from tensors_of(graph.node, graph.initializer, inner, base)


def all_of(path):
    model = onnx.load(path, load_external_data=False)
    graph, base = model.graph, path.parent
    yield from tensors_of(graph.node, graph.initializer, "", base)
    for function in model.functions:
        prefix = f"{function.domain}::{function.name}"
        prefix += f"::{function.overload}/" if function.overload else "/"
        yield from tensors_of(function.node, [], prefix, base)


def compare(path, folder):
    target = folder / "out.weig"
    subprocess.run(
        [weig, "convert", "-f", path, "-o", target], check=True, capture_output=True
    )
    found = {t.name.decode(): (t.shape, t.data) for t in weig_file.read(target).tensors}
    expected = {name: (shape, data) for name, shape, data in all_of(path)}
    missing = sorted(expected.keys() ^ found.keys())
    assert not missing, f"{path}: {missing[:5]}"
    for name, tensor in expected.items():
        assert found[name] == tensor, f"{path}: {name}"
    total = sum(len(data) for _, data in found.values())
    print(f"{path.name}: {len(found)} tensors, {total:,} bytes, equal", flush=True)


def made_by_the_reference(folder):
    """Every type, some shapes: as numbers (make_tensor) and raw (from_array)."""
    random = np.random.default_rng(7)
    tensors = []
    for name, number in TensorProto.DataType.items():
        if name in ("UNDEFINED", "STRING"):
            continue
        dtype = helper.tensor_dtype_to_np_dtype(number)
        for shape in ((3, 5), (7,), (1,), (), (0, 2)):
            codes = random.integers(
                0,
                1 << PACKED_BITS.get(number, 8),
                (*shape, 1 if number in PACKED_BITS else dtype.itemsize),
                np.uint8,
            )
            if name == "BOOL":
                codes &= 1
            if name in ("FLOAT", "DOUBLE", "COMPLEX64", "COMPLEX128"):
                codes &= 0x3F  # numbers whose bits survive a trip through Python
            if name in ("FLOAT4E2M1", "INT4", "INT2"):
                codes &= (1 << PACKED_BITS[number]) - 1
            array = np.ascontiguousarray(codes).view(dtype).reshape(shape)
            called = f"{name}_{'x'.join(map(str, shape)) or 'scalar'}"
            tensors.append(numpy_helper.from_array(array, called + "_raw"))
            tensors.append(
                helper.make_tensor(called, number, shape, array.flatten().tolist())
            )
    graph = helper.make_graph([], "all", [], [], tensors)
    model = helper.make_model(graph)
    onnx.save(model, folder / "every_type.onnx")
    for together in (True, False):
        path = folder / f"external_{'one' if together else 'many'}.onnx"
        onnx.save_model(
            model, path, save_as_external_data=True, size_threshold=0,
            all_tensors_to_one_file=together,
            location="weights.bin" if together else None,
        )  # fmt: skip
        yield path
        model = onnx.load(folder / "every_type.onnx")
    yield folder / "every_type.onnx"


with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
    scratch = Path(scratch)
    paths = [Path(path) for path in given]
    if not given:
        packages = Path(sysconfig.get_path("purelib"))
        paths = [
            path
            for package in ("silero_vad", "magika", "rapidocr")
            for path in sorted((packages / package).rglob("*.onnx"))
        ]
        assert paths, "no package brings a model"
        paths += made_by_the_reference(scratch)
    for path in paths:
        compare(path, scratch)
    print(f"{len(paths)} models, all equal")
