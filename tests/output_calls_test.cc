// SPDX-License-Identifier: Apache-2.0
// Whatever call fails while a file is written: save, Writer, convert and export_file
// leave the old file or the complete new one, nothing else, and say what failed.
#include "output_calls.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <system_error>

#include <weig/convert.h>

#include "image.h"

namespace weig::test {
namespace {

using Paths = std::vector<std::string>;

// What a writer of the library does with a target.
struct Operation {
  const char* name;
  Status (*run)(const Folder&, const std::string& target, Existing);
};

template <typename T>
Status status_of(Result<T> result) {
  return result ? Status() : Status(std::move(result).error());
}

constexpr std::uint64_t kShape[] = {3000};

TensorSpec spec(std::string_view name) {
  return {.name = name, .dtype = Dtype::u8, .shape = kShape};
}

Status run_save(const Folder&, const std::string& target, Existing existing) {
  const std::vector<std::byte> bytes(3000, std::byte{7});
  const std::vector<TensorData> tensors = {{spec("a"), bytes}, {spec("b"), bytes}};
  return status_of(save(target, tensors, "{\"k\":\"v\"}", existing));
}

Status run_writer(const Folder&, const std::string& target, Existing existing) {
  const std::vector<TensorSpec> specs = {spec("a")};
  const Plan plan = Plan::make(specs).value();
  auto writer =
      Writer::create(target, specs, plan, {.existing = existing, .sections = {}});
  if (!writer) return std::move(writer).error();
  const std::vector<std::byte> bytes(3000, std::byte{7});
  if (auto status = writer->append(bytes); !status) return status;
  return status_of(writer->finish());
}

Status run_convert(const Folder& folder, const std::string& target, Existing existing) {
  ConvertOptions options;
  options.existing = existing;
  return status_of(convert(Paths{folder.path("in.safetensors")}, target, options));
}

Status run_export(const Folder& folder, const std::string& target, Existing existing) {
  ExportOptions options;
  options.existing = existing;
  return status_of(export_file(folder.path("in.weig"), target, options));
}

constexpr Operation kOperations[] = {{"save", run_save},
                                     {"Writer", run_writer},
                                     {"convert", run_convert},
                                     {"export_file", run_export}};

// A folder with sources, in which an operation is tried again and again.
class Trial {
 public:
  Trial(const Operation& operation, Existing existing)
      : operation_(operation), existing_(existing) {
    write_file(folder_.path("in.weig"),
               Image::sealed({{"a", Dtype::f32, {30}}, {"b", Dtype::u8, {7}}}).bytes);
    write_file(folder_.path("in.safetensors"),
               safetensors(R"({"w":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})",
                           to_bytes("123456789")));
    if (const Status status = run({}); !status)
      throw std::runtime_error(status.error().message());
    new_ = read_file(target_);
  }

  // Puts the folder as it was before, and runs once.
  Status run(const OutputCalls& calls) {
    std::filesystem::remove(target_);
    if (existing_ == Existing::replace) write_file(target_, old_);
    interfere(calls);
    Status status = operation_.run(folder_, target_, existing_);
    made = output_calls_made();
    last = last_output_call();
    interfere({});
    return status;
  }

  bool target_is_old() const {
    return existing_ == Existing::replace ? read_file(target_) == old_
                                          : !std::filesystem::exists(target_);
  }
  bool target_is_new() const {
    return std::filesystem::exists(target_) && read_file(target_) == new_;
  }
  // No temporary file, nor anything else.
  bool folder_is_clean() const {
    Paths names = folder_.names();
    std::erase(names, "target");
    return names == Paths{"in.safetensors", "in.weig"};
  }
  const std::string& target() const { return target_; }

  int made = 0;
  std::string last;

