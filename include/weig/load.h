// SPDX-License-Identifier: Apache-2.0
// Ways to load a model: how its bytes come into memory, and what that did.
//
// A mapped file is not loaded. Loaded means that every byte of it is in memory and
// mapped, so that using the weights waits for no disk.
//
//   auto model = weig::Model::open("model.weig", {.load = {.way =
//   weig::LoadWay::stream}});
//   ...                                            // set up, while the weights come in
//   const auto report = model->wait();             // and now they are there
//
// Tensors may be used while a stream is running: what is not there yet is waited for. A
// Model that goes stops and joins its threads first, so that a callback may refer to
// what outlives the Model. After LoadWay::read the weights stay in memory of the
// Model's own: later loads find nothing left to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weig/error.h>
#include <weig/file_range.h>
#include <weig/progress.h>

namespace weig {

enum class LoadWay {
  map,        // claim only: pages come when they are touched
  stream,     // claim and return; a thread of ours loads in file order meanwhile
  populate,   // return when all is in memory and mapped, through 2 MiB pages where the
              // file system has them
  read,       // no mapping: large parallel reads into memory of our own
  automatic,  // one of these, by what is in memory already, where the file lies, and
              // how much memory there is; the report says why
};
// "map", "stream", "populate", "read", "auto". Static storage.
std::string_view load_way_name(LoadWay way) noexcept;
std::optional<LoadWay> load_way_named(std::string_view name) noexcept;

// What to do where a file cannot be mapped (some network and union file systems).
enum class Fallback {
  read,    // read it instead; the report warns
  refuse,  // fail with the system's reason
};

struct LoadOptions {
  LoadWay way = LoadWay::map;
  // 0: by the CPUs that this process may use (affinity and cgroup). At most 64.
  unsigned threads = 0;
  Fallback fallback = Fallback::read;
  // Which bytes of the file, in order and apart from each other, else invalid_argument;
  // empty: all. What lies past the end of the file does not count. Parts are
  // populated or streamed, automatic populates them; LoadWay::read reads all.
  std::vector<FileRange> ranges = {};
  // For LoadWay::stream it is called by a thread of ours.
  Progress progress = nullptr;
};

// What a load did. Counts of faults are the whole process's, between begin and end.
struct LoadReport {
  LoadWay asked = LoadWay::map;
  LoadWay way = LoadWay::map;         // never automatic
  std::string reason;                 // why this way, a sentence; empty if asked for
  std::vector<std::string> warnings;  // what the system refused, and what was done
  bool finished = true;               // false while streaming
  std::optional<Error> error;         // why it ended early
  bool direct_io = false;             // read past the page cache
  unsigned threads = 0;               // that were loading
  std::uint64_t bytes = 0;            // made present
  double seconds = 0;                 // of loading, after the file was claimed
  std::uint64_t major_faults = 0;     // that waited for the disk
  std::uint64_t minor_faults = 0;
  // Bytes of the file in the page cache. Nothing where the kernel does not tell: it
  // tells those who own or may write the file. `resident_before` of a file that lies
  // in small pages and seemed to be all there is told by the load, so once it ended.
  std::optional<std::uint64_t> resident_before;
  std::optional<std::uint64_t> resident_after;
  // Bytes of the model that are mapped in 2 MiB pages. Nothing where the kernel does
  // not tell.
  std::optional<std::uint64_t> huge_mapped;
};

}  // namespace weig
