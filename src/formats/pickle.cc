// SPDX-License-Identifier: Apache-2.0
#include "formats/pickle.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "core/text.h"
#include "core/try.h"
#include "formats/pickle_heap.h"
#include "formats/pickle_text.h"

namespace weig {
namespace {

constexpr std::uint8_t kStop = '.';
constexpr std::uint64_t kHighestProtocol = 5;
// Whole numbers that are there once, however often they are said.
constexpr std::int64_t kLeastShared = -1;
constexpr std::int64_t kMostShared = 255;

Error corrupt(std::string what) { return Error(Code::corrupt, std::move(what)); }

}  // namespace

std::span<const PickleValue> Pickle::items(PickleValue value) const noexcept {
  const Node& node = nodes_[value];
  if (node.kind == PickleKind::tuple) return {node.items, node.count};
  if (node.index == kNoPickleValue) return {};
  return growing_[node.index];
}

// Reads one stream, an instruction after the other, on a stack as Python has it.
class PickleMachine {
 public:
  PickleMachine(InputCursor& cursor, const PickleOptions& options)
      : cursor_(cursor), options_(options), begin_(cursor.offset()), heap_(options) {
    shared_.fill(kNoPickleValue);
  }

  Result<Pickle> run() {
    for (;;) {
      const std::uint64_t at = cursor_.offset();
      if (at - begin_ > options_.max_bytes)
        return Error(Code::limit, "the pickle is longer than is allowed")
            .at(at)
            .expected("at most " + std::to_string(options_.max_bytes) + " bytes")
            .hint(
                "max_header_bytes, --max-header-bytes, raises it: this is a sixteenth");
      auto status = step();
      if (!status) {
        Error error = std::move(status).error();
        return error.fields().offset == Error::kNoOffset ? std::move(error).at(at)
                                                         : error;
      }
      if (root_ != kNoPickleValue) return std::move(heap_).finish(root_);
    }
  }

 private:
  using Kind = PickleKind;
  using Action = Status (PickleMachine::*)();
  struct Row {
    std::uint8_t opcode;
    Action action;
  };
  static std::array<Action, 256> make_actions();

  Status step() {
    static const std::array<Action, 256> kActions = make_actions();
    WEIG_TRY_ASSIGN(opcode, number(1));
    if (opcode == kStop) {
      WEIG_TRY_ASSIGN(root, pop());
      root_ = root;
      return {};
    }
    const Action action = kActions[opcode];
    if (action == nullptr)
      return corrupt("not a pickle: it has no such instruction").found(hex(opcode));
    return (this->*action)();
  }

  // --- Bytes of the stream ---

  Result<Bytes> take(std::uint64_t count) {
    if (count > cursor_.left())
      return corrupt("the pickle ends before it is complete")
          .found(std::to_string(cursor_.left()) + " bytes")
          .expected(std::to_string(count))
          .hint("the file was cut, or is damaged");
    return cursor_.take(count);
  }
  // Little-endian.
  Result<std::uint64_t> number(std::uint64_t bytes) {
    WEIG_TRY_ASSIGN(taken, take(bytes));
    std::array<std::byte, 8> whole{};
    std::ranges::copy(taken, whole.begin());
    return load<std::uint64_t>(whole.data());
  }
  // What stands before the next line feed. Longer ones than are kept are cut.
  Result<std::string> line() {
    std::string text;
    for (;;) {
      WEIG_TRY_ASSIGN(byte, take(1));
      if (byte[0] == std::byte{'\n'}) return text;
      if (text.size() <= Pickle::kKeptBytes) text += text_of(byte);
    }
  }

  // --- Values ---

  Status push(PickleValue value) {
    if (stack_.size() == stack_.capacity())
      WEIG_TRY(heap_.charge(stack_.size() * sizeof value));
    stack_.push_back(value);
    return {};
  }
  Status push(Result<PickleValue> made) {
    WEIG_TRY_ASSIGN(value, std::move(made));
    return push(value);
  }
  // One for all that are alike, at a place of `shared_`.
  Status push_shared(std::size_t place, Kind kind, std::int64_t integer) {
    if (shared_[place] == kNoPickleValue) {
      WEIG_TRY_ASSIGN(value,
                      heap_.make({.kind = kind, .count = 0, .integer = integer}, 0));
      shared_[place] = value;
    }
    return push(shared_[place]);
  }
  Status push_integer(std::int64_t value) {
    if (value >= kLeastShared && value <= kMostShared)
      return push_shared(static_cast<std::size_t>(value - kLeastShared), Kind::integer,
                         value);
    return push(heap_.make({.kind = Kind::integer, .count = 0, .integer = value}, 0));
  }
  Status push_text(Kind kind, std::string_view text) {
    return push(heap_.make_text(kind, text));
  }
  Status push_unkept(Kind kind, std::uint64_t length) {
    return push(heap_.make_unkept(kind, length));
  }

