# SPDX-License-Identifier: Apache-2.0
"""Files that people take for weights by mistake."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

from safetensors_file import by_hand, pattern

LFS = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n"
)
GOOD = by_hand({"w": ("F32", (64,), pattern(256))})


def tar_of(content):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo("model.safetensors")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def zip_of(content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("weights.safetensors"), content)
    return out.getvalue()


# Kind -> bytes, and what the message holds.
LOOKALIKES = {
    "lfs_pointer": (LFS.encode(), "Git LFS pointer", "git lfs pull"),
    "lfs_pointer_with_cr_lf": (LFS.replace("\n", "\r\n").encode(), "Git LFS pointer"),
    "lfs_pointer_cut": (LFS.encode()[:60], "Git LFS pointer"),
    "html": (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "HTML"),
    "html_in_small_letters": (b"<!doctype html><title>404</title>", "HTML"),
    "html_after_white_space": (b"\r\n  <html lang=en>" + bytes(100), "HTML"),
    "html_after_a_byte_order_mark": (b"\xef\xbb\xbf<!DOCTYPE html><html>", "HTML"),
    "json_error": (b'{"error":"Repository not found"}', "JSON error"),
    "json_error_spread": (b'{\n  "error" : {"code": 401}\n}', "JSON error"),
    "index_file": (b'{"metadata":{"total_size":1},"weight_map":{}}', "JSON"),
    "xml": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "XML"),
    "gzip": (gzip.compress(GOOD, mtime=0), "gzip", "unpack"),
    "xz": (lzma.compress(GOOD), "xz", "unpack"),
    "bzip2": (bz2.compress(GOOD), "bzip2", "unpack"),
    "zstd": (b"\x28\xb5\x2f\xfd" + GOOD, "zstd", "unpack"),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\4" + GOOD, "7z", "unpack"),
    "tar": (tar_of(GOOD), "tar", "unpack"),
    "zip": (zip_of(GOOD), "zip"),
    "zeros": (bytes(100_000), "zeros"),
    "text": (b"These are not the weights you are looking for.\n" * 9, "no weights file"),
    "random": (pattern(4096, 77), "no weights file"),
    "one_byte": (b"x", "1 byte"),
}
