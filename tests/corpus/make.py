#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus: make.py FOLDER. The same bytes in every run; what the files mean
is in corpus.py."""

import sys
from pathlib import Path

# The writers that share nothing with the library.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import corpus
import gguf_corpus
import numpy_corpus
import onnx_corpus
import safetensors_corpus
import torch_corpus
import weig_accepted
import weig_refused
import weig_refused_others

LEAST_ACCEPTED, LEAST_REFUSED = 40, 150


def files():
    found = [*weig_accepted.files(), *safetensors_corpus.accepted()]
    found += [*weig_refused.files(), *weig_refused_others.files()]
    found += [*safetensors_corpus.refused()]
    found += [*gguf_corpus.accepted(), *gguf_corpus.refused()]
    found += [*numpy_corpus.accepted(), *numpy_corpus.refused()]
    found += [*torch_corpus.accepted(), *torch_corpus.refused()]
    return found + [*onnx_corpus.accepted(), *onnx_corpus.refused()]


def main():
    accepted, refused = corpus.write(sys.argv[1], files())
    if accepted < LEAST_ACCEPTED or refused < LEAST_REFUSED:
        sys.exit(f"corpus: only {accepted} accepted and {refused} refused files")
    print(f"corpus: {accepted} accepted, {refused} refused files")


if __name__ == "__main__":
    main()
