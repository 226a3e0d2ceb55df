# SPDX-License-Identifier: Apache-2.0
"""weig apply: the sum of a model and a LoRA adapter, bit for bit as NumPy has it, and
what is refused."""

import json
import os
import shutil
import signal
import subprocess
import time

import ml_dtypes
import numpy as np
import pytest

import weig_file
from command import CANNOT_OPEN, CORRUPT, EXISTS, INVALID_ARGUMENT, NOT_FOUND, UNSUPPORTED
from command import USAGE, assert_same_file, list_tree
from lora import CONFIG, PREFIX, expected_sum, pair, steps_between, write, write_adapter
from quantization import TYPES, words
from safetensors_file import assemble, entry, f32
from test_quantize import PROGRAM, targets

RNG = np.random.default_rng(7)


def normal(shape, dtype="f32", size=0.02):
    return (RNG.normal(size=shape) * size).astype(TYPES[dtype])


Q, K, EMBED = "model.layers.0.q", "model.layers.0.k", "model.embed"
BASE = {
    f"{EMBED}.weight": normal((50, 33), "bf16"),
    f"{Q}.weight": normal((70, 33), "bf16"),
    f"{K}.weight": normal((33, 40), "f16"),
    "model.layers.0.norm.weight": normal((33,), "f32"),
    "model.layers.0.steps": np.arange(12, dtype=np.int64).reshape(3, 4),
}
FACTORS = {
    Q: (normal((8, 33), "f32"), normal((70, 8), "f32")),
    K: (normal((8, 40), "bf16"), normal((33, 8), "bf16")),
}


@pytest.fixture
def base(tmp_path):
    return write(tmp_path / "base.safetensors", BASE, {"format": "pt", "license": "none"})


@pytest.fixture
def adapter(tmp_path):
    return write_adapter(tmp_path / "adapter", pair(Q, *FACTORS[Q]) | pair(K, *FACTORS[K]))


def applied(weig, base, adapter, *options):
    target = base.parent / "out.weig"
    run = weig.ok("apply", base, adapter, "-o", target, "--force", "--json", *options)
    weig.ok("verify", target)
    return weig_file.read(target), run.json()


def assert_sums(file, scales, factors=FACTORS):
    for module, scale in scales.items():
        name = module + ".weight"
        wanted = expected_sum(BASE[name], *factors[module], scale)
        assert file[name].data == wanted.tobytes()
        assert file[name].shape == BASE[name].shape
    for name in BASE.keys() - {module + ".weight" for module in scales}:
        assert file[name].data == BASE[name].tobytes()


def test_a_model_is_the_sum_and_all_else_as_it_was(weig, base, adapter):
    file, report = applied(weig, base, adapter)
    assert_sums(file, {Q: 2.0, K: 2.0})
    assert report["adapted"] == 2 and not report["exact_source"]
    assert report["tensors"] == len(BASE)
    assert file.sections[weig_file.METADATA] == b'{"format":"pt","license":"none"}'
    assert weig_file.SOURCE not in file.sections


