# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters for tests, and their sum with a base in NumPy, by the rules of
weig/lora.h: what the command is compared with."""

import json

import ml_dtypes
import numpy as np

from quantization import TYPES, expected_cast, words
from safetensors_file import by_hand

NAMES = {
    np.dtype(np.float32): "F32",
    np.dtype(np.float16): "F16",
    np.dtype(ml_dtypes.bfloat16): "BF16",
    np.dtype(np.int64): "I64",
}
PREFIX = "base_model.model."
CONFIG = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "use_rslora": False,
          "rank_pattern": {}, "alpha_pattern": {}, "fan_in_fan_out": False, "bias": "none",
          "use_dora": False, "modules_to_save": None,
          "init_lora_weights": True, "lora_dropout": 0.05, "target_modules": ["q"]}  # fmt: skip


def write(path, tensors, metadata=None):
    entries = {
        name: (NAMES[values.dtype], values.shape, values.tobytes())
        for name, values in tensors.items()
    }
    path.write_bytes(by_hand(entries, metadata))
    return path


def write_adapter(folder, tensors, config=CONFIG, **settings):
    """A folder as PEFT saves it; no config where it is None."""
    folder.mkdir(exist_ok=True)
    write(folder / "adapter_model.safetensors", tensors, {"format": "pt"})
    if config is not None:
        text = json.dumps(config | settings, indent=2)
        (folder / "adapter_config.json").write_text(text)
    return folder


def pair(module, a, b):
    return {
        f"{PREFIX}{module}.lora_A.weight": a,
        f"{PREFIX}{module}.lora_B.weight": b,
    }


def rounded(sums, dtype):
    """Doubles to f32, and then to the type; NaN without sign and payload."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = sums.astype(np.float32)
    narrow[np.isnan(narrow)] = np.uint32(0x7FC00000).view(np.float32)
    if dtype == np.float32:
        return narrow
    name = next(name for name, known in TYPES.items() if known == dtype)
    return expected_cast(narrow, name).view(dtype)


def expected_sum(base, a, b, scale, transposed=False):
    """The arithmetic of weig/lora.h, operation by operation."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.zeros((b.shape[0], a.shape[1]))
        for k in range(a.shape[0]):
            total = total + wide_b[:, k, None] * wide_a[None, k, :]
        if transposed:
            total = total.T
        sums = base.astype(np.float64) + np.float64(scale) * total
    return rounded(sums, base.dtype)


def steps_between(one, other):
    """How many numbers of the type lie between two: 0 for equals, 1 for neighbours."""

    def places(values):
        bits = words(values).astype(np.int64)
        sign = np.int64(1) << (8 * values.itemsize - 1)
        return np.where(bits & sign, sign - bits, bits)

    return np.abs(places(one) - places(other))
