# SPDX-License-Identifier: Apache-2.0
"""PyTorch checkpoints for tests, by the standard library alone: its pickler, told the
names of PyTorch's functions and classes, and its zipfile. What one of them would do is
written down, never done.

    raw = archive({"w": of(array)})        # as torch.save does it
    raw = stream({"w": of(array)})         # as it did before version 1.6
"""

import collections
import io
import pickle
import struct
import zipfile
from dataclasses import dataclass, field

import numpy as np

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001

# numpy's name of a type -> PyTorch's of a storage of it
STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
    "bfloat16": "BFloat16Storage",
}
BYTES = {name: np.dtype(name).itemsize for name in STORAGES if name != "bfloat16"}
BYTES |= {"bfloat16": 2, "uint16": 2, "uint32": 4, "uint64": 8, "complex32": 4}
BYTES |= dict.fromkeys(
    ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1
)


class Named:
    """Something in a module."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *_):
        raise AssertionError("nothing is called")


@dataclass(eq=False)
class Called:
    """What a call makes, with the state that it is given then."""

    function: Named
    arguments: tuple = ()
    state: object = None
    opcode: str = "REDUCE"  # or NEWOBJ


@dataclass(eq=False)
class Storage:
    """`type`: as in BYTES; `untyped`: as PyTorch writes what has no storage class."""

    type: str
    data: bytes
    untyped: bool = False
    key: str = ""  # given when it is saved


@dataclass(eq=False)
class Persistent:
    """Something outside the pickle, by whatever identity."""

    identity: object


@dataclass(eq=False)
class Tensor:
    storage: Storage
    shape: tuple
    strides: tuple
    first: int = 0
    more: tuple = field(default=None)  # arguments behind the strides


REBUILD = Named("torch._utils", "_rebuild_tensor_v2")
REBUILD_TYPED = Named("torch._utils", "_rebuild_tensor_v3")
PARAMETER = Named("torch._utils", "_rebuild_parameter")


def row_major(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= max(size, 1)
    return tuple(strides)


def raw_tensor(type_name, shape, data):
    """A tensor with a storage of its own, of a type that numpy may lack."""
    storage = Storage(type_name, data, type_name not in STORAGES)
    return Tensor(storage, tuple(shape), row_major(shape))


def of(array):
    """The tensor of a numpy array, row-major."""
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    return raw_tensor(array.dtype.name, array.shape, array.tobytes())


def view(storage, array):
    """The tensor of a numpy array that is a view of `storage`: (Storage, its array)."""
    kept, base = storage
    first = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    width = array.dtype.itemsize
    return Tensor(
        kept, array.shape, tuple(s // width for s in array.strides), first // width
    )


def storage_of(array):
    """A storage with an array's bytes, for view()."""
    return Storage(array.dtype.name, array.tobytes()), array


def parameter(tensor):
    return Called(PARAMETER, (tensor, True, collections.OrderedDict()))


class Pickler(pickle._Pickler):  # the one that is written in Python, and can be told
    def __init__(self, file, protocol, behind):
        super().__init__(file, protocol)
        self.storages = []
        self.behind = behind  # of what identifies a storage

    def persistent_id(self, obj):
        if isinstance(obj, Persistent):
            return obj.identity
        if not isinstance(obj, Storage):
            return None
        if obj not in self.storages:
            obj.key = str(len(self.storages))
            self.storages.append(obj)
        if obj.untyped:
            kind, elements = Named("torch.storage", "UntypedStorage"), len(obj.data)
        else:
            kind = Named("torch", STORAGES[obj.type])
            elements = len(obj.data) // BYTES[obj.type]
        return ("storage", kind, obj.key, "cpu", elements, *self.behind)

    def save_named(self, obj):
        if self.proto >= 4:
            self.save(obj.module)
            self.save(obj.name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())

    def save_called(self, obj):
        self.save(obj.function)
        self.save(tuple(obj.arguments))
        self.write(getattr(pickle, obj.opcode))
        self.memoize(obj)
        if obj.state is not None:
            self.save(obj.state)
            self.write(pickle.BUILD)

    def save_tensor(self, obj):
        more = obj.more
        function = REBUILD_TYPED if obj.storage.untyped else REBUILD
        if more is None:
            more = (False, collections.OrderedDict())
            if obj.storage.untyped:
                more += (Named("torch", obj.storage.type),)
        arguments = (obj.storage, obj.first, obj.shape, obj.strides, *more)
        self.save_called(Called(function, arguments))

    dispatch = pickle._Pickler.dispatch | {
        Named: save_named,
        Called: save_called,
        Tensor: save_tensor,
    }


def pickled(obj, protocol=2, behind=()):
    """The pickle, and the storages that it mentions."""
    out = io.BytesIO()
    pickler = Pickler(out, protocol, behind)
    pickler.dump(obj)
    return out.getvalue(), pickler.storages


def archive_of(pickle_bytes, storages, *, folder="archive", byteorder="little",
               records=None, packing=zipfile.ZIP_STORED, constants=None):
    """The zip archive. `byteorder`: None for none; `records`: more of the folder."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:

        def put(name, data):
            # Of one day: the same bytes in every run.
            file.writestr(zipfile.ZipInfo(f"{folder}/{name}"), data, packing)

        put("data.pkl", pickle_bytes)
        if byteorder is not None:
            put("byteorder", byteorder)
        for storage in storages:
            put(f"data/{storage.key}", storage.data)
        if constants is not None:
            raw, kept = pickled(constants)
            put("constants.pkl", raw)
            for storage in kept:
                put(f"constants/{storage.key}", storage.data)
        put("version", "3\n")
        for name, data in (records or {}).items():
            put(name, data)
    return out.getvalue()  # fmt: skip


def archive(obj, protocol=2, **options):
    return archive_of(*pickled(obj, protocol), **options)


def stream(obj, protocol=2):
    raw, storages = pickled(obj, protocol, (None,))
    return stream_of(raw, storages, protocol)


def stream_of(pickle_bytes, storages, protocol=2, keys=None):
    """`keys`: of the storages, where they are to be written behind it."""
    system = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {}}
    parts = [pickle.dumps(o, protocol) for o in (MAGIC, PROTOCOL, system)]
    parts += [pickle_bytes, pickle.dumps(keys or [s.key for s in storages], protocol)]
    for storage in storages:
        elements = len(storage.data)
        if not storage.untyped:
            elements //= BYTES[storage.type]
        parts.append(struct.pack("<q", elements) + storage.data)
    return b"".join(parts)


WRITERS = {"archive": archive, "stream": stream}


def many(count, writer=archive_of):
    """A checkpoint of so many tensors of four bytes, each with a storage of its own."""

    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n"
    start = b"((" + text("storage") + b"ctorch\nFloatStorage\n"
    behind = b"N" if writer is stream_of else b""
    end = text("cpu") + b"K\1" + behind
    end += b"tQK\0K\1\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR"
    parts, storages = [b"\x80\2}("], []
    for i in range(count):
        name = text(f"model.layers.{i}.weight")
        parts.append(name + rebuild + start + text(str(i)) + end)
        storage = Storage("float32", struct.pack("<f", i))
        storage.key = str(i)
        storages.append(storage)
    return writer(b"".join(parts) + b"u.", storages)