@pytest.mark.parametrize("rank", [1, 8, 64])
@pytest.mark.parametrize("factor", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_types_and_ranks(weig, tmp_path, dtype, factor, rank):
    values = normal((61, 1300), dtype)
    a, b = normal((rank, 1300), factor, 1), normal((61, rank), factor)
    base = write(tmp_path / "base.safetensors", {"w.weight": values})
    folder = write_adapter(tmp_path / "adapter", pair("w", a, b), r=rank, lora_alpha=0.3)
    file, _ = applied(weig, base, folder)
    got = np.frombuffer(file["w.weight"].data, values.dtype).reshape(values.shape)
    np.testing.assert_array_equal(
        words(got), words(expected_sum(values, a, b, 0.3 / rank))
    )
    product = b.astype(np.float64) @ a.astype(np.float64)
    exact = values.astype(np.float64) + 0.3 / rank * product
    assert steps_between(got, exact.astype(values.dtype)).max() <= 1


def test_numbers_that_are_exact_stay_so(weig, tmp_path):
    values = RNG.integers(-64, 64, (40, 48)).astype(np.float32)
    a = RNG.integers(-8, 8, (4, 48)).astype(np.float32)
    b = RNG.integers(-8, 8, (40, 4)).astype(np.float32)
    base = write(tmp_path / "base.safetensors", {"w.weight": values})
    folder = write_adapter(tmp_path / "adapter", pair("w", a, b), r=4, lora_alpha=2)
    file, _ = applied(weig, base, folder)
    assert file["w.weight"].data == (values + 0.5 * (b @ a)).tobytes()


def special_values(dtype):
    values = normal((9, 37), dtype)
    values[0, :6] = [np.nan, np.inf, -np.inf, 0, -0.0, 1]
    largest = ml_dtypes.finfo(TYPES[dtype]).max
    values[1, :3] = [largest, -largest, largest]
    a, b = normal((2, 37), "f32"), normal((9, 2), "f32")
    a[:, 20] = np.nan
    a[0, 21], a[1, 21], b[3] = np.inf, np.inf, [1, -1]
    a[:, :3], b[1] = [[3e38, 3e38, -3e38]] * 2, 1
    a[:, 3:5], b[2] = 0, 0
    return values, a, b


@pytest.mark.parametrize("skip", range(len(targets())), ids=targets())
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_every_instruction_set_gives_the_same(tmp_path, dtype, skip):
    values, a, b = special_values(dtype)
    base = write(tmp_path / "base.safetensors", {"w.weight": values})
    folder = write_adapter(tmp_path / "adapter", pair("w", a, b), r=2, lora_alpha=0.7)
    target = tmp_path / "out.weig"
    subprocess.run([PROGRAM, str(skip), "lora", base, folder, target], check=True)
    wanted = expected_sum(values, a, b, 0.7 / 2)
    assert weig_file.read(target)["w.weight"].data == wanted.tobytes()
    assert np.isnan(wanted.astype(np.float32)).any()
    assert np.isinf(wanted.astype(np.float32)).any()


@pytest.mark.parametrize(
    ("settings", "q", "k"),
    [({}, 2, 2), ({"use_rslora": True}, 16 / np.sqrt(8), 16 / np.sqrt(8)),
     ({"alpha_pattern": {"q": 4}}, 0.5, 2),
     ({"alpha_pattern": {"layers.0.q": 4, "k": 3.5}}, 0.5, 3.5 / 8),
     ({"alpha_pattern": {"layers.0.q": 4, "q": 5}}, 0.5, 2),
     ({"alpha_pattern": {"0.q": 4, "ayers.0.q": 1, "layers_0_k": 1}}, 0.5, 2),
     ({"alpha_pattern": {"model.layers.0.k": -1}}, 2, -0.125),
     ({"r": 3, "rank_pattern": {"q": 8, "layers.0.k": 8}}, 2, 2),
     ({"r": 8, "rank_pattern": {"other": 5}}, 2, 2),
     ({"init_lora_weights": "gaussian", "modules_to_save": [], "bias": "all"}, 2, 2)],
)  # fmt: skip
def test_the_config_tells_the_scale(weig, tmp_path, base, adapter, settings, q, k):
    (adapter / "adapter_config.json").write_text(json.dumps(CONFIG | settings))
    file, _ = applied(weig, base, adapter)
    assert_sums(file, {Q: q, K: k})


@pytest.mark.parametrize(
    ("option", "scale"), [(["--alpha", "4"], 0.5), (["--scale", "-1.25e-1"], -0.125)]
)
def test_options_tell_it_too(weig, tmp_path, base, adapter, option, scale):
    alone = tmp_path / "alone.safetensors"
    (adapter / "adapter_model.safetensors").rename(alone)
    err = refuse(weig, base, alone, INVALID_ARGUMENT)
    assert "--alpha or --scale" in err
    for path in (alone, adapter / "adapter_model.safetensors"):
        path = alone.rename(path)  # the second one has a config beside it
        file, _ = applied(weig, base, path, *option)
        assert_sums(file, {Q: scale, K: scale})


@pytest.mark.parametrize(
    "rename",
    [lambda name: name.removeprefix(PREFIX),
     lambda name: name.replace(".weight", ".default.weight"),
     lambda name: name.replace(PREFIX + "model.", PREFIX)],
)  # fmt: skip
def test_names(weig, tmp_path, base, rename):
    tensors = {rename(name): values for name, values in pair(Q, *FACTORS[Q]).items()}
    file, _ = applied(weig, base, write_adapter(tmp_path / "adapter", tensors))
    assert_sums(file, {Q: 2})


def test_a_base_without_the_adapters_prefix(weig, tmp_path):
    values = normal((70, 33))
    base = write(tmp_path / "base.safetensors", {"layers.0.q.weight": values})
    adapter = write_adapter(tmp_path / "adapter", pair(Q, *FACTORS[Q]))
    file, _ = applied(weig, base, adapter)
    wanted = expected_sum(values, *FACTORS[Q], 2)
    assert file["layers.0.q.weight"].data == wanted.tobytes()


def test_layers_that_keep_their_weights_the_other_way_round(weig, tmp_path):
    values, a, b = normal((133, 70), "bf16"), normal((8, 133)), normal((70, 8))
    base = write(tmp_path / "base.safetensors", {"w.weight": values})
    adapter = write_adapter(tmp_path / "adapter", pair("w", a, b), fan_in_fan_out=True)
    file, _ = applied(weig, base, adapter)
    assert file["w.weight"].data == expected_sum(values, a, b, 2, True).tobytes()


@pytest.mark.parametrize("suffix", ["", ".default"])
def test_embeddings(weig, tmp_path, base, suffix):
    a, b = normal((8, 50)), normal((33, 8))
    name = f"{PREFIX}{EMBED}.lora_embedding_"
    tensors = {f"{name}A{suffix}": a, f"{name}B{suffix}": b}
    file, _ = applied(weig, base, write_adapter(tmp_path / "adapter", tensors))
    wanted = expected_sum(BASE[f"{EMBED}.weight"], a, b, 2, True)
    assert file[f"{EMBED}.weight"].data == wanted.tobytes()


def test_pieces_of_large_tensors(weig, tmp_path):
    tensors = {"long.weight": normal((2, 1_200_007), "bf16"),
               "high.weight": normal((700_001, 3), "f32")}  # fmt: skip
    factors = {"long": (normal((2, 1_200_007)), normal((2, 2))),
               "high": (normal((2, 3)), normal((700_001, 2)))}  # fmt: skip
    base = write(tmp_path / "base.safetensors", tensors)
    both = pair("long", *factors["long"]) | pair("high", *factors["high"])
    file, _ = applied(weig, base, write_adapter(tmp_path / "adapter", both, r=2))
    for module, (a, b) in factors.items():
        wanted = expected_sum(tensors[module + ".weight"], a, b, 8)
        assert file[module + ".weight"].data == wanted.tobytes()


def test_tensors_without_elements(weig, tmp_path):
    tensors = {"a.weight": np.zeros((0, 5), np.float32),
               "b.weight": np.zeros((5, 0), np.float32)}  # fmt: skip
    base = write(tmp_path / "base.safetensors", tensors)
    factors = pair("a", normal((8, 5)), normal((0, 8)))
    factors |= pair("b", normal((8, 0)), normal((5, 8)))
    file, report = applied(weig, base, write_adapter(tmp_path / "adapter", factors))
    assert report["adapted"] == 2 and file["b.weight"].shape == (5, 0)


def test_every_kind_of_base_gives_the_same_file(weig, tmp_path, base, adapter):
    target = tmp_path / "first.weig"
    weig.ok("apply", base, adapter, "-o", target)
    plain, split = tmp_path / "plain.weig", tmp_path / "split.weig"
    weig.ok("convert", base, "-o", plain)
    weig.ok("convert", base, "-o", split, "--shard-size", "6000B")
    members = sorted(tmp_path.glob("split-*.weig"))
    assert len(members) > 1
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(base.read_bytes())
    for other in (plain, members[-1], folder):
        again = tmp_path / "again.weig"
        weig.ok("apply", other, adapter, "-o", again, "--force")
        assert_same_file(target, again)


def test_the_output_must_be_named(weig, base, adapter):
    """A name of convert's would be taken for the base."""
    run = weig("apply", base, adapter)
    assert run.status == USAGE and "--output" in run.err
    assert not base.with_suffix(".weig").exists()
    target = base.with_name("adapted.weig")
    text = weig.ok("apply", base, adapter, "-o", target).text
    assert "changed  2 tensors, with the adapter" in text
    assert "gives the changed tensors" in text


def refuse(weig, base, adapter, status, *options):
    before = list_tree(base.parent)
    target = base.parent / "refused.weig"
    run = weig("apply", base, adapter, "-o", target, *options)
    assert run.status == status, run.err
    assert list_tree(base.parent) == before
    return run.err


A, B = (f"{PREFIX}{Q}.lora_{factor}.weight" for factor in "AB")


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [({A: None}, CORRUPT, [f"'{B}'", "lacks the factor A"]),
     ({B: None}, CORRUPT, [f"'{A}'", "lacks the factor B"]),
     ({A: normal((7, 33))}, CORRUPT, [f"'{B}'", "[70, 8]", "[7, 33]"]),
     ({A: normal((8, 34))}, CORRUPT, [f"'{A}'", "[70, 33]", "[70, 34]"]),
     ({B: normal((69, 8))}, CORRUPT, [f"'{A}'", "[70, 33]", "[69, 33]"]),
     ({A: normal((9, 33)), B: normal((70, 9))}, CORRUPT, [f"'{A}'", "rank", "9", "8"]),
     ({A: normal((0, 33)), B: normal((70, 0))}, CORRUPT, [f"'{B}'", "[0, 33]"]),
     ({A: normal((8, 33, 3, 3)), B: normal((70, 8, 1, 1))}, UNSUPPORTED,
      ["convolutions", "[8, 33, 3, 3]"]),
     ({A: np.zeros((8, 33), np.int64)}, UNSUPPORTED, [f"'{A}'", "i64"]),
     ({A.replace("lora_A", "lora_A.default"): FACTORS[Q][0]}, CORRUPT, ["two names"]),
     (pair("model.layers.1.q", *FACTORS[Q]), NOT_FOUND,
      ["'model.layers.1.q.weight' or 'layers.1.q.weight'", "layers.1.q.lora_A.weight"]),
     (pair("layers.0.q", *FACTORS[Q]), CORRUPT,
      ["'layers.0.q' and 'model.layers.0.q'"]),
     (pair("model.layers.0.norm", normal((8, 33)), normal((33, 8))), CORRUPT,
      ["[33]", "[33, 33]"]),
     (pair("base", normal((8, 4)), normal((3, 8))), NOT_FOUND, ["'base.weight'"]),
     ({f"{PREFIX}{Q}.lora_magnitude_vector": normal((70,))}, UNSUPPORTED, ["DoRA"]),
     ({f"{PREFIX}{Q}.lora_magnitude_vector.weight": normal((70,))}, UNSUPPORTED, ["DoRA"]),
     ({f"{PREFIX}{Q}.lora_B.bias": normal((70,))}, UNSUPPORTED, ["bias"]),
     ({f"{PREFIX}{Q}.bias": normal((70,))}, UNSUPPORTED, ["replace"]),
     ({f"{PREFIX}lm_head.weight": normal((50, 33))}, UNSUPPORTED, ["replace", "lm_head"]),
     ({f"{PREFIX}{Q}.lora_A.other.weight": normal((8, 33))}, UNSUPPORTED, ["no factor"])],
)  # fmt: skip
def test_adapters_that_cannot_be_added(weig, tmp_path, base, change, status, words):
    tensors = pair(Q, *FACTORS[Q]) | change
    tensors = {name: values for name, values in tensors.items() if values is not None}
    err = refuse(weig, base, write_adapter(tmp_path / "adapter", tensors), status)
    for word in ["adapter_model.safetensors", *words]:
        assert word in err, err