  // --- The stack ---

  std::size_t base() const noexcept { return marks_.empty() ? 0 : marks_.back(); }
  // The upper `count` values, as far as no mark lies between.
  Result<std::span<const PickleValue>> top(std::size_t count) const {
    if (stack_.size() - base() < count)
      return corrupt("the pickle takes more from its stack than is on it");
    return std::span(stack_).last(count);
  }
  void drop(std::size_t count) { stack_.resize(stack_.size() - count); }
  // Puts one value in the place of the upper `count`, at least one.
  void replace(std::size_t count, PickleValue value) {
    drop(count - 1);
    stack_.back() = value;
  }
  Result<PickleValue> pop() {
    WEIG_TRY_ASSIGN(values, top(1));
    const PickleValue value = values[0];
    drop(1);
    return value;
  }
  // What lies above the last mark, and above it no more.
  Result<std::vector<PickleValue>> pop_to_mark() {
    if (marks_.empty()) return corrupt("the pickle goes back to a mark that it lacks");
    const std::span<const PickleValue> above = std::span(stack_).subspan(marks_.back());
    std::vector<PickleValue> values(above.begin(), above.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }

  Status mark() {
    if (marks_.size() == marks_.capacity())
      WEIG_TRY(heap_.charge(marks_.size() * sizeof marks_[0]));
    marks_.push_back(stack_.size());
    return {};
  }
  Status pop_one() {
    if (!marks_.empty() && marks_.back() == stack_.size()) {
      marks_.pop_back();
      return {};
    }
    WEIG_TRY(pop());
    return {};
  }
  Status pop_marked() {
    WEIG_TRY(pop_to_mark());
    return {};
  }
  Status duplicate() {
    WEIG_TRY_ASSIGN(values, top(1));
    return push(values[0]);
  }

  // --- Numbers ---

  Status protocol() {
    WEIG_TRY_ASSIGN(version, number(1));
    if (version <= kHighestProtocol) return {};
    return Error(Code::unsupported, "a pickle of a later protocol")
        .found(version)
        .expected("at most " + std::to_string(kHighestProtocol));
  }
  // Where the next bytes may be read at once: of no use here.
  Status frame() {
    WEIG_TRY_ASSIGN(bytes, number(8));
    if (bytes <= cursor_.left()) return {};
    return corrupt("the pickle has a frame beyond its end")
        .found(std::to_string(bytes) + " bytes")
        .expected("at most " + std::to_string(cursor_.left()));
  }
  Status none() { return push_shared(kNonePlace, Kind::none, 0); }
  Status yes() { return push_shared(kTruePlace, Kind::boolean, 1); }
  Status no() { return push_shared(kFalsePlace, Kind::boolean, 0); }
  Status real() { return push_shared(kNumberPlace, Kind::number, 0); }
  Status binary_float() {
    WEIG_TRY(take(8));
    return real();
  }
  Status text_float() {
    WEIG_TRY_ASSIGN(text, line());
    if (text.empty()) return corrupt("the pickle has a number that is none");
    return real();
  }
  Status integer_4() {
    WEIG_TRY_ASSIGN(bits, number(4));
    return push_integer(static_cast<std::int32_t>(bits));
  }
  template <int bytes>
  Status integer_of() {
    WEIG_TRY_ASSIGN(bits, number(bytes));
    return push_integer(static_cast<std::int64_t>(bits));
  }
  Status text_integer() {
    WEIG_TRY_ASSIGN(text, line());
    if (text == "01") return yes();
    if (text == "00") return no();
    return decimal(text);
  }
  Status text_long() {
    WEIG_TRY_ASSIGN(text, line());
    if (text.ends_with('L')) text.pop_back();
    return decimal(text);
  }
  Status decimal(std::string_view text) {
    const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
    if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos)
      return corrupt("the pickle has a whole number that is none")
          .found(in_quotes(text));
    std::int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec == std::errc()) return push_integer(value);
    return push_text(Kind::number, text);
  }
  template <int bytes_of_length>
  Status long_of() {
    WEIG_TRY_ASSIGN(length, number(bytes_of_length));
    if (length == 0) return push_integer(0);
    if (length > kMostLongBytes) {
      WEIG_TRY(skip(length));
      return push_unkept(Kind::number, length);
    }
    WEIG_TRY_ASSIGN(bytes, take(length));
    if (length > 8) return push_text(Kind::number, text_of(bytes));
    std::array<std::byte, 8> whole{};
    const bool negative = (bytes.back() & std::byte{0x80}) != std::byte{0};
    whole.fill(negative ? std::byte{0xFF} : std::byte{0});
    std::ranges::copy(bytes, whole.begin());
    return push_integer(static_cast<std::int64_t>(load<std::uint64_t>(whole.data())));
  }