 private:
  Folder folder_;
  std::string target_ = folder_.path("target");
  std::vector<std::byte> old_ = to_bytes("what was there before");
  std::vector<std::byte> new_;
  const Operation& operation_;
  Existing existing_;
};

std::string where(const Operation& operation, const OutputCalls& calls,
                  const Trial& trial) {
  return std::string(operation.name) + ", call " + std::to_string(calls.at) + " of " +
         std::to_string(trial.made) + ", the last: " + trial.last;
}

// Runs with the first call interfered with, then the second, until a run makes fewer
// calls than that. Returns how many there are.
int at_every_call(Trial& trial, OutputCalls calls,
                  const std::function<void(const OutputCalls&, const Status&)>& check) {
  for (calls.at = 1; calls.at < 1000; ++calls.at) {
    const Status status = trial.run(calls);
    if (trial.made < calls.at) {
      EXPECT_TRUE(status && trial.target_is_new());
      return calls.at - 1;
    }
    check(calls, status);
  }
  ADD_FAILURE() << "there is no end to the calls";
  return 0;
}

// The call failed: the old file is there, or the new one where only the folder is left.
void expect_refusal(const Operation& operation, const OutputCalls& calls,
                    const Trial& trial, const Status& status) {
  const std::string at = where(operation, calls, trial);
  ASSERT_FALSE(status) << at;
  const bool named = trial.last == "fsync of the folder" || trial.last == "syncfs";
  EXPECT_TRUE(named ? trial.target_is_new() : trial.target_is_old()) << at;
  EXPECT_TRUE(trial.folder_is_clean()) << at;
  const std::string message = status.error().message();
  EXPECT_EQ(status.error().code(),
            trial.last == "create" ? Code::cannot_open : Code::io)
      << at;
  const std::string reason = std::generic_category().message(calls.error);
  EXPECT_NE(message.find(reason), message.npos) << at << ": " << message;
  EXPECT_NE(message.find(trial.target()), message.npos) << at << ": " << message;
}

using OutputCallsTest = testing::TestWithParam<Existing>;

TEST_P(OutputCallsTest, each_that_fails_leaves_the_old_file_or_the_new) {
  for (const Operation& operation : kOperations) {
    Trial trial(operation, GetParam());
    for (const int error : {ENOSPC, EIO, EDQUOT})
      for (const Fate fate : {Fate::fail, Fate::fail_for_good}) {
        const int calls =
            at_every_call(trial, {.error = error, .fate = fate},
                          [&](const OutputCalls& call, const Status& status) {
                            expect_refusal(operation, call, trial, status);
                          });
        EXPECT_GE(calls, 6) << operation.name;
      }
  }
}

TEST_P(OutputCallsTest, each_that_writes_half_is_written_on) {
  for (const Operation& operation : kOperations) {
    Trial trial(operation, GetParam());
    at_every_call(trial, {.fate = Fate::write_half},
                  [&](const OutputCalls& call, const Status& status) {
                    EXPECT_TRUE(status) << where(operation, call, trial);
                    EXPECT_TRUE(trial.target_is_new()) << where(operation, call, trial);
                  });
  }
}

TEST_P(OutputCallsTest, each_that_writes_half_and_then_fails_is_refused) {
  for (const Operation& operation : kOperations) {
    Trial trial(operation, GetParam());
    at_every_call(trial, {.error = ENOSPC, .fate = Fate::half_then_fail},
                  [&](const OutputCalls& call, const Status& status) {
                    if (trial.made == call.at) {  // there was no call after it
                      EXPECT_TRUE(status && trial.target_is_new());
                    } else {
                      expect_refusal(operation, call, trial, status);
                    }
                  });
  }
}

// No fallocate, no rename that refuses, no folder that can be opened.
TEST_P(OutputCallsTest, a_poor_file_system_is_no_different) {
  for (const Operation& operation : kOperations) {
    Trial trial(operation, GetParam());
    const OutputCalls calls{.error = ENOSPC,
                            .fallocate_error = EOPNOTSUPP,
                            .no_replace_error = EINVAL,
                            .folder_error = EACCES};
    bool synced = false;
    at_every_call(trial, calls, [&](const OutputCalls& call, const Status& status) {
      synced = synced || trial.last == "syncfs";
      expect_refusal(operation, call, trial, status);
    });
    EXPECT_TRUE(synced) << operation.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, OutputCallsTest,
                         testing::Values(Existing::refuse, Existing::replace),
                         [](const auto& instance) {
                           return instance.param == Existing::refuse ? "none" : "old";
                         });

}  // namespace
}  // namespace weig::test