@pytest.mark.parametrize(
    ("settings", "status", "word"),
    [({"use_dora": True}, UNSUPPORTED, "use_dora"),
     ({"lora_bias": True}, UNSUPPORTED, "lora_bias"),
     ({"modules_to_save": ["lm_head"]}, UNSUPPORTED, "lm_head"),
     ({"layer_replication": [[0, 4]]}, UNSUPPORTED, "layer_replication"),
     ({"target_parameters": ["experts"]}, UNSUPPORTED, "target_parameters"),
     ({"peft_type": "IA3"}, UNSUPPORTED, "IA3"),
     ({"init_lora_weights": "pissa"}, UNSUPPORTED, "pissa"),
     ({"alpha_pattern": {"layers\\.0\\.q": 4}}, UNSUPPORTED, "regular expression"),
     ({"rank_pattern": {"^q": 4}}, UNSUPPORTED, "regular expression"),
     ({"rank_pattern": {"q": 4}}, CORRUPT, "rank"),
     ({"rank_pattern": [4]}, CORRUPT, "an object"),
     ({"alpha_pattern": {"q": "4"}}, CORRUPT, "numbers"),
     ({"lora_alpha": None}, CORRUPT, "a number"),
     ({"lora_alpha": "16"}, CORRUPT, "a number"),
     ({"use_rslora": 1}, CORRUPT, "true or false")],
)  # fmt: skip
def test_configs_that_ask_for_more(weig, base, adapter, settings, status, word):
    (adapter / "adapter_config.json").write_text(json.dumps(CONFIG | settings))
    assert word in refuse(weig, base, adapter, status)


