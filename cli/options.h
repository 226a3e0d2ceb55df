// SPDX-License-Identifier: Apache-2.0
// Arguments and options that several commands share.
#pragma once

#include <weig/model_set.h>
#include <weig/writer.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "report.h"

namespace weig::cli {

// For numbers: digits only, from `min` to `max`. (CLI11 would take -1 for 2^64 - 1.)
CLI::Validator whole_number(std::uint64_t max, std::uint64_t min = 0);

// A file's name, which is not empty.
CLI::Validator file_name();

void add_file(CLI::App& command, std::string& file);
// The same for commands that take a whole set by one of its members.
void add_model(CLI::App& command, std::string& file);
void add_json(CLI::App& command, Form& form);
void add_force(CLI::App& command, Existing& existing);
void add_accept_unsealed(CLI::App& command, OpenOptions& options);
void add_accept_unknown_dtypes(CLI::App& command, OpenOptions& options);
// --shard-size SIZE, with what it does.
void add_shard_size(CLI::App& command, std::optional<std::uint64_t>& bytes,
                    const char* what);
// --load WAY: how the command brings the file into memory.
void add_load(CLI::App& command, OpenOptions& options);

// Model::open(), with its warnings told, and where it fails with the hint which of the
// last two options would have opened the file. For commands that do not know of sets:
// tells where the file is a member of one.
Result<Model> open_model(const std::string& file, const OpenOptions& options);
void tell_if_member(const Model& model);
// The same for ModelSet::open(). A member whose set does not open is opened alone,
// which is told.
Result<ModelSet> open_set(const std::string& file, const OpenOptions& options);
// The hint alone, for an error of that file.
Error with_option_hint(const Error& error, const std::string& file,
                       const OpenOptions& options);

// To be asked when all has been read through a mapping: of a page that a cut went
// through, the rest reads as zeros. Fails with corrupt where the file was written to or
// cut since it was opened.
Status check_unchanged(const Model& model);
Status check_unchanged(const ModelSet& set);
// close_output() after that, for what has been printed of a file or a set.
int close_output_of(Output& output, const ModelSet& set);

}  // namespace weig::cli
