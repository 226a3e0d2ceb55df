# SPDX-License-Identifier: Apache-2.0
"""What a corpus of small files is: files that must open, with exactly these tensors,
and files that must be refused, with this code and these words; and its manifest.

    FOLDER/accepted/*, FOLDER/refused/*   the files
    FOLDER/manifest.json                  what they are, for whatever reads JSON
    FOLDER/manifest.tsv                   the same without JSON, for C and C++

A line of manifest.tsv is fields with tabs between them, "-" for an empty one:

    accepted  FILE  FORMAT  OPTIONS
    tensor    NAME(hex)  DTYPE  SHAPE(commas)  DATA(hex)    of the file above
    refused   FILE  FORMAT  OPTIONS  WHEN  CODE  SAYS

OPTIONS: unsealed, unknown_dtypes; convert, of a format that is converted before it is
read: as the file that is made of it opens it, or refused by that. WHEN: open, or verify where a file opens and only its
sections or data are bad. SAYS: a part of the message, which also names the file.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Accepted:
    name: str
    raw: bytes
    format: str
    about: str
    tensors: list  # (name as bytes, weig's name of the type, shape, data little-endian)
    options: tuple = ()


@dataclass
class Refused:
    name: str
    raw: bytes
    format: str
    about: str
    code: str
    says: str
    when: str = "open"
    options: tuple = ()
    lenient: bool = False  # whether convert --lenient takes it


def write(folder, files):
    """Writes the corpus; returns how many are accepted and refused."""
    folder = Path(folder)
    names = [f.name for f in files]
    assert len(set(names)) == len(names), sorted(n for n in names if names.count(n) > 1)
    described, lines = [], []
    for kind in ("accepted", "refused"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for old in (folder / kind).iterdir():
            old.unlink()
    for file in files:
        kind = "accepted" if isinstance(file, Accepted) else "refused"
        path = f"{kind}/{file.name}"
        (folder / path).write_bytes(file.raw)
        options = ",".join(file.options) or "-"
        told = {"file": path, "expect": kind, "format": file.format}
        told |= {"about": file.about, "options": list(file.options)}
        if kind == "accepted":
            lines.append(("accepted", path, file.format, options))
            told["tensors"] = [_tensor(*tensor) for tensor in file.tensors]
            lines += [_line(*tensor) for tensor in file.tensors]
        else:
            fields = (file.when, file.code, file.says or "-")
            lines.append(("refused", path, file.format, options, *fields))
            told |= {"when": file.when, "code": file.code, "says": file.says}
            told["lenient"] = "accepted" if file.lenient else "refused"
        described.append(told)
    manifest = json.dumps({"files": described}, indent=1) + "\n"
    (folder / "manifest.json").write_text(manifest)
    text = "".join("\t".join(line) + "\n" for line in lines)
    (folder / "manifest.tsv").write_text(text)
    accepted = sum(isinstance(file, Accepted) for file in files)
    return accepted, len(files) - accepted


def _tensor(name, dtype, shape, data):
    return {
        "name": name.decode(),
        "dtype": dtype,
        "shape": list(shape),
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _line(name, dtype, shape, data):
    sizes = ",".join(map(str, shape))
    return ("tensor", name.hex() or "-", dtype, sizes or "-", data.hex() or "-")