@pytest.mark.parametrize(
    ("text", "word"),
    [("", ""), ("[]", "no JSON object"), ('{"r": 8', ""), ('{"r": 8} {}', "goes on"),
     ('{"r": 8, "r": 8}', "twice"), ('{"r": 8}', "no lora_alpha"),
     ('{"lora_alpha": NaN}', "")],
)  # fmt: skip
def test_configs_that_are_none(weig, base, adapter, text, word):
    (adapter / "adapter_config.json").write_text(text)
    err = refuse(weig, base, adapter, CORRUPT)
    assert "adapter_config.json" in err and word in err


def test_adapters_that_are_none(weig, tmp_path, base, adapter):
    weights = adapter / "adapter_model.safetensors"
    raw = weights.read_bytes()
    weights.write_bytes(raw[:-1])
    assert "adapter_model.safetensors" in refuse(weig, base, adapter, CORRUPT)
    weights.write_bytes(assemble({}))
    assert "no tensors" in refuse(weig, base, adapter, CORRUPT)
    weights.unlink()
    assert "adapter_model.safetensors" in refuse(weig, base, adapter, CANNOT_OPEN)
    assert "none" in refuse(weig, base, tmp_path / "none", CANNOT_OPEN)
    weights.write_bytes(raw)
    weig.ok("convert", weights)
    err = refuse(weig, base, adapter / "adapter_model.weig", UNSUPPORTED)
    assert "safetensors" in err


