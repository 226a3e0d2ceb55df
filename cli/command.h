// SPDX-License-Identifier: Apache-2.0
// The sub-commands: each adds itself to the command line, and says how it is run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace weig::cli {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // after parsing; returns the exit status
};

Command add_convert(CLI::App& app);
Command add_info(CLI::App& app);
Command add_ls(CLI::App& app);
Command add_get(CLI::App& app);
Command add_verify(CLI::App& app);
Command add_export(CLI::App& app);
Command add_merge(CLI::App& app);
Command add_diff(CLI::App& app);
Command add_apply(CLI::App& app);
Command add_residency(CLI::App& app);
Command add_warm(CLI::App& app);
Command add_evict(CLI::App& app);
Command add_doctor(CLI::App& app);
Command add_bench(CLI::App& app);

}  // namespace weig::cli
