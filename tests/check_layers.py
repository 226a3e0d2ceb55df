# SPDX-License-Identifier: Apache-2.0
# Checks that every #include and every #if of the tree obeys the layers: a folder under
# src/ includes itself and layers below; faces include only <weig/...>; OS headers stay
# in src/os. `--self-test` feeds it snippets that break each rule.
import re
import sys
from pathlib import Path, PurePosixPath

# Layer -> the layers below it that it may include.
BELOW = {
    "core": set(),
    "os": {"core"},
    "formats": {"core"},
    "kernels": {"core"},
    "store": {"core", "os", "formats", "kernels"},
    "convert": {"core", "os", "formats", "kernels", "store"},
}
# Layer -> headers of other projects that it may include, and exceptions from the rules
# on headers of the C++ library below (convert needs paths and folder listings).
FOREIGN = {
    "core": {"xxhash.h", "xxh_x86dispatch.h"},
    "formats": {"simdjson.h", "zlib.h", "libdeflate.h"},
    "kernels": {"hwy/highway.h", "hwy/foreach_target.h"},
    "store": {"simdjson.h"},
    "convert": {"simdjson.h", "libdeflate.h", "nettle/sha2.h", "filesystem"},
}
THREADS = set(
    "barrier condition_variable future latch mutex semaphore shared_mutex stop_token"
    " thread".split()
)
INPUT_OUTPUT = set("cstdio filesystem fstream iostream istream ostream".split())
# Headers that cost every user too much to be in a public header.
HEAVY = THREADS | INPUT_OUTPUT | {"regex", "sstream", "iomanip", "locale"}

FACES = ("cli", "bench", "python", "src/capi", "examples")
FOLDERS = ("src", "include", *FACES)
SUFFIXES = {".h", ".cc", ".c", ".cpp", ".hpp"}

DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*(include|if|ifdef|ifndef|elif\w*)\b((?:\\\n|.)*)", re.MULTILINE
)
INCLUDED = re.compile(r'\s*(?:<(.+?)>|"(.+?)")')
SYSTEM = re.compile(
    r"\b_*(linux|unix|WIN32|WIN64|APPLE|FreeBSD|OpenBSD|NetBSD|ANDROID|MACH|CYGWIN)_*\b"
    r"|__has_include"
)
PROCESSOR = re.compile(
    r"\b_*(x86_64|i386|aarch64|arm|riscv|s390x?|powerpc\w*|SSE\w*|AVX\w*)_*\b"
)
COMPILER = re.compile(
    r"\b(__clang\w*|__GNUC\w*|__GNUG__|_MSC_\w+|__has_(cpp_)?attribute|__has_builtin"
    r"|__has_feature|__SANITIZE_\w+|__GLIBCXX__|_LIBCPP_\w+)\b"
)


def is_standard(header):
    """A header of the C++ library: those have no dot in their names."""
    return "." not in header and "/" not in header


def is_public(header):
    return re.fullmatch(r"weig/[\w/]+\.h", header) is not None


def broken_include(path, argument):
    """What is wrong with one #include in the file `path`, or None."""
    match = INCLUDED.match(argument)
    if not match:
        return "no file is named"
    angled, quoted = match.groups()
    face = next((f for f in FACES if path.is_relative_to(f)), None)
    if path.parts[0] == "include":
        if quoted:
            return "a public header includes public headers as <weig/...>"
        if not (is_public(angled) or is_standard(angled)):
            return "a public header includes only <weig/...> and the C++ library"
        return f"<{angled}> is too heavy for a public header" if angled in HEAVY else None
    if quoted and is_public(quoted):
        return "public headers are included as <weig/...>"
    if face:
        if quoted and quoted.split("/")[0] in (*BELOW, "..", "src"):
            return f"{face} is a face: it includes only <weig/...> and its own headers"
        return None

    layer = path.parts[1]
    if layer not in BELOW:
        return f"src/{layer} is no layer that {Path(__file__).name} knows"
    if quoted:
        other = quoted.split("/")[0]
        if other not in BELOW or ".." in quoted:
            return 'headers of src/ are included as "layer/name.h"'
        if other != layer and other not in BELOW[layer]:
            return f"{layer} is below or beside {other}"
        return None
    if layer == "os" or is_public(angled) or angled in FOREIGN[layer]:
        return None
    if not is_standard(angled):
        return f"{layer} may not include it: OS headers belong in src/os"
    if angled in INPUT_OUTPUT:
        return "input and output belong in src/os"
    if angled in THREADS and layer in ("core", "formats", "kernels"):
        return f"{layer} knows no threads"
    return None


def broken_condition(path, condition):
    """What is wrong with one #if in the file `path`, or None."""
    if SYSTEM.search(condition) and not path.is_relative_to("src/os"):
        return "#if on the system belongs in src/os"
    if COMPILER.search(condition) and path != PurePosixPath("include/weig/version.h"):
        return "#if on the compiler belongs in include/weig/version.h"
    if PROCESSOR.search(condition) and path.parts[0] == "include":
        return "a public header has no #if on the processor"
    return None


def violations(path, text):
    for directive in DIRECTIVE.finditer(text):
        broken = broken_include if directive[1] == "include" else broken_condition
        if why := broken(path, directive[2]):
            line = text.count("\n", 0, directive.start()) + 1
            yield f"{path}:{line}: {directive[0].strip()}: {why}"


