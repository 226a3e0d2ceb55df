#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that PyTorch itself writes, converted and compared tensor by tensor with
what torch.load gives: torch_checkpoints.py WEIG [FOLDER].

State dicts of a ResNet-50's and of a BERT-base's sizes, of made numbers, in both of
PyTorch's containers; the TorchScript archive of silero-vad; and what 'weig export'
makes of each, loaded with weights_only=True. Needs requirements-torch.txt; writes about
2.5 GB into FOLDER, a temporary one by default.
"""

import collections
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import torch


def resnet():
    """A ResNet-50's state dict: convolutions in channels-last, norms, counters."""
    torch.manual_seed(1)
    out = collections.OrderedDict()

    def conv(name, outs, ins, size):
        weight = torch.randn(outs, ins, size, size)
        out[f"{name}.weight"] = weight.to(memory_format=torch.channels_last)

    def norm(name, size):
        for part in ("weight", "bias", "running_mean", "running_var"):
            out[f"{name}.{part}"] = torch.randn(size)
        out[f"{name}.num_batches_tracked"] = torch.tensor(1234)

    conv("conv1", 64, 3, 7)
    norm("bn1", 64)
    ins = 64
    for layer, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 1):
        for block in range(blocks):
            name = f"layer{layer}.{block}"
            for i, shape in enumerate(((width, ins, 1), (width, width, 3)), 1):
                conv(f"{name}.conv{i}", *shape)
                norm(f"{name}.bn{i}", width)
            conv(f"{name}.conv3", 4 * width, width, 1)
            norm(f"{name}.bn3", 4 * width)
            if block == 0:
                conv(f"{name}.downsample.0", 4 * width, ins, 1)
                norm(f"{name}.downsample.1", 4 * width)
            ins = 4 * width
    out["fc.weight"] = torch.randn(1000, ins)
    out["fc.bias"] = torch.randn(1000)
    return out


def bert():
    """A BERT-base's checkpoint of a training: parameters, a tied head, an optimizer."""
    torch.manual_seed(2)
    model = collections.OrderedDict()
    parameter = torch.nn.Parameter

    def linear(name, outs, ins):
        model[f"{name}.weight"] = parameter(torch.randn(outs, ins))
        model[f"{name}.bias"] = parameter(torch.randn(outs))

    words = parameter(torch.randn(30522, 768))
    model["embeddings.word_embeddings.weight"] = words
    model["embeddings.position_ids"] = torch.arange(512).expand(1, -1)
    model["embeddings.position_embeddings.weight"] = parameter(torch.randn(512, 768))
    for i in range(12):
        layer = f"encoder.layer.{i}"
        packed = torch.randn(3 * 768, 768)  # three weights in one storage
        for part, weight in zip(("query", "key", "value"), packed.split(768)):
            model[f"{layer}.attention.self.{part}.weight"] = weight
            model[f"{layer}.attention.self.{part}.bias"] = torch.randn(768).half()
        linear(f"{layer}.attention.output.dense", 768, 768)
        linear(f"{layer}.intermediate.dense", 3072, 768)
        model[f"{layer}.output.dense.weight"] = torch.randn(3072, 768).bfloat16().t()
    model["cls.predictions.decoder.weight"] = words
    moments = {i: {"step": torch.tensor(7.0), "exp_avg": torch.randn(768)} for i in range(9)}
    return {
        "model": model,
        "optimizer": {"state": moments, "param_groups": [{"lr": 1e-4, "params": [0]}]},
        "epoch": 3,
        "config": {"hidden_act": "gelu", "dropout": None},
    }


def tensors_in(obj, path=""):
    """(name, tensor) of everything, by weig's rule."""
    if isinstance(obj, torch.Tensor):
        yield path, obj.detach()
        return
    pairs = obj.items() if isinstance(obj, dict) else ()
    if isinstance(obj, (list, tuple)):
        pairs = enumerate(obj)
    for key, value in pairs:
        yield from tensors_in(value, f"{path}.{key}" if path else str(key))


def bytes_of(tensor):
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def weig(command, *arguments):
    done = subprocess.run(
        [command, *map(str, arguments)], capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(f"weig {arguments}: {done.stderr.decode()}")
    return done.stdout


def compare(command, source, expected):
    """Converts, compares every tensor, exports, loads that, compares again. The tensors
    are read by PyTorch from what is exported, whose digests weig checks on the way."""
    made, back = source.with_suffix(".weig"), source.with_suffix(".back.pt")
    start = time.monotonic()
    weig(command, "convert", source, "-o", made, "--force")
    seconds = time.monotonic() - start
    weig(command, "verify", made)
    weig(command, "export", made, back, "--force")
    found = torch.load(back, weights_only=True)
    assert sorted(found) == sorted(expected), set(found) ^ set(expected)
    total = 0
    for name, tensor in expected.items():
        other = found[name]
        assert other.dtype == tensor.dtype and other.shape == tensor.shape, name
        assert bytes_of(other) == bytes_of(tensor), name
        total += tensor.numel() * tensor.element_size()
    for name in list(expected)[:: max(1, len(expected) // 20)]:  # of the WEIG file too
        assert weig(command, "get", "--raw", made, name) == bytes_of(expected[name])
    size = source.stat().st_size
    print(f"{source.name}: {len(expected)} tensors, {total:,} bytes, all equal; "
          f"{size:,} bytes converted in {seconds:.2f} s")  # fmt: skip
    for path in (made, back):
        path.unlink()


def main():
    command = sys.argv[1]
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else temporary)
        for name, make in (("resnet", resnet), ("bert", bert)):
            obj = make()
            expected = dict(tensors_in(obj))
            for kind, zipped in (("archive", True), ("stream", False)):
                path = folder / f"{name}_{kind}.pt"
                torch.save(obj, path, _use_new_zipfile_serialization=zipped)
                compare(command, path, expected)
                path.unlink()
        import importlib.util

        package = pathlib.Path(importlib.util.find_spec("silero_vad").origin).parent
        for source in sorted(package.glob("data/*.jit")):
            state = torch.jit.load(source).state_dict()
            path = folder / source.name
            path.write_bytes(source.read_bytes())
            compare_script(command, path, state)
            path.unlink()


def compare_script(command, source, state):
    """All of a script module's state; beside it the archive has other constants."""
    made = source.with_suffix(".weig")
    weig(command, "convert", source, "-o", made, "--force")
    for name, tensor in state.items():
        assert weig(command, "get", "--raw", made, name) == bytes_of(tensor), name
    print(f"{source.name}: {len(state)} tensors of its state_dict(), all equal")
    made.unlink()


if __name__ == "__main__":
    main()
