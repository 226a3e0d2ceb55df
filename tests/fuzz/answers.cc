// SPDX-License-Identifier: Apache-2.0
#include "answers.h"

#include <weig/metadata.h>

#include <set>

#include "check.h"
#include "core/digest.h"
#include "core/text.h"

namespace weig::fuzz {
namespace {

template <typename T>
std::string outcome(const Result<T>& result) {
  return result ? "ok" : failure(result.error());
}

// The tensor as elements of T: refused, or exactly its bytes.
template <detail::Element T>
void ask_for(const Tensor& tensor, std::string& out) {
  const auto slice = tensor.as<T>();
  if (!slice) {
    out += '-';
    promise(slice.error().code() == Code::invalid_argument,
            "a slice of the wrong type is the caller's mistake", tensor.name());
    return;
  }
  out += '+';
  promise(slice->size_bytes() == tensor.byte_count(), "a typed slice is whole");
  if (slice->empty()) return;
  // Elements at both ends, by their own type: the sanitizer checks their alignment.
  const T first = slice->front();
  const T last = slice->back();
  read_all(std::as_bytes(std::span(&first, 1)));
  read_all(std::as_bytes(std::span(&last, 1)));
}

template <typename... T>
void ask_for_each(const Tensor& tensor, std::string& out) {
  (ask_for<T>(tensor, out), ...);
}

void promise_own_rules(const Tensor& tensor) {
  promise(is_utf8(tensor.name()) && tensor.name().size() <= disk::kMaxNameBytes &&
              tensor.name().find('\0') == tensor.name().npos,
          "a name is UTF-8 of at most 65,535 bytes");
  promise(tensor.rank() <= disk::kMaxRank, "a rank is at most 64");
  promise(tensor.strides().rank() == tensor.rank(), "strides have the shape's rank");
  const DtypeInfo* info = dtype_info(tensor.dtype());
  if (!info) return;
  const std::uint64_t count = tensor.element_count();
  const std::uint64_t bytes =
      info->is_block() ? count / info->block_elements * info->block_bytes
                       : (count * info->block_bytes + info->block_elements - 1) /
                             info->block_elements;
  promise(bytes == tensor.byte_count(), "a tensor has the bytes that its shape implies",
          tensor.name());
}

// Names that are not there, most of them: near to ones that are.
void ask_for_names(const View& view, const std::set<std::string>& names,
                   std::string& out) {
  std::set<std::string> near = {"", "absent", std::string(70'000, 'n')};
  for (const std::string& name : names) {
    if (near.size() > 40) break;
    near.insert(name + "x");
    near.insert(name.substr(0, name.size() / 2));
    near.insert("x" + name);
  }
  for (const std::string& name : near) {
    const auto found = view.find(name);
    const auto tensor = view.tensor(name);
    if (!found) {
      out += "find: " + failure(found.error()) + "\n";
      promise(!tensor, "tensor() fails where find() does");
    } else if (!*found) {
      out += "none\n";
      promise(!names.contains(name), "a tensor is never denied", name);
      promise(!tensor && tensor.error().code() == Code::not_found,
              "tensor() says not_found where find() finds nothing");
    } else {
      promise((*found)->name() == name && tensor, "a look-up finds its own name");
      out += std::to_string((*found)->ordinal()) + "\n";
    }
  }
}

void ask_for_tensors(const View& view, Data data, std::string& out) {
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < view.size(); ++i) {
    const auto tensor = view[i];
    if (!tensor) {
      out += failure(tensor.error()) + "\n";
      continue;
    }
    promise(tensor->ordinal() == i, "a tensor knows its place");
    names.emplace(tensor->name());
    out += tensor_text(*tensor, data) + " at " + std::to_string(tensor->data_offset());
    const auto found = view.find(tensor->name());
    if (!found) {
      out += " find: " + failure(found.error());
    } else {
      promise(found->has_value(), "a tensor is never denied", tensor->name());
      promise((*found)->name() == tensor->name(), "a look-up finds its own name");
      out += " found " + std::to_string((*found)->ordinal());
    }
    const auto owner = view.owner(i);
    out += owner ? " of " + std::to_string(*owner) : failure(owner.error());
    const auto digest = view.digest(i);
    out +=
        digest ? (*digest ? to_hex(**digest) : "no digest") : failure(digest.error());
    out += '\n';
  }
  promise(!view[view.size()] && !view[UINT64_MAX], "nothing is behind the last tensor");
  ask_for_names(view, names, out);
}

void ask_for_groups(const View& view, std::string& out) {
  const auto groups = view.groups();
  if (!groups) {
    out += failure(groups.error()) + "\n";
    return;
  }
  std::uint64_t end = 0;
  for (std::uint32_t i = 0; i < groups->size(); ++i) {
    const Group group = (*groups)[i];
    promise(group.first >= end && group.count > 0 &&
                fits(group.first, group.count, view.size()) && is_utf8(group.name),
            "groups are ascending runs of tensors", group.name);
    end = std::uint64_t{group.first} + group.count;
    out += in_quotes(group.name) + std::to_string(group.first) + "+" +
           std::to_string(group.count) + "\n";
  }
}

void ask_for_metadata(const View& view, std::string& out) {
  const auto text = view.metadata_text();
  if (!text) {
    out += failure(text.error()) + "\n";
  } else if (*text) {
    out += **text;
    out += outcome(Metadata::parse(**text)) + "\n";
  }
}

void ask_for_quantization(const View& view, std::string& out) {
  const auto count = view.quantization_count();
  out += outcome(count) + "\n";
  promise(!view.quantization(UINT32_MAX), "nothing is behind the last entry");
  for (std::uint32_t i = 0; count && i < *count; ++i) {
    const auto entry = view.quantization(i);
    promise(entry && entry->tensor < view.size(), "quantization is of a tensor");
    out += std::to_string(entry->tensor) + " " + std::to_string(entry->scale) + "\n";
  }
}

void ask_for_sections(const View& view, std::string& out) {
  const auto source = view.source();
  out += outcome(source) + "\n";
  if (source && *source) {
    read_all((*source)->body);
    out += std::to_string((*source)->header_size) + to_hex((*source)->digest) + "\n";
  }
  const auto shard = view.shard();
  out += outcome(shard) + "\n";
  if (shard && *shard) out += std::to_string((*shard)->tensors) + "\n";
  for (const std::uint32_t kind : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 31u, 32u, 33u,
                                   0x80000000u, 0x80000001u, 0xFFFFFFFFu}) {
    const auto bytes = view.section(static_cast<disk::SectionKind>(kind));
    out += outcome(bytes) + "\n";
    if (!bytes || !*bytes) continue;
    read_all(**bytes);
    out += std::to_string(kind) + " " + to_hex(xxh3_64(**bytes)) + "\n";
  }
  out += outcome(view.check_sections()) + "\n";
}

}  // namespace

std::string tensor_text(const Tensor& tensor, Data data) {
  promise_own_rules(tensor);
  std::string out = in_quotes(tensor.name()) + " " +
                    std::to_string(static_cast<std::uint32_t>(tensor.dtype()));
  for (const std::uint64_t dimension : tensor.shape())
    out += " " + std::to_string(dimension);
  out += " : " + std::to_string(tensor.byte_count());
  if (data == Data::leave) return out;
  promise(tensor.has_data(), "data is in memory");
  read_all(tensor.bytes());
  out += " " + to_hex(xxh3_128(tensor.bytes()));
  ask_for_each<float, double, Float16, BFloat16, std::int8_t, std::int16_t,
               std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
               std::uint64_t, std::complex<float>, std::complex<double>>(tensor, out);
  return out;
}

std::string answers(const View& view, Data data) {
  std::string out;
  ask_for_tensors(view, data, out);
  ask_for_groups(view, out);
  ask_for_metadata(view, out);
  ask_for_quantization(view, out);
  ask_for_sections(view, out);
  out += outcome(view.check_structure());
  return out;
}

void promise_sound(const View& view) {
  promise(view.check_structure().has_value(), "what is proven stays proven");
  std::uint64_t end = view.data_begin();
  std::set<std::string_view> names;
  for (std::uint32_t i = 0; i < view.size(); ++i) {
    const auto tensor = view[i];
    promise(tensor.has_value(), "every record of a proven file is sound");
    promise(inside(tensor->data_offset(), tensor->byte_count(), view.data_begin(),
                   view.data_end()),
            "data lies in the data region", tensor->name());
    promise(names.insert(tensor->name()).second, "names are unique", tensor->name());
    const auto found = view.find(tensor->name());
    promise(found && *found && (*found)->ordinal() == i, "a name leads to its record",
            tensor->name());
    const std::uint32_t owner = view.owner(i).value();
    const Tensor its_owner = view[owner].value();
    promise(view.owner(owner).value() == owner, "an owner owns itself");
    promise(owner == i || (its_owner.data_offset() == tensor->data_offset() &&
                           its_owner.byte_count() == tensor->byte_count()),
            "an alias has its owner's bytes", tensor->name());
    if (!view.sealed()) continue;
    promise(is_aligned(tensor->data_offset(), disk::kDataAlignment),
            "data of sealed files is aligned", tensor->name());
    promise(owner != i ? owner < i : tensor->data_offset() >= end,
            "the table is in data order", tensor->name());
    end = std::max(end, tensor->data_offset() + tensor->byte_count());
  }
  const auto absent = view.find("a name that no fuzzer makes up");
  promise(absent && !*absent, "a proven file says which names it lacks");
}

}  // namespace weig::fuzz