MUST_FAIL = [
    ("src/core/a.cc", '#include "os/os.h"'),
    ("src/core/a.cc", '#include "formats/json.h"'),
    ("src/core/a.cc", "#include <unistd.h>"),
    ("src/core/a.cc", "#  include <sys/mman.h>"),
    ("src/core/a.cc", "#include <thread>"),
    ("src/core/a.cc", "#include <mutex>"),
    ("src/core/a.cc", "#include <fstream>"),
    ("src/core/a.cc", "#include <simdjson.h>"),
    ("src/core/a.cc", '#include "weig/view.h"'),
    ("src/core/a.cc", '#include "a.h"'),
    ("src/core/a.cc", '#include "core/../os/os.h"'),
    ("src/core/a.cc", "#include WEIG_HEADER"),
    ("src/core/a.cc", "#ifdef __linux__"),
    ("src/core/a.cc", "#elif defined(__clang__)"),
    ("src/core/a.cc", "#if 1 && \\\n  defined(_WIN32)"),
    ("src/core/a.cc", "#if __has_include(<sys/mman.h>)"),
    ("src/os/a.cc", '#include "store/sink.h"'),
    ("src/os/a.cc", '#include "formats/json.h"'),
    ("src/os/a.cc", "#if defined(__GNUC__)"),
    ("src/formats/a.cc", '#include "os/os.h"'),
    ("src/formats/a.cc", '#include "store/sink.h"'),
    ("src/formats/a.cc", "#include <filesystem>"),
    ("src/formats/a.cc", "#include <future>"),
    ("src/kernels/a.cc", '#include "os/os.h"'),
    ("src/kernels/a.cc", '#include "formats/json.h"'),
    ("src/kernels/a.cc", "#include <thread>"),
    ("src/core/a.cc", '#include "kernels/affine.h"'),
    ("src/store/a.cc", "#include <hwy/highway.h>"),
    ("src/store/a.cc", '#include "convert/sources.h"'),
    ("src/store/a.cc", "#include <fcntl.h>"),
    ("src/store/a.cc", "#include <nettle/sha2.h>"),
    ("src/convert/a.cc", "#include <unistd.h>"),
    ("src/store/a.cc", "#include <filesystem>"),
    ("src/convert/a.cc", "#include <fstream>"),
    ("src/misc/a.cc", "#include <string>"),
    ("include/weig/a.h", "#include <sys/types.h>"),
    ("include/weig/a.h", "#include <windows.h>"),
    ("include/weig/a.h", "#include <iostream>"),
    ("include/weig/a.h", "#include <simdjson.h>"),
    ("include/weig/a.h", '#include "core/bytes.h"'),
    ("include/weig/a.h", '#include "weig/view.h"'),
    ("include/weig/a.h", "#if defined(__x86_64__)"),
    ("include/weig/a.h", "#ifdef _WIN32"),
    ("include/weig/version.h", "#ifdef __APPLE__"),
    ("cli/main.cc", '#include "core/text.h"'),
    ("cli/main.cc", '#include "../src/core/text.h"'),
    ("cli/main.cc", '#include "weig/view.h"'),
    ("cli/main.cc", "#ifdef __linux__"),
    ("bench/a.cc", '#include "os/os.h"'),
    ("src/capi/c.cc", '#include "store/sink.h"'),
]
MUST_PASS = [
    ("src/core/a.cc", '#include "core/text.h"\n#include <weig/view.h>\n#include <string>'),
    ("src/core/a.cc", "#include <xxhash.h>\n#include <atomic>\n// #include <thread>"),
    ("src/core/a.cc", "#ifndef NDEBUG\n#endif\n#if unixoid\n#endif"),
    ("src/os/a.cc", '#include "core/bytes.h"\n#include <sys/mman.h>\n#ifdef __linux__'),
    ("src/formats/a.cc", '#include "core/text.h"\n#include <simdjson.h>'),
    ("src/kernels/a.cc", '#include "core/bytes.h"\n#include <hwy/highway.h>'),
    ("src/store/a.cc", '#include "kernels/affine.h"'),
    ("src/store/a.cc", '#include "os/os.h"\n#include "formats/json.h"\n#include <mutex>'),
    ("src/convert/a.cc", '#include "store/sink.h"\n#include <nettle/sha2.h>'),
    ("src/capi/c.cc", "#include <weig/c.h>"),
    ("include/weig/a.h", "#include <weig/view.h>\n#include <span>\n#ifdef __cplusplus"),
    ("include/weig/version.h", "#if defined(__clang__)"),
    ("cli/a.cc", '#include "commands.h"\n#include <weig/weig.h>\n#include <unistd.h>'),
]


def self_test():
    wrong = [
        f"not caught: {path}: {text!r}"
        for path, text in MUST_FAIL
        if not any(violations(PurePosixPath(path), text))
    ]
    for path, text in MUST_PASS:
        wrong += [f"falsely caught: {v}" for v in violations(PurePosixPath(path), text)]
    return wrong


def check_tree(root):
    files = [
        file
        for folder in FOLDERS
        for file in sorted((root / folder).rglob("*"))
        if file.suffix in SUFFIXES
    ]
    assert files, f"no sources under {root}"
    return [
        violation
        for file in dict.fromkeys(files)
        for violation in violations(
            PurePosixPath(file.relative_to(root)), file.read_text(encoding="utf-8")
        )
    ]


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    found = self_test() if sys.argv[1:] == ["--self-test"] else check_tree(root)
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
