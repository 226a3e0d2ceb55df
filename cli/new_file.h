// SPDX-License-Identifier: Apache-2.0
// NewFile: a file that appears whole or not at all.
#pragma once

#include <weig/error.h>
#include <weig/writer.h>

#include <cstdio>
#include <memory>
#include <string>

#include "output.h"

namespace weig::cli {

class NewFile {
 public:
  // Starts a temporary file beside `path`. Fails with exists where there is something
  // at `path` that must not be replaced: any file if told to refuse, a folder, device
  // or `input` always; and with io.
  static Result<NewFile> create(const std::string& path, Existing existing,
                                const std::string& input);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // removes what is not published

  Output& output() noexcept { return *output_; }

  // Flushes, syncs, gives the file its name, and syncs the folder.
  Status publish();

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  NewFile() = default;
  Status give_name();

  std::string path_;
  std::string temporary_;
  Existing existing_ = Existing::refuse;
  std::unique_ptr<std::FILE, Close> file_;
  std::unique_ptr<Output> output_;
};

}  // namespace weig::cli
