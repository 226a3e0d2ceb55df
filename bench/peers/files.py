# SPDX-License-Identifier: Apache-2.0
# files.py SAFETENSORS_FILE FOLDER KIND...: the same tensors in the peers' formats: zt
# pt flashpack tensors npy gguf llama. Prints nothing; a file that is there stays.
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file


def zt(path):
    import ztensor

    ztensor.convert(source, path)


def pt(path):
    torch.save(load_file(source), path)


def flashpack(path):
    from flashpack import pack_to_file

    pack_to_file(load_file(source), path, None)


def tensors(path):
    from tensorizer import TensorSerializer

    serializer = TensorSerializer(path)
    serializer.write_state_dict(load_file(source))
    serializer.close()


def npy(path):
    import numpy

    os.mkdir(path)
    for name, tensor in load_file(source).items():
        numpy.save(f"{path}/{name}.npy", tensor.numpy())


def gguf(path):
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama", use_temp_file=False)
    for name, tensor in load_file(source).items():
        writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama(path):
    """As llama.cpp wants it: its own names, norms in 32 bits, the model's shape."""
    from gguf import GGUFWriter

    names = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "model.layers": "blk",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.o_proj": "attn_output",
        "self_attn": "attn",
        "mlp": "ffn",
        "_proj": "",
        "attn.": "attn_",
        "ffn.": "ffn_",
    }
    model = load_file(source)
    words, hidden = model["lm_head.weight"].shape
    writer = GGUFWriter(path, "llama", use_temp_file=False)
    writer.add_context_length(2048)
    writer.add_embedding_length(hidden)
    writer.add_block_count(sum(name.endswith("gate_proj.weight") for name in model))
    writer.add_feed_forward_length(len(model["model.layers.0.mlp.gate_proj.weight"]))
    writer.add_head_count(hidden // 128)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(words)
    writer.add_tokenizer_model("none")
    for name, tensor in model.items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        writer.add_tensor(
            name, (tensor.float() if tensor.ndim == 1 else tensor).numpy()
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


source, folder = sys.argv[1], Path(sys.argv[2])
for kind in sys.argv[3:]:
    made = folder / f"{Path(source).stem}.{kind}"
    if not made.exists():
        globals()[kind](str(made))
os.sync()