  // --- Texts ---

  Status skip(std::uint64_t length) {
    if (length > cursor_.left()) WEIG_TRY(take(length));
    cursor_.skip(length);
    return {};
  }
  template <PickleKind kind, int bytes_of_length>
  Status text_with_length() {
    WEIG_TRY_ASSIGN(length, number(bytes_of_length));
    if (length > Pickle::kKeptBytes) {
      WEIG_TRY(skip(length));
      return push_unkept(kind, length);
    }
    WEIG_TRY_ASSIGN(bytes, take(length));
    return push_text(kind, text_of(bytes));
  }
  Status quoted_text() {
    WEIG_TRY_ASSIGN(text, line());
    WEIG_TRY_ASSIGN(decoded, decode_quoted(text));
    return push_text(Kind::text, decoded);
  }
  Status escaped_text() {
    WEIG_TRY_ASSIGN(text, line());
    WEIG_TRY_ASSIGN(decoded, decode_raw_unicode(text));
    return push_text(Kind::text, decoded);
  }
  Status next_buffer() {
    return Error(Code::unsupported, "the pickle has buffers that are kept outside it");
  }
  Status read_only() {
    WEIG_TRY(top(1));
    return {};
  }

  // --- Containers ---

  template <PickleKind kind>
  Status empty() {
    return push(heap_.make_container(kind));
  }
  template <int count>
  Status tuple_of() {
    WEIG_TRY_ASSIGN(values, top(count));
    WEIG_TRY_ASSIGN(tuple, heap_.make_tuple(values));
    replace(count, tuple);
    return {};
  }
  Status no_items() { return push(heap_.make_tuple({})); }
  Status tuple() {
    WEIG_TRY_ASSIGN(values, pop_to_mark());
    return push(heap_.make_tuple(values));
  }
  template <PickleKind kind>
  Status filled() {
    WEIG_TRY_ASSIGN(values, pop_to_mark());
    if (kind == Kind::dict) WEIG_TRY(check_pairs(values.size()));
    WEIG_TRY_ASSIGN(value, heap_.make_container(kind));
    WEIG_TRY(heap_.put_into(value, kind, values));
    return push(value);
  }
  static Status check_pairs(std::size_t count) {
    if (count % 2 == 0) return {};
    return corrupt("the pickle has a key without a value");
  }
  template <PickleKind kind>
  Status put_one() {
    constexpr std::size_t kCount = kind == Kind::dict ? 2 : 1;
    WEIG_TRY_ASSIGN(values, top(kCount + 1));
    WEIG_TRY(heap_.put_into(values[0], kind, values.last(kCount)));
    drop(kCount);
    return {};
  }
  template <PickleKind kind>
  Status put_all() {
    WEIG_TRY_ASSIGN(values, pop_to_mark());
    if (kind == Kind::dict) WEIG_TRY(check_pairs(values.size()));
    WEIG_TRY_ASSIGN(below, top(1));
    return heap_.put_into(below[0], kind, values);
  }

  // --- The memo ---

