// SPDX-License-Identifier: Apache-2.0
#include "formats/torch_walk.h"

#include <weig/format.h>

#include <algorithm>

#include "core/text.h"
#include "core/try.h"

namespace weig {
namespace {

using Kind = PickleKind;

constexpr std::size_t kMaxDepth = 64;
// One thing may be wrapped in others so often, as a tensor in a parameter.
constexpr int kMaxWrappings = 8;
constexpr std::size_t kMaxNameBytes = disk::kMaxNameBytes;
constexpr std::size_t kMaxParts = 10;  // that a message names
constexpr std::uint64_t kNamesAlways = std::uint64_t{64} << 20;

std::string_view text_or_nothing(const Pickle& pickle, PickleValue value) {
  return pickle.kind(value) == Kind::text ? pickle.text(value) : std::string_view();
}

bool is_scalar(PickleKind kind) {
  return kind <= Kind::bytes || kind == Kind::global || kind == Kind::persistent;
}

}  // namespace

Status check_harmless(const Pickle& pickle) {
  for (const PickleGlobal& global : pickle.globals())
    if (!is_harmless(global))
      return Error(Code::unsupported, "the file wants to run programs; nothing was run")
          .found("a call of " + in_quotes(global_text(global)))
          .hint("no checkpoint needs this: do not trust the file, or where it is from");
  return {};
}

void SkippedList::finish(std::vector<std::string>& skipped) && {
  std::ranges::move(told_, std::back_inserter(skipped));
  if (count_ > kMost)
    skipped.push_back("and " + std::to_string(count_ - kMost) + " more like these");
}

Result<TorchStorageId> torch_storage_id(const Pickle& pickle, PickleValue persistent) {
  const PickleValue identity = pickle.identity(persistent);
  if (pickle.kind(identity) != Kind::tuple)
    return Error(Code::corrupt, "what lies outside the pickle is named by no tuple");
  const auto parts = pickle.items(identity);
  if (parts.size() < 5 || text_or_nothing(pickle, parts[0]) != "storage" ||
      pickle.kind(parts[1]) != Kind::global || pickle.kind(parts[2]) != Kind::text ||
      pickle.kind(parts[4]) != Kind::integer || pickle.integer(parts[4]) < 0)
    return Error(Code::corrupt, "what lies outside the pickle is no storage");
  TorchStorageId id{.key = pickle.text(parts[2])};
  const PickleGlobal& global = pickle.global(parts[1]);
  if (!is_untyped_storage(global)) {
    if (is_storage_module(global.module)) id.type = torch_type_of_storage(global.name);
    if (id.type == nullptr)
      return Error(Code::unsupported, "a storage of a type that is not read")
          .found(in_quotes(global_text(global)));
    id.width = dtype_info(id.type->dtype)->block_bytes;
  }
  id.elements = static_cast<std::uint64_t>(pickle.integer(parts[4]));
  id.end = id.elements;
  if (id.elements > disk::kMaxElements)
    return Error(Code::corrupt, "a storage has more elements than can be")
        .found(id.elements)
        .expected("at most 2^56");
  if (parts.size() < 6 || pickle.kind(parts[5]) == Kind::none) return id;
  if (pickle.kind(parts[5]) != Kind::tuple)
    return Error(Code::corrupt, "a part of a storage is described by no tuple");
  const auto part = pickle.items(parts[5]);
  if (part.size() != 3 || pickle.kind(part[1]) != Kind::integer ||
      pickle.kind(part[2]) != Kind::integer || pickle.integer(part[1]) < 0 ||
      pickle.integer(part[2]) < 0)
    return Error(Code::corrupt,
                 "a part of a storage is described by no offset and size");
  id.first = static_cast<std::uint64_t>(pickle.integer(part[1]));
  const auto count = static_cast<std::uint64_t>(pickle.integer(part[2]));
  if (!fits(id.first, count, id.elements))
    return Error(Code::corrupt, "a part of a storage reaches beyond it");
  id.end = id.first + count;
  return id;
}

Status TorchWalk::run(std::string_view path) {
  path_ = path;
  if (select_.empty()) wanted_from_ = 0;
  const PickleValue root = resolved(pickle_.root());
  switch (content_of(root)) {
    case Content::tensor:
      if (path_.empty()) path_ = "tensor";
      WEIG_TRY(visit(root));
      break;
    case Content::container:
      WEIG_TRY(visit(root));
      break;
    case Content::other:
      return Error(Code::unsupported, "the file holds no tensors in dicts or lists")
          .found(description(root))
          .hint("a whole model has to be made to be read: save its state_dict()");
  }
  if (is_wanted() || was_found_) return {};
  std::string known;
  for (const std::string& part : parts_) known += (known.empty() ? "" : ", ") + part;
  return Error(Code::not_found, "the file has no such part to select")
      .found(in_quotes(select_))
      .expected(known.empty() ? "nothing: it has no parts" : "a path such as " + known);
}

// Through what only passes its first argument on.
PickleValue TorchWalk::resolved(PickleValue value) const {
  for (int i = 0; i < kMaxWrappings; ++i) {
    if (call_of(value) != TorchCall::first_argument) break;
    const auto arguments = pickle_.items(pickle_.object(value).arguments);
    if (arguments.empty()) break;
    value = arguments[0];
  }
  return value;
}

TorchCall TorchWalk::call_of(PickleValue value) const {
  if (pickle_.kind(value) != Kind::object) return TorchCall::unknown;
  const PickleValue callable = pickle_.object(value).callable;
  if (pickle_.kind(callable) != Kind::global) return TorchCall::unknown;
  return torch_call(pickle_.global(callable));
}

TorchWalk::Content TorchWalk::content_of(PickleValue value) const {
  switch (pickle_.kind(value)) {
    case Kind::tuple:
    case Kind::list:
    case Kind::set:
    case Kind::dict:
      return Content::container;
    case Kind::object:
      break;
    default:
      return Content::other;
  }
  switch (call_of(value)) {
    case TorchCall::tensor:
    case TorchCall::typed_tensor:
    case TorchCall::tensor_of_class:
    case TorchCall::unreadable_tensor:
      return Content::tensor;
    case TorchCall::dict:
    case TorchCall::list_of_argument:
    case TorchCall::script_object:
      return Content::container;
    case TorchCall::first_argument:
    case TorchCall::unknown:
      break;
  }
  return Content::other;
}

// --- Containers ---

// Containers that are in each other again and again have more paths than anybody could
// name: what is walked stays in proportion to what there is.
Status TorchWalk::spend(std::uint64_t bytes) {
  steps_ += 1 + bytes / 64;
  if (steps_ / 4 <= pickle_.size() + 65'536) return {};
  return Error(Code::limit, "the containers of the file hold each other too often")
      .found("more than " + std::to_string(4 * (pickle_.size() + 65'536)) + " names");
}

// Whether the part that is wanted may be below the path.
bool TorchWalk::may_hold_wanted() const {
  return path_.empty() ||
         (select_.starts_with(path_) && select_.size() > path_.size() &&
          select_[path_.size()] == '.');
}

Status TorchWalk::visit(PickleValue value) {
  value = resolved(value);
  const Content content = content_of(value);
  if (content == Content::tensor) return is_wanted() ? add_tensor(value) : Status();
  if (content == Content::other) return visit_other(value);
  if (std::ranges::find(inside_, value) != inside_.end()) {
    skip("what it is in itself");
    return {};
  }
  if (inside_.size() == kMaxDepth)
    return Error(Code::limit, "containers are nested too deeply")
        .found("one at " + in_quotes(path_))
        .expected("at most " + std::to_string(kMaxDepth) + " levels");
  const bool begins = !is_wanted() && !path_.empty() && path_ == select_;
  if (inside_.size() == 1 && parts_.size() < kMaxParts)
    parts_.push_back(in_quotes(path_));
  if (begins) wanted_from_ = path_.size() + 1;
  if (!is_wanted() && !may_hold_wanted()) return {};
  inside_.push_back(value);
  WEIG_TRY(visit_container(value));
  inside_.pop_back();
  if (begins) {
    was_found_ = true;
    wanted_from_.reset();
    select_ = {};  // what else has this path is not a part of it
  }
  return {};
}

Status TorchWalk::visit_container(PickleValue value) {
  switch (pickle_.kind(value)) {
    case Kind::dict:
      return visit_dict(pickle_.items(value));
    case Kind::object:
      return visit_object(value);
    default:
      return visit_list(pickle_.items(value));
  }
}

Status TorchWalk::visit_object(PickleValue value) {
  const PickleObject& object = pickle_.object(value);
  const auto arguments = pickle_.items(object.arguments);
  switch (call_of(value)) {
    case TorchCall::list_of_argument:
      if (arguments.size() != 1 || pickle_.kind(arguments[0]) != Kind::list)
        return broken("a list of TorchScript is made of no list");
      return visit_list(pickle_.items(arguments[0]));
    case TorchCall::script_object:
      if (object.state == kNoPickleValue) return {};
      // Its attributes are its own: their names follow its own at once.
      if (content_of(object.state) != Content::container) return visit(object.state);
      return visit_container(object.state);
    default:
      break;
  }
  // Of a dict. As Python 2 wrote ordered ones, it is made of a list of pairs.
  if (!arguments.empty() && pickle_.kind(arguments[0]) == Kind::list)
    WEIG_TRY(visit_pairs(pickle_.items(arguments[0])));
  if (object.pairs != kNoPickleValue) WEIG_TRY(visit_dict(pickle_.items(object.pairs)));
  if (object.state != kNoPickleValue && is_wanted())
    skipped_.add(in_quotes(path_) + ": attributes of the dict, " +
                 description(object.state));
  return {};
}

Status TorchWalk::visit_pairs(std::span<const PickleValue> pairs) {
  std::vector<PickleValue> keys_and_values;
  for (const PickleValue pair : pairs) {
    const Kind kind = pickle_.kind(pair);
    if ((kind != Kind::list && kind != Kind::tuple) || pickle_.items(pair).size() != 2)
      return broken("a dict is made of what are no pairs");
    for (const PickleValue one : pickle_.items(pair)) keys_and_values.push_back(one);
  }
  return visit_dict(keys_and_values);
}

Status TorchWalk::visit_dict(std::span<const PickleValue> keys_and_values) {
  if (keys_and_values.empty() && inside_.size() > 1) skip("an empty dict");
  for (std::size_t i = 0; i < keys_and_values.size(); i += 2) {
    const PickleValue child = keys_and_values[i + 1];
    if (const auto key = key_text(keys_and_values[i])) {
      WEIG_TRY(visit_child(*key, child));
    } else if (content_of(resolved(child)) == Content::other) {
      skip("a key that is no name: " + description(keys_and_values[i]));
    } else {
      return Error(Code::unsupported, "a key that is no text and no whole number")
          .found(description(keys_and_values[i]) + " in " + in_quotes(path_));
    }
  }
  return {};
}

Status TorchWalk::visit_list(std::span<const PickleValue> items) {
  if (std::ranges::all_of(
          items, [&](PickleValue item) { return is_scalar(pickle_.kind(item)); })) {
    // At the top, nothing: there it is the file that has no tensors.
    if (inside_.size() > 1 || !items.empty())
      skip("a list of " + std::to_string(items.size()) + " without tensors");
    return spend(items.size());
  }
  for (std::size_t i = 0; i < items.size(); ++i)
    WEIG_TRY(visit_child(std::to_string(i), items[i]));
  return {};
}

Status TorchWalk::visit_child(const std::string& key, PickleValue child) {
  WEIG_TRY(spend(path_.size() + key.size()));
  const std::size_t before = path_.size();
  if (inside_.size() > 1 || !path_.empty()) path_ += '.';
  path_ += key;
  WEIG_TRY(visit(child));
  path_.resize(before);
  return {};
}

Status TorchWalk::visit_other(PickleValue value) {
  WEIG_TRY(spend(0));
  if (!is_wanted()) return {};
  std::string what = description(value);
  if (const std::uint64_t inside = tensors_inside(value); inside > 0)
    what += ", with " + std::to_string(inside) +
            (inside == 1 ? " tensor in it" : " tensors in it");
  skip(std::move(what));
  return {};
}

// Each value counts once, in whatever it is.
std::uint64_t TorchWalk::tensors_inside(PickleValue value) {
  if (pickle_.kind(value) != Kind::object) return 0;
  std::uint64_t count = 0;
  std::vector<PickleValue> open{value};
  while (!open.empty()) {
    const PickleValue one = open.back();
    open.pop_back();
    if (one == kNoPickleValue || seen_[one]) continue;
    seen_[one] = true;
    switch (pickle_.kind(one)) {
      case Kind::tuple:
      case Kind::list:
      case Kind::set:
      case Kind::dict:
        for (const PickleValue item : pickle_.items(one)) open.push_back(item);
        break;
      case Kind::object: {
        if (content_of(one) == Content::tensor) {
          ++count;
          break;
        }
        const PickleObject& object = pickle_.object(one);
        for (const PickleValue part :
             {object.callable, object.arguments, object.keywords, object.state,
              object.listed, object.pairs})
          open.push_back(part);
        break;
      }
      default:
        break;
    }
  }
  return count;
}

void TorchWalk::skip(std::string what) {
  if (is_wanted()) skipped_.add(in_quotes(path_) + ": " + std::move(what));
}

// --- Tensors ---

Error TorchWalk::broken(std::string what) const {
  return Error(Code::corrupt, std::move(what)).tensor(path_);
}
Error TorchWalk::unreadable(std::string what) const {
  return Error(Code::unsupported, std::move(what)).tensor(path_);
}

Status TorchWalk::check_name(std::string_view name) const {
  if (name.size() > kMaxNameBytes)
    return broken("its name is too long")
        .found(std::to_string(name.size()) + " bytes")
        .expected("at most " + std::to_string(kMaxNameBytes));
  if (!is_utf8(name)) return broken("its name is not UTF-8");
  if (name.find('\0') != name.npos) return broken("its name has a NUL character");
  return {};
}

Status TorchWalk::add_tensor(PickleValue value) {
  WEIG_TRY(spend(0));
  WEIG_TRY(check_name(name()));
  name_bytes_ += name().size();
  if (name_bytes_ > std::max(kNamesAlways, 16 * pickle_.size()))
    return Error(Code::limit, "the names of all tensors are too long together")
        .expected("at most " + std::to_string(kNamesAlways) + " bytes");
  const PickleObject& object = pickle_.object(value);
  TorchCall call = call_of(value);
  auto arguments = pickle_.items(object.arguments);
  if (call == TorchCall::tensor_of_class) {
    if (arguments.size() < 3 || pickle_.kind(arguments[0]) != Kind::global ||
        pickle_.kind(arguments[1]) != Kind::global ||
        pickle_.kind(arguments[2]) != Kind::tuple)
      return broken("a tensor is made of what none is made of");
    if (!is_plain_tensor_class(pickle_.global(arguments[1])))
      return unreadable("the tensor is of a class that weig does not know")
          .found(in_quotes(global_text(pickle_.global(arguments[1]))));
    call = torch_call(pickle_.global(arguments[0]));
    if (call != TorchCall::tensor && call != TorchCall::typed_tensor)
      return unreadable("the tensor is of a kind that weig does not read")
          .found(in_quotes(global_text(pickle_.global(arguments[0]))));
    arguments = pickle_.items(arguments[2]);
  }
  if (call == TorchCall::unreadable_tensor)
    return unreadable("the tensor is of a kind that weig does not read")
        .found(in_quotes(global_text(pickle_.global(object.callable))))
        .hint("sparse, quantized and other such tensors: make dense ones of them");
  return add_view(arguments, call);
}

Status TorchWalk::add_view(std::span<const PickleValue> arguments, TorchCall call) {
  if (arguments.size() < (call == TorchCall::tensor ? 4u : 7u) ||
      pickle_.kind(arguments[0]) != Kind::persistent ||
      pickle_.kind(arguments[1]) != Kind::integer || pickle_.integer(arguments[1]) < 0)
    return broken("a tensor is made of what none is made of");
  auto id = torch_storage_id(pickle_, arguments[0]);
  if (!id) return std::move(id).error().tensor(path_);
  WEIG_TRY_ASSIGN(type, type_of(arguments, call, *id));
  WEIG_TRY(read_sizes(arguments[2], "its shape", shape_));
  WEIG_TRY(read_sizes(arguments[3], "its strides", strides_));
  if (shape_.size() != strides_.size())
    return broken("its shape and its strides differ in length")
        .found(shape_text(shape_) + " and " + shape_text(strides_));
  // Whether its values are other ones than are stored.
  const std::size_t marks = call == TorchCall::tensor ? 6 : 7;
  if (arguments.size() > marks && pickle_.kind(arguments[marks]) == Kind::dict) {
    const auto pairs = pickle_.items(arguments[marks]);
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
      const bool is_off =
          pickle_.kind(pairs[i + 1]) == Kind::boolean && !pickle_.boolean(pairs[i + 1]);
      if (!is_off)
        return unreadable("the tensor's values are not what is stored for them")
            .found("the mark " + description(pairs[i]))
            .hint("in PyTorch, resolve_conj() and resolve_neg() store the values");
    }
  }
  const auto key = keys_.find(id->key);
  if (key == keys_.end())
    return broken("the file lacks the tensor's storage").found(in_quotes(id->key));
  // Both are below 2^63.
  const auto first =
      static_cast<std::uint64_t>(pickle_.integer(arguments[1])) + id->first;
  return places_.add(name(), {.dtype = type->dtype,
                              .shape = shape_,
                              .strides = strides_,
                              .first = first,
                              .storage = key->second,
                              .storage_bytes = id->end * id->width});
}

Result<const TorchType*> TorchWalk::type_of(std::span<const PickleValue> arguments,
                                            TorchCall call,
                                            const TorchStorageId& storage) const {
  if (call == TorchCall::tensor) {
    if (storage.type != nullptr) return storage.type;
    return broken("a tensor has no element type");
  }
  if (pickle_.kind(arguments[6]) != Kind::global)
    return broken("the tensor's element type is no name");
  const PickleGlobal& global = pickle_.global(arguments[6]);
  const TorchType* type =
      global.module == "torch" ? torch_type_named(global.name) : nullptr;
  if (type != nullptr) return type;
  return unreadable("an element type that weig does not have")
      .found(in_quotes(global_text(global)));
}

Status TorchWalk::read_sizes(PickleValue value, const char* what,
                             std::vector<std::uint64_t>& out) const {
  out.clear();
  // As a tuple or as torch.Size of one.
  if (pickle_.kind(value) == Kind::object) {
    const PickleObject& object = pickle_.object(value);
    const auto arguments = pickle_.items(object.arguments);
    if (pickle_.kind(object.callable) == Kind::global &&
        global_text(pickle_.global(object.callable)) == "torch.Size" &&
        arguments.size() == 1)
      value = arguments[0];
  }
  const Kind kind = pickle_.kind(value);
  if (kind != Kind::tuple && kind != Kind::list)
    return broken("no tuple for " + std::string(what));
  const auto items = pickle_.items(value);
  if (items.size() > disk::kMaxRank)
    return broken("too many numbers in " + std::string(what))
        .found(items.size())
        .expected("at most " + std::to_string(disk::kMaxRank));
  for (const PickleValue item : items) {
    if (pickle_.kind(item) != Kind::integer || pickle_.integer(item) < 0)
      return broken("what is no size in " + std::string(what)).found(description(item));
    out.push_back(static_cast<std::uint64_t>(pickle_.integer(item)));
  }
  return {};
}

// --- Words ---

std::optional<std::string> TorchWalk::key_text(PickleValue key) const {
  switch (pickle_.kind(key)) {
    case Kind::text:
    case Kind::bytes:
      if (pickle_.text(key).size() != pickle_.length(key)) return std::nullopt;
      return std::string(pickle_.text(key));
    case Kind::integer:
      return std::to_string(pickle_.integer(key));
    case Kind::boolean:
      return pickle_.boolean(key) ? "True" : "False";
    default:
      return std::nullopt;
  }
}

std::string TorchWalk::description(PickleValue value) const {
  const auto count = [&] { return std::to_string(pickle_.items(value).size()); };
  switch (pickle_.kind(value)) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return pickle_.boolean(value) ? "True" : "False";
    case Kind::integer:
      return "the number " + std::to_string(pickle_.integer(value));
    case Kind::number:
      return "a number";
    case Kind::text:
      return pickle_.length(value) <= 40
                 ? "the text " + in_quotes(pickle_.text(value))
                 : "a text of " + std::to_string(pickle_.length(value)) + " bytes";
    case Kind::bytes:
      return std::to_string(pickle_.length(value)) + " bytes";
    case Kind::tuple:
    case Kind::list:
    case Kind::set:
      return "a list of " + count();
    case Kind::dict:
      return "a dict of " + std::to_string(pickle_.items(value).size() / 2);
    case Kind::global:
      return escaped(global_text(pickle_.global(value)));
    case Kind::persistent:
      return "what lies outside the pickle";
    case Kind::object:
      break;
  }
  const PickleValue callable = pickle_.object(value).callable;
  if (pickle_.kind(callable) != Kind::global) return "an object of no known class";
  return "an object of " + escaped(global_text(pickle_.global(callable)));
}

}  // namespace weig
