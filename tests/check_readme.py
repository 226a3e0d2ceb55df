# SPDX-License-Identifier: Apache-2.0
# Runs the README's examples, so that they stay true: fenced blocks marked ```sh test,
# ```cpp test or ```python test, in order, in one folder that starts with a small
# model.safetensors; and compiles the C++ of the pages in docs/, each block a scope of its
# own. Usage: check_readme.py PREFIX COMPILER (an installed weig)
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

# What the pages leave to the reader.
PRELUDE = """\
#include <weig/weig.h>

void compute(const weig::Model& model, const weig::Group& group);
void fill(std::span<float> values);
void upload(const weig::Tensor& tensor);

void example(weig::Model& model) {
"""
PAGE_BLOCK = re.compile(r"^```cpp$\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(sh|cpp|python) test\b.*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def write_model(path):
    """Two layers and a tensor beside them, as real models name theirs."""
    header, data = {}, b""
    for name, shape in {
        "embedding.weight": [16, 8],
        "layers.0.weight": [8, 8],
        "layers.1.weight": [8, 8],
    }.items():
        count = shape[0] * shape[1]
        span = [len(data), len(data) + 4 * count]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": span}
        data += struct.pack(f"<{count}f", *range(count))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def cpp_program(code):
    """The block itself, or its statements as the body of main()."""
    if "main(" in code:
        return code
    lines = code.splitlines(keepends=True)
    head = "".join(line for line in lines if line.startswith("#include"))
    body = "".join(line for line in lines if not line.startswith("#include"))
    return f"{head}\nint main() {{\n{body}}}\n"


def command_for(language, code, folder, cxx):
    if language == "sh":
        return ["bash", "-euo", "pipefail", "-c", code]
    if language == "python":
        return [sys.executable, "-c", code]
    source = folder / "example.cc"
    source.write_text(cpp_program(code))
    flags = "$(pkg-config --cflags --libs weig)"
    build = f"{cxx} -std=c++20 -Wall -Werror {source} {flags} -o {folder}/example"
    return ["bash", "-ec", f"{build} && {folder}/example"]


def check_pages(docs, folder, cxx, environment):
    pages = 0
    for page in sorted(docs.glob("*.md")):
        blocks = PAGE_BLOCK.findall(page.read_text(encoding="utf-8"))
        if not blocks:
            continue
        pages += 1
        source = folder / f"{page.stem}.cc"
        body = "".join(f"{{\n{block}}}\n" for block in blocks)
        source.write_text(f"{PRELUDE}{body}}}\n")
        flags = "-Wall -Werror -Wno-unused -Wno-unused-result"
        build = f"{cxx} -std=c++20 -fsyntax-only {flags} $(pkg-config --cflags weig)"
        if subprocess.run(["bash", "-c", f"{build} {source}"], env=environment).returncode:
            sys.exit(f"docs/{page.name}: its C++ does not compile")
    if pages < 2:
        sys.exit("docs/ has no C++ any more")


def main(prefix, cxx):
    root = Path(__file__).resolve().parent.parent
    blocks = BLOCK.findall((root / "README.md").read_text(encoding="utf-8"))
    if not blocks:
        sys.exit("README.md has no block marked as a test")

    package = next(Path(prefix).rglob("weig.pc")).parent
    environment = os.environ | {
        "PATH": f"{prefix}/bin:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": str(package),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model.safetensors")
        for language, code in blocks:
            print(f"--- {language}\n{code}", flush=True)
            command = command_for(language, code, folder, cxx)
            if subprocess.run(command, cwd=folder, env=environment).returncode:
                sys.exit(f"README.md: this {language} block fails")
        check_pages(root / "docs", folder, cxx, environment)


if __name__ == "__main__":
    main(*sys.argv[1:])