  Status put(std::uint64_t place) {
    WEIG_TRY_ASSIGN(values, top(1));
    if (place >= memo_.size()) {
      // No gap of any size is given memory before it is paid for.
      WEIG_TRY(heap_.charge((place - memo_.size() + 1) * sizeof(PickleValue)));
      memo_.resize(place + 1, kNoPickleValue);
    }
    memo_count_ += memo_[place] == kNoPickleValue ? 1 : 0;
    memo_[place] = values[0];
    return {};
  }
  Status get(std::uint64_t place) {
    if (place >= memo_.size() || memo_[place] == kNoPickleValue)
      return corrupt("the pickle refers to a value that it lacks").found(place);
    return push(memo_[place]);
  }
  Status memoize() { return put(memo_count_); }
  template <int bytes>
  Status put_at() {
    WEIG_TRY_ASSIGN(place, number(bytes));
    return put(place);
  }
  template <int bytes>
  Status get_from() {
    WEIG_TRY_ASSIGN(place, number(bytes));
    return get(place);
  }
  Result<std::uint64_t> text_place() {
    WEIG_TRY_ASSIGN(text, line());
    std::uint32_t place = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, place);
    if (parsed.ec != std::errc() || parsed.ptr != end)
      return corrupt("the pickle has a place in its memo that is no number")
          .found(in_quotes(text));
    return std::uint64_t{place};
  }
  Status text_put() {
    WEIG_TRY_ASSIGN(place, text_place());
    return put(place);
  }
  Status text_get() {
    WEIG_TRY_ASSIGN(place, text_place());
    return get(place);
  }

  // --- Names and objects ---

  Status global() {
    WEIG_TRY_ASSIGN(module, line());
    WEIG_TRY_ASSIGN(name, line());
    return push(heap_.make_global(module, name));
  }
  Status stack_global() {
    WEIG_TRY_ASSIGN(values, top(2));
    for (const PickleValue value : values)
      if (heap_.kind(value) != Kind::text)
        return corrupt("the pickle names something by what is no text");
    WEIG_TRY_ASSIGN(value,
                    heap_.make_global(heap_.text(values[0]), heap_.text(values[1])));
    replace(2, value);
    return {};
  }
  // Numbers that programs agree upon: nobody knows what they stand for.
  template <int bytes>
  Status extension() {
    WEIG_TRY_ASSIGN(code, number(bytes));
    return push(heap_.make_global("extension", std::to_string(code)));
  }
  Status call() {
    WEIG_TRY_ASSIGN(values, top(2));
    WEIG_TRY_ASSIGN(object,
                    heap_.make_object({.callable = values[0], .arguments = values[1]}));
    replace(2, object);
    return {};
  }
  Status call_with_keywords() {
    WEIG_TRY_ASSIGN(values, top(3));
    WEIG_TRY_ASSIGN(object, heap_.make_object({.callable = values[0],
                                               .arguments = values[1],
                                               .keywords = values[2]}));
    replace(3, object);
    return {};
  }
  Status call_of(PickleValue callable, std::span<const PickleValue> arguments) {
    WEIG_TRY_ASSIGN(tuple, heap_.make_tuple(arguments));
    return push(heap_.make_object({.callable = callable, .arguments = tuple}));
  }
  Status call_of_marked() {
    WEIG_TRY_ASSIGN(values, pop_to_mark());
    if (values.empty()) return corrupt("the pickle calls nothing");
    return call_of(values[0], std::span(values).subspan(1));
  }
  Status call_of_named() {
    WEIG_TRY_ASSIGN(module, line());
    WEIG_TRY_ASSIGN(name, line());
    WEIG_TRY_ASSIGN(callable, heap_.make_global(module, name));
    WEIG_TRY_ASSIGN(values, pop_to_mark());
    return call_of(callable, values);
  }
  Status build() {
    WEIG_TRY_ASSIGN(values, top(2));
    WEIG_TRY(heap_.set_state(values[0], values[1]));
    drop(1);
    return {};
  }
  Status persistent() {
    WEIG_TRY_ASSIGN(identity, top(1));
    WEIG_TRY_ASSIGN(value, heap_.make_persistent(identity[0]));
    replace(1, value);
    return {};
  }
  Status text_persistent() {
    WEIG_TRY_ASSIGN(text, line());
    WEIG_TRY_ASSIGN(identity, heap_.make_text(Kind::text, text));
    return push(heap_.make_persistent(identity));
  }

  static constexpr std::size_t kNonePlace = kMostShared - kLeastShared + 1;
  static constexpr std::size_t kTruePlace = kNonePlace + 1;
  static constexpr std::size_t kFalsePlace = kNonePlace + 2;
  static constexpr std::size_t kNumberPlace = kNonePlace + 3;
  static constexpr std::uint64_t kMostLongBytes = 16;

  InputCursor& cursor_;
  const PickleOptions& options_;
  std::uint64_t begin_;
  PickleHeap heap_;
  PickleValue root_ = kNoPickleValue;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleValue> memo_;
  std::uint64_t memo_count_ = 0;
  std::array<PickleValue, kNumberPlace + 1> shared_{};
};