def test_bases_that_nothing_is_added_to(weig, tmp_path, base, adapter):
    quantized = tmp_path / "quantized.weig"
    weig.ok("convert", base, "-o", quantized, "--quantize", "int8", "--include", "*.q.*")
    assert "i8" in refuse(weig, quantized, adapter, UNSUPPORTED)
    # Scales are floats that no adapter should name.
    values = pair(Q + ".weight.scale", *FACTORS[Q])
    other = write_adapter(tmp_path / "other", values)
    assert "scale" in refuse(weig, quantized, other, NOT_FOUND)
    wide = write(tmp_path / "wide.safetensors", {f"{Q}.weight": np.zeros((70, 33), np.int64)})
    small = write_adapter(tmp_path / "small", pair(Q, *FACTORS[Q]))
    assert "i64" in refuse(weig, wide, small, UNSUPPORTED)


def test_tied_weights_are_refused(weig, tmp_path):
    values = normal((70, 33))
    tied = tmp_path / "tied.safetensors"
    both = {name: f32(*values.shape) for name in ("a.weight", "b.weight")}
    tied.write_bytes(assemble(both, values.tobytes()))
    base = tmp_path / "tied.weig"
    weig.ok("convert", "--lenient", tied, "-o", base)
    for modules in (["a"], ["b"], ["a", "b"]):
        tensors = {}
        for module in modules:
            tensors |= pair(module, *FACTORS[Q])
        adapter = write_adapter(tmp_path / "adapter", tensors)
        assert "share bytes" in refuse(weig, base, adapter, UNSUPPORTED)


def test_damage_of_a_sealed_base_is_not_added_to(weig, tmp_path, base, adapter):
    plain = tmp_path / "plain.weig"
    weig.ok("convert", base, "-o", plain)
    data = bytearray(plain.read_bytes())
    data[weig_file.read(plain)[f"{Q}.weight"].offset + 5] ^= 1
    plain.write_bytes(data)
    assert f"'{Q}.weight'" in refuse(weig, plain, adapter, 4)


def test_the_output_replaces_no_input(weig, tmp_path, base, adapter):
    target = tmp_path / "out.weig"
    target.write_bytes(b"there")
    assert weig("apply", base, adapter, "-o", target).status == EXISTS
    assert target.read_bytes() == b"there"
    weights = adapter / "adapter_model.safetensors"
    for path in (base, weights):
        before = path.read_bytes()
        run = weig("apply", base, adapter, "-o", path, "--force")
        assert run.status == EXISTS and "is one of the sources" in run.err
        assert path.read_bytes() == before


