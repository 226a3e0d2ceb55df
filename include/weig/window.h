// SPDX-License-Identifier: Apache-2.0
// Window: runs through the layer groups of a model that is larger than memory. A few
// groups are in memory, the next one comes in meanwhile, and what falls behind goes.
//
//   auto window = weig::Window::over(model, {.resident = 2});
//   for (std::uint32_t i = 0; i < window->size(); ++i) {
//     const auto group = window->next();  // waits until it is in memory
//     compute(model, *group);             // while the next one is read
//   }
#pragma once

#include <cstdint>
#include <memory>

#include <weig/error.h>
#include <weig/load.h>
#include <weig/view.h>

namespace weig {

class Model;

struct WindowOptions {
  // Groups that stay in memory behind and with the one that next() gave last. At least
  // one; the one that comes in meanwhile is not counted.
  std::uint32_t resident = 1;
  // After the last group comes the first one again, which is read ahead as well.
  bool around = false;
  unsigned threads = 0;  // that load; as in LoadOptions
};

struct WindowReport {
  std::uint64_t groups = 0;          // that next() has given
  std::uint64_t bytes_loaded = 0;    // made present
  std::uint64_t bytes_released = 0;  // given back, as far as the kernel took them
  double seconds_waited = 0;         // in next(), for the disk
};

// Move-only. Not from two threads at once; the model's const methods may be called
// meanwhile. The Model must outlive it, is not to be moved, and not to be loaded by
// other means at the same time. Tensors in no group are left alone.
class Window {
 public:
  // Reads nothing yet. Fails with not_found where the file has no groups, with
  // invalid_argument for a window of none, and with unsupported where the weights are
  // in memory of the process's own (LoadWay::read), which cannot be given back.
  static Result<Window> over(Model& model, const WindowOptions& options = {});

  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;
  ~Window();  // stops reading; what is in memory stays there

  std::uint32_t size() const noexcept;  // groups of the model

  // The next group, from the first on: in memory and mapped. Gives back the one that
  // falls out of the window; its addresses stay valid, what is touched there again is
  // read again. Fails with invalid_argument behind the last one (not with `around`),
  // and as a load does.
  Result<Group> next();
  // Begins again at the first group. What is in memory stays until it falls out.
  void rewind();

  WindowReport report() const noexcept;

 private:
  struct State;
  explicit Window(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weig
