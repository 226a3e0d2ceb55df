// SPDX-License-Identifier: Apache-2.0
// A power cut after any of a Writer's calls: what was not synced may be lost, in any
// part. What is left opens only if it is the complete file. (What the system calls of
// the whole command promise, tests/python/test_power_cut.py sees.)
#include <gtest/gtest.h>

#include <algorithm>

#include "image.h"
#include "store/sink.h"

namespace weig::test {
namespace {

struct Call {
  enum Kind { reserve, write, sync, publish } kind;
  std::uint64_t offset = 0;  // of a write; the length for reserve
  std::vector<std::byte> bytes = {};
};
using Calls = std::vector<Call>;

class RecordingSink final : public Sink {
 public:
  explicit RecordingSink(Calls& calls) : calls_(calls) {}
  Status reserve(std::uint64_t bytes) override { return add({Call::reserve, bytes}); }
  Status write(std::uint64_t offset, Bytes bytes) override {
    return add({Call::write, offset, {bytes.begin(), bytes.end()}});
  }
  Status sync() override { return add({Call::sync}); }
  Status publish() override { return add({Call::publish}); }
  void retract() noexcept override {}

 private:
  Status add(Call call) {
    calls_.push_back(std::move(call));
    return {};
  }
  Calls& calls_;
};

// A file of several pieces, by a Writer.
Calls calls_of_a_writer() {
  const std::uint64_t shape[] = {5'000'000};
  const std::vector<TensorSpec> specs = {
      {.name = "a", .dtype = Dtype::u8, .shape = shape}};
  const Plan plan = Plan::make(specs).value();
  Calls calls;
  auto writer = Writer::create(std::make_unique<RecordingSink>(calls), specs, plan);
  const std::vector<std::byte> bytes(5'000'000, std::byte{7});
  EXPECT_TRUE(writer->append(bytes));
  EXPECT_TRUE(writer->finish());
  return calls;
}

// The calls `kept` made, in this order, on an empty file.
std::vector<std::byte> file_of(const Calls& calls, const std::vector<bool>& kept) {
  std::vector<std::byte> file;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const Call& call = calls[i];
    const std::uint64_t end = call.offset + call.bytes.size();
    if (!kept[i] || (call.kind != Call::write && call.kind != Call::reserve)) continue;
    if (file.size() < end) file.resize(end);
    std::ranges::copy(call.bytes, file.begin() + static_cast<long>(call.offset));
  }
  return file;
}

// Every way in which the disk may look after a cut before call `end`: of the calls
// since the last sync, none, one, all but one, or all are on it.
std::vector<std::vector<bool>> choices(const Calls& calls, std::size_t end) {
  std::size_t synced = 0;
  for (std::size_t i = 0; i < end; ++i)
    if (calls[i].kind == Call::sync) synced = i;
  std::vector<bool> none(end, false);
  std::fill_n(none.begin(), synced, true);
  const std::vector<bool> all(end, true);
  std::vector<std::vector<bool>> out = {none, all};
  for (std::size_t i = synced; i < end; ++i) {
    out.push_back(none);
    out.back()[i] = true;
    out.push_back(all);
    out.back()[i] = false;
  }
  return out;
}

// How many states of the disk there are that open and are not the complete file, or,
// once it is published, are not the complete file.
int bad_states(const Calls& calls) {
  const auto complete = file_of(calls, std::vector<bool>(calls.size(), true));
  int bad = 0;
  for (std::size_t end = 0; end <= calls.size(); ++end) {
    const auto last = calls.begin() + static_cast<long>(end);
    const bool published = std::any_of(calls.begin(), last, [](const Call& call) {
      return call.kind == Call::publish;
    });
    for (const auto& kept : choices(calls, end)) {
      const auto file = file_of(calls, kept);
      const bool opens = static_cast<bool>(View::open(file));
      bad += (published || opens) && file != complete ? 1 : 0;
    }
  }
  return bad;
}

TEST(PowerCut, leaves_nothing_that_opens_but_the_complete_file) {
  const Calls calls = calls_of_a_writer();
  ASSERT_GE(calls.size(), 9u);
  EXPECT_TRUE(View::open(file_of(calls, std::vector<bool>(calls.size(), true))));
  EXPECT_EQ(bad_states(calls), 0);
}

// The test above can fail: each of the two syncs is needed.
TEST(PowerCut, is_noticed_where_a_sync_is_missing) {
  const Calls calls = calls_of_a_writer();
  int syncs = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].kind != Call::sync) continue;
    ++syncs;
    Calls without = calls;
    without.erase(without.begin() + static_cast<long>(i));
    EXPECT_GT(bad_states(without), 0) << "sync " << syncs;
  }
  EXPECT_EQ(syncs, 2);
}

}  // namespace
}  // namespace weig::test
