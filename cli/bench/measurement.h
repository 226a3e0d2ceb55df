// SPDX-License-Identifier: Apache-2.0
// What `weig bench` measures, and what it finds: plain data, no behaviour.
#pragma once

#include <weig/host.h>
#include <weig/model.h>
#include <weig/page_cache.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weig::cli::bench {

// What is timed. The raw ways read the file and throw it away: no loader can be
// expected to beat the faster of them on a cold file.
enum class Way {
  raw_buffered,  // one thread, one buffer of 8 MiB, through the page cache
  raw_direct,    // several threads, huge-page buffers, past the page cache
  map,           // weig's own, as in weig/load.h
  stream,
  populate,
  read,
  automatic,
  copy,    // read, parse, and for each tensor malloc and copy out of a buffer of 8 MiB
  buffer,  // one read of the whole file into one buffer
  plain,   // mmap as it comes, without alignment or advice, and touch
};
inline constexpr std::array kAllWays = {
    Way::raw_buffered, Way::raw_direct, Way::map,  Way::stream, Way::populate,
    Way::read,         Way::automatic,  Way::copy, Way::buffer, Way::plain};

// "raw-read", "raw-direct", "map", ... Static storage.
std::string_view way_name(Way way) noexcept;
std::optional<Way> way_named(std::string_view name) noexcept;
bool is_raw(Way way) noexcept;
// The library's way of the same name; nothing for the others.
std::optional<LoadWay> library_way(Way way) noexcept;
// Anonymous memory that a way needs, by the file's size and that of its tensors.
std::uint64_t memory_need(Way way, std::uint64_t file_size, std::uint64_t data_bytes);

// The file's pages before a run: none, or all, in the page cache.
enum class State { cold, warm };
std::string_view state_name(State state) noexcept;
std::optional<State> state_named(std::string_view name) noexcept;

// Free memory before a run: in use a moment ago, or idle for seconds (which on a
// virtual machine the host may have taken back).
enum class Memory { backed, fresh };

// Whether the file's state was what it should be.
enum class Proof { proven, wrong, unknown };

// What a fresh process tells of its own loading, and the kernel of it. Seconds follow
// one another.
struct Figures {
  double start = 0;  // from before the process existed to its first own line
  double open = 0;
  double resident = 0;
  double first_use = 0;
  double total() const { return start + open + resident + first_use; }

  double user = 0;  // seconds, of all threads
  double system = 0;
  std::uint64_t major_faults = 0;  // of the whole process
  std::uint64_t minor_faults = 0;
  std::uint64_t anonymous = 0;                // bytes, at their peak
  std::uint64_t file_backed = 0;              // likewise, shared memory included
  std::optional<std::uint64_t> huge_mapped;   // bytes in 2 MiB pages
  std::optional<std::uint64_t> device_bytes;  // read for this process

  // Of the library's ways.
  std::string chosen;  // by `auto`
  std::string reason;
  std::vector<std::string> warnings;
  bool direct_io = false;
};

// One run.
struct Sample {
  unsigned round = 0;     // from 1
  std::size_t order = 0;  // which run of all it was, from 1
  Proof proof = Proof::unknown;
  std::optional<std::uint64_t> cached;  // bytes of the file before the run
  std::optional<double> huge_folios;    // share of the file, before a warm run
  std::uint64_t backed = 0;             // bytes of memory
  std::optional<Figures> figures;       // nothing: it failed
  std::string failure;                  // how
  int status = 0;                       // that it ended with, where it did
};

// One way in one state.
struct Row {
  Way way{};
  State state{};
  std::string refusal;     // why it was not run at all; empty otherwise
  std::uint64_t need = 0;  // bytes, of a refused row
  MemoryLimit limit;       // likewise
  // What each run was, for perf, strace or time to be put before it.
  std::vector<std::string> command;
  std::vector<Sample> backed;
  std::vector<Sample> fresh;       // where asked for
  std::vector<std::string> notes;  // no two alike
};

// What is measured, and where.
struct Subject {
  std::string file;
  FileFormat format{};
  std::uint64_t file_size = 0;
  std::uint64_t data_bytes = 0;  // of all tensors
  std::uint64_t tensors = 0;
  Storage storage;
  MemoryLimit memory;
  std::string kernel;
  std::string processor;
  unsigned cpus = 0;
  unsigned threads = 0;  // that touch
};

struct Report {
  Subject subject;
  unsigned rounds = 0;
  bool with_fresh = false;
  std::vector<State> states;
  std::vector<Row> rows;           // by state, then in the order of kAllWays
  std::vector<std::string> notes;  // of all rows
};

// The least, the middle and the largest of some numbers; nothing of none.
struct Spread {
  double low = 0;
  double median = 0;
  double high = 0;
};
std::optional<Spread> spread_of(std::vector<double> numbers);

// Of the runs that did not fail; `figure` picks a number or an optional one.
template <typename Figure>
std::optional<Spread> spread(const std::vector<Sample>& samples, Figure figure) {
  std::vector<double> numbers;
  for (const Sample& sample : samples) {
    if (!sample.figures) continue;
    const std::optional<double> number = figure(*sample.figures);
    if (number) numbers.push_back(*number);
  }
  return spread_of(std::move(numbers));
}
std::optional<Spread> total_of(const std::vector<Sample>& samples);

// The state that a row's runs were in: "proven" only where all of them were.
Proof proof_of(const std::vector<Sample>& samples) noexcept;
// Whether what a row shows holds for its state; true of rows that show nothing.
bool is_proven(const Row& row) noexcept;
// "cold", "not cold", "not known".
std::string_view proof_text(Proof proof, State state) noexcept;

// The fastest raw reading of a state: its median, in seconds.
std::optional<double> raw_limit(const Report& report, State state);

}  // namespace weig::cli::bench