def test_the_output_is_as_private_as_the_adapter(weig, base, adapter):
    (adapter / "adapter_model.safetensors").chmod(0o600)
    base.chmod(0o644)
    applied(weig, base, adapter)
    assert (base.parent / "out.weig").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(weig, big_tmp, number):
    size = 96 << 20
    header = {"w.weight": entry("BF16", (1 << 10, size >> 11), 0, size)}
    base = big_tmp / "base.safetensors"
    base.write_bytes(assemble(header))
    with open(base, "ab") as file:
        file.truncate(base.stat().st_size + size)
    factors = pair("w", normal((64, size >> 11)), normal((1 << 10, 64)))
    adapter = write_adapter(big_tmp / "adapter", factors, r=64)
    process = weig.start("apply", base, adapter, "-o", big_tmp / "out.weig")
    deadline = time.monotonic() + 20
    while not list(big_tmp.glob(".out.weig.*.part")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.001)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert sorted(path.name for path in big_tmp.iterdir()) == ["adapter", base.name]


@pytest.mark.parametrize(
    "options",
    [["--alpha", "1", "--scale", "1"], ["--alpha", "x"], ["--scale", "nan"],
     ["--scale", "inf"], ["--alpha", ""], ["--quantize", "int8"]],
)  # fmt: skip
def test_calls_that_mean_nothing(weig, base, adapter, options):
    refuse(weig, base, adapter, USAGE, *options)


def test_the_config_is_never_replaced(weig, tmp_path, base, adapter):
    config = adapter / "adapter_config.json"
    before = config.read_bytes()
    link = tmp_path / "link.json"
    link.symlink_to(config)
    for target in (config, link):
        run = weig("apply", base, adapter, "-o", target, "--force")
        assert run.status == EXISTS, run.err
        assert config.read_bytes() == before


@pytest.mark.parametrize("kind", ["dangling", "folder", "fifo"])
def test_a_config_that_is_no_file_is_not_taken_as_absent(
    weig, tmp_path, base, adapter, kind
):
    config = adapter / "adapter_config.json"
    config.unlink()
    {
        "dangling": lambda: config.symlink_to(tmp_path / "nowhere"),
        "folder": config.mkdir,
        "fifo": lambda: os.mkfifo(config),
    }[kind]()
    for options in ([], ["--scale", "1"]):
        run = weig("apply", base, adapter, "-o", tmp_path / "out.weig", *options)
        assert run.status == CANNOT_OPEN and "adapter_config.json" in run.err
    assert not (tmp_path / "out.weig").exists()


def test_a_folder_with_both(weig, tmp_path, base, adapter):
    """The adapter's files are no others; those that are come along if asked for."""
    both = tmp_path / "both"
    shutil.copytree(adapter, both)
    shutil.copy(base, both / "model.safetensors")
    (both / "config.json").write_text("{}")
    out = tmp_path / "out" / "m.weig"
    out.parent.mkdir()
    run = weig.ok("apply", both, both, "-o", out)
    assert "left behind: config.json (" in run.err and "adapter" not in run.err
    run = weig.ok("apply", both, both, "-o", out, "--force", "--copy-others")
    assert sorted(p.name for p in out.parent.iterdir()) == ["config.json", "m.weig"]


def test_a_name_of_another_format_is_warned_of(weig, tmp_path, base, adapter):
    for ending in ("safetensors", "gguf"):
        run = weig.ok("apply", base, adapter, "-o", tmp_path / f"out.{ending}")
        assert "is a WEIG file, whatever its name says" in run.err


def test_a_pattern_counts_characters(weig, tmp_path):
    """As re.match(rf"(.*\\.)?({key})$", module) does."""
    ones = np.ones((4, 4), np.float32)
    base = write(tmp_path / "base.safetensors", {"\u00e9.weight": ones})
    for pattern, scale in ((".", 3), ("..", 1)):
        factors = pair("\u00e9", ones[:1], ones[:, :1])
        folder = write_adapter(
            tmp_path / "adapter", factors, r=1, lora_alpha=1, alpha_pattern={pattern: 3}
        )
        file, _ = applied(weig, base, folder)
        assert file["\u00e9.weight"].data == (ones * (1 + scale)).tobytes()