// Every instruction of the protocols 0 to 5 but the last.
std::array<PickleMachine::Action, 256> PickleMachine::make_actions() {
  using M = PickleMachine;
  constexpr auto kRows = std::to_array<Row>({
      {'(', &M::mark},
      {'0', &M::pop_one},
      {'1', &M::pop_marked},
      {'2', &M::duplicate},
      {'F', &M::text_float},
      {'I', &M::text_integer},
      {'J', &M::integer_4},
      {'K', &M::integer_of<1>},
      {'L', &M::text_long},
      {'M', &M::integer_of<2>},
      {'N', &M::none},
      {'P', &M::text_persistent},
      {'Q', &M::persistent},
      {'R', &M::call},
      {'S', &M::quoted_text},
      {'T', &M::text_with_length<Kind::text, 4>},
      {'U', &M::text_with_length<Kind::text, 1>},
      {'V', &M::escaped_text},
      {'X', &M::text_with_length<Kind::text, 4>},
      {'a', &M::put_one<Kind::list>},
      {'b', &M::build},
      {'c', &M::global},
      {'d', &M::filled<Kind::dict>},
      {'}', &M::empty<Kind::dict>},
      {'e', &M::put_all<Kind::list>},
      {'g', &M::text_get},
      {'h', &M::get_from<1>},
      {'i', &M::call_of_named},
      {'j', &M::get_from<4>},
      {'l', &M::filled<Kind::list>},
      {']', &M::empty<Kind::list>},
      {'o', &M::call_of_marked},
      {'p', &M::text_put},
      {'q', &M::put_at<1>},
      {'r', &M::put_at<4>},
      {'s', &M::put_one<Kind::dict>},
      {'t', &M::tuple},
      {')', &M::no_items},
      {'u', &M::put_all<Kind::dict>},
      {'G', &M::binary_float},
      {'B', &M::text_with_length<Kind::bytes, 4>},
      {'C', &M::text_with_length<Kind::bytes, 1>},
      {0x80, &M::protocol},
      {0x81, &M::call},
      {0x82, &M::extension<1>},
      {0x83, &M::extension<2>},
      {0x84, &M::extension<4>},
      {0x85, &M::tuple_of<1>},
      {0x86, &M::tuple_of<2>},
      {0x87, &M::tuple_of<3>},
      {0x88, &M::yes},
      {0x89, &M::no},
      {0x8A, &M::long_of<1>},
      {0x8B, &M::long_of<4>},
      {0x8C, &M::text_with_length<Kind::text, 1>},
      {0x8D, &M::text_with_length<Kind::text, 8>},
      {0x8E, &M::text_with_length<Kind::bytes, 8>},
      {0x8F, &M::empty<Kind::set>},
      {0x90, &M::put_all<Kind::set>},
      {0x91, &M::filled<Kind::set>},
      {0x92, &M::call_with_keywords},
      {0x93, &M::stack_global},
      {0x94, &M::memoize},
      {0x95, &M::frame},
      {0x96, &M::text_with_length<Kind::bytes, 8>},
      {0x97, &M::next_buffer},
      {0x98, &M::read_only},
  });
  std::array<Action, 256> actions{};
  for (const Row& row : kRows) actions[row.opcode] = row.action;
  return actions;
}

Result<Pickle> Pickle::read(InputCursor& cursor, const PickleOptions& options) {
  // Beyond this, values would be more than their numbers.
  constexpr std::uint64_t kMost = std::uint64_t{8} << 30;
  const PickleOptions bounded{options.max_bytes,
                              std::min(options.max_memory_bytes, kMost)};
  return PickleMachine(cursor, bounded).run();
}

}  // namespace weig
