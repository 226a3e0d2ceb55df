// SPDX-License-Identifier: Apache-2.0
// Window: one Loader at a time brings the next group in, and what falls behind is
// released by the thread that asks for the next one, while that Loader works.
#include <weig/model.h>
#include <weig/window.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include "core/try.h"
#include "store/backing.h"

namespace weig {

struct Window::State {
  State(Model& over, const WindowOptions& how) : model(over), options(how) {}

  Model& model;
  const WindowOptions options;
  Groups groups;
  std::vector<std::vector<FileRange>> ranges;  // of each group
  std::uint32_t next = 0;
  std::deque<std::uint32_t> inside;  // groups in memory, in the order they were given
  std::optional<std::uint32_t> coming;  // what `loader` brings
  std::unique_ptr<Loader> loader;
  WindowReport report;

  // Starts bringing in a group; nothing to do where the weights are the process's own.
  Status start(std::uint32_t group);
  Status wait();
  // Makes room for one more group.
  Status make_room();
  // Maps both ends of the groups inside again: what was given back beside them took the
  // 2 MiB page on the border from the page table, not out of memory.
  void map_borders() const;
  Status bring(std::uint32_t group);
  std::optional<std::uint32_t> after(std::uint32_t group) const;
};

Status Window::State::start(std::uint32_t group) {
  WEIG_TRY_ASSIGN(file, model.backing_->open_again());
  coming = group;
  if (!file || ranges[group].empty()) return {};
  const LoadOptions how{
      .way = LoadWay::stream, .threads = options.threads, .ranges = ranges[group]};
  Model::Backing& backing = *model.backing_;
  loader = std::make_unique<Loader>(*std::move(file), backing.mapping, nullptr, 0, how,
                                    Decision{.choice = {.way = how.way, .reason = {}}});
  loader->expect_replacement(backing.own_memory);
  return loader->start();
}

Status Window::State::wait() {
  coming.reset();
  if (!loader) return {};
  const auto start = std::chrono::steady_clock::now();
  const Status status = loader->wait();
  report.seconds_waited +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.bytes_loaded += loader->report().bytes;
  loader.reset();
  return status;
}

Status Window::State::make_room() {
  while (inside.size() >= options.resident) {
    const std::uint32_t group = inside.front();
    inside.pop_front();
    const Status status = model.backing_->release(ranges[group]);
    // The guard has made them the process's own, or they may have been written: there
    // is nothing to give back.
    if (!status && status.error().code() == Code::unsupported) continue;
    WEIG_TRY(status);
    report.bytes_released += byte_count(ranges[group]);
  }
  return {};
}

void Window::State::map_borders() const {
  const os::Mapping& mapping = model.backing_->mapping;
  const auto map = [&](std::uint64_t begin, std::uint64_t end) {
    static_cast<void>(mapping.populate(begin, end - begin));  // else, by page faults
  };
  for (const std::uint32_t group : inside)
    for (const FileRange& range : ranges[group]) {
      if (range.begin == range.end) continue;
      map(range.begin,
          std::min(range.end, align_down(range.begin, os::kHugePage) + os::kHugePage));
      map(std::max(range.begin, align_down(range.end - 1, os::kHugePage)), range.end);
    }
}

Status Window::State::bring(std::uint32_t group) {
  if (coming && *coming != group) {  // after rewind()
    inside.push_back(*coming);
    loader.reset();
    coming.reset();
  }
  std::erase(inside, group);
  WEIG_TRY(make_room());
  if (!coming) WEIG_TRY(start(group));
  WEIG_TRY(wait());
  inside.push_back(group);
  if (!model.backing_->own_memory) map_borders();
  const auto next_group = after(group);
  if (!next_group || std::ranges::find(inside, *next_group) != inside.end()) return {};
  return start(*next_group);
}

std::optional<std::uint32_t> Window::State::after(std::uint32_t group) const {
  if (group + 1 < groups.size()) return group + 1;
  if (options.around) return 0;
  return {};
}

Window::Window(std::unique_ptr<State> state) : state_(std::move(state)) {}
Window::Window(Window&&) noexcept = default;
Window& Window::operator=(Window&&) noexcept = default;
Window::~Window() = default;

Result<Window> Window::over(Model& model, const WindowOptions& options) {
  if (options.resident == 0)
    return Error(Code::invalid_argument, "a window holds at least one group")
        .file(model.path());
  if (model.backing_->owns_data())
    return Error(Code::unsupported,
                 "the weights are in memory of the process's own: nothing of it can be "
                 "given back")
        .file(model.path());
  auto parts = file_parts(model);
  if (!parts) return std::move(parts).error().file(model.path());
  auto state = std::make_unique<State>(model, options);
  for (FilePart& part : *parts)
    if (part.is_group) state->ranges.push_back(joined(std::move(part.ranges)));
  if (state->ranges.empty())
    return Error(Code::not_found, "the file has no layer groups to walk through")
        .file(model.path())
        .hint("'weig convert' makes a file that has");
  WEIG_TRY_ASSIGN(groups, model.groups());
  state->groups = groups;
  return Window(std::move(state));
}

std::uint32_t Window::size() const noexcept { return state_->groups.size(); }

Result<Group> Window::next() {
  State& state = *state_;
  if (state.next == size()) {
    if (!state.options.around)
      return Error(Code::invalid_argument, "there is no group behind the last one")
          .file(state.model.path());
    state.next = 0;
  }
  const std::uint32_t group = state.next;
  if (auto status = state.bring(group); !status)
    return std::move(status).error().file(state.model.path());
  ++state.next;
  ++state.report.groups;
  return state.groups[group];
}

void Window::rewind() { state_->next = 0; }

WindowReport Window::report() const noexcept { return state_->report; }

}  // namespace weig
