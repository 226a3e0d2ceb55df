// SPDX-License-Identifier: Apache-2.0
#include "convert/quantization.h"

#include <algorithm>
#include <initializer_list>

#include "core/bytes.h"
#include "core/try.h"

namespace weig {
namespace {

constexpr std::uint32_t kKnownScheme = 1;

// Where entries of the sources' manifests are in the new table.
std::vector<std::vector<std::uint32_t>> new_ordinals(const Sources& sources,
                                                     const Changes& changes,
                                                     const Plan& plan) {
  std::vector<std::vector<std::uint32_t>> ordinals;
  ordinals.reserve(sources.files.size());
  for (const SourceFile& source : sources.files)
    ordinals.emplace_back(source.manifest.entries().size(), disk::kNone);
  for (std::uint32_t ordinal = 0; ordinal < plan.size(); ++ordinal) {
    const NewTensor& made = changes[plan.order()[ordinal]];
    if (made.part > NewTensor::Part::codes || made.part == NewTensor::Part::numbers)
      continue;
    const SourceTensor& tensor = sources.tensors[made.source];
    ordinals[tensor.file][tensor.entry] = ordinal;
  }
  return ordinals;
}

// What other schemes mean by their numbers is not known: they must not change.
Error unknown_scheme(const Quantization& q) {
  return Error(Code::unsupported,
               "its quantization scheme is not known, and its table changes")
      .found("scheme " + std::to_string(q.scheme));
}

// Makes the entry's ordinals those of the new table; `ordinals` are of its file.
Status move(Quantization& q, std::span<const std::uint32_t> ordinals,
            const Manifest& manifest) {
  for (std::uint32_t* field : {&q.scale, &q.zero_point, &q.scale2}) {
    const std::uint32_t old = *field;
    if (old >= ordinals.size()) continue;  // none
    *field = ordinals[old];
    if (*field == disk::kNone)
      return Error(Code::unsupported, "its quantization needs a tensor left out")
          .found("'" + std::string(manifest.name(manifest.entries()[old])) +
                 "', which is left out");
    if (q.scheme != kKnownScheme && *field != old) return unknown_scheme(q);
  }
  return {};
}

}  // namespace

Result<std::vector<Quantization>> gather_quantization(const Sources& sources,
                                                      const Changes& changes,
                                                      const Plan& plan) {
  std::vector<Quantization> entries = changes.entries(plan);
  if (std::ranges::all_of(sources.files, [](const SourceFile& source) {
        return source.quantization.empty();
      }))
    return entries;
  const auto ordinals = new_ordinals(sources, changes, plan);
  for (std::size_t f = 0; f < sources.files.size(); ++f)
    for (Quantization q : sources.files[f].quantization) {
      if (q.tensor >= ordinals[f].size()) continue;  // the file changed meanwhile
      q.tensor = ordinals[f][q.tensor];
      if (q.tensor == disk::kNone) continue;  // an index leaves it out
      if (auto status = move(q, ordinals[f], sources.files[f].manifest); !status)
        return std::move(status)
            .error()
            .file(sources.files[f].file.path())
            .tensor(changes.specs()[plan.order()[q.tensor]].name);
      entries.push_back(q);
    }
  std::ranges::sort(entries, {}, &Quantization::tensor);
  return entries;
}

std::vector<OrdinalRun> needed_together(std::span<const Quantization> entries) {
  std::vector<OrdinalRun> runs;
  for (const Quantization& q : entries) {
    if (q.scheme != kKnownScheme) continue;
    std::uint32_t first = q.tensor;
    std::uint32_t last = q.tensor;
    for (const std::uint32_t other : {q.scale, q.zero_point, q.scale2}) {
      if (other == disk::kNone) continue;
      first = std::min(first, other);
      last = std::max(last, other);
    }
    if (first < last) runs.push_back({first, last - first + 1});
  }
  return runs;
}

Status add_quantization(std::span<const Quantization> entries, const OrdinalRun& member,
                        std::vector<SectionBytes>& sections) {
  std::vector<std::byte> bytes(8);
  std::uint32_t count = 0;
  for (Quantization q : entries) {
    if (q.tensor < member.first || q.tensor >= member.end()) continue;
    if (q.scheme != kKnownScheme && member.first > 0) return unknown_scheme(q);
    for (std::uint32_t* field : {&q.tensor, &q.scale, &q.zero_point, &q.scale2})
      if (*field != disk::kNone) *field -= member.first;
    ++count;
    for (const std::uint32_t field : {q.tensor, q.scheme, q.axis, q.block, q.scale,
                                      q.zero_point, q.scale2, q.zero}) {
      bytes.resize(bytes.size() + sizeof field);
      store(bytes.data() + bytes.size() - sizeof field, field);
    }
  }
  if (count == 0) return {};
  store(bytes.data(), count);
  sections.push_back({disk::SectionKind::quantization, std::move(bytes)});
  return {};
}

}  // namespace weig
