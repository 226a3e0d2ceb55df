# SPDX-License-Identifier: Apache-2.0
"""Guards whose removal no test can notice, and why. run.py fails for one that a test
does notice after all, and for one that is not there any more."""

_VALUE = "a field with a key has a value; what is wrong with it shows when it is read"
_MEMORY = "zlib finds no memory: nothing that a file does"
_TYPE = "its type is known to be this one"

EXPLAINED = {
    "src/core/index.cc: check_other: "
    "check_record(claim_, candidate, unknown_dtypes_, other)": "the linear pass over "
    "all records, in this part or another, refuses the same record",
    "src/core/index.cc: check_records: "
    "check_record(claim, first - 1, unknown_dtypes, before)": "the part that the "
    "record belongs to refuses it",
    "src/core/index.cc: check_records: index.add(record.name)": "a name that fails stays "
    "in the queue, where finish() meets it",
    "src/core/index.cc: build_index: always": "no names are known whose hashes collide "
    "under each of 256 seeds",
    "src/formats/manifest.cc: manifest_of: order_and_check_ranges(manifest)": "a View "
    "has proven the ranges; this orders them",
    "src/formats/json.cc: append_object: auto error = field.value().get(value)": _VALUE,
    "src/formats/json.cc: append_canonical_json: "
    "auto error = value.get_object().get(object)": _TYPE,
    "src/formats/json.cc: append_canonical_json: "
    "auto error = value.get_array().get(array)": _TYPE,
    "src/formats/inflate.cc: begin: "
    "inflateInit2(&stream, kRawWindow) != Z_OK": _MEMORY,
    "src/formats/inflate.cc: step: result == Z_MEM_ERROR": _MEMORY,
    "src/formats/inflate.cc: Inflater::read: state_->begin()": _MEMORY,
    "src/formats/safetensors.cc: read: auto error = field.value().get(value)": _VALUE,
    "src/formats/safetensors.cc: read_metadata: "
    "auto error = field.value().get(entry)": _VALUE,
    "src/formats/safetensors.cc: read_tensor: "
    "auto error = field.value().get(entry)": _VALUE,
}
